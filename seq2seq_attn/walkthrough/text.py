"""The steps of attention as explanatory text, for terminals of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from rich.cells import cell_len
from torch import Tensor

from seq2seq_attn.attention import Normalizer, Scorer, own_options

if TYPE_CHECKING:
    from seq2seq_attn.walkthrough.steps import Walk, WalkStep

WIDTH = 80
BAR = 12  # characters for a weight of 1
LONGEST_WORD = 10
MOST_SHOWN = 64  # numbers of a parameter
PLACES = 4  # decimals shown at most
INDENT = "   "
GAP = "  "
ELLIPSIS = "…"


def as_text(walk: Walk) -> str:
    """The steps from top to bottom."""
    numbers = [str(j) for j in range(1, len(walk.keys) + 1)]
    labels = [f"{j} {short(word)}" for j, word in zip(numbers, walk.words, strict=True)] if walk.words else numbers
    parts = [_given(walk, labels), _parameters(walk.attention.scorer), _prepared(walk, labels)]
    for number, step in enumerate(walk.steps, start=1):
        if len(walk.steps) > 1:
            parts.append(f" Query {number} of {len(walk.steps)} ".center(WIDTH, "-"))
        parts += [_score(walk, step, labels), _normalize(walk, step, labels), _sum(walk, step, labels)]
    return "\n\n".join(part for part in parts if part)


def _given(walk: Walk, labels: Sequence[str]) -> str:
    queries = torch.stack([step.query for step in walk.steps])
    names = [f"q_{number}" for number in range(1, len(queries) + 1)] if len(queries) > 1 else ["q"]
    lines = ["Query q: a state of the decoder", table(names, _vectors(queries)), ""]
    if torch.equal(walk.keys, walk.values):
        lines += ["Keys k and values v: the states of the encoder", table(labels, _vectors(walk.keys))]
    else:
        lines += ["Keys k, which the query is compared with", table(labels, _vectors(walk.keys)), ""]
        lines += ["Values v, of which the context is a weighted sum", table(labels, _vectors(walk.values))]
    return "\n".join(lines)


def _parameters(scorer: Scorer) -> str:
    lines = []
    for name, value in scorer.state_dict().items():
        size = " x ".join(map(str, value.shape)) or "1"
        if value.numel() > MOST_SHOWN:
            lines.append(f"{INDENT}{name} ({size}): too many numbers to show")
        else:
            matrix = value.reshape(-1, value.shape[-1] if value.dim() else 1)
            lines += [f"{INDENT}{name} ({size})", table([""] * len(matrix), _vectors(matrix))]
    return "\n".join([f"Parameters of {type(scorer).__name__}, learned in training", *lines]) if lines else ""


def _prepared(walk: Walk, labels: Sequence[str]) -> str:
    prepared = walk.prepared
    if prepared.dim() != 2 or 0 in prepared.shape or torch.equal(prepared, walk.keys):
        return ""
    return f"Prepared keys p: computed once for all queries\n{table(labels, _vectors(prepared))}"


def _score(walk: Walk, step: WalkStep, labels: Sequence[str]) -> str:
    heading = _heading("1. Score: how well does each key match the query?", "e = ", walk.attention.scorer)
    sums = _sums(step, walk.prepared)
    columns = [sums] if sums else []
    return f"{heading}\n{table(labels, *columns, column(step.scores))}"


def _sums(step: WalkStep, prepared: Tensor) -> list[str]:
    """`10·0 + 5·1 + 10·1 =` for each state, if the score is that product and it fits the line; else nothing."""
    is_vector_each = prepared.shape == (len(prepared), len(step.query))
    if not is_vector_each or not torch.allclose(prepared @ step.query, step.scores):
        return []
    sums = [f"{each} =" for each in products(step.query, prepared)]
    return sums if max(map(len, sums)) <= WIDTH - 32 else []


def _normalize(walk: Walk, step: WalkStep, labels: Sequence[str]) -> str:
    heading = _heading("2. Normalize: from scores to weights", "", walk.attention.normalizer)
    columns = [["e", *column(step.scores), ""]]
    if step.exponentials is not None:
        heading += f"\n{INDENT}The maximum is subtracted, so exp cannot overflow; the weights do not change."
        shares = [f"{share:.4g}" for share in step.exponentials.tolist()]
        columns.append(["e - max", *column(step.scores - step.scores.max()), ""])
        columns.append(["exp((e-max)/τ)", *shares, f"{step.exponentials.sum():.4g}"])
    columns.append(["a", *as_weights(step.weights), f"{step.weights.sum():.4f}"])
    bars = ["█" * round(BAR * weight) for weight in step.weights.clamp(0, 1).tolist()]
    columns.append([f"{text:<{BAR}}" for text in ("", *bars, "<- sum")])
    return f"{heading}\n{table(['', *labels, ''], *columns)}"


def _sum(walk: Walk, step: WalkStep, labels: Sequence[str]) -> str:
    heading = f"3. Sum: the context is the sum of the values, each times its weight\n{INDENT}C = Σ_j a_j v_j"
    room = (WIDTH - 23 - max(map(cell_len, labels))) // 2
    times = [f"{a} · [{v}]" for a, v in zip(as_weights(step.weights), rows(walk.values, room), strict=True)]
    read = rows(torch.cat((step.terms, step.context[None])), room)
    return f"{heading}\n{table([*labels, ''], [*times, 'C'], [f'= [{each}]' for each in read])}"


def _heading(step: str, left: str, part: Scorer | Normalizer) -> str:
    """The step, the equation of the part that computes it, its source, and the part's constants."""
    source = f"   ({part.source})" if part.source else ""
    equation = f"{left}{part.equation}{source}" if part.equation else type(part).__name__
    constants = {name: getattr(part, name, None) for name in own_options(type(part))}
    said = ", ".join(f"{name} = {value}" for name, value in constants.items() if isinstance(value, (int, float)))
    lines = textwrap.wrap(equation, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT * 2)
    return "\n".join([step, *lines, *([f"{INDENT}with {said}"] if said else [])])


