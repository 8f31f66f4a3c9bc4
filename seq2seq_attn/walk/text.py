"""The steps of attention as text to learn from, for terminals of 80 columns."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq_attn.attention import Attention, Normaliser, Scorer, Softmax, own_options

WIDTH = 80
BAR = 12  # characters for a weight of 1
LONGEST_WORD = 10
MOST_SHOWN = 64  # numbers of a parameter
PLACES = 4  # decimals worth reading
INDENT = "   "
GAP = "  "


def as_text(walk: Walk, words: Sequence[str] | None = None) -> str:
    """The steps told top to bottom; `words` name the states, one for each."""
    numbers = [str(j) for j in range(1, len(walk.keys) + 1)]
    labels = [f"{j} {_short(word)}" for j, word in zip(numbers, words, strict=True)] if words else numbers
    told = [_given(walk, labels), _parameters(walk.attention.scorer), _prepared(walk, labels)]
    for number, reading in enumerate(walk.readings, start=1):
        if len(walk.readings) > 1:
            told.append(f" Query {number} of {len(walk.readings)} ".center(WIDTH, "-"))
        told += [_score(walk, reading, labels), _normalise(walk, reading, labels), _sum(walk, reading, labels)]
    return "\n\n".join(part for part in told if part)


def _given(walk: Walk, labels: Sequence[str]) -> str:
    queries = torch.stack([reading.query for reading in walk.readings])
    names = [f"q_{number}" for number in range(1, len(queries) + 1)] if len(queries) > 1 else ["q"]
    told = ["What asks, the query q: a state of the decoder", _table(names, _vectors(queries)), ""]
    if torch.equal(walk.keys, walk.values):
        told += ["What is read, keys k and values v: the states of the encoder", _table(labels, _vectors(walk.keys))]
    else:
        told += ["What the query is compared with, the keys k", _table(labels, _vectors(walk.keys)), ""]
        told += ["What is read, the values v", _table(labels, _vectors(walk.values))]
    return "\n".join(told)


def _parameters(scorer: Scorer) -> str:
    told = []
    for name, value in scorer.state_dict().items():
        size = " x ".join(map(str, value.shape)) or "1"
        if value.numel() > MOST_SHOWN:
            told.append(f"{INDENT}{name} ({size}): too many numbers to show")
        else:
            matrix = value.reshape(-1, value.shape[-1] if value.dim() else 1)
            told += [f"{INDENT}{name} ({size})", _table([""] * len(matrix), _vectors(matrix))]
    return "\n".join([f"Parameters of {type(scorer).__name__}: what training changes", *told]) if told else ""


def _prepared(walk: Walk, labels: Sequence[str]) -> str:
    done = walk.prepared
    if done.dim() != 2 or 0 in done.shape or torch.equal(done, walk.keys):
        return ""
    return f"Prepared once for all queries: p, what the score needs of k\n{_table(labels, _vectors(done))}"


def _score(walk: Walk, reading: WalkStep, labels: Sequence[str]) -> str:
    heading = _heading("1. Score: how well does each key answer the query?", "e = ", walk.attention.scorer)
    products = _products(reading, walk.prepared)
    columns = [products] if products else []
    return f"{heading}\n{_table(labels, *columns, _column(reading.scores))}"


def _products(reading: WalkStep, prepared: Tensor) -> list[str]:
    """`10·0 + 5·1 + 10·1 =` for each state, where that is the score and there is room for it; else nothing."""
    is_vector_each = prepared.shape == (len(prepared), len(reading.query))
    if not is_vector_each or not torch.allclose(prepared @ reading.query, reading.scores):
        return []
    parts = zip(_each(reading.query), prepared.T, strict=True)
    factors = [[f"{q}·{p}" for p in _column(of_all)] for q, of_all in parts]
    sums = [f"{' + '.join(row)} =" for row in zip(*factors, strict=True)]
    return sums if max(map(len, sums)) <= WIDTH - 32 else []


def _normalise(walk: Walk, reading: WalkStep, labels: Sequence[str]) -> str:
    heading = _heading("2. Normalise: from scores to weights", "", walk.attention.normaliser)
    columns = [["e", *_column(reading.scores), ""]]
    if reading.exponentials is not None:
        heading += f"\n{INDENT}The largest score is taken off all: no weight changes, exp cannot overflow."
        shares = [f"{share:.4g}" for share in reading.exponentials.tolist()]
        columns.append(["e - max", *_column(reading.scores - reading.scores.max()), ""])
        columns.append(["exp((e-max)/τ)", *shares, f"{reading.exponentials.sum():.4g}"])
    columns.append(["a", *_weights(reading), f"{reading.weights.sum():.4f}"])
    bars = ["█" * round(BAR * weight) for weight in reading.weights.clamp(0, 1).tolist()]
    columns.append([f"{text:<{BAR}}" for text in ("", *bars, "<- sum")])
    return f"{heading}\n{_table(['', *labels, ''], *columns)}"


def _sum(walk: Walk, reading: WalkStep, labels: Sequence[str]) -> str:
    heading = f"3. Sum: the context, of each value as much as its weight says\n{INDENT}C = Σ_j a_j v_j"
    room = (WIDTH - 23 - max(map(cells, labels))) // 2
    times = [f"{a} · [{v}]" for a, v in zip(_weights(reading), _rows(walk.values, room), strict=True)]
    read = _rows(torch.cat((reading.terms, reading.context[None])), room)
    return f"{heading}\n{_table([*labels, ''], [*times, 'C'], [f'= [{each}]' for each in read])}"


def _heading(step: str, left: str, part: Scorer | Normaliser) -> str:
    """The step, the equation by which this part takes it, where it is from, and the part's own constants."""
    source = f"   ({part.source})" if part.source else ""
    equation = f"{left}{part.equation}{source}" if part.equation else type(part).__name__
    constants = {name: getattr(part, name, None) for name in own_options(type(part))}
    said = ", ".join(f"{name} = {value}" for name, value in constants.items() if isinstance(value, (int, float)))
    lines = textwrap.wrap(equation, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT * 2)
    return "\n".join([step, *lines, *([f"{INDENT}with {said}"] if said else [])])


