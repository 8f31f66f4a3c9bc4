"""Which laws hold for which kind of part, and what to do with them: run one, all of them, or each as a test."""

from __future__ import annotations

import inspect
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias
from unittest import SkipTest

import torch

from seq2seq_attn.testing import calls, contexts, graphs, normalizers, numbers, scorers
from seq2seq_attn.testing.construct import in_one_line, make_subject, place_of
from seq2seq_attn.testing.subject import BrokenLawError, Kind, Subject

Function: TypeAlias = Callable[[Subject], str | None]
Verdict = Literal["holds", "warning", "broken", "skipped"]

# All other laws compare results with each other, which means nothing while one of these is broken.
_FIRST: tuple[Function, ...] = (calls.shapes, calls.determinism)
_ALL: tuple[Function, ...] = (
    *(contexts.padding, calls.batch, calls.queries, contexts.steps, contexts.histories, contexts.extend),
    *(calls.arguments, calls.memory, calls.strides, numbers.gradients, calls.training),
    *(numbers.finite, numbers.precision, calls.copies, graphs.compiled, graphs.exported),
)
_OWN: dict[Kind, tuple[Function, ...]] = {
    "scorer": (
        *(scorers.positions, scorers.long_source, scorers.features, scorers.reads_query, scorers.reads_keys),
        *(numbers.saturation, numbers.zero_vectors),
    ),
    "normalizer": (normalizers.rows, normalizers.permutation),
    "window": (normalizers.open_tokens,),
    "context": (
        *(contexts.select, contexts.reads_query, contexts.values, contexts.may_read, contexts.causal),
        *(contexts.bias, contexts.need_weights),
    ),
}
LAWS: dict[Kind, dict[str, Function]] = {
    kind: {law.__name__: law for law in (*_FIRST, *own, *_ALL)} for kind, own in _OWN.items()
}


class LawWarning(UserWarning):
    """What the laws allow, but is rarely intended."""


class Law:
    """One law for one part: call it.

    Attributes:
        name: the name of the law, such as "padding".
        sentence: the law itself, such as "Score j depends on key j, and on no other key."
    """

    def __init__(self, subject: Subject, name: str, after: tuple[Law, ...] = ()) -> None:
        self.subject, self.name, self._after = subject, name, after
        self.sentence = inspect.cleandoc(self._function.__doc__ or "").partition("\n\n")[0].replace("\n", " ")

    @property
    def _function(self) -> Function:
        return LAWS[self.subject.kind][self.name]

    def __repr__(self) -> str:
        return f"{self.subject.cls.__name__}-{self.name}"

    def __call__(self) -> None:
        """Checks the law, with random numbers that are the same in every call.

        Raises:
            AssertionError: The law is broken, or the part raised an exception; the message is one sentence.
            unittest.SkipTest: The law cannot be checked, or another law has to hold first. pytest skips the test.

        Warns:
            LawWarning: The law holds, but something about it is rarely intended.
        """
        for first in self._after:
            if first.is_broken:
                raise SkipTest(f"not checked until the law `{first.name}` holds")
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.default_generator.manual_seed(0)
            try:
                remark = self._function(self.subject)
            except (BrokenLawError, SkipTest):
                raise
            except (Exception, SystemExit) as error:  # user code may raise anything, AssertionError included
                raise BrokenLawError(in_one_line(error, self.subject.cls)) from error
        if remark is not None:
            warnings.warn(remark, LawWarning, stacklevel=2)

    @cached_property
    def is_broken(self) -> bool:
        """Whether a call raises AssertionError."""
        return outcome_of(self).verdict == "broken"


def laws_of(part: Any, query_size: int | None = None, key_size: int | None = None, **options: Any) -> list[Law]:
    """The laws of a scorer, normalizer, window or context, each of which can be called.

    Args:
        part: A class, which is constructed with the sizes and options; an instance, which is examined as it is; or the
            name of a class, as in "additive", "my_scorer.py:MyScorer" or "package.module:MyScorer".
        query_size: The size of a query; 16 by default.
        key_size: The size of a key; 24 by default, or `query_size` if both must be equal.
        options: Further arguments of the constructor. A context may require sizes, a `scorer`, an `attention`, a
            `context` or a `summary`; if it requires anything else, pass an instance.

    Returns:
        The laws of this kind of part. The first ones have to hold before the others mean anything.

    Raises:
        UserError: There is no such part, or it cannot be constructed with these sizes and options.
    """
    subject = make_subject(part, query_size, key_size, options)
    first = tuple(Law(subject, law.__name__) for law in _FIRST)
    names = [name for name in LAWS[subject.kind] if all(name != each.name for each in first)]
    return [*first, *(Law(subject, name, first) for name in names)]


