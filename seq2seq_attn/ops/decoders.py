"""Recurrent decoders that take all steps of a known target as one autograd node: GRU cells with attention between them.

In the loop over steps of models/recurrent/decoders.py, autograd saves the hidden layer of additive scores of every
step, (T, B, S, A) numbers, and traverses about sixty small operations per step. Here the loops contain only what
depends on the previous step; the gradients of the weights and of the values take one product each, after the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from seq2seq_attn.attention import (
    Additive,
    Attention,
    AttentionSource,
    Concat,
    Context,
    Dot,
    General,
    NormalizedAdditive,
    PreparedSource,
    ScaledDot,
    Scorer,
    Softmax,
)
from seq2seq_attn.models.recurrent.bahdanau import BahdanauDecoder
from seq2seq_attn.models.recurrent.conditional import ConditionalDecoder
from seq2seq_attn.models.recurrent.decoders import DecoderOutput, DecoderState
from seq2seq_attn.models.recurrent.luong import LuongDecoder
from seq2seq_attn.ops.autograd import apply
from seq2seq_attn.ops.form import Form, changed, why_not_numbers
from seq2seq_attn.ops.gru import (
    NOT_NORMALIZED,
    GateNorm,
    NormWeights,
    accumulation_dtype,
    norm_weights,
    step_backward,
    step_forward,
)
from seq2seq_attn.ops.int8 import Int8Linear
from seq2seq_attn.ops.layers import add_product, product, weight_gradient
from seq2seq_attn.ops.recurrent import why_not_gru
from seq2seq_attn.ops.scorers import read_backward, read_forward, values_backward


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
            weights = _weights(self.cell, self.context, self.from_context.map)
            return DecoderOutput(*decoder_sequence(input_gates, state.hidden, source, weights))
        query = self.cell.output(state.hidden)[:, None]
        context, attention = (part.transpose(0, 1) for part in self.context(query, source))
        hidden = self.cell.output(self.cell.run(self.from_context(context, input_gates), state.hidden))
        return DecoderOutput(hidden, *(part.expand(len(hidden), -1, -1) for part in (context, attention)))


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
        first = cast(Any, self.cell)
        weights = _weights(self.second, self.context, self.from_context.map)._replace(
            first=first.recurrent.weight,
            first_bias=first.recurrent.bias,
            first_norm=norm_weights(first.recurrent_norm),
            gates_bias=self.second_bias,
        )
        return DecoderOutput(*decoder_sequence(first.normed(input_gates), state.hidden, source, weights))


class FusedLuongDecoder(Form, LuongDecoder):
    """`LuongDecoder` with all steps in `decoder_sequence`.

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
            weights = _weights(self.cell, self.context, self.from_feed)
            weights = weights._replace(combine=self.combine.weight, combine_bias=self.combine.bias)
            feed = torch.zeros_like(state.hidden) if state.feed is None else state.feed
            return DecoderOutput(*decoder_sequence(input_gates, state.hidden, source, weights, feed))
        hidden = self.cell.output(self.cell.run(input_gates, state.hidden))
        context, attention = (part.transpose(0, 1) for part in self.context(hidden.transpose(0, 1), source))
        return DecoderOutput(self.attentional(context, hidden), context, attention)


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


class DecoderWeights(NamedTuple):
    """The parameters of a decoder with a cell that reads, or is read for; gates in the order r, z, n.

    A conditional GRU has another cell before the reading, named `first`, and `gates_bias`; the inputs of that cell are
    normalized by the caller, as they are known for all steps. The decoder of Luong with input feeding has `combine`.
    """

    to_gates: Tensor  # (3H, V): from C_i to the gates; with input feeding (3H, H): from H~_{i-1}
    recurrent: Tensor  # (3H, H): from the state that reads to the gates
    recurrent_bias: Tensor  # (3H,)
    query: Tensor | None = None  # W (A, H) of the scores v · tanh(W q + k); None: the scores are dot products q · k
    v: Tensor | None = None  # (A,)
    first: Tensor | None = None  # (3H, H): from H_{i-1} to the gates of the cell before the reading, if there is one
    first_bias: Tensor | None = None  # (3H,)
    gates_bias: Tensor | None = None  # (3H,): replaces the inputs from tokens, which are those of the first cell
    combine: Tensor | None = None  # (H, V + H): from [C_i; H_i] to H~_i
    combine_bias: Tensor | None = None  # (H,)
    input_norm: NormWeights = NOT_NORMALIZED  # of the gates' inputs, with what is read or fed
    recurrent_norm: NormWeights = NOT_NORMALIZED  # of the product with the state
    first_norm: NormWeights = NOT_NORMALIZED  # of the first cell's product with H_{i-1}