def _weights(reading: WalkStep) -> list[str]:
    """0.0000 is close to nothing, 0 is nothing."""
    return [f"{weight:.4f}" if weight else f"{0:<6}" for weight in reading.weights.tolist()]


def _vectors(matrix: Tensor) -> list[str]:
    return _rows(matrix, WIDTH - 20)


def _short(word: str) -> str:
    while cells(word) > LONGEST_WORD:
        word = f"{word[:-2]}…"
    return word


def _each(numbers: Tensor) -> list[str]:
    """Every number by itself, with the decimals that it needs."""
    return [_column(number[None])[0] for number in numbers]


def _column(numbers: Tensor, places: int | None = None) -> list[str]:
    """Numbers with the same count of decimals, no more than they need unless given, and of the same width."""
    plain = numbers.tolist()
    if any(1e5 <= abs(x) < float("inf") for x in plain):
        return _right([f"{x:.3e}" for x in plain])
    places = _places(numbers) if places is None else places
    return _right([f"{round(x, places) + 0.0:.{places}f}" for x in plain])  # + 0.0: no minus before a zero


def _rows(matrix: Tensor, width: int) -> list[str]:
    """The vectors of a matrix, number under number; an ellipsis for those at the end that do not fit."""
    places = _places(matrix.flatten())
    columns = [_column(numbers, places) for numbers in matrix.T]
    shown = len(columns)
    while shown > 1 and sum(len(GAP) + len(each[0]) for each in columns[:shown]) >= width:
        shown -= 1
    end = f"{GAP}…" if shown < len(columns) else ""
    return [GAP.join(row) + end for row in zip(*columns[:shown], strict=True)]


def _table(labels: Sequence[str], *columns: Sequence[str]) -> str:
    """Lines of a label and its text in every column."""
    width = max(map(cells, labels))
    left = [label + " " * (width - cells(label)) for label in labels]
    lines = zip(left, *map(_right, columns), strict=True)
    return "\n".join((INDENT + GAP.join(line)).rstrip() for line in lines)


def cells(text: str) -> int:
    """How many columns of a terminal a text takes: a Chinese character is two wide."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _places(numbers: Tensor) -> int:
    """The fewest decimals that show these numbers as well as PLACES would."""
    plain = numbers.tolist()
    return next(p for p in range(PLACES + 1) if all(round(x, p) == round(x, PLACES) for x in plain))


def _right(texts: Sequence[str]) -> list[str]:
    width = max(map(cells, texts))
    return [" " * (width - cells(text)) + text for text in texts]


class WalkStep(NamedTuple):
    """One query's way through attention; S states, values of V numbers."""

    query: Tensor  # (Q,) q
    scores: Tensor  # (S,) e_j; -inf: never read
    exponentials: Tensor | None  # (S,) exp((e_j - max e) / τ), whose shares a softmax takes; None for other normalisers
    weights: Tensor  # (S,) a_j
    terms: Tensor  # (S, V) a_j v_j
    context: Tensor  # (V,) their sum, C


class Walk(NamedTuple):
    """Attention over one source, with all that passed between its stages."""

    attention: Attention
    keys: Tensor  # (S, K) k_j
    values: Tensor  # (S, V) v_j
    prepared: Tensor  # (S, ...) what the scorer made of the keys before there was a query
    readings: tuple[WalkStep, ...]  # one for each query


@torch.no_grad()
def walk(attention: Attention, queries: Tensor, keys: Tensor, values: Tensor | None = None) -> Walk:
    """The steps of queries (T, Q), one after another, over keys (S, K) with values (S, V), the keys unless given.

    ValueError if the numbers are so large that a score or a context is not finite.
    """
    values = keys if values is None else values
    source = attention.prepare(keys[None], values[None])
    history = attention.start(source)
    readings = []
    for number, query in enumerate(queries, start=1):
        one = query[None, None]
        scores = attention.scorer.after(history[0], one, source.prepared)[0, 0]  # a step does not hand them out
        contexts, weights, history = attention(one, source, history)
        if not (scores < torch.inf).all() or not contexts.isfinite().all():  # false of NaN, too
            raise ValueError(f"query {number}: its scores or its context overflow; give smaller numbers")
        reading = WalkStep(
            query=query,
            scores=scores,
            exponentials=_exponentials(attention, scores),
            weights=weights[0, 0],
            terms=weights[0, 0, :, None] * values,
            context=contexts[0, 0],
        )
        readings.append(reading)
    return Walk(attention, keys, values, source.prepared[0], tuple(readings))


def _exponentials(attention: Attention, scores: Tensor) -> Tensor | None:
    if not isinstance(attention.normaliser, Softmax) or attention.window is not None:
        return None
    return torch.exp((scores - scores.max()) / attention.normaliser.temperature)
