"""A recurrent decoder under teacher forcing as one autograd node: GRU cells with attention between them.

In the loop over steps of models/recurrent/decoders.py, autograd saves the hidden layer of additive scores of every
step, (T, B, S, A) numbers, and traverses about sixty small operations per step. Here the loops contain only what
depends on the previous step; the gradients of the weights and of the values take one product each, after the loop. The
decoders that are computed by it are in ops/decoders.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2seq_attn.attention import Source
from seq2seq_attn.ops.autograd import apply, first_derivative_only, gradients_of, save, saved, takes_record
from seq2seq_attn.ops.gru import accumulation_dtype, step_backward, step_forward
from seq2seq_attn.ops.layer_norm import NOT_NORMALIZED, GateNorm, NormWeights
from seq2seq_attn.ops.linear import add_product, product, weight_gradient
from seq2seq_attn.ops.scorers import read_backward, read_forward, values_backward


class DecoderWeights(NamedTuple):
    """The parameters of a decoder with one cell, or with two and the reading between them; gates in the order r, z, n.

    The cell after the reading has all but the three named `first` and `gates_bias`, which a conditional GRU has in
    addition. Its first cell's inputs are normalized by the caller, as they are known for all steps.
    """

    context: Tensor  # (3H, V): from C_i to the gates
    recurrent: Tensor  # (3H, H): from the state that reads to the gates
    recurrent_bias: Tensor  # (3H,)
    query: Tensor | None  # W (A, H) of the scores v · tanh(W q + k); None: the scores are dot products q · k
    v: Tensor | None  # (A,)
    first: Tensor | None = None  # (3H, H): from H_{i-1} to the gates of the cell before the reading, if there is one
    first_bias: Tensor | None = None  # (3H,)
    gates_bias: Tensor | None = None  # (3H,): replaces the inputs from tokens, which are those of the first cell
    input_norm: NormWeights = NOT_NORMALIZED  # of the gates' inputs, with the context
    recurrent_norm: NormWeights = NOT_NORMALIZED  # of the product with the state that reads
    first_norm: NormWeights = NOT_NORMALIZED  # of the product with H_{i-1}


class Reading(NamedTuple):
    """What a decoder reads at every step, or the gradients of it."""

    keys: Tensor  # (B, S, A), in the dtype of the scores
    values: Tensor  # (B, S, V)
    is_token: Tensor | None  # (B, 1, S)
    v: Tensor | None  # (A,): of additive scores; None for dot products


class _Decoder(NamedTuple):
    """What `decoder_sequence` computes its results from, in their dtype; or the gradients of it."""

    inputs: Any  # None, as the biases, where the backward pass does not need it
    initial: Any
    reading: Reading
    state_weight: Tensor  # from the state that reads to the gates and, for additive scores, the query
    state_bias: Any
    context_weight: Tensor
    first_weight: Any  # of the cell before the reading; None if there is none
    first_bias: Any
    gates_bias: Any
    input_norm: NormWeights
    recurrent_norm: NormWeights
    first_norm: NormWeights


class _Cell(NamedTuple):
    """What the backward pass needs of all steps of a cell."""

    gates: Tensor  # r and z
    candidates: Tensor
    products: list[Tensor]  # with the state, of each step


class _DecoderSteps(NamedTuple):
    """What the backward pass of `decoder_sequence` needs of the forward pass."""

    given: _Decoder
    states: Tensor  # H_0 .. H_T
    between: Tensor | None  # H'_1 .. H'_T, between two cells
    contexts: Tensor
    attention: Tensor
    cell: _Cell
    first: _Cell | None  # the cell before the reading, if there is one
    normalized: list[list[Tensor]]  # by the three norms


def decoder_sequence(
    inputs: Tensor, initial: Tensor, source: Source, weights: DecoderWeights
) -> tuple[Tensor, Tensor, Tensor]:
    """States (T, B, H), contexts (T, B, V) and attention weights (T, B, S) of all T steps:

    a_i = softmax_j(v · tanh(W H_{i-1} + k_j)) or softmax_j(H_{i-1} · k_j);  C_i = Σ_j a_ij value_j;
    H_i = gru_update(inputs_i + W_C C_i, W_H H_{i-1} + b_H, H_{i-1})   (Bahdanau et al. 2015, A.1.2 and A.2.2).

    With a first cell, H'_i = gru_update(inputs_i, W_1 H_{i-1} + b_1, H_{i-1}) replaces H_{i-1} in these equations, and
    a bias replaces inputs_i: the conditional GRU (Sennrich et al. 2017, sec. 2). The first two arguments of an update
    are layer-normalized if `weights` has norms for them.

    inputs (T, B, 3H) are the gates' inputs from the embedded tokens, initial (B, H) is H_0. `source` is what
    `Attention` prepares for the scorer: k (B, S, A), with A = H for dot products, values (B, S, V) and the mask
    (B, 1, S). The dtype is that of `inputs`; scores and softmax are computed in fp32 at least.
    """
    dtype, reading = inputs.dtype, reading_of(source, inputs, weights.query, weights.v, initial)
    # One product with the state that reads gives the gates and, for additive scores, the query.
    state_weight, state_bias = weights.recurrent, weights.recurrent_bias
    if weights.query is not None:
        state_weight = torch.cat((state_weight, weights.query))
        state_bias = F.pad(state_bias, (0, len(weights.query)))
    of_first_cell = [weights.first, weights.first_bias, weights.gates_bias]
    first_weight, first_bias, gates_bias = (None if each is None else each.to(dtype) for each in of_first_cell)
    given = _Decoder(
        inputs, initial.to(dtype), reading, state_weight.to(dtype), state_bias.to(dtype), weights.context.to(dtype),
        first_weight, first_bias, gates_bias, weights.input_norm, weights.recurrent_norm, weights.first_norm,
    )  # fmt: skip
    results: tuple[Tensor, Tensor, Tensor] = apply(_DecoderSequence, given)
    return results


def reading_of(source: Source, inputs: Tensor, query: Tensor | None, v: Tensor | None, state: Tensor) -> Reading:
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


class _DecoderSequence(torch.autograd.Function):
    @staticmethod
    @takes_record
    def forward(ctx: Any, given: _Decoder) -> tuple[Tensor, Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        inputs: Tensor = given.inputs
        initial, (keys, values, is_token, v) = given.initial, given.reading
        (steps, sentences, _), size = inputs.shape, initial.shape[1]

        def empty(width: int) -> Tensor:
            return inputs.new_empty(steps, sentences, width)

        states = torch.cat((initial[None], empty(size)))  # H_0 .. H_T
        contexts, attention = empty(values.shape[2]), empty(values.shape[1])
        cell, first, between = _Cell(empty(2 * size), empty(size), []), None, None
        if given.first_weight is not None:
            first, between = _Cell(empty(2 * size), empty(size), []), empty(size)
        reading = states if between is None else between  # the states that read the source
        norms = [GateNorm(norm) for norm in (given.input_norm, given.recurrent_norm, given.first_norm)]
        input_norm, recurrent_norm, first_norm = norms
        with torch.autocast(inputs.device.type, enabled=False):
            for t in range(steps):
                if first is not None:
                    first.products.append(product(states[t], given.first_weight, given.first_bias))
                    u = first_norm.forward(first.products[t])
                    step_forward(inputs[t], u, states[t], first.gates[t], first.candidates[t], reading[t])
                products = product(reading[t], given.state_weight, given.state_bias)
                cell.products.append(products)
                query = reading[t] if v is None else products[:, 3 * size :]
                read_forward(query, keys, v, is_token, values, attention[t], contexts[t])
                if first is None:
                    x = add_product(inputs[t], contexts[t], given.context_weight)
                else:
                    x = product(contexts[t], given.context_weight, given.gates_bias)
                x, u = input_norm.forward(x), recurrent_norm.forward(products[:, : 3 * size])
                step_forward(x, u, reading[t], cell.gates[t], cell.candidates[t], states[t + 1])
        needed = given._replace(inputs=None, initial=None, state_bias=None, first_bias=None, gates_bias=None)
        normalized = [norm.saved for norm in norms]
        save(ctx, _DecoderSteps(needed, states, between, contexts, attention, cell, first, normalized))
        return states[1:], contexts, attention

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        grad_states, grad_contexts, grad_attention = gradients
        given, states, between, contexts, attention, cell, first, normalized = saved(ctx)
        keys, values, _, v = given.reading
        previous: Tensor = states[:-1]
        steps, sentences, size = previous.shape
        reading = previous if between is None else between
        parameters = given.input_norm, given.recurrent_norm, given.first_norm
        norms = [GateNorm(*each) for each in zip(parameters, normalized, strict=True)]
        input_norm, recurrent_norm, first_norm = norms

        def empty(width: int) -> Tensor:
            return previous.new_empty(steps, sentences, width)

        def at_step(gradient: Tensor | None, t: int) -> Tensor | None:
            return None if gradient is None else gradient[t].to(states.dtype)

        grad_gates, grad_products = empty(3 * size), empty(len(given.state_weight))
        grad_inputs, grad_first_products = grad_gates, grad_products
        if first is not None:
            grad_inputs, grad_first_products = empty(3 * size), empty(3 * size)
        total_grad_contexts = torch.empty_like(contexts)
        grad_keys, grad_v = torch.zeros_like(keys), None if v is None else keys.new_zeros(sentences, len(v))
        grad_carry = previous.new_zeros(sentences, size, dtype=accumulation_dtype(previous))
        grad_next = None
        for t in reversed(range(steps)):
            u = recurrent_norm.last(cell.products[t][:, : 3 * size])
            step_backward(
                at_step(grad_states, t), grad_next, grad_carry, u, reading[t], cell.gates[t], cell.candidates[t],
                grad_gates[t], grad_products[t, :, : 3 * size],
            )  # fmt: skip
            input_norm.backward_(grad_gates[t])
            recurrent_norm.backward_(grad_products[t, :, : 3 * size])
            grad_context, grad_weights = product(grad_gates[t], given.context_weight.t()), at_step(grad_attention, t)
            total_grad_contexts[t] = grad_context if grad_contexts is None else grad_context.add_(grad_contexts[t])
            if v is None:
                query, grad_query = reading[t], torch.empty_like(reading[t])
            else:
                query, grad_query = cell.products[t][:, 3 * size :], grad_products[t, :, 3 * size :]
            read_backward(
                query, keys, v, values, attention[t], total_grad_contexts[t],
                None if grad_weights is None else grad_weights.contiguous(), grad_query, grad_keys, grad_v,
            )  # fmt: skip
            grad_next = product(grad_products[t], given.state_weight.t())
            if v is None:
                grad_next += grad_query
            if first is not None:
                step_backward(
                    None, grad_next, grad_carry, first_norm.last(first.products[t]), previous[t], first.gates[t],
                    first.candidates[t], grad_inputs[t], grad_first_products[t],
                )  # fmt: skip
                first_norm.backward_(grad_first_products[t])
                grad_next = product(grad_first_products[t], given.first_weight.t())
        state_weight, state_bias = layer_gradients(grad_products, reading)
        first_weight, first_bias, gates_bias = None, None, None
        if first is not None:
            first_weight, first_bias = layer_gradients(grad_first_products, previous)
            gates_bias = grad_gates.flatten(0, 1).sum(dim=0)
        grad_values = values_backward(attention, total_grad_contexts)
        return gradients_of(ctx, _Decoder(
            grad_inputs,
            grad_carry if grad_next is None else grad_carry + grad_next,
            Reading(grad_keys, grad_values, None, None if grad_v is None else grad_v.sum(dim=0)),
            state_weight,
            state_bias,
            weight_gradient(grad_gates.flatten(0, 1), contexts.flatten(0, 1)),
            first_weight,
            first_bias,
            gates_bias,
            *(norm.gradients for norm in norms),
        ))  # fmt: skip


def layer_gradients(grad_outputs: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of the weight and the bias of a linear layer (T, B, K) to (T, B, N)."""
    flat = grad_outputs.flatten(0, 1)
    return weight_gradient(flat, inputs.flatten(0, 1)), flat.sum(dim=0)
