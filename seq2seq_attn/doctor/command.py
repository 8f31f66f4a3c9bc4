"""What the command `check` does, for both of its command lines: that of the program and that of `torch_alone`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from seq2seq_attn.doctor.isolation import Part, check_all
from seq2seq_attn.errors import UserError, needing


def run(
    words: Sequence[str],
    query_size: int | None,
    key_size: int | None,
    *,
    full: bool,
    timeout: float,
    in_process: bool,
    as_json: bool,
    answer: Callable[[str], None],
) -> int:
    """Checks the parts named in `words`, with the options OPTION=VALUE among them, and returns the exit code."""
    names = [each for each in words if "=" not in each]
    options = [each for each in words if "=" in each]
    if not names:
        raise UserError("no part is named; for example: seq2seq-attn check my_scorer.py:MyScorer hidden_size=16")
    requested: list[Part] = list(names)
    if options:
        with needing(f"an option, as in {options[0]},"):
            from seq2seq_attn.strict import override
        requested = [override({"name": name}, options) for name in names]
    reports = []
    for report in check_all(requested, query_size, key_size, full=full, timeout=timeout, in_process=in_process):
        reports.append(report)
        if not as_json:
            answer(f"{report}\n")
    if as_json:
        records = [
            {
                "name": name,
                "part": report.part,
                "is_wrong": report.is_wrong,
                "findings": {law: finding._asdict() for law, finding in report.findings.items()},
                "skipped": report.skipped,
            }
            for name, report in zip(names, reports, strict=True)
        ]
        answer(json.dumps(records, ensure_ascii=False))
    return int(any(report.is_wrong for report in reports))
