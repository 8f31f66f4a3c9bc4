"""Every law that a part has to keep, asked in this process or in a process of the part's own.

`check_part` examines a class or an object here. `examine_named` examines what a name stands for in another process:
whatever the user's code does to its process, or where it never ends, the verdict on the next part is not touched.
"""

from __future__ import annotations

import difflib
import json
import os
import queue
import re
import subprocess
import sys
import threading
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from seq2seq_attn.attention import Normaliser, Scorer, Window, normaliser_classes, scorer_classes, window_classes
from seq2seq_attn.attention.registry import load_file, load_module
from seq2seq_attn.doctor import calls, integration, numerics, parts, positions
from seq2seq_attn.doctor.subject import BASES, Finding, Kind, Law, Subject, Verdict, subject_of, wrong
from seq2seq_attn.errors import UserError

_VERDICTS: tuple[Verdict, ...] = ("ok", "note", "warning", "wrong")
_GRAPHS = (integration.compiled, integration.exported)
_COPIES = (calls.state_dict, calls.copies)
TIMEOUT = 120.0  # seconds for one law, the start of its process included
_PROCESS = "the process"  # how a finding begins that is about the process of a part
_FAILURES = 2  # processes that may end or hang before a part is given up


def _by_name(*laws: Law) -> dict[str, Law]:
    return {law.__name__: law for law in laws}


