"""The tested runs of an arm, and what each has left in its folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq_attn.analysis.evaluate import TRANSLATIONS
from seq2seq_attn.analysis.reading import Reading
from seq2seq_attn.analysis.scores import score_exact_match
from seq2seq_attn.comparison.experiment import ArmRun
from seq2seq_attn.evaluation.counts import BleuCounts, ChrfCounts
from seq2seq_attn.runs.folder import read_metrics
from seq2seq_attn.text.files import read_lines


class Arm(NamedTuple):
    """All lists have one entry a run, that is one a seed."""

    runs: list[ArmRun]
    translations: list[list[str]]
    metrics: list[dict[str, Any]]
    readings: list[Reading]  # empty unless every run has one
    bleu: BleuCounts
    chrf: ChrfCounts

    @property
    def tests(self) -> list[dict[str, Any]]:
        return [each["test"] for each in self.metrics]

    @classmethod
    def load(cls, runs: list[ArmRun], folder: Path, references: Sequence[str]) -> Arm:
        """Read the run folders, which are below `folder`."""
        folders = [folder / run.folder for run in runs]
        translations = [read_lines(each / TRANSLATIONS) for each in folders]
        readings = [reading for each in folders if (reading := Reading.load(each, len(references))) is not None]
        tokenize = runs[0].config.evaluation.tokenize
        arm = cls(
            runs,
            translations,
            [read_metrics(each) for each in folders],
            readings if len(readings) == len(runs) else [],
            BleuCounts.of(translations, references, tokenize),
            ChrfCounts.of(translations, references),
        )
        for test, lines in zip(arm.tests, translations, strict=True):
            # Counted here, as runs that were tested before it was measured do not have it.
            test["exact_match"] = score_exact_match(lines, references)
        return arm
