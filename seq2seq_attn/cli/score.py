"""`score`: what a model thinks of translations that are given."""

from __future__ import annotations

from seq2seq_attn.cli.console import answer, answer_json, progress
from seq2seq_attn.cli.model import load_model
from seq2seq_attn.cli.options import AsJson, Plugin, Run, Source, Target


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