def _weights(cell: Any, context: Any, to_gates: Any) -> DecoderWeights:
    return DecoderWeights(
        *(to_gates.weight, cell.recurrent.weight, cell.recurrent.bias, *_scoring(context.scorer)),
        input_norm=norm_weights(cell.input_norm),
        recurrent_norm=norm_weights(cell.recurrent_norm),
    )


def _scoring(scorer: Scorer) -> tuple[Tensor | None, Tensor | None]:
    """W and v of additive scores, None for dot products.

    Without the offset of `NormalizedAdditive`, to which softmax is invariant.
    """
    if isinstance(scorer, NormalizedAdditive):
        inner = scorer.additive
        return _scoring(inner)[0], inner.v * (scorer.gain / torch.linalg.vector_norm(inner.v))
    if isinstance(scorer, Additive):
        return scorer.query_layer.weight, scorer.v
    return (scorer.layer.weight[:, : scorer.query_size], scorer.v) if isinstance(scorer, Concat) else (None, None)


class Reading(NamedTuple):
    """What a decoder reads at every step, or the gradients of it."""

    keys: Tensor  # (B, S, A), in the dtype of the scores
    values: Tensor  # (B, S, V)
    is_token: Tensor | None  # (B, 1, S)
    v: Tensor | None  # (A,): of additive scores; None for dot products