def parametrize_with_laws(*parts: Any) -> Any:
    """Decorator for a test with pytest that gets every law of these parts, one after the other::

        @parametrize_with_laws(MyScorer, MyWindow(16))
        def test_my_parts_keep_the_laws(law):
            law()

    Args:
        parts: Classes or instances, as `laws_of` takes them.
    """
    import pytest

    return pytest.mark.parametrize("law", [law for part in parts for law in laws_of(part)], ids=repr)


def check_part(part: Any, query_size: int | None = None, key_size: int | None = None, **options: Any) -> None:
    """Checks whether a scorer, normalizer, window or context keeps all laws of its kind; for a test::

        def test_my_scorer_keeps_the_laws():
            check_part(MyScorer, hidden_size=16)

    Args:
        part, query_size, key_size, options: As for `laws_of`.

    Raises:
        AssertionError: Laws are broken; the message has one sentence for each.
        UserError: There is no such part, or it cannot be constructed with these sizes and options.

    Warns:
        LawWarning: Something is allowed, but rarely intended.
    """
    report = check(part, query_size, key_size, **options)
    for each in report.outcomes:
        if each.verdict == "warning":
            warnings.warn(f"{report.part}, {each.law}: {each.message}", LawWarning, stacklevel=2)
    if report.is_broken:
        raise AssertionError(str(report.only("broken")))


# Reports


class LawOutcome(NamedTuple):
    """What came of one law."""

    law: str
    verdict: Verdict
    message: str  # the law itself if it holds, otherwise what is wrong, rarely intended, or why it was not checked


class Report(NamedTuple):
    """What came of all laws of one part, shown as one line per law."""

    part: str  # with its sizes
    place: str  # file and line of its class; empty for a class that no file has
    outcomes: tuple[LawOutcome, ...]

    @property
    def is_broken(self) -> bool:
        return any(each.verdict == "broken" for each in self.outcomes)

    def only(self, *verdicts: Verdict) -> Report:
        """The report without the laws of other verdicts."""
        return self._replace(outcomes=tuple(each for each in self.outcomes if each.verdict in verdicts))

    def to_records(self) -> list[dict[str, str]]:
        """One dictionary per law: `pandas.DataFrame(report.to_records())`."""
        return [each._asdict() for each in self.outcomes]

    def __repr__(self) -> str:
        lines = [f"{verdict:<7}  {law:<12} {message}" for law, verdict, message in self.outcomes]
        counts: Counter[str] = Counter(each.verdict for each in self.outcomes)
        summary = "{holds} hold, {broken} broken, {warning} warned of, {skipped} skipped".format_map(counts)
        return "\n".join([f"{self.part}{self.place and f', {self.place}'}", *lines, summary])


def check(part: Any, query_size: int | None = None, key_size: int | None = None, **options: Any) -> Report:
    """Checks a scorer, normalizer, window or context against all laws of its kind, and reports on each.

    Args:
        part, query_size, key_size, options: As for `seq2seq_attn.testing.laws_of`.

    Returns:
        What came of every law; printed, one line for each.

    Raises:
        UserError: There is no such part, or it cannot be constructed with these sizes and options.

    >>> from seq2seq_attn.attention import Dot
    >>> report = s2s.check(Dot, query_size=8, key_size=8)
    >>> report.is_broken
    False
    >>> print(report.only("warning").outcomes[0].law)
    saturation
    """
    return report_on(laws_of(part, query_size, key_size, **options))


def report_on(laws: Sequence[Law]) -> Report:
    """What comes of the laws of one part."""
    subject = laws[0].subject
    return Report(subject.name, place_of(subject.cls), tuple(map(outcome_of, laws)))


def outcome_of(law: Law) -> LawOutcome:
    """What came of the law."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            law()
        except AssertionError as error:
            return LawOutcome(law.name, "broken", str(error))
        except SkipTest as reason:
            return LawOutcome(law.name, "skipped", str(reason))
    remarks = [str(each.message) for each in caught if each.category is LawWarning]
    return LawOutcome(law.name, "warning", remarks[0]) if remarks else LawOutcome(law.name, "holds", law.sentence)