def as_weights(numbers: Tensor) -> list[str]:
    """0.0000 is a small weight, 0 is exactly zero."""
    return [f"{weight:.4f}" if weight else f"{0:<6}" for weight in numbers.tolist()]


def _vectors(matrix: Tensor) -> list[str]:
    return rows(matrix, WIDTH - 20)


def short(word: str, longest: int = LONGEST_WORD) -> str:
    while cell_len(word) > longest:
        word = f"{word[:-2]}{ELLIPSIS}"
    return word


def products(vector: Tensor, matrix: Tensor) -> list[str]:
    """The inner product of a vector with each row of a matrix, written out: `10·0 + 5·1 + 10·1`."""
    parts = zip(_each(vector), matrix.T, strict=True)
    factors = [[f"{number}·{other}" for other in column(of_all)] for number, of_all in parts]
    return [" + ".join(row) for row in zip(*factors, strict=True)]


def _each(numbers: Tensor) -> list[str]:
    """Each number with the decimals that it needs."""
    return [column(number[None])[0] for number in numbers]


def column(numbers: Tensor, places: int | None = None) -> list[str]:
    """Numbers with the same number of decimals, by default as few as they need, padded to the same width."""
    plain = numbers.tolist()
    if any(1e5 <= abs(x) < float("inf") for x in plain):
        return right([f"{x:.3e}" for x in plain])
    places = _places(numbers) if places is None else places
    return right([f"{round(x, places) + 0.0:.{places}f}" for x in plain])  # + 0.0 turns -0.0 into 0.0


def rows(matrix: Tensor, width: int, places: int | None = None) -> list[str]:
    """The rows of a matrix in aligned columns; an ellipsis stands for the columns that do not fit."""
    places = _places(matrix.flatten()) if places is None else places
    columns = [column(numbers, places) for numbers in matrix.T]
    ends = [f"{GAP}{ELLIPSIS}"] * (len(columns) - 1) + [""]
    found = [[GAP.join(row) + end for row in zip(*columns[: shown + 1], strict=True)] for shown, end in enumerate(ends)]
    return next((each for each in reversed(found) if len(each[0]) <= width), found[0])


def table(labels: Sequence[str], *columns: Sequence[str]) -> str:
    """One line per label, with its text in each column."""
    width = max(map(cell_len, labels))
    left = [label + " " * (width - cell_len(label)) for label in labels]
    lines = zip(left, *map(right, columns), strict=True)
    return "\n".join((INDENT + GAP.join(line)).rstrip() for line in lines)


def _places(numbers: Tensor) -> int:
    """The fewest decimals that show these numbers as well as PLACES would."""
    plain = numbers.tolist()
    return next(p for p in range(PLACES + 1) if all(round(x, p) == round(x, PLACES) for x in plain))


def right(texts: Sequence[str]) -> list[str]:
    width = max(map(cell_len, texts))
    return [" " * (width - cell_len(text)) + text for text in texts]