def decoder_sequence(
    inputs: Tensor, initial: Tensor, source: PreparedSource, weights: DecoderWeights, feed: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """States (T, B, H), contexts (T, B, V) and attention weights (T, B, S) of all T steps:

    a_i = softmax_j(v · tanh(W H_{i-1} + k_j)) or softmax_j(H_{i-1} · k_j);  C_i = Σ_j a_ij value_j;
    H_i = gru(inputs_i + W_C C_i, W_H H_{i-1} + b_H, H_{i-1})   (Bahdanau et al. 2015, A.1.2 and A.2.2),

    where gru is `GRUCell.update`.

    With a first cell, H'_i = gru(inputs_i, W_1 H_{i-1} + b_1, H_{i-1}) replaces H_{i-1} in these equations, and
    a bias replaces inputs_i: the conditional GRU (Sennrich et al. 2017, sec. 2).

    With a `feed`, H_i = gru(inputs_i + W_F H~_{i-1}, W_H H_{i-1} + b_H, H_{i-1}) reads instead, and the
    attentional states H~_i = tanh(W_c [C_i; H_i] + b_c) are returned (Luong et al. 2015, eq. 5 and sec. 3.3).

    The first two arguments of an update are layer-normalized if `weights` has norms for them.

    inputs (T, B, 3H) are the gates' inputs from the embedded tokens, initial (B, H) is H_0, feed (B, H) is H~_0.
    `source` is what `Attention` prepares for the scorer: k (B, S, A), with A = H for dot products, values (B, S, V) and
    the mask (B, 1, S). The dtype is that of `inputs`; scores and softmax are computed in fp32 at least.
    """
    dtype, reading = inputs.dtype, reading_of(cast(AttentionSource, source), inputs, weights.query, weights.v, initial)
    # One product with the state that reads gives its part of the gates, of H~ and, for additive scores, the query.
    of_state, biases, combine = [weights.recurrent], [weights.recurrent_bias], None
    if weights.combine is not None and weights.combine_bias is not None:
        combine, from_state = weights.combine.tensor_split([reading.values.shape[2]], dim=1)
        of_state, biases = [*of_state, from_state], [*biases, weights.combine_bias]
    if weights.query is not None:
        of_state, biases = [*of_state, weights.query], [*biases, weights.query.new_zeros(len(weights.query))]

    def of_dtype(parameter: Tensor | None) -> Tensor | None:
        return None if parameter is None else parameter.contiguous().to(dtype)

    results: tuple[Tensor, Tensor, Tensor] = apply(_Decoder(
        inputs, initial.to(dtype), reading, torch.cat(of_state).to(dtype), torch.cat(biases).to(dtype),
        weights.to_gates.to(dtype), of_dtype(feed), of_dtype(combine), of_dtype(weights.first),
        of_dtype(weights.first_bias), of_dtype(weights.gates_bias),
        (weights.input_norm, weights.recurrent_norm, weights.first_norm),
    ))  # fmt: skip
    return results


def reading_of(
    source: AttentionSource, inputs: Tensor, query: Tensor | None, v: Tensor | None, state: Tensor
) -> Reading:
    """The source with values of the dtype of `inputs`, keys of that of the scores, and every row in one piece.

    ValueError: it is not that of these sentences, or was prepared by another scorer; kernels would read other memory.
    """
    expected = inputs.shape[1], state.shape[1] if query is None else query.shape[0]
    given = source.sentences, source.prepared.shape[2]
    if given != expected:
        raise ValueError(f"the decoder needs prepared keys (sentences, size) = {expected}, got {given}")
    keys, is_token = source.prepared.to(accumulation_dtype(source.prepared)), source.is_token
    return Reading(
        keys.contiguous(),
        source.values.to(inputs.dtype).contiguous(),
        None if is_token is None else is_token.contiguous(),
        None if v is None else v.to(keys.dtype),
    )


class _Cell(NamedTuple):
    """What the backward pass needs of all steps of a cell."""

    gates: Tensor  # r and z
    candidates: Tensor
    products: list[Tensor]  # with the state, of each step


class _Decoder(NamedTuple):
    """What `decoder_sequence` computes its results from, in their dtype; or the gradients of it."""

    inputs: Any  # None, as the initial state and the biases, where the backward pass does not need it
    initial: Any
    reading: Reading
    state_weight: Tensor  # from the state that reads to the gates, to H~ and, for additive scores, to the query
    state_bias: Any
    to_gates: Tensor
    feed: Any  # H~_0; None without input feeding
    combine: Any
    first_weight: Any  # of the cell before the reading; None if there is none
    first_bias: Any
    gates_bias: Any
    norms: tuple[NormWeights, ...]  # of the gates' inputs, of the product with the state, of that of the first cell

    def forward(self) -> tuple[tuple[Tensor, Tensor, Tensor], _DecoderSteps]:
        inputs, initial, (keys, values, is_token, v) = self.inputs, self.initial, self.reading
        (steps, sentences, _), size = inputs.shape, initial.shape[1]

        def empty(width: int) -> Tensor:
            return torch.empty(steps, sentences, width, dtype=inputs.dtype, device=inputs.device)

        states = torch.cat((initial[None], empty(size)))  # H_0 .. H_T
        contexts, attention = empty(values.shape[2]), empty(values.shape[1])
        attentional = None if self.feed is None else torch.cat((self.feed[None], empty(size)))  # H~_0 .. H~_T
        cell, first, between = _Cell(empty(2 * size), empty(size), []), None, None
        if self.first_weight is not None:
            first, between = _Cell(empty(2 * size), empty(size), []), empty(size)
        reading = states if between is None else between  # the states that read the source
        fed, lag = (contexts, 0) if attentional is None else (attentional, 1)  # H_0 reads, or H_1 is the first
        norms = input_norm, recurrent_norm, first_norm = [GateNorm(norm) for norm in self.norms]

        def read(t: int) -> None:
            products = product(reading[t], self.state_weight, self.state_bias)
            cell.products.append(products)
            if t < lag:
                return
            query = reading[t] if v is None else products[:, -len(v) :]
            read_forward(query, keys, v, is_token, values, attention[t - lag], contexts[t - lag])
            if attentional is not None:
                combined = add_product(products[:, 3 * size : 4 * size], contexts[t - lag], self.combine)
                torch.tanh(combined, out=attentional[t])

        with torch.autocast(inputs.device.type, enabled=False):
            for t in range(steps):
                if first is not None:
                    first.products.append(product(states[t], self.first_weight, self.first_bias))
                    u = first_norm.forward(first.products[t])
                    step_forward(inputs[t], u, states[t], first.gates[t], first.candidates[t], reading[t])
                read(t)
                if first is None:
                    x = add_product(inputs[t], fed[t], self.to_gates)
                else:
                    x = product(fed[t], self.to_gates, self.gates_bias)
                x, u = input_norm.forward(x), recurrent_norm.forward(cell.products[t][:, : 3 * size])
                step_forward(x, u, reading[t], cell.gates[t], cell.candidates[t], states[t + 1])
            if lag:
                read(steps)
        needed = self._replace(inputs=None, initial=None, feed=None, state_bias=None, first_bias=None, gates_bias=None)
        normalized = [norm.saved for norm in norms]
        saved = _DecoderSteps(needed, states, between, contexts, attention, attentional, cell, first, normalized)
        return (states[1:] if attentional is None else attentional[1:], contexts, attention), saved


class _DecoderSteps(NamedTuple):
    """What the backward pass of `decoder_sequence` needs."""

    given: _Decoder
    states: Tensor  # H_0 .. H_T
    between: Tensor | None  # H'_1 .. H'_T, between two cells
    contexts: Tensor
    attention: Tensor
    attentional: Tensor | None  # H~_0 .. H~_T
    cell: _Cell
    first: _Cell | None  # the cell before the reading, if there is one
    normalized: list[list[Tensor]]  # by the three norms

    def backward(self, *gradients: Tensor | None) -> _Decoder:
        given, states, between, contexts, attention, attentional, cell, first, normalized = self
        grad_states, grad_contexts, grad_attention = gradients
        keys, values, _, v = given.reading
        (steps, sentences, size), lag = cell.candidates.shape, 0 if attentional is None else 1
        previous = states[:-1]
        reading = between if between is not None else states if lag else previous
        norms = [GateNorm(*each) for each in zip(given.norms, normalized, strict=True)]
        input_norm, recurrent_norm, first_norm = norms

        def empty(width: int, count: int = steps) -> Tensor:
            return states.new_empty(count, sentences, width)

        def at_step(gradient: Tensor | None, t: int) -> Tensor | None:
            return None if gradient is None else gradient[t].to(states.dtype)

        grad_gates, grad_products = empty(3 * size), empty(len(given.state_weight), steps + lag)
        grad_inputs, grad_first_products = grad_gates, grad_products
        if first is not None:
            grad_inputs, grad_first_products = empty(3 * size), empty(3 * size)
        total_grad_contexts = torch.empty_like(contexts)
        grad_keys, grad_v = torch.zeros_like(keys), None if v is None else keys.new_zeros(sentences, len(v))
        grad_carry = states.new_zeros(sentences, size, dtype=accumulation_dtype(states))

        def through_reading(t: int, grad_fed: Tensor) -> Tensor:
            """The gradient of the state that reads, from that of what it reads and those of its products."""
            if t < lag:
                grad_products[t, :, 3 * size :] = 0  # nothing is read by H_0
                return product(grad_products[t], given.state_weight.t())
            of_output, grad_weights = at_step(grad_states, t - lag), at_step(grad_attention, t - lag)
            if attentional is not None:
                grad_combined = grad_products[t, :, 3 * size : 4 * size]
                total = grad_fed if of_output is None else grad_fed + of_output
                grad_combined.copy_(torch.ops.aten.tanh_backward(total, attentional[t]))
                grad_fed = product(grad_combined, given.combine.t())
            total_grad_contexts[t - lag] = grad_fed if grad_contexts is None else grad_fed.add_(grad_contexts[t - lag])
            if v is None:
                query, grad_query = reading[t], torch.empty_like(reading[t])
            else:
                query, grad_query = cell.products[t][:, -len(v) :], grad_products[t, :, -len(v) :]
            read_backward(
                query, keys, v, values, attention[t - lag], total_grad_contexts[t - lag],
                None if grad_weights is None else grad_weights.contiguous(), grad_query, grad_keys, grad_v,
            )  # fmt: skip
            grad_state = product(grad_products[t], given.state_weight.t())
            return grad_state.add_(grad_query) if v is None else grad_state

        grad_next, grad_fed = None, states.new_zeros(sentences, size)
        if lag:
            grad_products[steps, :, : 3 * size] = 0  # no gate depends on H_T
            grad_next = through_reading(steps, grad_fed)
        for t in reversed(range(steps)):
            u, of_output = recurrent_norm.last(cell.products[t][:, : 3 * size]), at_step(grad_states, t)
            step_backward(
                None if lag else of_output, grad_next, grad_carry, u, reading[t], cell.gates[t], cell.candidates[t],
                grad_gates[t], grad_products[t, :, : 3 * size],
            )  # fmt: skip
            input_norm.backward_(grad_gates[t])
            recurrent_norm.backward_(grad_products[t, :, : 3 * size])
            grad_fed = product(grad_gates[t], given.to_gates.t())
            grad_next = through_reading(t, grad_fed)
            if first is not None:
                step_backward(
                    None, grad_next, grad_carry, first_norm.last(first.products[t]), previous[t], first.gates[t],
                    first.candidates[t], grad_inputs[t], grad_first_products[t],
                )  # fmt: skip
                first_norm.backward_(grad_first_products[t])
                grad_next = product(grad_first_products[t], given.first_weight.t())
        first_layer: tuple[Tensor | None, Tensor | None] = None, None
        gates_bias, combine = None, None
        if first is not None:
            first_layer = layer_gradients(grad_first_products, previous)
            gates_bias = grad_gates.flatten(0, 1).sum(dim=0)
        if lag:
            combine = weight_gradient(grad_products[1:, :, 3 * size : 4 * size].flatten(0, 1), contexts.flatten(0, 1))
        fed = contexts if attentional is None else attentional[:-1]
        grad_values = values_backward(attention, total_grad_contexts)
        return _Decoder(
            grad_inputs,
            grad_carry if grad_next is None else grad_carry + grad_next,
            Reading(grad_keys, grad_values, None, None if grad_v is None else grad_v.sum(dim=0)),
            *layer_gradients(grad_products, reading),
            weight_gradient(grad_gates.flatten(0, 1), fed.flatten(0, 1)),
            grad_fed if lag else None,
            combine,
            *first_layer,
            gates_bias,
            tuple(norm.gradients for norm in norms),
        )


def layer_gradients(grad_outputs: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of the weight and the bias of a linear layer (T, B, K) to (T, B, N)."""
    flat = grad_outputs.flatten(0, 1)
    return weight_gradient(flat, inputs.flatten(0, 1)), flat.sum(dim=0)
