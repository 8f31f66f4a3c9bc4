"""The laws of each kind of part, and how a part is constructed and checked in this process.

`isolation.py` does the same in a process of the part's own.
"""

from __future__ import annotations

import copy
import html
import inspect
import re
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seq2seq_attn.api.tables import html_table
from seq2seq_attn.attention import Attention, General, MeanState, own_options
from seq2seq_attn.doctor import calls, integration, numerics, parts, positions, reading
from seq2seq_attn.doctor.subject import (
    BASES,
    KEY_SIZE,
    QUERY_SIZE,
    SATURATION_SIZES,
    Finding,
    Kind,
    Law,
    Subject,
    Verdict,
    wrong,
)
from seq2seq_attn.errors import UserError

_VERDICTS: tuple[Verdict, ...] = ("ok", "note", "warning", "wrong")


def _by_name(*laws: Law) -> dict[str, Law]:
    return {law.__name__: law for law in laws}


# All other laws compare results with each other, which means nothing while one of these is broken.
PREREQUISITES: dict[Kind, dict[str, Law]] = {
    "scorer": _by_name(positions.shapes, calls.determinism),
    "normalizer": _by_name(parts.shapes, calls.determinism),
    "window": _by_name(parts.shapes, calls.determinism),
    "context": _by_name(parts.shapes, calls.determinism),
}
_CALLS = (calls.inputs, calls.memory, calls.strides)
_LEARNING = (numerics.gradients, calls.training)
_COPIES = (calls.state_dict, calls.copies)
_GRAPHS = (integration.compiled, integration.exported)
LAWS: dict[Kind, dict[str, Law]] = {
    "scorer": PREREQUISITES["scorer"]
    | _by_name(
        positions.singleton_dims,
        positions.padding,
        positions.more_padding,
        positions.batch,
        positions.positions,
        *_CALLS,
        positions.queries,
        positions.hypotheses,
        positions.long_source,
        reading.extend,
        *_LEARNING,
        positions.reads_query,
        positions.reads_keys,
        positions.features,
        numerics.saturation,
        numerics.finite,
        numerics.zero_vectors,
        numerics.double,
        numerics.precision,
        *_COPIES,
        integration.translator,
        *_GRAPHS,
    ),
    "normalizer": PREREQUISITES["normalizer"]
    | _by_name(
        parts.rows,
        parts.more_padding,
        parts.batch,
        parts.permutation,
        parts.history,
        *_CALLS,
        *_LEARNING,
        numerics.finite,
        numerics.double,
        numerics.precision,
        *_COPIES,
        parts.inside_attention,
        reading.extend,
        integration.translator,
        *_GRAPHS,
    ),
    "window": PREREQUISITES["window"]
    | _by_name(
        parts.open_tokens,
        parts.more_padding,
        parts.batch,
        *_CALLS,
        *_LEARNING,
        numerics.finite,
        numerics.double,
        *_COPIES,
        parts.inside_attention,
        integration.translator,
        *_GRAPHS,
    ),
    "context": PREREQUISITES["context"]
    | _by_name(
        parts.more_padding,
        parts.batch,
        parts.steps,
        parts.select,
        parts.history,
        reading.values,
        reading.may_read,
        reading.causal,
        reading.bias,
        reading.need_weights,
        reading.extend,
        *_CALLS,
        *_LEARNING,
        parts.reads_query,
        numerics.finite,
        numerics.double,
        numerics.precision,
        *_COPIES,
        integration.translator,
        *_GRAPHS,
    ),
}


class Report(NamedTuple):
    """All findings on one part, shown as one line per law."""

    part: str  # with its sizes
    findings: dict[str, Finding]  # by law, in the order in which the laws were checked
    skipped: tuple[str, ...]  # laws that were not checked because a prerequisite is broken

    @property
    def is_wrong(self) -> bool:
        return any(finding.verdict == "wrong" for finding in self.findings.values())

    def to_records(self) -> list[dict[str, str]]:
        """One dictionary per law that was checked."""
        return [{"law": law, **finding._asdict()} for law, finding in self.findings.items()]

    def __repr__(self) -> str:
        lines = [f"{verdict:<7}  {law:<16}  {message}" for law, (verdict, message) in self.findings.items()]
        if self.skipped:
            lines.append(f"{'':<7}  not checked until that is fixed: {', '.join(self.skipped)}")
        return "\n".join([self.part, *lines, self._summary])

    def _repr_html_(self) -> str:
        rows = [(finding.verdict, law, finding.message) for law, finding in self.findings.items()]
        skipped = f"; not checked until that is fixed: {', '.join(self.skipped)}" if self.skipped else ""
        table = html_table(["verdict", "law", "finding"], rows, self._summary + skipped)
        return f"<b>{html.escape(self.part)}</b>{table}"

    @property
    def _summary(self) -> str:
        counts = Counter(finding.verdict for finding in self.findings.values())
        return ", ".join(f"{counts[verdict]} {verdict}" for verdict in _VERDICTS)


