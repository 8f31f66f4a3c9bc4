"""The decoder of Bahdanau et al. 2015 over a known target as one node of the graph: GRU, additive scores, softmax.

Step by step autograd keeps the hidden layer of the scores of every step, (T, B, S, A) numbers, and walks back through
some sixty small operations a step. Here that layer is computed again on the way back, all derivatives that the forward
pass fixes are taken for all steps at once, and the gradients of the weights and of the source are one product each
after the loop. The plain statement is `Decoder.run`, step after step, to which tests hold this.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq_attn.attention import Source
from seq2seq_attn.models.products import plus_product, product, summed_product
from seq2seq_attn.models.recurrent.kernels import derivatives


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
        dtype, (steps, sentences, _), size = inputs.dtype, inputs.shape, initial.shape[-1]
        values, state, doubled = values.to(dtype), initial.to(dtype), 2 * prepared
        # One product a step for all that hangs on H: the gates' share of the state, and the query.
        from_state = torch.cat((recurrent, from_query)).to(dtype)
        state_bias = torch.cat((bias, bias.new_zeros(len(from_query)))).to(dtype)
        read = from_context.to(dtype)
        empty = inputs.new_empty
        shares = empty(steps, sentences, len(from_state) - 2 * size)
        states, contexts = empty(steps, sentences, size), empty(steps, sentences, values.shape[-1])
        attention = empty(steps, sentences, 1, values.shape[1])
        gates, candidates, before = empty(steps, sentences, 2 * size), torch.empty_like(states), []
        exact, hidden = v.to(prepared.dtype), torch.empty_like(prepared)
        with torch.autocast(inputs.device.type, enabled=False):
            for t in range(steps):
                before.append(state)
                share = product(state, from_state, state_bias)
                shares[t] = share[:, 2 * size :]
                torch.add(doubled, 2 * share[:, None, 3 * size :], out=hidden).sigmoid_()
                scores = (torch.matmul(hidden, 2 * exact) - exact.sum())[:, None]
                scores = scores if is_token is None else torch.where(is_token, scores, -torch.inf)
                attention[t] = torch.softmax(scores, dim=-1)
                context = torch.bmm(attention[t], values).squeeze(1)
                contexts[t] = context
                x = plus_product(inputs[t], context, read)
                torch.add(x[:, : 2 * size], share[:, : 2 * size], out=gates[t]).sigmoid_()
                reset, update = gates[t].chunk(2, dim=-1)
                torch.addcmul(x[:, 2 * size :], reset, share[:, 2 * size : 3 * size], out=candidates[t]).tanh_()
                state = torch.lerp(candidates[t], state, update, out=states[t])
        ctx.save_for_backward(
            torch.stack(before), shares, gates, candidates, attention, contexts, doubled, values,
            from_query, v, from_context, recurrent,
        )  # fmt: skip
        return states, contexts, attention.squeeze(2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        of_states, of_contexts, of_attention = gradients
        before, shares, gates, n, attention, contexts, doubled, values, from_query, v, from_context, recurrent = (
            ctx.saved_tensors
        )
        dtype, (steps, sentences, size) = before.dtype, before.shape
        queries, update = shares[..., size:], gates[..., size:]
        of_n, of_r, of_z = derivatives(before, gates, n, shares[..., :size])
        # In the order n, r, z, u_n the first three belong to the inputs, the last three to the state, and behind them
        # stands what belongs to the query.
        factors = torch.stack((of_n, of_r, of_z, of_n * gates[..., :size]), dim=2)  # (T, B, 4, H)
        to_gates = before.new_empty(steps, sentences, 4 * size + len(v))
        to_contexts, to_scores = torch.empty_like(contexts), attention.new_empty(attention.shape, dtype=doubled.dtype)
        read = torch.cat((from_context[2 * size :], from_context[: 2 * size])).to(dtype).t()
        from_state = torch.cat((recurrent, from_query)).to(dtype).t()
        hidden, slopes = torch.empty_like(doubled), torch.zeros_like(doubled)
        exact = v.to(doubled.dtype)
        of_v = exact.new_zeros(1, len(v))
        carried = before.new_zeros(sentences, size)
        for t in reversed(range(steps)):
            if of_states is not None:
                carried = carried + of_states[t]
            torch.mul(carried[:, None], factors[t], out=to_gates[t, :, : 4 * size].view(sentences, 4, size))
            of_context = product(to_gates[t, :, : 3 * size], read)
            to_contexts[t] = of_context if of_contexts is None else of_context.add_(of_contexts[t])
            of_weights = torch.bmm(to_contexts[t, :, None], values.transpose(1, 2))
            if of_attention is not None:
                of_weights += of_attention[t, :, None]
            weighted = of_weights.mul_(attention[t]).to(doubled.dtype)
            of_scores = torch.addcmul(
                weighted, attention[t], weighted.sum(dim=-1, keepdim=True), value=-1, out=to_scores[t]
            )
            # e = 2 v · s - Σ v with s = σ(2 (W q + U k + b)), and s' = s (1 - s)
            torch.add(doubled, 2 * queries[t, :, None], out=hidden).sigmoid_()
            of_v += torch.mm(of_scores.view(1, -1), hidden.view(-1, len(v)))
            hidden.addcmul_(hidden, hidden, value=-1)
            slopes.addcmul_(of_scores.transpose(1, 2), hidden)
            torch.mul(torch.bmm(of_scores, hidden).squeeze(1), 4 * exact, out=to_gates[t, :, 4 * size :])
            carried = plus_product(carried * update[t], to_gates[t, :, size:], from_state)
        to_gates = to_gates.flatten(0, 1)
        of_state = summed_product(to_gates[:, size:], before.flatten(0, 1))
        of_read = summed_product(to_gates[:, : 3 * size], contexts.flatten(0, 1))
        return (
            torch.cat((to_gates[:, size : 3 * size], to_gates[:, :size]), dim=-1).view(steps, sentences, -1),
            carried,
            4 * exact * slopes,
            torch.bmm(attention.squeeze(2).permute(1, 2, 0), to_contexts.transpose(0, 1)),
            None,
            of_state[3 * size :].to(from_query.dtype),
            (2 * of_v.view(-1) - to_scores.sum()).to(v.dtype),
            torch.cat((of_read[size:], of_read[:size])).to(from_context.dtype),
            of_state[: 3 * size].to(recurrent.dtype),
            to_gates[:, size : 4 * size].sum(dim=0).to(recurrent.dtype),
        )
