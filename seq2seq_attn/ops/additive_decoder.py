"""The decoder of Bahdanau et al. 2015 over a known target as one autograd node: GRU, additive scores, softmax.

Reference implementation: the decoder's own steps, `Decoder.run` in models/recurrent.

Step by step, autograd keeps the hidden layer of the scores of every step, (T, B, S, A) numbers, and traverses some
sixty small operations per step. Here the loops contain only what depends on the previous step: the gradients of the
weights and of the values are one product each after them.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from seq2seq_attn.attention import Attention, Context, Softmax, Source
from seq2seq_attn.ops.dispatch import changed, first_derivative_only, unserved
from seq2seq_attn.ops.fused_scorers import FusedAdditive, FusedConcat, read_backward, read_forward, values_backward
from seq2seq_attn.ops.gru import accumulation_dtype, step_backward, step_forward, why_not_sequence
from seq2seq_attn.ops.linear import plus_product, product, summed_product


class AdditiveWeights(NamedTuple):
    """All that is learnt; gates in the order r, z, n."""

    query: Tensor  # (A, H): W of v · tanh(W q + U k + b)
    v: Tensor  # (A,)
    context: Tensor  # (3H, V)
    recurrent: Tensor  # (3H, H)
    recurrent_bias: Tensor  # (3H,)


def why_not(decoder: nn.Module, cell: nn.Module, context: Context) -> str | None:
    """Why `additive_sequence` cannot take the steps of a decoder with this cell and context; None if it can."""
    if (reason := unserved(*decoder.parameters()) or changed(decoder) or why_not_sequence(cell)) is not None:
        return reason
    if (reason := why_not_softmax(context)) is not None:
        return reason
    scorer = type(cast(Attention, context).scorer)
    return None if scorer in (FusedAdditive, FusedConcat) else f"the scorer is {scorer.__name__}, not additive"


def why_not_softmax(context: Context) -> str | None:
    """Why reading a context is not the softmax of scores over all of the source, independent of earlier steps."""
    if type(context) is not Attention:
        return f"the context is {type(context).__name__}"
    if (reason := changed(context, deep=False) or changed(context.normaliser)) is not None:
        return reason
    if type(context.normaliser) is not Softmax or context.normaliser.temperature != 1:
        return f"the normaliser is {type(context.normaliser).__name__}, not softmax of temperature 1"
    if context.window is not None:
        return f"there is a window, {type(context.window).__name__}"
    if context.dropout and context.training:
        return "weights are dropped"
    return "attention depends on earlier steps" if context.needs_history else None


def additive_weights(cell: Any, context: Any, context_gates: Any) -> AdditiveWeights:
    """What `additive_sequence` takes of parts of which `why_not` said None; `context_gates` maps C to the gates."""
    scorer = context.scorer
    return AdditiveWeights(scorer.query_weight, scorer.v, context_gates.weight, *cell.recurrent.parameters())


def additive_sequence(
    inputs: Tensor, initial: Tensor, source: Source, weights: AdditiveWeights
) -> tuple[Tensor, Tensor, Tensor]:
    """H (T, B, H), C (T, B, V) and the attention weights (T, B, S) of all T steps.

    inputs (T, B, 3H) are the tokens' inputs to the gates, initial (B, H) is H_0. The source is as `Attention` prepared
    it for an additive scorer: U k + b (B, S, A), and values (B, S, V). All is computed in the precision of `inputs`,
    scores and softmax in that of `source.prepared`.
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
        from_query: Tensor,
        v: Tensor,
        from_context: Tensor,
        recurrent: Tensor,
        bias: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        dtype, (steps, sentences, _), size = inputs.dtype, inputs.shape, initial.shape[1]
        keys, values = prepared.contiguous(), values.to(dtype).contiguous()
        # One product per step with H: for the gates and for the query.
        from_state = torch.cat((recurrent, from_query)).to(dtype)
        state_bias = torch.cat((bias, bias.new_zeros(len(from_query)))).to(dtype)
        read, exact_v = from_context.to(dtype), v.to(keys.dtype)
        states = torch.cat((initial.to(dtype)[None], inputs.new_empty(steps, sentences, size)))  # H_0 .. H_T
        gates, candidates = (inputs.new_empty(steps, sentences, blocks * size) for blocks in (2, 1))
        contexts = inputs.new_empty(steps, sentences, values.shape[2])
        attention = inputs.new_empty(steps, sentences, values.shape[1])
        products = []
        with torch.autocast(inputs.device.type, enabled=False):
            for t in range(steps):
                products.append(product(states[t], from_state, state_bias))
                read_forward(products[t][:, 3 * size :], keys, exact_v, is_token, values, attention[t], contexts[t])
                x = plus_product(inputs[t], contexts[t], read)
                step_forward(x, products[t][:, : 3 * size], states[t], gates[t], candidates[t], states[t + 1])
        ctx.save_for_backward(
            states, gates, candidates, attention, contexts, keys, values,
            from_query, v, from_context, recurrent, *products,
        )  # fmt: skip
        return states[1:], contexts, attention

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        grad_states, grad_contexts, grad_attention = gradients
        states, gates, candidates, attention, contexts, keys, values, *rest = ctx.saved_tensors
        from_query, v, from_context, recurrent, *products = rest
        before, dtype = states[:-1], states.dtype
        steps, sentences, size = before.shape
        read = from_context.to(dtype).t()
        from_state = torch.cat((recurrent, from_query)).to(dtype).t()
        exact_v = v.to(keys.dtype)
        grad_inputs = before.new_empty(steps, sentences, 3 * size)
        grad_products = before.new_empty(steps, sentences, 3 * size + len(v))  # gates, and behind them the query
        total_grad_contexts = torch.empty_like(contexts)
        grad_keys, grad_v = torch.zeros_like(keys), keys.new_zeros(sentences, len(v))
        carried = before.new_zeros(sentences, size, dtype=accumulation_dtype(before))

        def at_step(gradient: Tensor | None, t: int) -> Tensor | None:
            return None if gradient is None else gradient[t].to(dtype)

        later = None
        for t in reversed(range(steps)):
            step_backward(
                at_step(grad_states, t), later, carried, products[t], before[t], gates[t], candidates[t],
                grad_inputs[t], grad_products[t, :, : 3 * size],
            )  # fmt: skip
            grad_context, grad_weights = product(grad_inputs[t], read), at_step(grad_attention, t)
            total_grad_contexts[t] = grad_context if grad_contexts is None else grad_context.add_(grad_contexts[t])
            read_backward(
                products[t][:, 3 * size :], keys, exact_v, values, attention[t], total_grad_contexts[t],
                None if grad_weights is None else grad_weights.contiguous(),
                grad_products[t, :, 3 * size :], grad_keys, grad_v,
            )  # fmt: skip
            later = product(grad_products[t], from_state)
        grad_initial = carried if later is None else carried + later
        flat_products = grad_products.flatten(0, 1)
        grad_from_state = summed_product(flat_products, before.flatten(0, 1))
        grad_from_context = summed_product(grad_inputs.flatten(0, 1), contexts.flatten(0, 1))
        return (
            grad_inputs,
            grad_initial,
            grad_keys,
            values_backward(attention, total_grad_contexts),
            None,
            grad_from_state[3 * size :].to(from_query.dtype),
            grad_v.sum(dim=0).to(v.dtype),
            grad_from_context.to(from_context.dtype),
            grad_from_state[: 3 * size].to(recurrent.dtype),
            flat_products[:, : 3 * size].sum(dim=0).to(recurrent.dtype),
        )
