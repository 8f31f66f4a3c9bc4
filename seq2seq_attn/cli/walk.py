"""`walk`: attention step by step, with all intermediate numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seq2seq_attn.cli.arguments import AsJson, Plugin, argument, complete_scorers, require_file
from seq2seq_attn.cli.console import answer, answer_json
from seq2seq_attn.errors import UserError

if TYPE_CHECKING:
    from seq2seq_attn.attention import Attention
    from seq2seq_attn.models.context_config import NormaliserConfig, ScorerConfig
    from seq2seq_attn.walkthrough import Walk, WalkStep

QUERY = "10 5 10"
STATES = "0 1 1; 5 0 1; 1 1 0; 0 5 1"


def walk(
    scorer: Annotated[
        list[str] | None,
        argument(
            "SCORER|OPTION=VALUE",
            "A name listed by `scorers`, my_scorer.py:MyScorer or package.module:MyScorer, and the scorer's "
            "options, as in temperature=0.5. Default: dot.",
            complete_scorers,
        ),
    ] = None,
    query: Annotated[str, typer.Option(metavar="ROWS", help="Queries, one per step.")] = QUERY,
    states: Annotated[str, typer.Option(metavar="ROWS", help="Encoder states, one row per word.")] = STATES,
    values: Annotated[
        str | None, typer.Option(metavar="ROWS", help="Values to sum, one row per word; default: the states.")
    ] = None,
    words: Annotated[str | None, typer.Option(metavar="TEXT", help="Words to label the states with.")] = None,
    normaliser: Annotated[
        str, typer.Option(metavar="TEXT", help="A normaliser and its options, as in 'softmax temperature=2'.")
    ] = "softmax",
    seed: Annotated[int, typer.Option(help="Random seed for the scorer's parameters, if it has any.")] = 1,
    as_json: AsJson = False,
    plugin: Plugin = None,
) -> None:
    """Walk through attention step by step, with numbers.

    Prints the scores, the weights and the weighted sum, each with its equation, inputs and result. ROWS are numbers
    separated by blanks, with semicolons between rows.
    """
    names = [word for word in scorer or () if "=" not in word] or ["dot"]
    if len(names) > 1:
        raise UserError(f"give one scorer, not {len(names)}: {' '.join(names)}")
    require_file(names[0])
    query_rows, key_rows = _rows("--query", query), _rows("--states", states)
    value_rows = key_rows if values is None else _rows("--values", values)
    if len(value_rows) != len(key_rows):
        raise UserError(f"--values has {len(value_rows)} rows for {len(key_rows)} of --states; give one for each")
    labels = None if words is None else words.split()
    if labels is not None and len(labels) != len(key_rows):
        raise UserError(f"--words has {len(labels)} words for {len(key_rows)} rows of --states; give one for each")

    import torch

    from seq2seq_attn.runs.plugin import load_plugins
    from seq2seq_attn.walkthrough import as_text
    from seq2seq_attn.walkthrough import walk as walk_through

    load_plugins(plugin)
    options = [word for word in scorer or () if "=" in word]
    queries, keys, summed = (torch.tensor(rows, dtype=torch.float64) for rows in (query_rows, key_rows, value_rows))
    attention = _attention(names[0], options, normaliser, queries.shape[1], keys.shape[1], seed)
    try:
        walked = walk_through(attention, queries, keys, summed)
    except ValueError as error:
        raise UserError(f"--query, --states: {error}") from None
    if as_json:
        answer_json(_record(walked, labels))
    else:
        answer(as_text(walked, labels))


def _rows(option: str, text: str) -> list[list[float]]:
    """The rows of numbers in the text of an option; UserError that names the first bad row."""
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


def _attention(
    scorer: str, options: list[str], normaliser: str, query_size: int, key_size: int, seed: int
) -> Attention:
    import torch

    from seq2seq_attn.attention import Attention

    scorer_config, normaliser_config = _scorer(scorer, options), _normaliser(normaliser)
    torch.manual_seed(seed)
    try:
        attention = Attention(scorer_config(query_size, key_size), normaliser_config())
    except (TypeError, ValueError) as error:
        raise UserError(f"a query of size {query_size} and states of size {key_size}: {error}") from None
    return attention.double().eval()  # eval: without the noise of training


def _scorer(name: str, options: list[str]) -> ScorerConfig:
    from seq2seq_attn.models.context_config import ScorerConfig
    from seq2seq_attn.runs.plugin import find_scorer
    from seq2seq_attn.strict import override, parse

    return parse(ScorerConfig, override({"name": find_scorer(name)}, options))


def _normaliser(text: str) -> NormaliserConfig:
    from seq2seq_attn.models.context_config import NormaliserConfig
    from seq2seq_attn.strict import override, parse

    name, *options = text.split() or [""]
    return parse(NormaliserConfig, override({"name": name}, options))


def _record(walked: Walk, words: list[str] | None) -> dict[str, Any]:
    scorer, normaliser = walked.attention.scorer, walked.attention.normaliser
    return {
        "scorer": {"name": type(scorer).__name__, "equation": scorer.equation, "source": scorer.source},
        "normaliser": {"name": type(normaliser).__name__, "equation": normaliser.equation, "source": normaliser.source},
        "parameters": {name: value.tolist() for name, value in scorer.state_dict().items()},
        "words": words,
        "keys": walked.keys.tolist(),
        "values": walked.values.tolist(),
        "prepared": walked.prepared.tolist(),
        "steps": [_step(step) for step in walked.steps],
    }


def _step(step: WalkStep) -> dict[str, Any]:
    """null stands for a score of -inf, which JSON cannot represent, and for what the normaliser does not compute."""
    numbers = {name: None if part is None else part.tolist() for name, part in step._asdict().items()}
    scores = [None if score == -math.inf else score for score in step.scores.tolist()]
    return numbers | {"scores": scores}
