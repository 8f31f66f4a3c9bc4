"""`pytest --check-scorer my_scorer.py:MyScorer`: a test for every law that the attention doctor asks.

It takes normalisers, windows and contexts, too. Each part is examined in a process of its own. Every run of pytest in
an environment that has this package loads this file, so it imports what it needs where the option is used.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from seq2seq_attn.doctor import Patient, Report


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("seq2seq_attn").addoption(
        "--check-scorer",
        action="append",
        default=[],
        metavar="FILE.py:CLASS",
        help="test that a scorer, normaliser, window or context keeps the laws of attention, as `seq2seq-attn check` "
        "does; also package.module:CLASS, or a name of the catalogue; repeatable",
    )


@pytest.hookimpl(tryfirst=True)  # before -k and -m choose
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    for name in config.getoption("check_scorer"):
        items.extend(_Part.from_parent(session, name=name, nodeid=name).collect())


class ScorerWarning(UserWarning):
    """Allowed, and seldom meant."""


class _Part(pytest.Collector):
    """A part of attention, whose tests are the laws."""

    patient: Patient

    def collect(self) -> Iterator[_Law]:
        from seq2seq_attn.doctor import Patient, Request
        from seq2seq_attn.errors import UserError

        try:
            self.patient = Patient(Request(self.name))
        except UserError as error:
            raise pytest.UsageError(str(error)) from error
        self.config.add_cleanup(self.patient.close)
        for law in self.patient.laws:
            yield _Law.from_parent(self, name=law)

    @cached_property
    def report(self) -> Report:
        """What those laws say of it that -k and -m have left to be asked."""
        return self.patient.report([item.name for item in self.session.items if item.parent is self])


class _Law(pytest.Item):
    """A law, asked of one part: a test that fails where it is broken, and warns where the doctor does."""

    parent: _Part

    def runtest(self) -> None:
        finding = self.parent.report.findings.get(self.name)
        if finding is None:
            pytest.skip("means nothing while a law that comes first is broken")
        if finding.verdict == "wrong":
            raise BrokenLawError(finding.says)
        if finding.verdict == "warning":
            warnings.warn(f"{self.nodeid}: {finding.says}", ScorerWarning, stacklevel=1)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The doctor's line; a traceback through the doctor would show nothing of the part."""
        if isinstance(excinfo.value, BrokenLawError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[str, None, str]:
        return self.nodeid.removesuffix(f"::{self.name}"), None, f"{self.name}, {self.parent.patient.part}"


class BrokenLawError(Exception):
    """What the doctor says of it."""
