"""Responses that are right, by what they say of a restaurant.

    python experiments/dialog-babi/kinds.py experiments/dialog-babi/results  # or results-dstc2

Reads the translations in evidence.json.gz and the responses of its test set, and prints a table: for each kind of
response how many there are, and how many of them each arm has right, in %, as the mean of its training runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from seq2seq_attn.report.table import markdown_table
from seq2seq_attn.results.evidence import Evidence

# What a response says, and the parts of words that tell; the first kind that fits.
KINDS = {
    "calls the service": ("api_call",),
    "says a phone or an address": ("_phone", "_address"),
    "names a restaurant": ("resto_",),
}
OTHERS = "others"


def kind_of(response: str) -> str:
    """The kind of a response; restaurants have names that tell only in the dialogues that were made (`resto_`)."""
    return next((kind for kind, marks in KINDS.items() if any(mark in response for mark in marks)), OTHERS)


def table(arms: Mapping[str, Sequence[Sequence[str]]], responses: Sequence[str]) -> str:
    """Markdown: one row per kind that occurs; `arms` are the outputs of each training run."""
    kinds = [kind_of(response) for response in responses]
    rows = []
    for kind in (OTHERS, *KINDS):
        if not (lines := [line for line, each in enumerate(kinds) if each == kind]):
            continue
        right = (fmean(fmean(run[line] == responses[line] for line in lines) for run in runs) for runs in arms.values())
        rows.append([kind, f"{len(lines):,}", *(f"{100 * each:.1f}" for each in right)])
    return markdown_table(["response", "in the test set", *arms], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="a folder with evidence.json.gz")
    evidence = Evidence.load(parser.parse_args().results / "evidence.json.gz")
    target = Path(evidence.arms[0].configuration["data"]["test"]["target"])
    outputs = {arm.name: [run.translations for run in arm.runs] for arm in evidence.arms}
    print(table(outputs, target.read_text("utf-8").splitlines()))
