"""The command `check`: each part is examined in a process of its own.

User code may crash, end its process, never return or patch torch; in another process, none of that takes the command
down or affects the next part.
"""

from __future__ import annotations

import faulthandler
import json
import multiprocessing
import os
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TextIO

from seq2seq_attn.errors import FailedError, UserError
from seq2seq_attn.testing.construct import find_part, place_of, read_options
from seq2seq_attn.testing.laws import Law, LawOutcome, Report, laws_of, outcome_of

TIMEOUT = 600.0  # seconds for one part

_laws: list[Law] = []  # in the process of a part
_trace: TextIO


def run(words: Sequence[str], *, as_json: bool, answer: Callable[[str], None], timeout: float = TIMEOUT) -> int:
    """Checks the parts named in `words`, with the options OPTION=VALUE among them, and returns the exit code.

    Raises:
        UserError: A part does not exist, or cannot be constructed.
        FailedError: The process of a part ended or hung before the first law.
    """
    names = [each for each in words if "=" not in each]
    options = [each for each in words if "=" in each]
    if not names:
        raise UserError("no part is named; for example: seq2seq-attn check my_scorer.py:MyScorer hidden_size=16")
    for name in names:
        if ":" not in name:
            find_part(name)  # a typo is an error before the first part is examined
    records, is_broken = [], False
    for name in names:
        report = check_apart(name, options, timeout)
        is_broken = is_broken or report.is_broken
        records.append({"name": name, "part": report.part, "is_broken": report.is_broken, "laws": report.to_records()})
        if not as_json:
            answer(f"{report}\n")
    if as_json:
        answer(json.dumps(records, ensure_ascii=False))
    return int(is_broken)


def check_apart(name: str, options: Sequence[str] = (), timeout: float = TIMEOUT) -> Report:
    """The report on a part that is examined in a process of its own; a crash or a hang breaks the law that it is in."""
    with tempfile.NamedTemporaryFile() as trace:
        began, apart = time.monotonic(), multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, apart, initializer=_begin, initargs=(trace.name, timeout)) as process:
            try:
                part, place, laws = process.submit(_construct, name, options).result()
            except BrokenProcessPool:
                ended = _why_it_ended(name, trace.name, began, timeout)
                raise FailedError(f"{name}: {ended} while it was imported or constructed") from None
            asked = [process.submit(_examine, number) for number in range(len(laws))]
            outcomes = [each.result() for each in asked if not isinstance(each.exception(), BrokenProcessPool)]
        if len(outcomes) < len(laws):
            ended = _why_it_ended(name, trace.name, began, timeout)
            law, *others = laws[len(outcomes) :]
            outcomes.append(LawOutcome(law, "broken", ended))
            outcomes += [LawOutcome(each, "skipped", f"{ended}, in the law `{law}`") for each in others]
    return Report(part, place, tuple(outcomes))


def _why_it_ended(name: str, trace: str, began: float, timeout: float) -> str:
    """Why the process of a part ended, with the line of the part's file in which it was."""
    said = Path(trace).read_text(encoding="utf-8")
    ended = f"it gave no answer within {timeout:g} seconds"
    if time.monotonic() - began < timeout:
        fatal = re.search("Fatal Python error: (.+)", said)
        ended = f"its process ended{f': {fatal[1]}' if fatal else ''}"
    file = Path(name.rpartition(":")[0]).name
    lines = re.findall(rf'File ".*\b{re.escape(file)}", line (\d+)', said)  # the most recent call first
    return f"{file}, line {lines[0]}: {ended}" if file and lines else ended


# In the process of a part


def _begin(trace: str, timeout: float) -> None:
    """Writes to the file `trace` where the process is if it crashes, or after the time limit, which ends it."""
    global _trace
    os.dup2(2, 1)  # stdout carries the answers of the command, so whatever the part prints goes to stderr
    _trace = open(trace, "a", encoding="utf-8")  # noqa: SIM115  # as long as the process lives
    faulthandler.enable(_trace)
    faulthandler.dump_traceback_later(timeout, exit=True, file=_trace)


def _construct(name: str, options: Sequence[str]) -> tuple[str, str, list[str]]:
    """The part, its place, and the names of its laws. UserError: it does not exist or cannot be constructed."""
    part = find_part(name)
    _laws[:] = laws_of(part, **read_options(part, options))
    subject = _laws[0].subject
    return subject.name, place_of(subject.cls), [law.name for law in _laws]


def _examine(number: int) -> LawOutcome:
    return outcome_of(_laws[number])
