"""The test sentences on which an arm gains most over the baseline, and those on which it loses most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seq2seq_attn.evaluation.corpus_scores import sentence_chrf
from seq2seq_attn.results.observations import SHOWN, ContrastiveSentence, ContrastiveSentences, ScoredTranslation
from seq2seq_attn.text.corpus import ParallelCorpus


def extremes(
    pairs: ParallelCorpus, translations: Mapping[str, Sequence[str]], baseline: str, signature: str
) -> ContrastiveSentences:
    """By the difference in sentence-level chrF, `SHOWN` at each end of each comparison with the baseline.

    `translations` are those of one run an arm, `signature` is that of the corpus-level chrF.
    """
    scores = {
        arm: [round(score, 2) for score in sentence_chrf(lines, pairs.target)] for arm, lines in translations.items()
    }
    every = [
        ContrastiveSentence(
            index + 1,
            pairs.source[index],
            pairs.target[index],
            {arm: ScoredTranslation(lines[index], scores[arm][index]) for arm, lines in translations.items()},
        )
        for index in range(len(pairs))
    ]
    whole = ContrastiveSentences("chrF2", signature, tuple(every))
    ranked = [whole.ranked(arm, baseline) for arm in translations if arm != baseline]
    shown = {sentence.line for each in ranked for sentence in (*each[:SHOWN], *each[-SHOWN:])}
    return ContrastiveSentences("chrF2", signature, tuple(sentence for sentence in every if sentence.line in shown))
