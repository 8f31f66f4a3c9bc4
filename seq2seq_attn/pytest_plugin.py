"""`pytest --check-scorer my_scorer.py:MyScorer`: one test for each law of the attention doctor.

It accepts normalizers, windows and contexts, too, and checks each part in a process of its own. pytest loads this file
in every environment in which the package is installed, so imports that the option needs are local.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from seq2seq_attn.doctor import IsolatedPart, Report


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("seq2seq_attn").addoption(
        "--check-scorer",
        action="append",
        default=[],
        metavar="FILE.py:CLASS",
        help="test that a scorer, normalizer, window or context keeps the laws of attention, as `seq2seq-attn check` "
        "does; also package.module:CLASS, or a name that `seq2seq-attn scorers` lists; repeatable",
    )


@pytest.hookimpl(tryfirst=True)  # before -k and -m deselect
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    for name in config.getoption("check_scorer"):
        items.extend(_Part.from_parent(session, name=name, nodeid=name).collect())


class ScorerWarning(UserWarning):
    """Something that is allowed but rarely intended."""


class _Part(pytest.Collector):
    """A part of attention; its tests are the laws."""

    isolated: IsolatedPart

    def collect(self) -> Iterator[_Law]:
        from seq2seq_attn.doctor import IsolatedPart, Request
        from seq2seq_attn.errors import UserError

        try:
            self.isolated = IsolatedPart(Request(self.name))
        except UserError as error:
            raise pytest.UsageError(str(error)) from error
        self.config.add_cleanup(self.isolated.close)
        for law in self.isolated.laws:
            yield _Law.from_parent(self, name=law)

    @cached_property
    def report(self) -> Report:
        """The findings for the laws that -k and -m have not deselected."""
        return self.isolated.report([item.name for item in self.session.items if item.parent is self])


class _Law(pytest.Item):
    """One law for one part: fails if the part breaks it, and warns if the doctor warns."""

    parent: _Part

    def runtest(self) -> None:
        finding = self.parent.report.findings.get(self.name)
        if finding is None:
            pytest.skip("skipped because a prerequisite law is broken")
        if finding.verdict == "wrong":
            raise BrokenLawError(finding.message)
        if finding.verdict == "warning":
            warnings.warn(f"{self.nodeid}: {finding.message}", ScorerWarning, stacklevel=1)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The doctor's finding; a traceback through the doctor would not show the part."""
        if isinstance(excinfo.value, BrokenLawError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[str, None, str]:
        return self.nodeid.removesuffix(f"::{self.name}"), None, f"{self.name}, {self.parent.isolated.part}"


class BrokenLawError(Exception):
    """A law is broken; the message is the finding."""
