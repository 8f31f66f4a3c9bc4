"""Learning curves: curves.json."""

from __future__ import annotations

import math

from pydantic import TypeAdapter, model_validator
from pydantic.dataclasses import dataclass

from seq2seq_attn.files.json_files import STRICT
from seq2seq_attn.results.records import RecordFile

GAIN_IN_LOSS = 0.01  # relative; a smaller one does not matter


@dataclass(frozen=True, config=STRICT)
class Curve:
    """Validation scores of one training run, one entry per validation."""

    seed: int
    epoch: tuple[float, ...]
    validation_loss: tuple[float, ...]  # nats per target token
    validation_score: tuple[float | None, ...]  # in the main metric; None if not computed

    def is_still_improving(self, sign: int, gain: float) -> bool:
        """Whether training was stopped too early: the last fifth of the validations brought a gain that matters.

        That is a score better than the best before by more than `gain` points, or, if there are no scores, a loss lower
        by more than `GAIN_IN_LOSS` of the lowest before. False with fewer than two validations. `sign` is -1 if lower
        scores are better, else 1.
        """
        last = math.ceil(len(self.epoch) / 5)
        scores = [sign * score for score in self.validation_score if score is not None]
        if len(self.epoch) < 2:
            return False
        if len(scores) == len(self.epoch):
            return max(scores[-last:]) - max(scores[:-last]) > gain
        return min(self.validation_loss[-last:]) < (1 - GAIN_IN_LOSS) * min(self.validation_loss[:-last])

    @model_validator(mode="after")
    def _equal_lengths(self) -> Curve:
        if not len(self.epoch) == len(self.validation_loss) == len(self.validation_score):
            raise ValueError("epoch, validation_loss and validation_score differ in length")
        return self


CURVES = RecordFile("curves.json", TypeAdapter(dict[str, tuple[Curve, ...]]))  # of the runs of each arm
