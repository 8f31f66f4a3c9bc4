"""The command `check`: each part is examined in a process of its own.

User code may crash, end its process, never return or patch torch; in a process of the part's own, none of that takes
the command down or affects the next part. The process writes one line of JSON per law to a file. `faulthandler` adds to
it where a crash happened, or ends the process after the time limit and adds where it was.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq_attn.attention import Normalizer, Scorer, Window
from seq2seq_attn.errors import FailedError, UserError, needing
from seq2seq_attn.testing.construct import find_part, place_of
from seq2seq_attn.testing.laws import Law, LawOutcome, Report, laws_of, outcome_of

TIMEOUT = 600.0  # seconds for one part


class Request(NamedTuple):
    """What the process of a part is to examine."""

    name: str  # additive, my_scorer.py:MyScorer or package.module:MyScorer
    query_size: int | None = None
    key_size: int | None = None
    options: Mapping[str, Any] = {}
    timeout: float = TIMEOUT

    def laws(self) -> list[Law]:
        """The laws of the part. UserError: there is no such part, or it cannot be constructed."""
        part = find_part(self.name)
        return laws_of(part, self.query_size, self.key_size, **read_options(part, self.options))


def run(
    words: Sequence[str],
    query_size: int | None,
    key_size: int | None,
    *,
    timeout: float,
    as_json: bool,
    answer: Callable[[str], None],
) -> int:
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
    given: dict[str, Any] = {}
    if options:
        with needing(f"an option, as in {options[0]},"):
            from seq2seq_attn.strict import override
        given = override({}, options)
    records, is_broken = [], False
    for name in names:
        report = check_apart(Request(name, query_size, key_size, given, timeout))
        is_broken = is_broken or report.is_broken
        records.append({"name": name, "part": report.part, "is_broken": report.is_broken, "laws": report.to_records()})
        if not as_json:
            answer(f"{report}\n")
    if as_json:
        answer(json.dumps(records, ensure_ascii=False))
    return int(is_broken)


def check_apart(request: Request) -> Report:
    """The report on a part that is examined in a process of its own; a crash or a hang breaks the law that it is in."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        code = subprocess.run(
            [sys.executable, "-m", __name__, json.dumps(request)],
            stdout=file,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONIOENCODING": "utf-8"},
            check=False,
        ).returncode
        file.seek(0)
        lines = file.read().splitlines()
    known = [json.loads(line) for line in lines if line.startswith(("{", "["))]
    reason = _reason(request, code, [line for line in lines if not line.startswith(("{", "["))])
    if not known:
        raise FailedError(f"{request.name}: {reason} while it was imported or constructed")
    start, *rest = known
    if "refused" in start:
        raise UserError(start["refused"])
    outcomes = [LawOutcome(*each) for each in rest]
    missing = start["laws"][len(outcomes) :]
    if missing:
        outcomes.append(LawOutcome(missing[0], "broken", reason))
        outcomes += [LawOutcome(law, "skipped", f"{reason}, in the law `{missing[0]}`") for law in missing[1:]]
    return Report(start["part"], start["place"], tuple(outcomes))


def _reason(request: Request, code: int, trace: list[str]) -> str:
    """Why the process of a part ended, with the line of the part's file in which it was."""
    if any(line.startswith("Timeout") for line in trace):
        ended = f"it gave no answer within {request.timeout:g} seconds"
    elif code < 0:
        ended = f"its process ended by {signal.Signals(-code).name}"
    else:
        ended = f"its process ended with exit code {code}"
    file = Path(request.name.rpartition(":")[0])
    frames = (re.search(r'File "(.+)", line (\d+)', line) for line in trace)  # the most recent call first
    line = next((found[2] for found in frames if found and Path(found[1]).name == file.name), None)
    return f"{file.name}, line {line}: {ended}" if line else ended


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


def _examine(request: Request) -> None:
    """What the process of a part does: answers go to stdout, and whatever the part prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    faulthandler.enable(answers)
    faulthandler.dump_traceback_later(request.timeout, exit=True, file=answers)

    def answer(value: Any) -> None:
        print(json.dumps(value), file=answers, flush=True)

    try:
        laws = request.laws()
    except UserError as error:
        return answer({"refused": str(error)})
    subject = laws[0].subject
    answer({"part": subject.name, "place": place_of(subject.cls), "laws": [law.name for law in laws]})
    for law in laws:
        answer(outcome_of(law))
    return None


if __name__ == "__main__":
    _examine(Request(*json.loads(sys.argv[1])))
