"""The decoder of Bahdanau et al. 2015 under teacher forcing as one autograd node: GRU, additive scores, softmax.

Reference implementation: the decoder's own steps, `Decoder.run` in models/recurrent/decoders.py.

In the reference implementation, autograd saves the hidden layer of the scores of every step, (T, B, S, A) numbers, and
traverses about sixty small operations per step. Here the loops contain only what depends on the previous step; the
gradients of the weights and of the values take one product each, after the loop.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from seq2seq_attn.attention import Attention, Context, Softmax, Source
from seq2seq_attn.ops.dispatch import changed, first_derivative_only, unsupported
from seq2seq_attn.ops.fused_scorers import FusedAdditive, FusedConcat, read_backward, read_forward, values_backward
from seq2seq_attn.ops.gru import accumulation_dtype, step_backward, step_forward, why_not_sequence
from seq2seq_attn.ops.linear import add_product, product, weight_gradient


class AdditiveWeights(NamedTuple):
    """The parameters; gates in the order r, z, n."""

    query: Tensor  # (A, H): W of the scores v · tanh(W q + U k + b)
    v: Tensor  # (A,)
    context: Tensor  # (3H, V): from C_i to the gates
    recurrent: Tensor  # (3H, H): from H_{i-1} to the gates
    recurrent_bias: Tensor  # (3H,)


def why_not(decoder: nn.Module, cell: nn.Module, context: Context) -> str | None:
    """Why `additive_sequence` cannot replace the steps of a decoder with this cell and context; None if it can."""
    if (reason := unsupported(*decoder.parameters()) or changed(decoder) or why_not_sequence(cell)) is not None:
        return reason
    if (reason := why_not_softmax(context)) is not None:
        return reason
    scorer = type(cast(Attention, context).scorer)
    return None if scorer in (FusedAdditive, FusedConcat) else f"the scorer is {scorer.__name__}, not additive"


def why_not_softmax(context: Context) -> str | None:
    """Why a context is not softmax attention over the whole source, independent of earlier steps; None if it is."""
    if type(context) is not Attention:
        return f"the context is {type(context).__name__}"
    if (reason := changed(context, deep=False) or changed(context.normaliser)) is not None:
        return reason
    if type(context.normaliser) is not Softmax or context.normaliser.temperature != 1:
        return f"the normaliser is {type(context.normaliser).__name__}, not softmax of temperature 1"
    if context.window is not None:
        return f"attention has a window, {type(context.window).__name__}"
    if context.dropout and context.training:
        return "attention has dropout"
    return "attention depends on earlier steps" if context.needs_history else None


def additive_weights(cell: Any, context: Any, context_gates: Any) -> AdditiveWeights:
    """The weights for `additive_sequence`, where `why_not` is None; `context_gates` is the map from C to the gates."""
    scorer = context.scorer
    return AdditiveWeights(scorer.query_weight, scorer.v, context_gates.weight, *cell.recurrent.parameters())


def additive_sequence(
    inputs: Tensor, initial: Tensor, source: Source, weights: AdditiveWeights
) -> tuple[Tensor, Tensor, Tensor]:
    """States (T, B, H), contexts (T, B, V) and attention weights (T, B, S) of all T steps:

    a_i = softmax_j(v · tanh(W H_{i-1} + U h_j + b));  C_i = Σ_j a_ij value_j;
    H_i = gru_update(inputs_i + W_C C_i, W_H H_{i-1} + b_H, H_{i-1})   (Bahdanau et al. 2015, A.1.2 and A.2.2).

    inputs (T, B, 3H) are the gates' inputs from the embedded tokens, initial (B, H) is H_0. `source` is what
    `Attention` prepares for an additive scorer: U h_j + b (B, S, A), values (B, S, V) and the mask (B, 1, S). The
    dtype is that of `inputs`; scores and softmax have that of `source.prepared`.
    """
    results: tuple[Tensor, Tensor, Tensor] = _AdditiveSequence.apply(  # type: ignore[no-untyped-call]
        inputs, initial, source.prepared, source.values, source.is_token, *weights
    )
    return results


class _AdditiveSequence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        initial: Tensor,
        prepared: Tensor,
        values: Tensor,
        is_token: Tensor | None,
        query_weight: Tensor,
        v: Tensor,
        context_weight: Tensor,
        recurrent: Tensor,
        bias: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        dtype, (steps, sentences, _), size = inputs.dtype, inputs.shape, initial.shape[1]
        keys, values = prepared.contiguous(), values.to(dtype).contiguous()
        # One product with H per step gives both the gates and the query.
        state_weight = torch.cat((recurrent, query_weight)).to(dtype)
        state_bias = torch.cat((bias, bias.new_zeros(len(query_weight)))).to(dtype)
        w_context, w_scores = context_weight.to(dtype), v.to(keys.dtype)
        states = torch.cat((initial.to(dtype)[None], inputs.new_empty(steps, sentences, size)))  # H_0 .. H_T
        gates, candidates = (inputs.new_empty(steps, sentences, blocks * size) for blocks in (2, 1))
        contexts = inputs.new_empty(steps, sentences, values.shape[2])
        attention = inputs.new_empty(steps, sentences, values.shape[1])
        products = []
        with torch.autocast(inputs.device.type, enabled=False):
            for t in range(steps):
                products.append(product(states[t], state_weight, state_bias))
                read_forward(products[t][:, 3 * size :], keys, w_scores, is_token, values, attention[t], contexts[t])
                x = add_product(inputs[t], contexts[t], w_context)
                step_forward(x, products[t][:, : 3 * size], states[t], gates[t], candidates[t], states[t + 1])
        ctx.save_for_backward(
            states, gates, candidates, attention, contexts, keys, values,
            query_weight, v, context_weight, recurrent, *products,
        )  # fmt: skip
        return states[1:], contexts, attention

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        grad_states, grad_contexts, grad_attention = gradients
        states, gates, candidates, attention, contexts, keys, values, *rest = ctx.saved_tensors
        query_weight, v, context_weight, recurrent, *products = rest
        previous, dtype = states[:-1], states.dtype
        steps, sentences, size = previous.shape
        w_context, w_scores = context_weight.to(dtype).t(), v.to(keys.dtype)
        state_weight = torch.cat((recurrent, query_weight)).to(dtype).t()
        grad_inputs = previous.new_empty(steps, sentences, 3 * size)
        grad_products = previous.new_empty(steps, sentences, 3 * size + len(v))  # of the gates, then of the query
        total_grad_contexts = torch.empty_like(contexts)
        grad_keys, grad_v = torch.zeros_like(keys), keys.new_zeros(sentences, len(v))
        grad_carry = previous.new_zeros(sentences, size, dtype=accumulation_dtype(previous))

        def at_step(gradient: Tensor | None, t: int) -> Tensor | None:
            return None if gradient is None else gradient[t].to(dtype)

        grad_next = None
        for t in reversed(range(steps)):
            step_backward(
                at_step(grad_states, t), grad_next, grad_carry, products[t], previous[t], gates[t], candidates[t],
                grad_inputs[t], grad_products[t, :, : 3 * size],
            )  # fmt: skip
            grad_context, grad_weights = product(grad_inputs[t], w_context), at_step(grad_attention, t)
            total_grad_contexts[t] = grad_context if grad_contexts is None else grad_context.add_(grad_contexts[t])
            read_backward(
                products[t][:, 3 * size :], keys, w_scores, values, attention[t], total_grad_contexts[t],
                None if grad_weights is None else grad_weights.contiguous(),
                grad_products[t, :, 3 * size :], grad_keys, grad_v,
            )  # fmt: skip
            grad_next = product(grad_products[t], state_weight)
        grad_initial = grad_carry if grad_next is None else grad_carry + grad_next
        flat_products = grad_products.flatten(0, 1)
        grad_state_weight = weight_gradient(flat_products, previous.flatten(0, 1))
        grad_context_weight = weight_gradient(grad_inputs.flatten(0, 1), contexts.flatten(0, 1))
        return (
            grad_inputs,
            grad_initial,
            grad_keys,
            values_backward(attention, total_grad_contexts),
            None,
            grad_state_weight[3 * size :].to(query_weight.dtype),
            grad_v.sum(dim=0).to(v.dtype),
            grad_context_weight.to(context_weight.dtype),
            grad_state_weight[: 3 * size].to(recurrent.dtype),
            flat_products[:, : 3 * size].sum(dim=0).to(recurrent.dtype),
        )
