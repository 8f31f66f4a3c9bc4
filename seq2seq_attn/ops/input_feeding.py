"""The decoder of Luong with input feeding under teacher forcing as one autograd node.

Reference implementation: the decoder's own steps, `LuongDecoder.advance` in models/recurrent/luong.py. The loops
contain only what depends on the previous step, as in ops/decoder.py; when it applies is said there too (`why_not`).
"""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq_attn.attention import Source
from seq2seq_attn.ops.decoder import for_kernels, layer_gradients
from seq2seq_attn.ops.dispatch import first_derivative_only
from seq2seq_attn.ops.fused_scorers import read_backward, read_forward, values_backward
from seq2seq_attn.ops.gru import accumulation_dtype, step_backward, step_forward
from seq2seq_attn.ops.layer_norm import NOT_NORMALIZED, NormWeights, as_arguments, gate_norms
from seq2seq_attn.ops.linear import add_product, product, weight_gradient


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
    dtype, source = inputs.dtype, for_kernels(source, inputs, weights.query, initial)
    # One product with H_i gives its part of the next step's gates, of H~_i and, for additive scores, the query.
    from_context, from_state = weights.combine.tensor_split([source.values.shape[2]], dim=1)
    of_state, biases = [weights.recurrent, from_state], [weights.recurrent_bias, weights.combine_bias]
    if weights.query is not None:
        of_state.append(weights.query)
        biases.append(weights.query.new_zeros(len(weights.query)))
    parameters = torch.cat(of_state), torch.cat(biases), weights.feed, from_context.contiguous()
    results: tuple[Tensor, Tensor, Tensor] = _FeedingSequence.apply(  # type: ignore[no-untyped-call]
        *(inputs, initial.to(dtype), initial_feed.to(dtype), source.prepared, source.values, source.is_token),
        None if weights.v is None else weights.v.to(source.prepared.dtype),
        *(each.to(dtype) for each in parameters),
        *as_arguments(weights.input_norm, weights.recurrent_norm),
    )
    return results


class _FeedingSequence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        initial: Tensor,
        initial_feed: Tensor,
        keys: Tensor,
        values: Tensor,
        is_token: Tensor | None,
        v: Tensor | None,
        state_weight: Tensor,
        state_bias: Tensor,
        feed_weight: Tensor,
        context_weight: Tensor,
        eps: tuple[float, ...],
        *norm_parameters: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        (steps, sentences, _), size = inputs.shape, initial.shape[1]

        def empty(width: int) -> Tensor:
            return inputs.new_empty(steps, sentences, width)

        states = torch.cat((initial[None], empty(size)))  # H_0 .. H_T
        attentional = torch.cat((initial_feed[None], empty(size)))  # H~_0 .. H~_T
        gates, candidates, contexts, attention = map(empty, (2 * size, size, values.shape[2], values.shape[1]))
        norms = input_norm, recurrent_norm = gate_norms(eps, norm_parameters)
        with torch.autocast(inputs.device.type, enabled=False):
            products = [product(states[0], state_weight, state_bias)]  # of each state: gates, H~, query
            for t in range(steps):
                x = input_norm.forward(add_product(inputs[t], attentional[t], feed_weight))
                u = recurrent_norm.forward(products[t][:, : 3 * size])
                step_forward(x, u, states[t], gates[t], candidates[t], states[t + 1])
                products.append(product(states[t + 1], state_weight, state_bias))
                query = states[t + 1] if v is None else products[t + 1][:, 4 * size :]
                read_forward(query, keys, v, is_token, values, attention[t], contexts[t])
                combined = add_product(products[t + 1][:, 3 * size : 4 * size], contexts[t], context_weight)
                torch.tanh(combined, out=attentional[t + 1])
        ctx.eps = eps
        ctx.save_for_backward(
            states, attentional, gates, candidates, attention, contexts, keys, values, v, state_weight, feed_weight,
            context_weight, *norm_parameters, *products, *chain.from_iterable(norm.saved for norm in norms),
        )  # fmt: skip
        return attentional[1:], contexts, attention

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        grad_attentional, grad_contexts, grad_attention = gradients
        states, attentional, gates, candidates, attention, contexts, keys, values, v, *rest = ctx.saved_tensors
        state_weight, feed_weight, context_weight, *rest = rest
        norm_parameters, rest = rest[: 2 * len(ctx.eps)], rest[2 * len(ctx.eps) :]
        steps, sentences, size = candidates.shape
        dtype = states.dtype
        products, saved = rest[: steps + 1], iter(rest[steps + 1 :])
        norms = input_norm, recurrent_norm = gate_norms(ctx.eps, norm_parameters, saved, steps)

        def at_step(gradient: Tensor | None, t: int) -> Tensor | None:
            return None if gradient is None else gradient[t].to(dtype)

        grad_inputs = states.new_empty(steps, sentences, 3 * size)
        grad_products = states.new_empty(steps + 1, sentences, len(state_weight))
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
            grad_context, grad_weights = product(grad_combined, context_weight.t()), at_step(grad_attention, t)
            total_grad_contexts[t] = grad_context if grad_contexts is None else grad_context.add_(grad_contexts[t])
            if v is None:
                query, grad_query = states[t + 1], torch.empty_like(states[t + 1])
            else:
                query, grad_query = products[t + 1][:, 4 * size :], grad_products[t + 1, :, 4 * size :]
            read_backward(
                query, keys, v, values, attention[t], total_grad_contexts[t],
                None if grad_weights is None else grad_weights.contiguous(), grad_query, grad_keys, grad_v,
            )  # fmt: skip
            grad_state = product(grad_products[t + 1], state_weight.t())
            if v is None:
                grad_state += grad_query
            u = recurrent_norm.last(products[t][:, : 3 * size])
            step_backward(
                None, grad_state, grad_carry, u, states[t], gates[t], candidates[t],
                grad_inputs[t], grad_products[t, :, : 3 * size],
            )  # fmt: skip
            input_norm.backward_(grad_inputs[t])
            recurrent_norm.backward_(grad_products[t, :, : 3 * size])
            grad_feed = product(grad_inputs[t], feed_weight.t())
        grad_combined = grad_products[1:, :, 3 * size : 4 * size].flatten(0, 1)
        return (
            grad_inputs,
            grad_carry + product(grad_products[0], state_weight.t()),
            grad_feed,
            grad_keys,
            values_backward(attention, total_grad_contexts),
            None,
            None if grad_v is None else grad_v.sum(dim=0),
            *layer_gradients(grad_products, states),
            weight_gradient(grad_inputs.flatten(0, 1), attentional[:-1].flatten(0, 1)),
            weight_gradient(grad_combined, contexts.flatten(0, 1)),
            None,
            *chain.from_iterable(norm.gradients for norm in norms),
        )
