"""Recurrent decoders that take all steps of a known target in one operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from seq2seq_attn.attention import (
    Additive,
    Attention,
    Concat,
    Context,
    Dot,
    General,
    NormalizedAdditive,
    PreparedSource,
    ScaledDot,
    Scorer,
    Softmax,
    Source,
)
from seq2seq_attn.models.recurrent.bahdanau import BahdanauDecoder
from seq2seq_attn.models.recurrent.conditional import ConditionalDecoder
from seq2seq_attn.models.recurrent.decoders import DecoderOutput, DecoderState
from seq2seq_attn.models.recurrent.luong import LuongDecoder
from seq2seq_attn.ops.decoder import DecoderWeights, decoder_sequence
from seq2seq_attn.ops.form import Form, changed, why_not_numbers
from seq2seq_attn.ops.input_feeding import FeedingWeights, feeding_sequence
from seq2seq_attn.ops.int8 import Int8Linear
from seq2seq_attn.ops.layer_norm import norm_weights
from seq2seq_attn.ops.recurrent import why_not_gru


class FusedBahdanauDecoder(Form, BahdanauDecoder):
    """`BahdanauDecoder` with all steps in `decoder_sequence`; with one read before them if the context is constant."""

    stands_for = BahdanauDecoder
    any_dtype = True
    is_reported = True

    @classmethod
    def why_not(cls, module: BahdanauDecoder) -> str | None:
        if not module.context.reads_query:
            return changed(module.context)
        return _why_not(module, [module.cell], module.context)

    def run(self, input_gates: Tensor, state: DecoderState, source: PreparedSource) -> DecoderOutput:
        if self.context.reads_query:
            return DecoderOutput(*decoder_sequence(input_gates, state.hidden, cast(Source, source), self._weights()))
        query = self.cell.output(state.hidden)[:, None]
        context, weights = (part.transpose(0, 1) for part in self.context(query, source))
        hidden = self.cell.output(self.cell.run(self.from_context(context, input_gates), state.hidden))
        return DecoderOutput(hidden, *(part.expand(len(hidden), -1, -1) for part in (context, weights)))

    def _weights(self) -> DecoderWeights:
        cell, context, from_context = (cast(Any, part) for part in (self.cell, self.context, self.from_context))
        return DecoderWeights(
            *(from_context.map.weight, cell.recurrent.weight, cell.recurrent.bias, *_scoring(context.scorer)),
            input_norm=norm_weights(cell.input_norm),
            recurrent_norm=norm_weights(cell.recurrent_norm),
        )


class FusedConditionalDecoder(Form, ConditionalDecoder):
    """`ConditionalDecoder` with all steps in `decoder_sequence`."""

    stands_for = ConditionalDecoder
    is_reported = True

    @classmethod
    def why_not(cls, module: ConditionalDecoder) -> str | None:
        if module.deeper:
            return f"the decoder has {2 + len(module.deeper)} transitions"
        return _why_not(module, [module.cell, module.second], module.context)

    def run(self, input_gates: Tensor, state: DecoderState, source: PreparedSource) -> DecoderOutput:
        gates = cast(Any, self.cell).input_norm(input_gates)
        return DecoderOutput(*decoder_sequence(gates, state.hidden, cast(Source, source), self._weights()))

    def _weights(self) -> DecoderWeights:
        parts = self.cell, self.second, self.context, self.from_context
        first, second, context, from_context = (cast(Any, part) for part in parts)
        before, after = first.recurrent, second.recurrent
        return DecoderWeights(
            *(from_context.map.weight, after.weight, after.bias, *_scoring(context.scorer)),
            *(before.weight, before.bias, self.second_bias),
            *map(norm_weights, (second.input_norm, second.recurrent_norm, first.recurrent_norm)),
        )


class FusedLuongDecoder(Form, LuongDecoder):
    """`LuongDecoder` with all steps in `feeding_sequence`.

    Without input feeding no query depends on an earlier context: all steps of the cell, then one call of attention.
    """

    stands_for = LuongDecoder
    any_dtype = True
    is_reported = True

    @classmethod
    def why_not(cls, module: LuongDecoder) -> str | None:
        return None if module.from_feed is None else _why_not(module, [module.cell], module.context)

    def run(self, input_gates: Tensor, state: DecoderState, source: PreparedSource) -> DecoderOutput:
        if self.from_feed is not None:
            initial = state.hidden, torch.zeros_like(state.hidden) if state.feed is None else state.feed
            return DecoderOutput(*feeding_sequence(input_gates, *initial, cast(Source, source), self._weights()))
        hidden = self.cell.output(self.cell.run(input_gates, state.hidden))
        context, weights = (part.transpose(0, 1) for part in self.context(hidden.transpose(0, 1), source))
        return DecoderOutput(self.attentional(context, hidden), context, weights)

    def _weights(self) -> FeedingWeights:
        cell, context, from_feed = (cast(Any, part) for part in (self.cell, self.context, self.from_feed))
        recurrent, combine = cell.recurrent, self.combine
        weights = from_feed.weight, recurrent.weight, recurrent.bias, combine.weight, combine.bias
        norms = norm_weights(cell.input_norm), norm_weights(cell.recurrent_norm)
        return FeedingWeights(*weights, *_scoring(context.scorer), *norms)


def _why_not(decoder: nn.Module, cells: Sequence[nn.Module], context: Context) -> str | None:
    """Why the steps of a decoder with these cells are not those of one of the sequences; None if they are."""
    if any(isinstance(part, Int8Linear) for part in decoder.modules()):
        return "the products of its steps are in int8"
    reasons = why_not_numbers(decoder), changed(decoder), *map(why_not_gru, cells)
    if (reason := next(filter(None, reasons), None)) is not None:
        return reason
    return why_not_softmax(context) or _why_not_scorer(cast(Attention, context).scorer)


def why_not_softmax(context: Context) -> str | None:
    """Why a context is not softmax attention over the whole source, independent of earlier steps; None if it is."""
    if type(context) is not Attention:
        return f"the context is {type(context).__name__}"
    if (reason := changed(context, deep=False) or changed(context.normalizer)) is not None:
        return reason
    if type(context.normalizer) is not Softmax or context.normalizer.temperature != 1:
        return f"the normalizer is {type(context.normalizer).__name__}, not softmax of temperature 1"
    if context.window is not None:
        return f"attention has a window, {type(context.window).__name__}"
    if context.dropout:
        return "attention has dropout"
    return "attention depends on earlier steps" if context.needs_history else None


def _why_not_scorer(scorer: Scorer) -> str | None:
    """Why the scores are neither dot products with what the scorer prepares nor additive; None if they are."""
    inner = scorer.additive if isinstance(scorer, NormalizedAdditive) else scorer
    if type(inner) in (Additive, Concat, Dot, ScaledDot, General):
        return None
    return f"the scorer is {type(scorer).__name__}, neither additive nor a dot product"


def _scoring(scorer: Any) -> tuple[Any, Any]:
    """W and v of additive scores, None for dot products, of a fused scorer.

    Without the offset of `NormalizedAdditive`, to which softmax is invariant.
    """
    if isinstance(scorer, NormalizedAdditive):
        inner: Any = scorer.additive
        return inner.query_weight, inner.v * (scorer.gain / torch.linalg.vector_norm(inner.v))
    return (scorer.query_weight, scorer.v) if isinstance(scorer, (Additive, Concat)) else (None, None)
