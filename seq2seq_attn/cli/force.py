"""`align` and `score`: what a model makes of translations that are given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from seq2seq_attn.cli.console import answer, answer_json, progress, say
from seq2seq_attn.cli.model import load_model
from seq2seq_attn.cli.options import AsJson, Plugin, Run, Source, Target, file

if TYPE_CHECKING:
    from seq2seq_attn.evaluation.alignment import Agreement
    from seq2seq_attn.evaluation.pharaoh import Links


def align(
    run: Run,
    source: Source,
    target: Target,
    gold: Annotated[Path | None, file("Gold links, Pharaoh format, plain or .gz: adds the error rate.")] = None,
    as_json: AsJson = False,
    plugin: Plugin = None,
) -> None:
    """Print the word alignments of sentence pairs.

    The format is Pharaoh's: a line a pair, `i-j` for source word i and target word j, counted from 0. A target word
    is linked to the source word that was read most while the model predicted it. A pair with a blank side gives a
    blank line. With --gold, AER, precision and recall follow on stderr (with --json, in the answer).
    """
    from seq2seq_attn.evaluation.alignment import agreement
    from seq2seq_attn.evaluation.pharaoh import format_links, read_gold
    from seq2seq_attn.lab.align import attend
    from seq2seq_attn.text.corpus import read_parallel

    pairs = read_parallel(source, target)
    known = read_gold(gold, len(pairs)) if gold else None
    model = load_model(run, plugin)
    with progress("pairs", len(pairs)) as advance:
        seen = attend(model, pairs.source, pairs.target, advance)
    links: list[Links] = [frozenset() if pair is None else pair.links for pair in seen]
    if not any(links):
        say(f"no links: the model of {run} reads no single word of the source (model.context.kind)")
    agreed = agreement(links, *known) if known else None
    if as_json:
        answer_json({"links": [sorted(pair) for pair in links]} | (_rates(agreed) if agreed else {}))
        return
    for pair in links:
        answer(format_links(pair))
    if agreed:
        say(", ".join(f"{name} {value:.4f}" for name, value in _rates(agreed).items()))


def _rates(agreed: Agreement) -> dict[str, float]:
    return {"aer": agreed.error_rate, "precision": agreed.precision, "recall": agreed.recall}


def score(run: Run, source: Source, target: Target, as_json: AsJson = False, plugin: Plugin = None) -> None:
    """Print the log-probability of sentence pairs.

    It is log p(target | source), the natural logarithm, summed over the target's tokens and `</s>`. A pair with a
    blank side gives a blank line. With --json a line is {"source", "target", "log_probability", "tokens",
    "log_probabilities"}, the last two token by token; null for a blank pair.
    """
    from seq2seq_attn.text.corpus import read_parallel

    pairs = read_parallel(source, target)
    model = load_model(run, plugin)
    with progress("pairs", len(pairs)) as advance:
        forced = model.force(pairs.source, pairs.target, advance)
    for left, right, found in zip(pairs.source, pairs.target, forced, strict=True):
        if not as_json:
            answer("" if found is None else f"{found.total:.6f}")
            continue
        values = {
            "log_probability": found and found.total,
            "tokens": found and [*model.target.pieces(right), "</s>"],
            "log_probabilities": found and found.log_probabilities.tolist(),
        }
        answer_json({"source": left, "target": right} | values)
