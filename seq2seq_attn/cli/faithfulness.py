"""`faithfulness`: whether a model's attention explains what it predicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from seq2seq_attn.cli.arguments import AsJson, Plugin, RunFolder, SourceFile, TargetFile, load_model, report_unknown
from seq2seq_attn.cli.console import answer, progress
from seq2seq_attn.options import FaithfulnessOptions, takes

if TYPE_CHECKING:
    from seq2seq_attn.analysis.faithfulness import Faithfulness
    from seq2seq_attn.analysis.interventions import Effect
    from seq2seq_attn.evaluation.attention_weights import RankCorrelation

_CHANGES = {
    "uniform": "uniform weights",
    "permuted": "permuted among tokens",
    "of_another_sentence": "of another sentence",
    "most_read_erased": "most read token erased",
    "another_erased": "a random other erased",
}
_MEASURES = {"weights": "weights", "gradient": "gradient", "leave_one_out": "leave-one-out"}
_MEANINGS = (
    "log p: change of the log-probability of a reference token, in nats; negative if the weights helped",
    "perplexity: per reference token, under the change",
    "changed: share of tokens for which the most likely prediction changes",
    "TVD, JSD: total variation (0 to 1) and Jensen-Shannon divergence (nats, 0 to 0.693) of the predictions before and "
    "after; near 0 if the model ignores the change",
    "moved: total variation of the weights before and after; near 0 if the change was small",
    "tau: Kendall's rank correlation, over the words of a source, between two measures of how much a prediction "
    "depends on each word; 1 for the same order, 0 for unrelated orders; mean and deviation over target tokens",
    "what these figures show and what they do not show: docs/explanation.md",
)


@takes(FaithfulnessOptions)
def faithfulness(
    run: RunFolder,
    source: SourceFile,
    target: TargetFile,
    *,
    as_json: AsJson = False,
    plugin: Plugin = None,
    **options: Any,
) -> None:
    """Test whether attention explains what a model predicts.

    The model predicts the given targets while its weights are replaced at every step: by uniform weights, by a
    permutation of them, by those of another sentence, or by weights in which the most attended token or a random other
    token is erased. The columns are the change of log p per token, in nats; the perplexity; the share of tokens for
    which the most likely prediction changes; total variation (TVD) and Jensen-Shannon divergence (JSD) of the
    predictions before and after; and the total variation of the weights. Large values mean that predictions depend on
    the weights.

    The second table is Kendall's tau, over the words of a source, between the weights, the gradient of log p with
    respect to the embedding of a word, and the change of log p when the word is left out. High values mean that the
    words with high weights are those that matter most. See docs/explanation.md for the limits of these conclusions.

    Examples:
        seq2seq-attn faithfulness runs/x test.en test.de
        seq2seq-attn faithfulness runs/x test.en test.de --sentences 200 --json
    """
    from seq2seq_attn.corpora.corpus import read_parallel

    pairs = read_parallel(source, target)
    model = load_model(run, plugin)
    report_unknown(model, pairs.source)
    with progress("pairs", len(pairs) + min(options["sentences"], len(pairs))) as advance:
        found = model.faithfulness(pairs, progress=advance, **options)
    answer(_record(found, options["seed"]) if as_json else "\n".join(_table(found)))


def _record(found: Faithfulness, seed: int) -> dict[str, Any]:
    effects = found.interventions
    return {
        "seed": seed,
        "tokens": effects.tokens,
        "perplexity": effects.perplexity,
        "interventions": effects.effects,
        "sentences": found.sentences,
        "correlations": [{"of": names, **tau._asdict()} for names, tau in found.correlations.items()],
    }


def _table(found: Faithfulness) -> Iterator[str]:
    effects = found.interventions
    yield f"{'weights':<26}{'log p':>8}{'perplexity':>12}{'changed':>9}{'TVD':>7}{'JSD':>7}{'moved':>7}"
    yield f"{'unchanged':<26}{'':>8}{effects.perplexity:>12,.3f}"
    for name, effect in effects.effects.items():
        yield f"{_CHANGES[name]:<26}{_figures(effect)}"
    yield f"({effects.tokens:,} target tokens)\n"
    if found.correlations:
        yield f"{'rank correlation':<26}{'tau':>8}{'deviation':>12}{'tokens':>9}"
        for (one, other), tau in found.correlations.items():
            yield f"{f'{_MEASURES[one]}, {_MEASURES[other]}':<26}{_rank(tau)}"
        yield f"({found.sentences:,} sentences)\n"
    yield from (f"- {meaning}" for meaning in _MEANINGS)


def _figures(effect: Effect) -> str:
    rates = "".join(f"{rate:7.3f}" for rate in (effect.total_variation, effect.jensen_shannon, effect.moved))
    return f"{effect.log_probability:+8.3f}{effect.perplexity:12,.3f}{effect.changed:9.3f}{rates}"


def _rank(tau: RankCorrelation) -> str:
    if tau.mean is None or tau.deviation is None:
        return f"{'–':>8}{'–':>12}{0:>9}  one of the two is constant over all words"
    return f"{tau.mean:+8.3f}{tau.deviation:12.3f}{tau.rows:9,}"