def make_subject(
    part: Any,
    query_size: int | None = None,
    key_size: int | None = None,
    options: Mapping[str, Any] | None = None,
    full: bool = False,
) -> Subject:
    """The subject for an instance, which is checked as it is, or for a class, constructed with these sizes and options.

    `full` compiles with inductor instead of `aot_eager`, a backend that builds graphs but generates no code. UserError:
    the part is of none of the four kinds, or cannot be constructed.
    """
    backend = "inductor" if full else "aot_eager"
    cls = part if isinstance(part, type) else type(part)
    kind = next((kind for kind, base in BASES.items() if issubclass(cls, base)), None)
    if kind is None:
        raise UserError(
            f"{getattr(part, '__name__', part)} is not a scorer, normalizer, window or context; "
            f"derive it from Scorer, Normalizer, Window or Context"
        )
    if not isinstance(part, type):
        own = [getattr(part, name, None) for name in ("query_size", "key_size")]
        others = zip((query_size, key_size), own, strict=True)
        if options or any(given and known and given != known for given, known in others):
            raise UserError(
                f"an instance of {cls.__name__} already has its sizes and options; pass the class to choose others"
            )
        sizes = (own[0] or query_size or QUERY_SIZE, own[1] or key_size or KEY_SIZE)
        return Subject(kind, cls, lambda *_: _copy(part), *sizes, sizes=(sizes,), backend=backend)
    options = options or {}
    _check_class(kind, cls, options)
    query_size = query_size or QUERY_SIZE
    key_size = key_size or (query_size if getattr(cls, "needs_equal_sizes", False) else KEY_SIZE)
    subject = Subject(
        kind=kind,
        part=cls,
        make=lambda query_size, key_size: cls(**_arguments(kind, cls, query_size, key_size, options), **options),
        query_size=query_size,
        key_size=key_size,
        sizes=tuple((size, size) for size in SATURATION_SIZES),
        backend=backend,
    )
    try:
        with torch.random.fork_rng(devices=[]):
            subject.make(query_size, key_size)
    except Exception as error:  # whatever third-party code raises
        reason = str(error) if isinstance(error, (TypeError, ValueError)) else _in_one_line(error, _file_of(cls))
        raise UserError(f"{subject.name} cannot be constructed: {reason}") from error
    return subject


def _arguments(kind: Kind, cls: type, query_size: int, key_size: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """Constructor arguments besides the options.

    A context may require sizes, a summary, a scorer or an inner context; they are recognized by their usual names.
    """
    if kind == "scorer":
        return {"query_size": query_size, "key_size": key_size}
    if kind == "window":
        return {"query_size": query_size}
    if kind == "normalizer":
        return {}
    known: dict[str, Callable[[], Any]] = {
        "query_size": lambda: query_size,
        "key_size": lambda: key_size,
        "value_size": lambda: key_size,
        "heads": lambda: 2,
        "scorer": lambda: General(query_size, key_size),
        "attention": lambda: Attention(General(query_size, key_size)),
        "context": lambda: Attention(General(query_size, key_size)),
        "summary": MeanState,
    }
    parameters = inspect.signature(cls).parameters.values()
    needed = [each.name for each in parameters if each.default is each.empty and each.name not in options]
    named = [name for name in needed if name not in ("args", "kwargs")]
    unknown = [name for name in named if name not in known]
    if unknown:
        raise TypeError(f"its constructor needs {', '.join(unknown)}; pass an instance instead of the class")
    return {name: known[name]() for name in named}


def _check_class(kind: Kind, cls: type[nn.Module], options: Mapping[str, Any]) -> None:
    """UserError for an abstract class, and for an unknown option."""
    if inspect.isabstract(cls):
        missing = ", ".join(sorted(getattr(cls, "__abstractmethods__", ())))
        raise UserError(f"{cls.__name__} is an abstract {kind}; implement {missing}")
    try:
        own = list(own_options(cls))
    except ValueError as error:
        raise UserError(str(error)) from error
    for name in options:
        if name not in own:
            raise UserError(f"{cls.__name__} has no option {name!r}; it has: {', '.join(own) or 'none'}")


def _copy(part: nn.Module) -> nn.Module:
    """A copy in float32 on the CPU.

    `torch.nn.utils.weight_norm` stores a computed weight as an attribute; `deepcopy` refuses to copy it unaided.
    """
    computed = [
        value for module in part.modules() for value in vars(module).values() if isinstance(value, Tensor)
    ]  # parameters and buffers are stored in separate dictionaries
    memo = {id(value): value.detach().clone() for value in computed if not value.is_leaf}
    return copy.deepcopy(part, memo).to("cpu", torch.float32)


def check_subject(subject: Subject, laws: Sequence[str] | None = None) -> Report:
    """Check all laws, or only these and the prerequisites, in this process."""
    prerequisites = PREREQUISITES[subject.kind]
    chosen = [law for law in LAWS[subject.kind] if laws is None or law in laws or law in prerequisites]
    findings = dict(in_order(chosen, tuple(prerequisites), lambda law: check_law(subject, law)))
    return Report(subject.name, findings, skipped=tuple(law for law in chosen if law not in findings))


def in_order(
    laws: Sequence[str], prerequisites: Sequence[str], check: Callable[[str], Finding]
) -> Iterator[tuple[str, Finding]]:
    """Yield each law with its finding; once a prerequisite is broken, only other prerequisites are checked."""
    broken = False
    for law in laws:
        if law in prerequisites or not broken:
            finding = check(law)
            broken = broken or (law in prerequisites and finding.verdict == "wrong")
            yield law, finding


def check_law(subject: Subject, law: str) -> Finding:
    """Check one law. An exception in the part is a finding too; what the part prints goes to stderr."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings(), redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore")
        torch.default_generator.manual_seed(0)
        try:
            return LAWS[subject.kind][law](subject)
        except Exception as error:  # user code may raise anything
            return wrong(_in_one_line(error, _file_of(subject.part)))


def _file_of(cls: type) -> str | None:
    return getattr(sys.modules.get(cls.__module__), "__file__", None)


def _in_one_line(error: Exception, file: str | None) -> str:
    """The error in one line, with the line of the part's file that raised it."""
    message = str(error).strip()
    place = ""
    if file is not None:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        # An error while a graph is traced names the line in its message.
        lines += re.findall(rf'File "{re.escape(file)}", line (\d+)', message)
        place = f"{Path(file).name}, line {lines[-1]}: " if lines else ""
    return f"{place}{type(error).__name__}: {' '.join(message.splitlines()[:1])}"