# All others compare results with results: while one of these is broken, what they say means nothing.
FIRST: dict[Kind, dict[str, Law]] = {
    "scorer": _by_name(positions.shapes, calls.determinism),
    "normaliser": _by_name(parts.shapes, calls.determinism),
    "window": _by_name(parts.shapes, calls.determinism),
    "context": _by_name(parts.shapes, calls.determinism),
}
LAWS: dict[Kind, dict[str, Law]] = {
    "scorer": FIRST["scorer"]
    | _by_name(
        positions.sizes_of_one,
        positions.padding,
        positions.more_padding,
        positions.batch,
        positions.positions,
        calls.inputs,
        calls.memory,
        calls.strides,
        positions.queries,
        positions.hypotheses,
        positions.long_source,
        numerics.gradients,
        calls.training,
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
    "normaliser": FIRST["normaliser"]
    | _by_name(
        parts.rows,
        parts.more_padding,
        parts.batch,
        parts.permutation,
        parts.history,
        calls.inputs,
        calls.memory,
        calls.strides,
        numerics.gradients,
        calls.training,
        numerics.finite,
        numerics.double,
        numerics.precision,
        *_COPIES,
        parts.inside_attention,
        integration.translator,
        *_GRAPHS,
    ),
    "window": FIRST["window"]
    | _by_name(
        parts.openings,
        parts.more_padding,
        parts.batch,
        calls.inputs,
        calls.memory,
        calls.strides,
        numerics.gradients,
        calls.training,
        numerics.finite,
        numerics.double,
        *_COPIES,
        parts.inside_attention,
        integration.translator,
        *_GRAPHS,
    ),
    "context": FIRST["context"]
    | _by_name(
        parts.more_padding,
        parts.batch,
        parts.steps,
        parts.select,
        parts.history,
        calls.inputs,
        calls.memory,
        calls.strides,
        numerics.gradients,
        calls.training,
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
    """All that was found; `print(report)` shows it, one line per law."""

    part: str  # with its sizes
    findings: dict[str, Finding]  # by law, in the order in which they were asked
    unasked: tuple[str, ...]  # laws that mean nothing as long as what they build on is wrong

    @property
    def is_wrong(self) -> bool:
        return any(finding.verdict == "wrong" for finding in self.findings.values())

    def __str__(self) -> str:
        lines = [f"{verdict:<7}  {law:<16}  {says}" for law, (verdict, says) in self.findings.items()]
        if self.unasked:
            lines.append(f"{'':<7}  not asked before that is mended: {', '.join(self.unasked)}")
        counts = Counter(finding.verdict for finding in self.findings.values())
        return "\n".join([self.part, *lines, ", ".join(f"{counts[verdict]} {verdict}" for verdict in _VERDICTS)])


def check_part(
    part: Any,
    query_size: int | None = None,
    key_size: int | None = None,
    options: Mapping[str, Any] | None = None,
    full: bool = False,
) -> Report:
    """What there is to say of a scorer, normaliser, window or context, in this process.

    The part is an object, examined as it is, or a class, to be made with these sizes and options. `full` compiles with
    inductor, in place of a backend that makes graphs and no code of them. The same part gets the same report whenever
    it is asked. UserError: it is of none of these kinds, or cannot be made.
    """
    return report_on(subject_of(part, query_size, key_size, options, full))


def check_scorer(
    scorer: Scorer | type[Scorer],
    query_size: int | None = None,
    key_size: int | None = None,
    options: Mapping[str, Any] | None = None,
    full: bool = False,
) -> Report:
    """`check_part` of a scorer; UserError for anything else."""
    if not issubclass(scorer if isinstance(scorer, type) else type(scorer), Scorer):
        raise UserError(f"{getattr(scorer, '__name__', scorer)} is no scorer; give it Scorer as its base class")
    return check_part(scorer, query_size, key_size, options, full)


def report_on(subject: Subject, laws: Sequence[str] | None = None) -> Report:
    """What all laws say of it in this process, or some of them beside the first."""
    chosen = [law for law in LAWS[subject.kind] if laws is None or law in laws or law in FIRST[subject.kind]]
    findings = dict(_in_order(chosen, tuple(FIRST[subject.kind]), lambda law: examine(subject, law)))
    return Report(subject.name, findings, unasked=tuple(law for law in chosen if law not in findings))


def _in_order(
    laws: Sequence[str], first: Sequence[str], ask: Callable[[str], Finding]
) -> Iterator[tuple[str, Finding]]:
    """Each law with its finding; those that are not first only where none of the first is broken."""
    broken = False
    for law in laws:
        if law in first or not broken:
            finding = ask(law)
            broken = broken or (law in first and finding.verdict == "wrong")
            yield law, finding


def examine(subject: Subject, law: str) -> Finding:
    """What one law says; what the part raises is a finding as well, and what it prints goes to stderr."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings(), redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore")
        torch.default_generator.manual_seed(0)
        try:
            return LAWS[subject.kind][law](subject)
        except Exception as error:  # whatever the code of others raises
            return wrong(_said(error, getattr(sys.modules.get(subject.part.__module__), "__file__", None)))


def _said(error: Exception, file: str | None) -> str:
    """The error in one line, with the line of the part's file that it came from."""
    message = str(error).strip()
    place = ""
    if file is not None:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        # What breaks while a graph is made has its place in the message.
        lines += re.findall(rf'File "{re.escape(file)}", line (\d+)', message)
        place = f"{Path(file).name}, line {lines[-1]}: " if lines else ""
    return f"{place}{type(error).__name__}: {' '.join(message.splitlines()[:1])}"


def find_part(name: str) -> type[nn.Module]:
    """The class called `additive`, `my_parts.py:MyScorer` or `package.module:MyWindow`.

    UserError: there is none, its module fails to be imported, or it is no part of attention.
    """
    place, colon, wanted = name.rpartition(":")
    if not colon:
        return _of_catalogue(name)
    try:
        module = load_file(Path(place)) if place.endswith(".py") else load_module(place)
    except ValueError as error:
        raise UserError(str(error)) from error
    found, bases = getattr(module, wanted, None), tuple(BASES.values())
    if not (isinstance(found, type) and issubclass(found, bases)):
        own = [each for each, value in vars(module).items() if isinstance(value, type) and issubclass(value, bases)]
        near = difflib.get_close_matches(wanted, own, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(own) or 'none'}"
        raise UserError(
            f"{place}: {wanted!r} is no class with Scorer, Normaliser, Window or Context as its base; {hint}"
        )
    return found


def _of_catalogue(name: str) -> type[nn.Module]:
    kinds: dict[str, Mapping[str, type[nn.Module]]] = {
        "scorer": scorer_classes(),
        "normaliser": normaliser_classes(),
        "window": window_classes(),
    }
    for classes in kinds.values():
        if name in classes:
            return classes[name]
    near = [(kind, each) for kind, classes in kinds.items() for each in difflib.get_close_matches(name, classes, n=1)]
    kind = near[0][0] if near else "scorer, normaliser or window"
    hint = f"did you mean {near[0][1]!r}?" if near else "`seq2seq-attn scorers` lists them"
    raise UserError(f"there is no {kind} {name!r}; {hint}; one of your own is given as my_scorer.py:MyScorer")


class Request(NamedTuple):
    """A part by its name, and how it is to be made and examined."""

    name: str  # as `find_part` takes it
    query_size: int | None = None
    key_size: int | None = None
    options: tuple[str, ...] = ()  # option=value
    full: bool = False

    def subject(self) -> Subject:
        """UserError: the name stands for nothing, or the part cannot be made so."""
        part = find_part(self.name)
        own = read_options(part, self.options)
        return subject_of(part, self.query_size, self.key_size, own, self.full)


def read_options(part: type, given: Sequence[str]) -> dict[str, Any]:
    """Options `name=value` as the part declares them, read as those of a configuration are."""
    if not given:
        return {}
    from seq2seq_attn.models.context_config import NormaliserConfig, ScorerConfig, WindowConfig
    from seq2seq_attn.strict import override, parse

    for base, config in ((Scorer, ScorerConfig), (Normaliser, NormaliserConfig), (Window, WindowConfig)):
        if issubclass(part, base):
            return parse(config, override({"name": part}, list(given))).options
    raise UserError(f"{part.__name__}: a context takes no options here, got {' '.join(given)}; examine an object of it")


class Patient:
    """A part examined in a process of its own, which is started at once and waits there.

    UserError, raised by the constructor: there is no such part, or it cannot be made.
    """

    def __init__(self, request: Request, timeout: float = TIMEOUT) -> None:
        self._request, self._timeout = request, timeout
        self._process = _Process(request)
        try:
            answer = self._process.answer(timeout)
        except _NoAnswerError as error:
            raise UserError(f"{request.name}: its process {error} before anything was asked") from None
        if "refused" in answer:
            self._process.close()
            raise UserError(answer["refused"])
        self.part: str = answer["part"]
        self.laws: tuple[str, ...] = tuple(answer["laws"])
        self._first: tuple[str, ...] = tuple(answer["first"])

    def findings(self, laws: Sequence[str] | None = None) -> Iterator[tuple[str, Finding]]:
        """What all laws say, or some of them beside the first, each as soon as it is known.

        A law in which the process ends, or which it does not leave within the time limit, is broken; another process
        asks the next. After two of these the rest stays unasked.
        """
        failures = 0
        for law, finding in _in_order(self._chosen(laws), self._first, self._ask):
            yield law, finding
            failures += finding.says.startswith(_PROCESS)
            if failures == _FAILURES:
                return

    def report(self, laws: Sequence[str] | None = None) -> Report:
        findings = dict(self.findings(laws))
        return Report(self.part, findings, unasked=tuple(law for law in self._chosen(laws) if law not in findings))

    def _chosen(self, laws: Sequence[str] | None) -> list[str]:
        return [law for law in self.laws if laws is None or law in laws or law in self._first]

    def _ask(self, law: str) -> Finding:
        try:
            if self._process.has_ended:
                self._process = _Process(self._request)
                self._process.answer(self._timeout)
            return Finding(*self._process.ask(law, self._timeout))
        except _NoAnswerError as error:
            self._process.close()
            return wrong(f"{_PROCESS} {error}")

    def close(self) -> None:
        self._process.close()


def examine_named(request: Request, timeout: float = TIMEOUT) -> Report:
    """The report on the part of that name, from a process of its own."""
    patient = Patient(request, timeout)
    try:
        return patient.report()
    finally:
        patient.close()


class _NoAnswerError(Exception):
    """Why a process gave no answer, as in "ended with exit code 1"."""


class _Process:
    """Python with one part in it: a law by name goes in, one line of JSON comes out."""

    def __init__(self, request: Request) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from seq2seq_attn.doctor.check import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONIOENCODING": "utf-8"},
        )
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self._send(json.dumps(request))

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # it has ended; so says the answer
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def ask(self, law: str, timeout: float) -> Any:
        self._send(law)
        return self.answer(timeout)

    def answer(self, timeout: float) -> Any:
        try:
            line = self._answers.get(timeout=timeout)
        except queue.Empty:
            raise _NoAnswerError(f"gave no answer within {timeout:g} seconds") from None
        if not line:
            code = self._process.wait()
            ended = f"with exit code {code}" if code >= 0 else f"by signal {-code}"
            raise _NoAnswerError(f"ended {ended}")
        return json.loads(line)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


def serve() -> None:
    """What runs in the process of a part: answers go to stdout, everything that the part itself prints to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(value: Any) -> None:
        print(json.dumps(value), file=answers, flush=True)

    name, query_size, key_size, options, full = json.loads(sys.stdin.readline())
    try:
        subject = Request(name, query_size, key_size, tuple(options), full).subject()
    except UserError as error:
        return answer({"refused": str(error)})
    answer({"part": subject.name, "laws": list(LAWS[subject.kind]), "first": list(FIRST[subject.kind])})
    for line in sys.stdin:
        answer(examine(subject, line.strip()))
    return None
