"""The steps of self-attention as explanatory text, for terminals of 120 columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from rich.cells import cell_len
from torch import Tensor

from seq2seq_attn.attention import ScaledDot, Sinusoidal, Softmax
from seq2seq_attn.walkthrough.text import (
    ELLIPSIS,
    GAP,
    INDENT,
    as_weights,
    column,
    products,
    right,
    rows,
    short,
    table,
)

if TYPE_CHECKING:
    from seq2seq_attn.walkthrough.self_attention import SelfAttentionWalk
    from seq2seq_attn.walkthrough.steps import Walk

WIDTH = 120
VECTOR, OF_THREE, HALF = 38, 31, 22  # columns for a vector of a word, if there are three in a line, and for half of it
LONGEST_PRODUCT = 70
LONGEST_NAME = 7  # of a word above a column
VASWANI = "Vaswani et al. 2017"


def as_text(walk: SelfAttentionWalk) -> str:
    """The steps from top to bottom."""
    numbers = [str(i) for i in range(1, len(walk.vectors) + 1)]
    labels = [f"{i} {short(word)}" for i, word in zip(numbers, walk.words, strict=True)] if walk.words else numbers
    names = [short(word, LONGEST_NAME) for word in walk.words or numbers]
    parts = [
        _given(walk, labels),
        _project(walk, labels),
        _score(walk.one_head, labels),
        _normalize(walk.one_head, labels, names),
        _sum(walk.one_head, labels),
        _two_heads(walk, names),
        _mask(walk, labels, names),
        _positions(walk, labels, names),
    ]
    return "\n\n".join("\n".join(part) for part in parts)


def _given(walk: SelfAttentionWalk, labels: Sequence[str]) -> list[str]:
    matrices = _blocks(*zip(("W^q", "W^k", "W^v", "W^O"), _parameters(walk), strict=True))
    return [
        "Self-attention: every word of a sentence reads all words of the same sentence",
        "",
        "Words x: a vector for each, whose numbers say how much noun, verb, cat and mouse the word is",
        table(labels, _vectors(walk.vectors)),
        "",
        "Parameters, learned in training; here nouns ask for verbs, verbs for nouns and cats, cats and mice for each "
        "other",
        table([""] * len(matrices[0]), *matrices),
    ]


def _project(walk: SelfAttentionWalk, labels: Sequence[str]) -> list[str]:
    one = walk.one_head
    queries = _stack(one, "query")
    lines = [
        "1. Project: what a word asks for (query q), what it is found by (key k), what it passes on (value v)",
        f"{INDENT}q_i = W^q x_i,  k_j = W^k x_j,  v_j = W^v x_j   ({VASWANI}, sec. 3.2.2)",
        table(["", *labels], *_blocks(("q", queries), ("k", one.keys), ("v", one.values), width=OF_THREE)),
    ]
    product = products(walk.vectors[1], _parameters(walk)[0])[0]
    if len(product) <= LONGEST_PRODUCT:
        lines.append(f"{INDENT}The first number of q of {labels[1]}: {product} = {column(queries[1, :1])[0]}")
    return lines


def _score(one: Walk, labels: Sequence[str]) -> list[str]:
    step, size = one.steps[1], one.keys.shape[1]
    sums = [f"({product}) / √{size} =" for product in products(step.query, one.keys)]
    columns = [sums] if max(map(len, sums)) <= LONGEST_PRODUCT else []
    return [
        f"2. Score: how well does each key match the query? Here the query of {labels[1]}; all scores are in step 3",
        f"{INDENT}e_ij = q_i · k_j / √d,  d = {size}   ({ScaledDot.source})",
        table(labels, *columns, column(step.scores)),
    ]


def _normalize(one: Walk, labels: Sequence[str], names: Sequence[str]) -> list[str]:
    exponentials = _stack(one, "exponentials")
    return [
        "3. Normalize: from scores to weights, with a row for each query and a column for each key",
        f"{INDENT}a_ij = exp(e_ij) / Σ_k exp(e_ik)   ({Softmax.source})",
        table(
            ["", "", *labels],
            _grid("e", names, column, _stack(one, "scores")),
            _grid("exp(e - max e)", names, _four_digits, exponentials),
            ["", "sum", *_four_digits(exponentials.sum(dim=1))],
            _grid("a", names, as_weights, _stack(one, "weights")),
        ),
    ]


def _sum(one: Walk, labels: Sequence[str]) -> list[str]:
    step = one.steps[1]
    times = [f"{a} · {v}" for a, v in zip(as_weights(step.weights), _vectors(one.values), strict=True)]
    terms = [f"= {term}" for term in _vectors(torch.cat((step.terms, step.context[None])))]
    return [
        f"4. Sum: the context is the sum of the values, each times its weight; for {labels[1]}, then for all words",
        f"{INDENT}C_i = Σ_j a_ij v_j",
        table([*labels, ""], [*times, "C"], terms),
        table([f"C of {label}" for label in labels], [f"= {each}" for each in _vectors(_stack(one, "context"))]),
    ]


def _two_heads(walk: SelfAttentionWalk, names: Sequence[str]) -> list[str]:
    joined = torch.cat([_stack(head, "context") for head in walk.heads], dim=1)
    tables = [_head(number, head, names, scores=True) for number, head in enumerate(walk.heads, start=1)]
    if max(cell_len(line) for each in tables for line in each.splitlines()) > WIDTH:
        tables = [_head(number, head, names, scores=False) for number, head in enumerate(walk.heads, start=1)]
    return [
        "5. Two heads: each attends with its half of every q, k and v, so a word can ask two questions at once",
        f"{INDENT}steps 2 to 4 for each head, d = {walk.heads[0].keys.shape[1]};  "
        f"o_i = W^O [C_i of head 1; C_i of head 2]   ({VASWANI}, sec. 3.2.2)",
        *tables,
        table(["joined", *names], *_blocks(("[C of head 1; C of head 2]", joined), ("o", walk.outputs))),
    ]


def _head(number: int, head: Walk, names: Sequence[str], scores: bool) -> str:
    halves = _blocks(("q", _stack(head, "query")), ("k", head.keys), ("v", head.values), width=HALF)
    fields = [("e", "scores")] * scores + [("a", "weights")]
    squares = [_block(name, rows(_stack(head, field), WIDTH)) for name, field in fields]
    return table([f"head {number}", *names], *halves, *squares)


def _mask(walk: SelfAttentionWalk, labels: Sequence[str], names: Sequence[str]) -> list[str]:
    is_ahead = torch.ones_like(walk.causal_weights, dtype=torch.bool).triu(1)
    scores = _stack(walk.one_head, "scores").masked_fill(is_ahead, -torch.inf)
    return [
        "6. Mask: a decoder writes one word after another, so each may read itself and the words before it only",
        f"{INDENT}e_ij = -inf for j > i, and exp(-inf) = 0   ({VASWANI}, sec. 3.2.3); here with one head",
        table(
            ["", "", *labels],
            _grid("e", names, column, scores),
            _grid("a", names, as_weights, walk.causal_weights),
            ["", *_block("C", _vectors(walk.causal_contexts, OF_THREE))],
        ),
    ]


def _positions(walk: SelfAttentionWalk, labels: Sequence[str], names: Sequence[str]) -> list[str]:
    positions = [f"p = {p}" for p in range(len(labels))]
    blocks = _blocks(("PE(p)", walk.encodings), ("x + PE(p)", walk.positioned))
    return [
        "7. Positions: without them, a word has the same result o in every order of the words",
        _two_orders(labels, names, walk.outputs, walk.reversed_outputs),
        f"{INDENT}{Sinusoidal.equation}   ({Sinusoidal.source})",
        table(["", *labels], ["", *positions], *blocks),
        f"{INDENT}With x + PE(p) in place of x, the order matters; in the reverse order, {labels[-1]} is at p = 0",
        _two_orders(labels, names, walk.positioned_outputs, walk.reversed_positioned_outputs),
    ]


def _two_orders(labels: Sequence[str], names: Sequence[str], in_order: Tensor, in_reverse: Tensor) -> str:
    return table(
        ["", *labels],
        *_blocks((" ".join(names), in_order), (" ".join(reversed(names)), in_reverse)),
        ["largest difference", *column((in_order - in_reverse).abs().amax(dim=1))],
    )


def _parameters(walk: SelfAttentionWalk) -> list[Tensor]:
    """W^q, W^k, W^v and W^O."""
    return list(walk.layer.state_dict().values())


def _stack(walk: Walk, field: str) -> Tensor:
    """A field of the steps, with a row for each query."""
    return torch.stack([getattr(step, field) for step in walk.steps])


def _blocks(*named: tuple[str, Tensor], width: int = VECTOR) -> list[list[str]]:
    """Columns of a table with the rows of these matrices, each with its name above it."""
    return [_block(name, _vectors(matrix, width)) for name, matrix in named]


def _vectors(matrix: Tensor, width: int = VECTOR) -> list[str]:
    """The rows, with as many decimals as they need, or with fewer if only then all numbers fit."""
    tried = [rows(matrix, width), *(rows(matrix, width, places) for places in (3, 2))]
    return [f"[{row}]" for row in next((each for each in tried if ELLIPSIS not in each[0]), tried[0])]


def _block(heading: str, lines: Sequence[str]) -> list[str]:
    """A column of a table with its heading at the left edge."""
    return [heading + " " * (max(map(cell_len, lines)) - cell_len(heading)), *lines]


def _grid(heading: str, names: Sequence[str], shown: Callable[[Tensor], list[str]], matrix: Tensor) -> list[str]:
    """A matrix as a column of a table, with a name above each of its own columns."""
    columns = [right([name, *shown(numbers)]) for name, numbers in zip(names, matrix.T, strict=True)]
    return _block(heading, [GAP.join(line) for line in zip(*columns, strict=True)])


def _four_digits(numbers: Tensor) -> list[str]:
    return [f"{number:.4g}" for number in numbers.tolist()]
