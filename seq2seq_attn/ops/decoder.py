"""A recurrent decoder under teacher forcing as one autograd node: GRU cells with attention between them.

Reference implementation: the decoder's own steps, `Decoder.run` in models/recurrent/decoders.py.

In the reference implementation, autograd saves the hidden layer of additive scores of every step, (T, B, S, A) numbers,
and traverses about sixty small operations per step. Here the loops contain only what depends on the previous step; the
gradients of the weights and of the values take one product each, after the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq_attn.attention import (
    Attention,
    Context,
    Dot,
    General,
    NormalizedAdditive,
    ScaledDot,
    Scorer,
    Softmax,
    Source,
)
from seq2seq_attn.ops.dispatch import changed, first_derivative_only, unsupported
from seq2seq_attn.ops.fused_scorers import FusedAdditive, FusedConcat, read_backward, read_forward, values_backward
from seq2seq_attn.ops.gru import accumulation_dtype, step_backward, step_forward, why_not_sequence
from seq2seq_attn.ops.int8 import Int8Linear
from seq2seq_attn.ops.layer_norm import NOT_NORMALIZED, NormWeights, as_arguments, gate_norms
from seq2seq_attn.ops.linear import add_product, product, weight_gradient


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


def why_not(decoder: nn.Module, cells: Sequence[nn.Module], context: Context) -> str | None:
    """Why `decoder_sequence` cannot replace the steps of a decoder with these cells; None if it can."""
    if (reason := unsupported(*decoder.parameters()) or changed(decoder)) is not None:
        return reason
    if any(isinstance(part, Int8Linear) for part in decoder.modules()):
        return "the products of its steps are in int8"
    if (reason := next(filter(None, map(why_not_sequence, cells)), None) or why_not_softmax(context)) is not None:
        return reason
    return why_not_scorer(cast(Attention, context).scorer)


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
    if context.dropout and context.training:
        return "attention has dropout"
    return "attention depends on earlier steps" if context.needs_history else None


def why_not_scorer(scorer: Scorer) -> str | None:
    """Why the scores are neither dot products with what the scorer prepares nor additive; None if they are."""
    inner = scorer.additive if isinstance(scorer, NormalizedAdditive) else scorer
    if type(inner) in (FusedAdditive, FusedConcat, Dot, ScaledDot, General):
        return None
    return f"the scorer is {type(scorer).__name__}, neither additive nor a dot product"


def scoring(scorer: Any) -> tuple[Tensor | None, Tensor | None]:
    """W and v of additive scores, None for dot products, where `why_not_scorer` is None.

    Without the offset of `NormalizedAdditive`, to which softmax is invariant.
    """
    if isinstance(scorer, NormalizedAdditive):
        inner: Any = scorer.additive
        return inner.query_weight, inner.v * (scorer.gain / torch.linalg.vector_norm(inner.v))
    return (scorer.query_weight, scorer.v) if isinstance(scorer, (FusedAdditive, FusedConcat)) else (None, None)


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
    dtype, source = inputs.dtype, for_kernels(source, inputs, weights.query, initial)
    # One product with the state that reads gives the gates and, for additive scores, the query.
    state_weight, state_bias = weights.recurrent, weights.recurrent_bias
    if weights.query is not None:
        state_weight = torch.cat((state_weight, weights.query))
        state_bias = F.pad(state_bias, (0, len(weights.query)))
    of_first_cell = weights.first, weights.first_bias, weights.gates_bias
    parameters = state_weight, state_bias, weights.context, *of_first_cell
    results: tuple[Tensor, Tensor, Tensor] = _DecoderSequence.apply(  # type: ignore[no-untyped-call]
        *(inputs, initial.to(dtype), source.prepared, source.values, source.is_token),
        None if weights.v is None else weights.v.to(source.prepared.dtype),
        *(None if each is None else each.to(dtype) for each in parameters),
        *as_arguments(weights.input_norm, weights.recurrent_norm, weights.first_norm),
    )
    return results


def for_kernels(source: Source, inputs: Tensor, query: Tensor | None, state: Tensor) -> Source:
    """The source with values of the dtype of `inputs`, keys of that of the scores, and every row in one piece.

    ValueError: it is not that of these sentences, or was prepared by another scorer; kernels would read other memory.
    """
    expected = inputs.shape[1], state.shape[1] if query is None else query.shape[0]
    given = source.sentences, source.prepared.shape[2]
    if given != expected:
        raise ValueError(f"the decoder needs prepared keys (sentences, size) = {expected}, got {given}")
    keys, is_token = source.prepared.to(accumulation_dtype(source.prepared)), source.is_token
    values = source.values.to(inputs.dtype).contiguous()
    return Source(keys.contiguous(), values, None if is_token is None else is_token.contiguous())


class _DecoderSequence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        initial: Tensor,
        keys: Tensor,
        values: Tensor,
        is_token: Tensor | None,
        v: Tensor | None,
        state_weight: Tensor,
        state_bias: Tensor,
        context_weight: Tensor,
        first_weight: Tensor | None,
        first_bias: Tensor | None,
        gates_bias: Tensor | None,
        eps: tuple[float, ...],
        *norm_parameters: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        (steps, sentences, _), size = inputs.shape, initial.shape[1]

        def empty(width: int) -> Tensor:
            return inputs.new_empty(steps, sentences, width)

        states = torch.cat((initial[None], empty(size)))  # H_0 .. H_T
        gates, candidates, contexts, attention = map(empty, (2 * size, size, values.shape[2], values.shape[1]))
        of_first = () if first_weight is None else (empty(2 * size), empty(size), empty(size))  # r and z, n, H'
        reading = of_first[2] if of_first else states  # the states that read the source
        products, first_products = [], []
        norms = input_norm, recurrent_norm, first_norm = gate_norms(eps, norm_parameters)
        with torch.autocast(inputs.device.type, enabled=False):
            for t in range(steps):
                if first_weight is not None:
                    first_products.append(product(states[t], first_weight, first_bias))
                    u = first_norm.forward(first_products[t])
                    step_forward(inputs[t], u, states[t], *(part[t] for part in of_first))
                products.append(product(reading[t], state_weight, state_bias))
                query = reading[t] if v is None else products[t][:, 3 * size :]
                read_forward(query, keys, v, is_token, values, attention[t], contexts[t])
                if first_weight is None:
                    x = add_product(inputs[t], contexts[t], context_weight)
                else:
                    x = product(contexts[t], context_weight, gates_bias)
                x, u = input_norm.forward(x), recurrent_norm.forward(products[t][:, : 3 * size])
                step_forward(x, u, reading[t], gates[t], candidates[t], states[t + 1])
        ctx.eps = eps
        ctx.save_for_backward(
            states, gates, candidates, attention, contexts, keys, values, v, state_weight, context_weight, first_weight,
            *norm_parameters, *products, *first_products, *of_first, *chain.from_iterable(norm.saved for norm in norms),
        )  # fmt: skip
        return states[1:], contexts, attention

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        grad_states, grad_contexts, grad_attention = gradients
        states, gates, candidates, attention, contexts, keys, values, v, *rest = ctx.saved_tensors
        state_weight, context_weight, first_weight, *norm_parameters = rest[: 3 + 2 * len(ctx.eps)]
        saved = iter(rest[3 + 2 * len(ctx.eps) :])
        previous: Tensor = states[:-1]
        dtype = states.dtype
        steps, sentences, size = previous.shape
        products = list(islice(saved, steps))
        first_products, of_first = (list(islice(saved, 0 if first_weight is None else each)) for each in (steps, 3))
        norms = input_norm, recurrent_norm, first_norm = gate_norms(ctx.eps, norm_parameters, saved, steps)
        reading = of_first[2] if of_first else previous

        def empty(width: int) -> Tensor:
            return previous.new_empty(steps, sentences, width)

        def at_step(gradient: Tensor | None, t: int) -> Tensor | None:
            return None if gradient is None else gradient[t].to(dtype)

        grad_gates, grad_products = empty(3 * size), empty(len(state_weight))
        grad_inputs, grad_first_products = (empty(3 * size), empty(3 * size)) if of_first else (grad_gates, None)
        total_grad_contexts = torch.empty_like(contexts)
        grad_keys, grad_v = torch.zeros_like(keys), None if v is None else keys.new_zeros(sentences, len(v))
        grad_carry = previous.new_zeros(sentences, size, dtype=accumulation_dtype(previous))
        grad_next = None
        for t in reversed(range(steps)):
            u = recurrent_norm.last(products[t][:, : 3 * size])
            step_backward(
                at_step(grad_states, t), grad_next, grad_carry, u, reading[t], gates[t], candidates[t],
                grad_gates[t], grad_products[t, :, : 3 * size],
            )  # fmt: skip
            input_norm.backward_(grad_gates[t])
            recurrent_norm.backward_(grad_products[t, :, : 3 * size])
            grad_context, grad_weights = product(grad_gates[t], context_weight.t()), at_step(grad_attention, t)
            total_grad_contexts[t] = grad_context if grad_contexts is None else grad_context.add_(grad_contexts[t])
            if v is None:
                query, grad_query = reading[t], torch.empty_like(reading[t])
            else:
                query, grad_query = products[t][:, 3 * size :], grad_products[t, :, 3 * size :]
            read_backward(
                query, keys, v, values, attention[t], total_grad_contexts[t],
                None if grad_weights is None else grad_weights.contiguous(), grad_query, grad_keys, grad_v,
            )  # fmt: skip
            grad_next = product(grad_products[t], state_weight.t())
            if v is None:
                grad_next += grad_query
            if grad_first_products is not None:
                step_backward(
                    None, grad_next, grad_carry, first_norm.last(first_products[t]), previous[t], of_first[0][t],
                    of_first[1][t], grad_inputs[t], grad_first_products[t],
                )  # fmt: skip
                first_norm.backward_(grad_first_products[t])
                grad_next = product(grad_first_products[t], first_weight.t())
        of_first_cell: tuple[Tensor | None, ...] = (None, None, None)
        if grad_first_products is not None:
            of_first_cell = *layer_gradients(grad_first_products, previous), grad_gates.flatten(0, 1).sum(dim=0)
        return (
            grad_inputs,
            grad_carry if grad_next is None else grad_carry + grad_next,
            grad_keys,
            values_backward(attention, total_grad_contexts),
            None,
            None if grad_v is None else grad_v.sum(dim=0),
            *layer_gradients(grad_products, reading),
            weight_gradient(grad_gates.flatten(0, 1), contexts.flatten(0, 1)),
            *of_first_cell,
            None,
            *chain.from_iterable(norm.gradients for norm in norms),
        )


def layer_gradients(grad_outputs: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of the weight and the bias of a linear layer (T, B, K) to (T, B, N)."""
    flat = grad_outputs.flatten(0, 1)
    return weight_gradient(flat, inputs.flatten(0, 1)), flat.sum(dim=0)
