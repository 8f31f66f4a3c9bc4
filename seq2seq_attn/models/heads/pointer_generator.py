"""The pointer-generator: a head that generates a token of the vocabulary, or copies one of the source."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import NonNegativeInt
from torch import Tensor, nn

from seq2seq_attn.errors import UserError
from seq2seq_attn.models.head import Head, HeadConfig, Read


class CopiedTokens(NamedTuple):
    """What may be copied."""

    tokens: Tensor  # (M, S)

    def select(self, rows: Tensor) -> CopiedTokens:
        return CopiedTokens(self.tokens.index_select(0, rows))


class PointerGeneratorHead(Head):
    """p(y) = p_gen softmax(W t + b)_y + (1 - p_gen) Σ_{j: x_j = y} a_j   (See et al. 2017, eq. 9).

    p_gen = σ(w_c · C_i + w_s · H_i + w_x · E y_{i-1} + b_ptr) (eq. 8), of a Transformer σ(w · t_i + b_ptr). Source and
    target share one vocabulary. Its last tokens, the copy slots, stand for words of the source that are in no
    vocabulary (`corpora/copy_slots.py`): they are copied and never generated. A slot that the source does not fill has
    the smallest positive probability, so that every logarithm is finite.

    Args:
        projection: From the features (R) to the vocabulary, slots included.
        inputs_size: The width of C_i, H_i and E y_{i-1} together.
        slots: How many of the last tokens are copy slots.
    """

    needs_weights = True

    def __init__(self, projection: nn.Linear, inputs_size: int, slots: int = 0) -> None:
        super().__init__()
        self.projection = projection
        self.gate = nn.Linear(inputs_size, 1)
        self.slots = slots

    def prepare(self, source: Any) -> CopiedTokens:
        return CopiedTokens(source.tokens)

    def forward(self, read: Read, memory: CopiedTokens) -> Tensor:
        assert read.weights is not None
        if read.weights.shape != memory.tokens.shape:
            raise UserError(
                f"model.head.kind=pointer_generator copies a token for each state of the source, but the encoder made "
                f"{read.weights.shape[1]} states of {memory.tokens.shape[1]} tokens; choose another encoder or head"
            )
        logits = self.projection(read.features)
        dtype = torch.promote_types(logits.dtype, torch.float32)
        words = logits.shape[-1] - self.slots
        generated = F.pad(torch.log_softmax(logits[:, :words], dim=-1, dtype=dtype), (0, self.slots), value=-torch.inf)
        copied = torch.zeros_like(generated).scatter_add(1, memory.tokens, read.weights.to(dtype))
        gate = self.gate(torch.cat(read.inputs or (read.features,), dim=-1)).to(dtype)
        log_p: Tensor = torch.logaddexp(
            F.logsigmoid(gate) + generated, F.logsigmoid(-gate) + copied.clamp_min(torch.finfo(dtype).tiny).log()
        )
        return log_p


class PointerGeneratorConfig(HeadConfig):
    """`{kind: pointer_generator}`, with `text.copy_slots` for words of the source that are in no vocabulary."""

    kind: Literal["pointer_generator"] = "pointer_generator"
    slots: NonNegativeInt | None = None  # null: text.copy_slots, the only value that fits

    def completed(self, text: Any) -> PointerGeneratorConfig:
        if not text.joint:
            raise ValueError(
                "model.head.kind=pointer_generator copies tokens of the source, which need one vocabulary for source "
                "and target; set text.joint=true, or choose another head"
            )
        if self.slots not in (None, text.copy_slots):
            raise ValueError(
                f"model.head.slots={self.slots} and text.copy_slots={text.copy_slots} are the same number; leave "
                "model.head.slots out"
            )
        return self.model_copy(update={"slots": text.copy_slots})

    def build(self, projection: nn.Linear, inputs_size: int) -> PointerGeneratorHead:
        return PointerGeneratorHead(projection, inputs_size, self.slots or 0)
