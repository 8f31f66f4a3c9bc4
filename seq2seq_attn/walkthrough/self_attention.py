"""Self-attention over a sentence, with all intermediate results: one head, two heads, a causal mask, positions."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq_attn.attention import Attention, MultiHead, ScaledDot, SelfAttention, Sinusoidal
from seq2seq_attn.attention.contexts.multi_head import split_heads
from seq2seq_attn.errors import UserError
from seq2seq_attn.walkthrough.self_attention_text import as_text
from seq2seq_attn.walkthrough.steps import Walk, walk_through

SIZE, HEADS = 4, 2

# A vector says how much noun, verb, cat and mouse a word is. The numbers are small, so that a reader can compute
# them, and mean something: keys say what a word is; in head 1 nouns and verbs ask for each other, in head 2 verbs and
# mice ask for cats and cats for mice. No matrix is equal to its transpose where that could hide an error.
PARAMETERS = {
    "query_layer.weight": ((0, 1, 0, 0), (1, 0, 0, 0), (0, 1, 0, 1), (0, 0, 1, 0)),
    "key_layer.weight": ((2, 0, 0, 0), (0, 2, 0, 0), (0, 0, 2, 0), (0, 0, 0, 2)),
    "value_layer.weight": ((0, 0, 3, 0), (1, 0, 0, 0), (0, 0, 0, 2), (0, 1, 0, 0)),
    "output_layer.weight": ((1, 0, 1, 0), (0, 1, 0, 1), (0, 0, 1, 0), (1, 1, 0, 0)),
}


class SelfAttentionWalk(NamedTuple):
    """Self-attention over a sentence of N words, with all intermediate results."""

    layer: SelfAttention  # two heads of size 2
    vectors: Tensor  # (N, 4) x_i
    one_head: Walk  # of size 4: queries W^q x_i, keys W^k x_j, values W^v x_j
    heads: tuple[Walk, ...]  # those of `layer`: each with one half of every query, key and value
    outputs: Tensor  # (N, 4) o_i = W^O [C_i of head 1; C_i of head 2], from `layer`
    causal_weights: Tensor  # (N, N) a_ij of the one head if word i reads the words 1, ..., i only
    causal_contexts: Tensor  # (N, 4) their C_i
    encodings: Tensor  # (N, 4) PE(p), p = 0, ..., N - 1
    positioned: Tensor  # (N, 4) x_i + PE(i - 1)
    reversed_outputs: Tensor  # (N, 4) o_i of the words in reverse order; row i belongs to word i
    positioned_outputs: Tensor  # (N, 4) o_i of `positioned`
    reversed_positioned_outputs: Tensor  # (N, 4) o_i of x_i + PE(N - i): words in reverse order, row i is word i
    words: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return as_text(self)


@torch.no_grad()
def walk_through_self_attention(vectors: Tensor, words: tuple[str, ...] | None = None) -> SelfAttentionWalk:
    """Self-attention over vectors (N, 4), with the parameters of this file.

    UserError: the numbers are so large that a result is not finite.
    """
    per_head = Attention(ScaledDot(SIZE // HEADS, SIZE // HEADS))
    multi_head = _with_parameters(per_head).to(vectors)
    layer, position = SelfAttention(multi_head).eval(), Sinusoidal(SIZE)
    one_head = Attention(ScaledDot(SIZE, SIZE)).eval()
    projections = multi_head.query_layer, multi_head.key_layer, multi_head.value_layer
    queries, keys, values = (project(vectors) for project in projections)
    halves = zip(*(split_heads(part[None], HEADS) for part in (queries, keys, values)), strict=True)
    source = one_head.prepare(keys[None], values[None])
    causal_contexts, causal_weights = one_head(queries[None], source, causal=True)

    in_order, in_reverse = vectors[None], vectors.flip(0)[None]
    positioned = position.add(in_order)
    walk = SelfAttentionWalk(
        layer=layer,
        vectors=vectors,
        one_head=walk_through(one_head, queries, keys, values, words),
        heads=tuple(walk_through(per_head, q, k, v, words) for q, k, v in halves),
        outputs=layer(in_order)[0][0],
        causal_weights=causal_weights[0],
        causal_contexts=causal_contexts[0],
        encodings=position.add(torch.zeros_like(in_order))[0],
        positioned=positioned[0],
        reversed_outputs=layer(in_reverse)[0][0].flip(0),
        positioned_outputs=layer(positioned)[0][0],
        reversed_positioned_outputs=layer(position.add(in_reverse))[0][0].flip(0),
        words=words,
    )
    if not torch.cat((walk.outputs, walk.positioned_outputs, walk.reversed_positioned_outputs)).isfinite().all():
        raise UserError("the results overflow; give smaller numbers")
    return walk


def _with_parameters(per_head: Attention) -> MultiHead:
    with torch.random.fork_rng(devices=[]):  # the parameters are drawn before they are replaced
        multi_head = MultiHead(per_head, HEADS, SIZE, SIZE)
    multi_head.load_state_dict({name: torch.tensor(matrix) for name, matrix in PARAMETERS.items()})
    return multi_head
