"""What the decoder sees of the source: its configuration, and the part that it describes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, TypeVar

from pydantic import PositiveInt, model_validator

from seq2seq_attn import attention
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.recurrent.parts import NormaliserConfig, PartConfig, ScorerConfig, WindowConfig
from seq2seq_attn.models.recurrent.reversed_encoder import AnyEncoder
from seq2seq_attn.strict import Strict

Made = TypeVar("Made")


class ChunkConfig(Strict):
    """What is read around the position that monotonic attention chooses: it and the words before it, by softmax."""

    size: PositiveInt = 4
    scorer: ScorerConfig = ScorerConfig()


class ContextConfig(Strict):
    """What the decoder sees of the source at every step: the part in which the arms of an ablation differ."""

    kind: Literal["attention", "mean", "fixed", "none"] = "attention"
    scorer: ScorerConfig = ScorerConfig()
    frozen_scorer: bool = False  # its parameters stay as they were drawn: what does it bring to train them?
    normaliser: NormaliserConfig = NormaliserConfig()
    window: WindowConfig | None = None
    chunk: ChunkConfig | None = None  # with normaliser=monotonic: chunkwise attention
    heads: PositiveInt = 1
    separate_values: bool = False  # one half of a state is compared, the other half is read

    @model_validator(mode="after")
    def _a_chunk_ends_somewhere(self) -> ContextConfig:
        if self.chunk is not None and self.normaliser.name != "monotonic":
            raise ValueError(f"chunk needs normaliser=monotonic, which says where it ends, got {self.normaliser.name}")
        return self

    @model_validator(mode="after")
    def _what_is_frozen_is_all_that_scores(self) -> ContextConfig:
        if self.frozen_scorer and self.heads > 1:
            raise ValueError("frozen_scorer=true would leave the projections of the heads to be trained; set heads=1")
        return self


def build_context(
    config: ContextConfig, query_size: int, encoder: AnyEncoder, summary: attention.Summary
) -> attention.Context:
    """The context for a decoder of this size; `summary` is what the fixed one repeats."""
    size, directions = encoder.state_size, encoder.directions
    if config.kind == "none":
        return attention.NoContext()
    if config.kind == "fixed":
        return attention.FixedContext(summary, size)
    if config.kind == "mean":
        return attention.MeanContext(size)
    if not config.separate_values:
        return _attention(config, query_size, size)
    if size % (2 * directions):
        raise UserError(
            f"model.context.separate_values=true halves the {size // directions} numbers of an encoder state; "
            f"choose an even encoder.hidden_size"
        )
    return attention.KeyValueAttention(_attention(config, query_size, size // 2), directions)


def _attention(
    config: ContextConfig, query_size: int, key_size: int
) -> attention.Attention | attention.ChunkwiseAttention | attention.MultiHead:
    if config.heads == 1:
        return _one_head(config, query_size, key_size)
    if query_size % config.heads:
        raise UserError(f"model.context.heads={config.heads} does not divide decoder.hidden_size={query_size}")
    size = query_size // config.heads
    return attention.MultiHead(_one_head(config, size, size), config.heads, query_size, key_size)


def _one_head(
    config: ContextConfig, query_size: int, key_size: int
) -> attention.Attention | attention.ChunkwiseAttention:
    window = config.window
    one = attention.Attention(
        _scorer("scorer", config.scorer, config, query_size, key_size),
        _made("normaliser", config.normaliser, config.normaliser),
        None if window is None else _made("window", window, partial(window, query_size)),
    )
    if config.chunk is None:
        return one
    of_chunk = _scorer("chunk.scorer", config.chunk.scorer, config, query_size, key_size)
    return attention.ChunkwiseAttention(one, of_chunk, config.chunk.size)


def _scorer(
    place: str, scorer: ScorerConfig, config: ContextConfig, query_size: int, key_size: int
) -> attention.Scorer:
    made = _made(place, scorer, partial(scorer, query_size, key_size))
    if not config.frozen_scorer:
        return made
    if not any(True for _ in made.parameters()):
        raise UserError(f"model.context.frozen_scorer=true: {scorer.name} has no parameters; choose one that has")
    return made.requires_grad_(False)


def _made(place: str, config: PartConfig, make: Callable[[], Made]) -> Made:
    """What `make` returns. UserError with the part and its options: its constructor, maybe a user's own, raised."""
    try:
        return make()
    except Exception as error:
        reason = " ".join(str(error).split())
        if not isinstance(error, (TypeError, ValueError)):
            reason = f"{type(error).__name__}: {reason}".rstrip()
        options = ", ".join(f"{name}={value!r}" for name, value in config.options.items())
        part = f"{config.name} with {options}" if options else config.name
        raise UserError(f"model.context.{place}: {reason} ({part})") from error
