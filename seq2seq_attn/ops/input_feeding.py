"""The decoder of Luong with input feeding under teacher forcing as one autograd node.

The loops contain only what depends on the previous step, as in ops/decoder.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq_attn.attention import Source
from seq2seq_attn.ops.autograd import apply, first_derivative_only, gradients_of, save, saved, takes_record
from seq2seq_attn.ops.decoder import Reading, layer_gradients, reading_of
from seq2seq_attn.ops.gru import accumulation_dtype, step_backward, step_forward
from seq2seq_attn.ops.layer_norm import NOT_NORMALIZED, GateNorm, NormWeights
from seq2seq_attn.ops.linear import add_product, product, weight_gradient
from seq2seq_attn.ops.scorers import read_backward, read_forward, values_backward


class FeedingWeights(NamedTuple):
    """The parameters of a decoder of Luong with a GRU and input feeding; gates in the order r, z, n."""

    feed: Tensor  # (3H, H): from H~_{i-1} to the gates
    recurrent: Tensor  # (3H, H): from H_{i-1} to the gates
    recurrent_bias: Tensor  # (3H,)
    combine: Tensor  # (H, V + H): from [C_i; H_i] to H~_i
    combine_bias: Tensor  # (H,)
    query: Tensor | None  # W (A, H) of the scores v · tanh(W q + k); None: the scores are dot products q · k
    v: Tensor | None  # (A,)
    input_norm: NormWeights = NOT_NORMALIZED  # of the gates' inputs, with H~_{i-1}
    recurrent_norm: NormWeights = NOT_NORMALIZED  # of the product with H_{i-1}


class _Feeding(NamedTuple):
    """What `feeding_sequence` computes its results from, in their dtype; or the gradients of it."""

    inputs: Any  # None, as the next two and the bias, where the backward pass does not need it
    initial: Any
    initial_feed: Any
    reading: Reading
    state_weight: Tensor  # from H_i to the next step's gates, to H~_i and, for additive scores, to the query
    state_bias: Any
    feed_weight: Tensor
    context_weight: Tensor
    input_norm: NormWeights
    recurrent_norm: NormWeights


class _FeedingSteps(NamedTuple):
    """What the backward pass of `feeding_sequence` needs of the forward pass."""

    given: _Feeding
    states: Tensor  # H_0 .. H_T
    attentional: Tensor  # H~_0 .. H~_T
    gates: Tensor
    candidates: Tensor
    contexts: Tensor
    attention: Tensor
    products: list[Tensor]  # of each state, that of H_0 included
    normalized: list[list[Tensor]]  # by the two norms


def feeding_sequence(
    inputs: Tensor, initial: Tensor, initial_feed: Tensor, source: Source, weights: FeedingWeights
) -> tuple[Tensor, Tensor, Tensor]:
    """Attentional states H~ (T, B, H), contexts (T, B, V) and attention weights (T, B, S) of all T steps:

    H_i = gru_update(inputs_i + W_F H~_{i-1}, W_H H_{i-1} + b_H, H_{i-1});
    a_i = softmax_j(v · tanh(W H_i + k_j)) or softmax_j(H_i · k_j);  C_i = Σ_j a_ij value_j;
    H~_i = tanh(W_c [C_i; H_i] + b_c)   (Luong et al. 2015, eq. 5 and sec. 3.3). The first two arguments of an update
    are layer-normalized if `weights` has norms for them.

    inputs (T, B, 3H) are the gates' inputs from the embedded tokens, initial (B, H) is H_0, initial_feed (B, H) H~_0.
    `source` and dtypes are as in `decoder_sequence`.
    """
    dtype, reading = inputs.dtype, reading_of(source, inputs, weights.query, weights.v, initial)
    # One product with H_i gives its part of the next step's gates, of H~_i and, for additive scores, the query.
    from_context, from_state = weights.combine.tensor_split([reading.values.shape[2]], dim=1)
    of_state, biases = [weights.recurrent, from_state], [weights.recurrent_bias, weights.combine_bias]
    if weights.query is not None:
        of_state.append(weights.query)
        biases.append(weights.query.new_zeros(len(weights.query)))
    given = _Feeding(
        inputs, initial.to(dtype), initial_feed.to(dtype), reading, torch.cat(of_state).to(dtype),
        torch.cat(biases).to(dtype), weights.feed.to(dtype), from_context.contiguous().to(dtype),
        weights.input_norm, weights.recurrent_norm,
    )  # fmt: skip
    results: tuple[Tensor, Tensor, Tensor] = apply(_FeedingSequence, given)
    return results


class _FeedingSequence(torch.autograd.Function):
    @staticmethod
    @takes_record
    def forward(ctx: Any, given: _Feeding) -> tuple[Tensor, Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        inputs: Tensor = given.inputs
        initial, (keys, values, is_token, v) = given.initial, given.reading
        (steps, sentences, _), size = inputs.shape, initial.shape[1]

        def empty(width: int) -> Tensor:
            return inputs.new_empty(steps, sentences, width)

        states = torch.cat((initial[None], empty(size)))  # H_0 .. H_T
        attentional = torch.cat((given.initial_feed[None], empty(size)))  # H~_0 .. H~_T
        gates, candidates, contexts, attention = map(empty, (2 * size, size, values.shape[2], values.shape[1]))
        norms = input_norm, recurrent_norm = GateNorm(given.input_norm), GateNorm(given.recurrent_norm)
        with torch.autocast(inputs.device.type, enabled=False):
            products = [product(states[0], given.state_weight, given.state_bias)]  # of each state: gates, H~, query
            for t in range(steps):
                x = input_norm.forward(add_product(inputs[t], attentional[t], given.feed_weight))
                u = recurrent_norm.forward(products[t][:, : 3 * size])
                step_forward(x, u, states[t], gates[t], candidates[t], states[t + 1])
                products.append(product(states[t + 1], given.state_weight, given.state_bias))
                query = states[t + 1] if v is None else products[t + 1][:, 4 * size :]
                read_forward(query, keys, v, is_token, values, attention[t], contexts[t])
                combined = add_product(products[t + 1][:, 3 * size : 4 * size], contexts[t], given.context_weight)
                torch.tanh(combined, out=attentional[t + 1])
        needed = given._replace(inputs=None, initial=None, initial_feed=None, state_bias=None)
        normalized = [norm.saved for norm in norms]
        save(ctx, _FeedingSteps(
            needed, states, attentional, gates, candidates, contexts, attention, products, normalized
        ))  # fmt: skip
        return attentional[1:], contexts, attention

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        grad_attentional, grad_contexts, grad_attention = gradients
        given, states, attentional, gates, candidates, contexts, attention, products, normalized = saved(ctx)
        keys, values, _, v = given.reading
        steps, sentences, size = candidates.shape
        dtype = states.dtype
        norms = input_norm, recurrent_norm = (
            GateNorm(given.input_norm, normalized[0]), GateNorm(given.recurrent_norm, normalized[1]),
        )  # fmt: skip

        def at_step(gradient: Tensor | None, t: int) -> Tensor | None:
            return None if gradient is None else gradient[t].to(dtype)

        grad_inputs = states.new_empty(steps, sentences, 3 * size)
        grad_products = states.new_empty(steps + 1, sentences, len(given.state_weight))
        grad_products[0, :, 3 * size :] = 0  # no attentional state and no query is made of H_0,
        grad_products[steps, :, : 3 * size] = 0  # and no gate of H_T
        total_grad_contexts = torch.empty_like(contexts)
        grad_keys, grad_v = torch.zeros_like(keys), None if v is None else keys.new_zeros(sentences, len(v))
        grad_carry = states.new_zeros(sentences, size, dtype=accumulation_dtype(states))
        grad_feed = states.new_zeros(sentences, size)
        for t in reversed(range(steps)):
            if grad_attentional is not None:
                grad_feed += grad_attentional[t]
            grad_combined = grad_products[t + 1, :, 3 * size : 4 * size]
            grad_combined.copy_(torch.ops.aten.tanh_backward(grad_feed, attentional[t + 1]))
            grad_context, grad_weights = product(grad_combined, given.context_weight.t()), at_step(grad_attention, t)
            total_grad_contexts[t] = grad_context if grad_contexts is None else grad_context.add_(grad_contexts[t])
            if v is None:
                query, grad_query = states[t + 1], torch.empty_like(states[t + 1])
            else:
                query, grad_query = products[t + 1][:, 4 * size :], grad_products[t + 1, :, 4 * size :]
            read_backward(
                query, keys, v, values, attention[t], total_grad_contexts[t],
                None if grad_weights is None else grad_weights.contiguous(), grad_query, grad_keys, grad_v,
            )  # fmt: skip
            grad_state = product(grad_products[t + 1], given.state_weight.t())
            if v is None:
                grad_state += grad_query
            u = recurrent_norm.last(products[t][:, : 3 * size])
            step_backward(
                None, grad_state, grad_carry, u, states[t], gates[t], candidates[t],
                grad_inputs[t], grad_products[t, :, : 3 * size],
            )  # fmt: skip
            input_norm.backward_(grad_inputs[t])
            recurrent_norm.backward_(grad_products[t, :, : 3 * size])
            grad_feed = product(grad_inputs[t], given.feed_weight.t())
        grad_combined = grad_products[1:, :, 3 * size : 4 * size].flatten(0, 1)
        return gradients_of(ctx, _Feeding(
            grad_inputs,
            grad_carry + product(grad_products[0], given.state_weight.t()),
            grad_feed,
            Reading(
                grad_keys,
                values_backward(attention, total_grad_contexts),
                None,
                None if grad_v is None else grad_v.sum(dim=0),
            ),
            *layer_gradients(grad_products, states),
            weight_gradient(grad_inputs.flatten(0, 1), attentional[:-1].flatten(0, 1)),
            weight_gradient(grad_combined, contexts.flatten(0, 1)),
            *(norm.gradients for norm in norms),
        ))  # fmt: skip
