"""The decoder of Bahdanau et al. 2015 over a known target as one node of the graph: GRU, additive scores, softmax.

Step by step autograd keeps the hidden layer of the scores of every step, (T, B, S, A) numbers, and walks back through
some sixty small operations a step. Here only what hangs on the step before stands in the loops: the gradients of the
weights and of the values are one product each after them. The plain statement is `Decoder.run`, step after step, to
which tests hold this.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq_attn.attention import Source
from seq2seq_attn.ops.additive_step import read_backward, read_forward, values_backward
from seq2seq_attn.ops.gru import exact, step_backward, step_forward
from seq2seq_attn.ops.linear import plus_product, product, summed_product


class AdditiveWeights(NamedTuple):
    """All that is learnt; gates in the order r, z, n."""

    from_query: Tensor  # (A, H): W of v · tanh(W q + U k + b)
    v: Tensor  # (A,)
    from_context: Tensor  # (3H, V)
    recurrent: Tensor  # (3H, H)
    recurrent_bias: Tensor  # (3H,)


def additive_sequence(
    inputs: Tensor, initial: Tensor, source: Source, weights: AdditiveWeights
) -> tuple[Tensor, Tensor, Tensor]:
    """H (T, B, H), C (T, B, V) and the attention weights (T, B, S) of all T steps.

    inputs (T, B, 3H) is the tokens' share of the gates, initial (B, H) is H_0. The source is as `Attention` prepared it
    for a scorer with an additive form: U k + b (B, S, A), and values (B, S, V). All is computed in the precision of
    `inputs`, scores and softmax in that of `source.prepared`.
    """
    results: tuple[Tensor, Tensor, Tensor] = _AdditiveSequence.apply(  # type: ignore[no-untyped-call]
        inputs, initial, *source, *weights
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
        # One product a step for all that hangs on H: the gates' share of the state, and the query.
        from_state = torch.cat((recurrent, from_query)).to(dtype)
        state_bias = torch.cat((bias, bias.new_zeros(len(from_query)))).to(dtype)
        read, exact_v = from_context.to(dtype), v.to(keys.dtype)
        states = torch.cat((initial.to(dtype)[None], inputs.new_empty(steps, sentences, size)))  # H_0 .. H_T
        gates, candidates = (inputs.new_empty(steps, sentences, blocks * size) for blocks in (2, 1))
        contexts = inputs.new_empty(steps, sentences, values.shape[2])
        attention = inputs.new_empty(steps, sentences, values.shape[1])
        shares = []
        with torch.autocast(inputs.device.type, enabled=False):
            for t in range(steps):
                shares.append(product(states[t], from_state, state_bias))
                read_forward(shares[t][:, 3 * size :], keys, exact_v, is_token, values, attention[t], contexts[t])
                x = plus_product(inputs[t], contexts[t], read)
                step_forward(x, shares[t][:, : 3 * size], states[t], gates[t], candidates[t], states[t + 1])
        ctx.save_for_backward(
            states, gates, candidates, attention, contexts, keys, values,
            from_query, v, from_context, recurrent, *shares,
        )  # fmt: skip
        return states[1:], contexts, attention

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        of_states, of_contexts, of_attention = gradients
        states, gates, candidates, attention, contexts, keys, values, *rest = ctx.saved_tensors
        from_query, v, from_context, recurrent, *shares = rest
        before, dtype = states[:-1], states.dtype
        steps, sentences, size = before.shape
        read = from_context.to(dtype).t()
        from_state = torch.cat((recurrent, from_query)).to(dtype).t()
        exact_v = v.to(keys.dtype)
        of_inputs = before.new_empty(steps, sentences, 3 * size)
        of_shares = before.new_empty(steps, sentences, 3 * size + len(v))  # gates, and behind them the query
        to_contexts = torch.empty_like(contexts)
        of_keys, of_v = torch.zeros_like(keys), keys.new_zeros(sentences, len(v))
        carried = before.new_zeros(sentences, size, dtype=exact(before))

        def of_step(gradient: Tensor | None, t: int) -> Tensor | None:
            return None if gradient is None else gradient[t].to(dtype)

        later = None
        for t in reversed(range(steps)):
            step_backward(
                of_step(of_states, t), later, carried, shares[t], before[t], gates[t], candidates[t],
                of_inputs[t], of_shares[t, :, : 3 * size],
            )  # fmt: skip
            of_context, of_weights = product(of_inputs[t], read), of_step(of_attention, t)
            to_contexts[t] = of_context if of_contexts is None else of_context.add_(of_contexts[t])
            read_backward(
                shares[t][:, 3 * size :], keys, exact_v, values, attention[t], to_contexts[t],
                None if of_weights is None else of_weights.contiguous(), of_shares[t, :, 3 * size :], of_keys, of_v,
            )  # fmt: skip
            later = product(of_shares[t], from_state)
        of_initial = carried if later is None else carried + later
        flat_shares = of_shares.flatten(0, 1)
        of_state = summed_product(flat_shares, before.flatten(0, 1))
        of_read = summed_product(of_inputs.flatten(0, 1), contexts.flatten(0, 1))
        return (
            of_inputs,
            of_initial,
            of_keys,
            values_backward(attention, to_contexts),
            None,
            of_state[3 * size :].to(from_query.dtype),
            of_v.sum(dim=0).to(v.dtype),
            of_read.to(from_context.dtype),
            of_state[: 3 * size].to(recurrent.dtype),
            flat_shares[:, : 3 * size].sum(dim=0).to(recurrent.dtype),
        )
