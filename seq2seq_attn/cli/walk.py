"""`walk`: attention step by step, with all intermediate numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

import seq2seq_attn as s2s
from seq2seq_attn.cli.arguments import AsJson, Plugin, argument, complete_scorers, load_plugins, require_file
from seq2seq_attn.cli.console import answer
from seq2seq_attn.errors import UserError
from seq2seq_attn.walkthrough import QUERY, SELF_ATTENTION, STATES, VECTORS, refuse_other_than_states_and_words, typed

if TYPE_CHECKING:
    from seq2seq_attn.walkthrough.self_attention import SelfAttentionWalk
    from seq2seq_attn.walkthrough.steps import Walk


def _complete(incomplete: str) -> list[str]:
    return [name for name in (SELF_ATTENTION, *complete_scorers("")) if name.startswith(incomplete)]


def _option(help: str, metavar: str = "ROWS") -> Any:
    return typer.Option(metavar=metavar, help=help)


def walk(
    scorer: Annotated[
        list[str] | None,
        argument(
            "SCORER|OPTION=VALUE",
            "A name listed by `scorers`, my_scorer.py:MyScorer or package.module:MyScorer, and the scorer's "
            "options, as in temperature=0.5; or self-attention. Default: dot.",
            _complete,
        ),
    ] = None,
    query: Annotated[str | None, _option(f"Queries, one per step; default: {typed(QUERY)}.")] = None,
    states: Annotated[
        str | None,
        _option(
            f"Encoder states, one row per word; default: {typed(STATES)}. For self-attention the vectors of three "
            f"words; default: {typed(VECTORS)}."
        ),
    ] = None,
    values: Annotated[str | None, _option("Values to sum, one row per word; default: the states.")] = None,
    words: Annotated[str | None, _option("Words to label the states with.", "TEXT")] = None,
    normalizer: Annotated[
        str | None, _option("A normalizer and its options, as in 'softmax temperature=2'; default: softmax.", "TEXT")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=2**32 - 1, help="Random seed for the scorer's parameters, if it has any; default: 1."),
    ] = None,
    as_json: AsJson = False,
    plugin: Plugin = None,
) -> None:
    """Walk through attention step by step, with numbers.

    Prints the scores, the weights and the weighted sum, each with its equation, inputs and result. ROWS are numbers
    separated by blanks, with semicolons between rows.

    `walk self-attention` shows how three words read each other: projections, scores, weights and weighted sum, then
    two heads, a causal mask and positions. Its options are --states, --words and --json.

    Examples:
        seq2seq-attn walk
        seq2seq-attn walk --query '1 0; 0 1' --states '2 0; 0 1; 1 1' --words 'Tom chases Jerry'
        seq2seq-attn walk additive hidden_size=4 --normalizer sparsemax --json
        seq2seq-attn walk self-attention
        seq2seq-attn walk self-attention --states '1 0 0 1; 0 1 0 0; 1 0 1 0' --words 'Jerry chases Tom'
    """
    names = [word for word in scorer or () if "=" not in word] or ["dot"]
    options = [word for word in scorer or () if "=" in word]
    if len(names) > 1:
        raise UserError(f"give one scorer, not {len(names)}: {' '.join(names)}")
    if names[0] == SELF_ATTENTION:
        others = {"--query": query, "--values": values, "--normalizer": normalizer, "--seed": seed}
        refuse_other_than_states_and_words(others | {"--plugin": plugin or None} | dict.fromkeys(options, ""))
        sentence = s2s.walk(SELF_ATTENTION, states=_rows("--states", states), words=words)
        answer(_self_attention_record(sentence) if as_json else str(sentence))
        return
    require_file(names[0])
    rows = {"query": _rows("--query", query), "states": _rows("--states", states), "values": _rows("--values", values)}

    from seq2seq_attn.strict import override

    load_plugins(plugin)
    name, *normalizer_options = ("softmax" if normalizer is None else normalizer).split() or [""]
    walked = s2s.walk(
        override({"name": names[0]}, options),
        **rows,
        words=words,
        normalizer=override({"name": name}, normalizer_options),
        seed=seed,
    )
    answer(_record(walked) if as_json else walked)


def _rows(option: str, text: str | None) -> list[list[float]] | None:
    """The rows of numbers in the text of an option, if it is given; UserError that names the first bad row."""
    if text is None:
        return None
    rows: list[list[float]] = []
    for index, row in enumerate(text.rstrip("; ").split(";"), start=1):
        words = row.replace(",", " ").split()
        bad = [word for word in words if not math.isfinite(_number(word))]
        wrong = None
        if bad:
            wrong = f"{bad[0]!r} is not a finite number"
        elif not words:
            wrong = "there are no numbers"
        elif rows and len(words) != len(rows[0]):
            wrong = f"{len(words)} numbers, where row 1 has {len(rows[0])}"
        if wrong:
            raise UserError(f'{option}, row {index}: {wrong}; write rows as in {option} "1 0 0.5; 2 1 0"')
        rows.append([_number(word) for word in words])
    return rows


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return math.nan


def _record(walked: Walk) -> dict[str, Any]:
    scorer, normalizer = walked.attention.scorer, walked.attention.normalizer
    return {
        "scorer": {"name": type(scorer).__name__, "equation": scorer.equation, "source": scorer.source},
        "normalizer": {"name": type(normalizer).__name__, "equation": normalizer.equation, "source": normalizer.source},
        "parameters": scorer.state_dict(),
        **{name: part for name, part in walked._asdict().items() if name != "attention"},
    }


def _self_attention_record(walked: SelfAttentionWalk) -> dict[str, Any]:
    """Everything under its name in `SelfAttentionWalk`, with the parameters of the layer."""
    heads = {"one_head": _record(walked.one_head), "heads": list(map(_record, walked.heads))}
    numbers = {name: part for name, part in walked._asdict().items() if name != "layer"}
    return {"parameters": walked.layer.attention.state_dict(), **numbers, **heads}
