"""Attention step by step, with all intermediate numbers.

>>> s2s.walk(query=[[10, 5, 10]], states=[[0, 1, 1], [5, 0, 1], [1, 1, 0], [0, 5, 1]], words="Tom chases Jerry .")
Query q: a state of the decoder
   q  10  5  10
<BLANKLINE>
Keys k and values v: the states of the encoder
   1 Tom     0  1  1
   2 chases  5  0  1
   3 Jerry   1  1  0
   4 .       0  5  1
<BLANKLINE>
1. Score: how well does each key match the query?
   e = q · k   (Luong et al. 2015, sec. 3.1, "dot")
   1 Tom     10·0 + 5·1 + 10·1 =  15
   2 chases  10·5 + 5·0 + 10·1 =  60
   3 Jerry   10·1 + 5·1 + 10·0 =  15
   4 .       10·0 + 5·5 + 10·1 =  35
<BLANKLINE>
2. Normalize: from scores to weights
   a_j = exp(e_j / τ) / Σ_k exp(e_k / τ)   (Bahdanau et al. 2015, eq. 6)
   with temperature = 1.0
   The maximum is subtracted, so exp cannot overflow; the weights do not change.
              e  e - max  exp((e-max)/τ)       a
   1 Tom     15      -45       2.863e-20  0.0000
   2 chases  60        0               1  1.0000  ████████████
   3 Jerry   15      -45       2.863e-20  0.0000
   4 .       35      -25       1.389e-11  0.0000
                                       1  1.0000  <- sum
<BLANKLINE>
3. Sum: the context is the sum of the values, each times its weight
   C = Σ_j a_j v_j
   1 Tom     0.0000 · [0  1  1]  = [0  0  0]
   2 chases  1.0000 · [5  0  1]  = [5  0  1]
   3 Jerry   0.0000 · [1  1  0]  = [0  0  0]
   4 .       0.0000 · [0  5  1]  = [0  0  0]
                              C  = [5  0  1]

`s2s.walk("self-attention")` is the same for self-attention, with two heads, a causal mask and positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, overload

from seq2seq_attn.errors import UserError, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from seq2seq_attn.attention import Attention, Normalizer, Scorer
    from seq2seq_attn.walkthrough.self_attention import SelfAttentionWalk
    from seq2seq_attn.walkthrough.steps import Walk

    Rows = Sequence[Sequence[float]] | NDArray[Any] | Tensor
    Options = Mapping[str, Any]

SELF_ATTENTION: Final = "self-attention"
LARGEST = 1_000  # size of a vector between query and score
QUERY = ((10, 5, 10),)
STATES = ((0, 1, 1), (5, 0, 1), (1, 1, 0), (0, 5, 1))
SENTENCE = ("Tom", "chases", "Jerry")
VECTORS = ((1, 0, 1, 0), (0, 1, 0, 0), (1, 0, 0, 1))  # how much noun, verb, cat and mouse each word is


@overload
def walk(  # type: ignore[overload-overlap]  # no scorer has this name
    scorer: Literal["self-attention"], *, states: Rows | None = None, words: str | Sequence[str] | None = None
) -> SelfAttentionWalk: ...


@overload
def walk(
    scorer: str | type[Scorer] | Options | Attention = "dot",
    query: Rows | None = None,
    states: Rows | None = None,
    values: Rows | None = None,
    *,
    words: str | Sequence[str] | None = None,
    normalizer: str | type[Normalizer] | Options | None = None,
    seed: int | None = None,
) -> Walk: ...


def walk(
    scorer: str | type[Scorer] | Options | Attention = "dot",
    query: Rows | None = None,
    states: Rows | None = None,
    values: Rows | None = None,
    *,
    words: str | Sequence[str] | None = None,
    normalizer: str | type[Normalizer] | Options | None = None,
    seed: int | None = None,
) -> Walk | SelfAttentionWalk:
    """Computes attention step by step: scores, weights and weighted sum, each with its equation, inputs and result.

    The result shows itself as text and holds all numbers, in double precision unless a given `Attention` has another.

    Args:
        scorer: A name as in a configuration, a class, or either of them with options, as in
            `{"name": "additive", "hidden_size": 4}`; or an `Attention`, such as a trained one, which is walked through
            as it is. `"self-attention"` walks through self-attention instead: queries, keys and values, scores, weights
            and sum, then two heads, a causal mask and positions.
        query: A row per step; by default that of a small example.
        states: A row per word; by default those of a small example. For self-attention: the vectors of three words,
            with four numbers each.
        values: A row per word, of which the context is the sum; by default the states.
        words: Labels of the states.
        normalizer: As `scorer`; softmax by default.
        seed: Initializes the scorer's parameters; 1 by default.

    Returns:
        The walk; `steps` has an item for each query. Of self-attention a `SelfAttentionWalk`.

    Raises:
        UserError: There is no such scorer, sizes do not fit, numbers are not finite, or self-attention gets more than
            states and words.

    >>> step = s2s.walk("dot", query=[[1, 0]], states=[[2, 0], [0, 2]]).steps[0]
    >>> step.scores.tolist(), [round(weight, 3) for weight in step.weights.tolist()]
    ([2.0, 0.0], [0.881, 0.119])
    >>> s2s.walk("self-attention").one_head.steps[1].scores.tolist()  # of "chases"
    [2.0, 0.0, 1.0]
    """
    if scorer == SELF_ATTENTION:
        refuse_other_than_states_and_words({"query": query, "values": values, "normalizer": normalizer, "seed": seed})
        return _walk_self_attention(states, words)
    states = STATES if states is None else states
    values = states if values is None else values
    labels = _labels(words)
    for name, column in (("values", values), ("words", labels)):
        if column is not None and len(column) != len(states):
            raise UserError(f"{len(column)} {name} for {len(states)} states; give one for each")

    import torch

    from seq2seq_attn.attention import Attention
    from seq2seq_attn.walkthrough.steps import walk_through

    parameters = scorer.parameters() if isinstance(scorer, Attention) else iter(())
    like = next(parameters, torch.empty(0, dtype=torch.float64))
    given = (("query", QUERY if query is None else query), ("states", states), ("values", values))
    queries, keys, summed = (_matrix(name, rows, like) for name, rows in given)
    if isinstance(scorer, Attention):
        if normalizer is not None or seed is not None:
            raise UserError("an Attention is walked through as it is; leave out normalizer and seed")
    else:
        normalizer = "softmax" if normalizer is None else normalizer
        scorer = _attention(scorer, normalizer, queries.shape[1], keys.shape[1], 1 if seed is None else seed)
    return walk_through(scorer, queries, keys, summed, labels)


def typed(rows: Sequence[Sequence[float]]) -> str:
    """The rows as they are typed on the command line."""
    return "; ".join(" ".join(map(str, row)) for row in rows)


def refuse_other_than_states_and_words(others: Mapping[str, object]) -> None:
    """UserError if any of these arguments or options, by name, was given for self-attention."""
    given = [name for name, value in others.items() if value is not None]
    if given:
        raise UserError(
            f"{SELF_ATTENTION} takes states and words, not {', '.join(given)}: it computes everything from the states, "
            f"with parameters of its own"
        )


def _walk_self_attention(states: Rows | None, words: str | Sequence[str] | None) -> SelfAttentionWalk:
    labels = SENTENCE if states is None and words is None else _labels(words)
    count, size = len(VECTORS), len(VECTORS[0])
    if labels is not None and len(labels) != count:
        raise UserError(f"{len(labels)} words; {SELF_ATTENTION} is shown with {count}, as in {' '.join(SENTENCE)!r}")

    import torch

    from seq2seq_attn.walkthrough.self_attention import walk_through_self_attention

    vectors = _matrix("states", VECTORS if states is None else states, torch.empty(0, dtype=torch.float64))
    if vectors.shape != (count, size):
        raise UserError(
            f"states of {len(vectors)} words with {vectors.shape[1]} numbers each; {SELF_ATTENTION} is shown with "
            f"{count} words with {size} numbers each, as in {typed(VECTORS)!r}"
        )
    return walk_through_self_attention(vectors, labels)


def _labels(words: str | Sequence[str] | None) -> tuple[str, ...] | None:
    return None if words is None else tuple(words.split() if isinstance(words, str) else words)


def _matrix(name: str, rows: Rows, like: Tensor) -> Tensor:
    import torch

    try:
        matrix = torch.as_tensor(rows, dtype=like.dtype, device=like.device)
    except (TypeError, ValueError) as error:
        raise UserError(f"{name}: {error}; give rows of numbers, as in [[1, 0, 0.5], [2, 1, 0]]") from None
    if matrix.dim() != 2 or not matrix.numel() or not matrix.isfinite().all():
        raise UserError(f"{name}: not rows of finite numbers; give them as in [[1, 0, 0.5], [2, 1, 0]]")
    return matrix


def _refuse_large(options: Mapping[str, Any]) -> None:
    """UserError if a size among the options of a part would make vectors that nobody reads."""
    for name, value in options.items():
        sizes = value if isinstance(value, (list, tuple)) else [value]
        if any(isinstance(size, int) and size > LARGEST for size in sizes):
            raise UserError(f"{name}={shown(value)}: a walk shows every number, so sizes are {LARGEST:,} at most")


def _attention(scorer: Any, normalizer: Any, query_size: int, key_size: int, seed: int) -> Attention:
    import torch

    from seq2seq_attn.attention import Attention
    from seq2seq_attn.models.context_config import NormalizerConfig, ScorerConfig
    from seq2seq_attn.runs.plugin import find_scorer
    from seq2seq_attn.strict import parse

    options = dict(scorer) if isinstance(scorer, Mapping) else {"name": scorer}
    if options.get("name") in (SELF_ATTENTION, SELF_ATTENTION.replace("-", "_")):
        raise UserError(f"{options['name']!r} is not a scorer; give {SELF_ATTENTION!r} in its place, without options")
    if isinstance(options.get("name"), str):
        options["name"] = find_scorer(options["name"])
    _refuse_large(options)
    make_scorer = parse(ScorerConfig, options)
    make_normalizer = parse(NormalizerConfig, normalizer if isinstance(normalizer, Mapping) else {"name": normalizer})
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        try:
            attention = Attention(make_scorer(query_size, key_size), make_normalizer())
        except (TypeError, ValueError) as error:
            raise UserError(f"a query of size {query_size} and states of size {key_size}: {error}") from None
    return attention.double().eval()  # eval: without the noise of training
