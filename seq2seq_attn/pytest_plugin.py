"""`pytest --check-scorer my_scorer.py:MyScorer`: a test for every law that the attention doctor asks.

Every run of pytest in an environment that has this package loads this file, so it imports what it needs where the
option is used.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from seq2seq_attn.doctor import Subject


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("seq2seq_attn").addoption(
        "--check-scorer",
        action="append",
        default=[],
        metavar="FILE.py:CLASS",
        help="test that a scorer keeps the laws of attention, as `seq2seq-attn check` does; also "
        "package.module:CLASS, or a name of the catalogue; repeatable",
    )


@pytest.hookimpl(tryfirst=True)  # before -k and -m choose
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    for name in config.getoption("check_scorer"):
        items.extend(_Scorer.from_parent(session, name=name, nodeid=name).collect())


class ScorerWarning(UserWarning):
    """Allowed, and seldom meant."""


class _Scorer(pytest.Collector):
    """A scorer, whose tests are the laws."""

    def collect(self) -> Iterator[_Law]:
        from seq2seq_attn.doctor import LAWS, subject_of
        from seq2seq_attn.errors import UserError
        from seq2seq_attn.runs.plugin import find_scorer

        try:
            subject = subject_of(find_scorer(self.name))
        except UserError as error:
            raise pytest.UsageError(str(error)) from error
        for law in LAWS:
            yield _Law.from_parent(self, name=law, subject=subject)


class _Law(pytest.Item):
    """A law, asked of one scorer: a test that fails where it is broken, and warns where the doctor does."""

    def __init__(self, *, subject: Subject, **of_item: Any) -> None:
        super().__init__(**of_item)
        self.subject = subject

    def runtest(self) -> None:
        from seq2seq_attn.doctor import asked, examine

        if self.name not in asked(self.subject):
            pytest.skip("means nothing while a law that comes first is broken")
        finding = examine(self.subject, self.name)
        if finding.verdict == "wrong":
            raise BrokenLawError(finding.says)
        if finding.verdict == "warning":
            warnings.warn(f"{self.nodeid}: {finding.says}", ScorerWarning, stacklevel=1)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The doctor's line; a traceback through the doctor would show nothing of the scorer."""
        if isinstance(excinfo.value, BrokenLawError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[str, None, str]:
        return self.nodeid.removesuffix(f"::{self.name}"), None, f"{self.name}, {self.subject.name}"


class BrokenLawError(Exception):
    """What the doctor says of it."""
