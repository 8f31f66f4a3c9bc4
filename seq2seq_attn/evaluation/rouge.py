"""ROUGE (Lin 2004), the usual metric of summaries, as the package rouge-score counts it."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

from seq2seq_attn.errors import needing
from seq2seq_attn.evaluation.corpus_scores import Expected
from seq2seq_attn.evaluation.counts import Counting, percentage

_WHOLE = 10**6  # a sentence's F1 is counted in millionths


def rouge_counting(kind: str) -> Callable[[Expected], Counting]:
    """How ROUGE of a kind counts: the F1 of each sentence, whose mean is the score of a corpus.

    Words are runs of letters a to z and digits, lowercased, without their endings (Porter's stemmer). Of several
    references, the one with the highest F1 counts.

    Args:
        kind: `rouge1` counts words that both have, `rouge2` pairs of neighbors, `rougeL` the longest common
            subsequence.

    Returns:
        A function for `Metric.counting`. UserError: rouge-score is not installed.
    """

    def counting(expected: Expected) -> Counting:
        with needing("ROUGE"):
            from rouge_score.rouge_scorer import RougeScorer
        scorer = RougeScorer([kind], use_stemmer=True)

        def f1(ours: str, theirs: str) -> tuple[int, int]:
            return round(_WHOLE * scorer.score(theirs, ours)[kind].fmeasure), _WHOLE

        settings = f"metric:{kind}-F1", "stem:porter", "mean:sentences", f"rouge_score:{version('rouge_score')}"
        return percentage(expected._replace(lowercase=True), f1, max, *settings)

    return counting
