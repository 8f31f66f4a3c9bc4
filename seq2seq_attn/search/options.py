"""Options of a search."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Literal

import torch
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from seq2seq_attn.ops.int8 import quantized
from seq2seq_attn.ops.replace import Model
from seq2seq_attn.strict import Seed, Strict
from seq2seq_attn.text.lexicon import MAX_TRANSLATIONS

MAX_WIDTH = 100_000  # hypotheses of one sentence; all of them are in memory at once
Width = Annotated[int, Field(ge=1, le=MAX_WIDTH)]


class ShortlistOptions(Strict):
    """How many target tokens a search chooses among (`shortlist.py`)."""

    translations: int = Field(default=50, ge=1, le=MAX_TRANSLATIONS)  # the most probable ones per source token
    frequent: NonNegativeInt = 500  # the most frequent ones in training, in every shortlist


class SamplingOptions(Strict):
    """From which distribution translations are drawn (`sampling.py`): by default, that of the model."""

    temperature: PositiveFloat = 1.0  # t in p(y)^(1/t), normalized; below 1, likely tokens become likelier
    top_k: PositiveInt | None = None  # draw from the k most probable tokens; null: from all
    top_p: float | None = Field(default=None, gt=0.0, le=1.0)  # draw from the fewest tokens of this probability
    seed: Seed = 1  # of the samples; those of a sentence depend on its tokens too, not on its batch


class MbrOptions(Strict):
    """Minimum-Bayes-risk decoding (`evaluation/bayes_risk.py`): the n best of several candidates by mean utility."""

    utility: Literal["chrf", "bleu"] = "chrf"  # of a candidate, with another as its reference
    candidates: int = Field(default=5, ge=2, le=MAX_WIDTH)  # hypotheses of the beam, or samples


class SearchOptions(Strict):
    """Beam search, greedy search if `beam_size` is 1, or sampling, which has no beam.

    A length counts predicted tokens, `</s>` included, and is written |Y| below and S for the source.
    """

    beam_size: Width = 5  # hypotheses per sentence; 1 is greedy search
    n_best: Width = 1  # hypotheses to return for each sentence, or samples to draw
    distinct: bool = False  # no text twice among the n best; fewer if the beam, or what is drawn, has fewer
    length_penalty: float = Field(default=1.0, ge=0.0, le=10.0)  # alpha; 0 ranks by log p itself
    min_length: PositiveInt = 1  # |Y| at least
    max_length: PositiveInt = 256  # |Y| at most
    max_length_ratio: PositiveFloat | None = 2.0  # a in a S + margin; null: max_length alone
    max_length_margin: NonNegativeInt = 10  # margin in a S + margin
    batch_size: PositiveInt = 64  # sentences
    batch_tokens: PositiveInt = 4096  # source tokens, padding included
    precision: Literal["fp32", "bf16", "int8"] = "fp32"  # of matrix products; log-probabilities are summed in fp32
    shortlist: ShortlistOptions | None = None  # null: the whole vocabulary
    sampling: SamplingOptions | None = None  # null: search; otherwise n_best translations are drawn instead
    mbr: MbrOptions | None = None  # null: ranked by score; otherwise by how much they are like other candidates
    replace_unknown: bool = False  # show the source token with the highest attention weight instead of `<unk>`

    @model_validator(mode="after")
    def _limits_agree(self) -> SearchOptions:
        if self.mbr is not None and self.n_best > self.mbr.candidates:
            raise ValueError(
                f"n_best={self.n_best} exceeds mbr.candidates={self.mbr.candidates}; set mbr.candidates={self.n_best}"
            )
        key, count = ("n_best", self.n_best) if self.mbr is None else ("mbr.candidates", self.mbr.candidates)
        if count > self.beam_size and self.sampling is None:
            raise ValueError(
                f"{key}={count} needs a beam at least as wide, got beam_size={self.beam_size}; set beam_size={count}"
            )
        if self.min_length > self.max_length:
            raise ValueError(f"min_length={self.min_length} exceeds max_length={self.max_length}; change one of them")
        return self

    def for_candidates(self) -> SearchOptions:
        """The options of the search or sampling that finds the candidates among which `mbr` or `distinct` chooses."""
        if self.mbr is not None:
            return self.model_copy(update={"n_best": self.mbr.candidates, "mbr": None})
        if self.distinct and self.n_best > 1 and self.sampling is None:
            return self.model_copy(update={"n_best": self.beam_size})
        return self

    @property
    def hypotheses(self) -> int:
        """How many hypotheses of one sentence are in memory at once."""
        return self.beam_size if self.sampling is None else self.for_candidates().n_best

    def penalty(self, length: int) -> float:
        """lp(Y) = ((5 + |Y|) / 6)^alpha, by which log p(Y | X) is divided; Wu et al. 2016, equation 14."""
        return float(((5 + length) / 6) ** self.length_penalty)

    def autocast(self, device: str) -> AbstractContextManager[object]:
        """The autocast context for a device type; fp32 and int8 leave the caller's unchanged."""
        return torch.autocast(device, torch.bfloat16) if self.precision == "bf16" else nullcontext()

    def quantized(self, model: Model) -> Model:
        """The model to search with: a copy with int8 linear layers if `precision` is int8, otherwise `model` itself."""
        return quantized(model) if self.precision == "int8" else model

    def limit(self, source_length: int) -> int:
        """The longest |Y| for a source of length S: min(max_length, a S + margin), at least min_length."""
        limit: float = self.max_length
        if self.max_length_ratio is not None:
            limit = min(limit, self.max_length_ratio * source_length + self.max_length_margin)
        return max(self.min_length, int(limit))
