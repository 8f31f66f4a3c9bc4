"""`pytest --check-scorer my_scorer.py:MyScorer`: one test for each law of a scorer, normalizer, window or context.

pytest loads this file in every environment in which the package is installed, so imports that the option needs are
local. The laws are called in the process of pytest, as all tests are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from seq2seq_attn.testing import Law


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


class _Part(pytest.Collector):
    """A part of attention; its tests are the laws."""

    def collect(self) -> Iterator[_Law]:
        from seq2seq_attn.errors import UserError
        from seq2seq_attn.testing import laws_of

        try:
            laws = laws_of(self.name)
        except UserError as error:
            raise pytest.UsageError(str(error)) from error
        for law in laws:
            yield _Law.from_parent(self, name=law.name, law=law)


class _Law(pytest.Item):
    """One law for one part."""

    def __init__(self, *, law: Law, **options: Any) -> None:
        super().__init__(**options)
        self._law = law

    def runtest(self) -> None:
        self._law()

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The sentence that says what is wrong; a traceback through the law would not show the part."""
        if isinstance(excinfo.value, AssertionError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[str, None, str]:
        return self.nodeid.removesuffix(f"::{self.name}"), None, f"{self.name}, {self._law.subject.name}"
