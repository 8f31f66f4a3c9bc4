"""`check`: parts found by name, each checked in a process of its own; classes and instances in this one.

User code may end its process, never return or patch torch; in a process of the part's own, none of that affects the
next part. A name is one of the catalog, or that of a class in a Python file or in a module.
"""

from __future__ import annotations

import difflib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, NamedTuple

from torch import nn

from seq2seq_attn.attention import Normalizer, Scorer, Window, normalizer_classes, scorer_classes, window_classes
from seq2seq_attn.attention.registry import config_name
from seq2seq_attn.attention.user_code import class_at, place_and_class
from seq2seq_attn.doctor.laws import LAWS, PREREQUISITES, Report, check_law, check_subject, in_order, make_subject
from seq2seq_attn.doctor.subject import BASES, Finding, Subject, wrong
from seq2seq_attn.errors import UserError, needing

TIMEOUT = 120.0  # seconds for one law, including the start of its process
_PROCESS = "the process"  # a finding about the process itself, not about the part, starts with this
_FAILURES = 2  # processes that may end or hang before the remaining laws are skipped


Part = str | type[nn.Module] | nn.Module | Mapping[str, Any]


def check(
    part: Part,
    query_size: int | None = None,
    key_size: int | None = None,
    *,
    full: bool = False,
    timeout: float = TIMEOUT,
    in_process: bool = False,
) -> Report:
    """Checks a scorer, normalizer, window or context against all laws of its kind.

    `part` is a name (`additive`, `my_scorer.py:MyScorer`, `package.module:MyScorer`), a class, or either of them with
    options, as in `{"name": "additive", "hidden_size": 16}`; or an instance, which is checked as it is. A part given by
    name is checked in a process of its own, with `timeout` seconds per law, unless `in_process`; a class or an instance
    is checked in this process. `full` compiles to machine code, which takes longer.

    The report is deterministic. What the laws are and what they cannot find is said in `seq2seq_attn.doctor`.
    UserError: there is no such part, or it cannot be constructed with these sizes and options.

    >>> from seq2seq_attn.attention import Dot
    >>> report = s2s.check(Dot, query_size=8, key_size=8)
    >>> report.is_wrong, report.findings["padding"].verdict
    (False, 'ok')
    >>> print(str(report).splitlines()[-1])
    28 ok, 0 note, 1 warning, 0 wrong
    """
    (report,) = check_all([part], query_size, key_size, full=full, timeout=timeout, in_process=in_process)
    return report


def check_all(
    parts: Iterable[Part],
    query_size: int | None = None,
    key_size: int | None = None,
    *,
    full: bool = False,
    timeout: float = TIMEOUT,
    in_process: bool = False,
) -> Iterator[Report]:
    """As `check`, for several parts; an error in any of them is raised before the first is checked."""
    with ExitStack() as stack:
        reports: list[Callable[[], Report]] = []
        for part in parts:
            named = part if isinstance(part, Mapping) else {"name": part}
            options = {key: value for key, value in named.items() if key != "name"}
            request = Request(named.get("name"), query_size, key_size, options, full)
            if isinstance(request.part, str) and not in_process:
                isolated = IsolatedPart(request, timeout)
                stack.callback(isolated.close)
                reports.append(isolated.report)
            else:
                reports.append(partial(check_subject, request.subject()))
        for report in reports:
            yield report()


def find_part(name: str) -> type[nn.Module]:
    """The class called `additive`, `my_parts.py:MyScorer` or `package.module:MyWindow`.

    UserError: there is no such class, its module cannot be imported, or it is not a part of attention.
    """
    place, wanted = place_and_class(name)
    if not place:
        return _from_catalog(name)
    try:
        return class_at(place, wanted, *BASES.values())
    except ValueError as error:
        raise UserError(str(error)) from error


def _from_catalog(name: str) -> type[nn.Module]:
    kinds: dict[str, Mapping[str, type[nn.Module]]] = {
        "scorer": scorer_classes(),
        "normalizer": normalizer_classes(),
        "window": window_classes(),
    }
    for classes in kinds.values():
        if name in classes:
            return classes[name]
    near = [(kind, each) for kind, classes in kinds.items() for each in difflib.get_close_matches(name, classes, n=1)]
    kind = near[0][0] if near else "scorer, normalizer or window"
    hint = f"did you mean {near[0][1]!r}?" if near else "`seq2seq-attn scorers` lists them"
    raise UserError(f"there is no {kind} {name!r}; {hint}; name your own as my_scorer.py:MyScorer")


class Request(NamedTuple):
    """A part, and how to construct and check it."""

    part: Any  # a name as `find_part` takes it, a class or an instance
    query_size: int | None = None
    key_size: int | None = None
    options: Mapping[str, Any] = {}
    full: bool = False

    def subject(self) -> Subject:
        """UserError: there is no part of this name, or it cannot be constructed with these sizes and options."""
        part = find_part(self.part) if isinstance(self.part, str) else self.part
        options = read_options(part, self.options) if isinstance(part, type) else self.options
        return make_subject(part, self.query_size, self.key_size, options, self.full)


def read_options(part: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options as a configuration reads them, with the types that the part declares."""
    if not given:
        return {}
    with needing("a part with options"):
        from seq2seq_attn.models.context_config import NormalizerConfig, ScorerConfig, WindowConfig
        from seq2seq_attn.strict import parse

    for base, config in ((Scorer, ScorerConfig), (Normalizer, NormalizerConfig), (Window, WindowConfig)):
        if issubclass(part, base):
            return parse(config, {**given, "name": part}).options
    raise UserError(
        f"{part.__name__}: a context takes no options here, got {', '.join(given)}; check an instance of it"
    )


class IsolatedPart:
    """A part in a process of its own, which starts at once and then waits for laws to check.

    The constructor raises UserError if there is no such part, or it cannot be constructed.
    """

    def __init__(self, request: Request, timeout: float = TIMEOUT) -> None:
        self._request, self._timeout = request, timeout
        self._process = _Process(request)
        try:
            answer = self._process.answer(timeout)
        except _NoAnswerError as error:
            self.close()
            raise UserError(f"{request.part}: its process {error} before any law was checked") from None
        if "refused" in answer:
            self.close()
            raise UserError(answer["refused"])
        self.part: str = answer["part"]
        self.laws: tuple[str, ...] = tuple(answer["laws"])
        self._prerequisites: tuple[str, ...] = tuple(answer["prerequisites"])

    def findings(self, laws: Sequence[str] | None = None) -> Iterator[tuple[str, Finding]]:
        """Yield the finding for each law, or only for these and the prerequisites, as soon as it is known.

        A law is broken if the process ends during it or exceeds the time limit; a new process checks the next law.
        After two such failures the remaining laws are skipped.
        """
        failures = 0
        for law, finding in in_order(self._chosen(laws), self._prerequisites, self._check):
            yield law, finding
            failures += finding.message.startswith(_PROCESS)
            if failures == _FAILURES:
                return

    def report(self, laws: Sequence[str] | None = None) -> Report:
        findings = dict(self.findings(laws))
        return Report(self.part, findings, skipped=tuple(law for law in self._chosen(laws) if law not in findings))

    def _chosen(self, laws: Sequence[str] | None) -> list[str]:
        return [law for law in self.laws if laws is None or law in laws or law in self._prerequisites]

    def _check(self, law: str) -> Finding:
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


class _NoAnswerError(Exception):
    """Why a process gave no answer, as in "ended with exit code 1"."""


class _Process:
    """A Python process with one part in it: the name of a law goes in, one line of JSON comes out."""

    def __init__(self, request: Request) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from seq2seq_attn.doctor.isolation import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONIOENCODING": "utf-8"},
        )
        self._answers: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._send(json.dumps(request, default=config_name))

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # the process has ended; `answer` says so
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
        self._reader.join(timeout=1)  # a stream must not be closed while it is being read
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


def serve() -> None:
    """The loop of a part's process: answers go to stdout, and whatever the part prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(value: Any) -> None:
        print(json.dumps(value), file=answers, flush=True)

    try:
        subject = Request(*json.loads(sys.stdin.readline())).subject()
    except UserError as error:
        return answer({"refused": str(error)})
    laws, prerequisites = list(LAWS[subject.kind]), list(PREREQUISITES[subject.kind])
    answer({"part": subject.name, "laws": laws, "prerequisites": prerequisites})
    for line in sys.stdin:
        answer(check_law(subject, line.strip()))
    return None
