"""The sentences on which arms differ most: selection and scores."""

from seq2seq_attn.comparison.observe import extremes
from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.evaluation.corpus_scores import Expected
from seq2seq_attn.evaluation.counts import chrf_counting
from seq2seq_attn.results.examples import (
    SENTENCES,
    SHOWN,
    ContrastiveSentence,
    ContrastiveSentences,
    ScoredTranslation,
)

REFERENCES = [f"the {word} sat on mat number {index}" for index, word in enumerate(["cat", "dog", "fox"] * 9)]
EXPECTED = Expected([REFERENCES])
PAIRS = ParallelCorpus([f"source {index}" for index in range(27)], REFERENCES, "test")
TRANSLATIONS = {
    "baseline": [line[: 8 + index] for index, line in enumerate(REFERENCES)],
    "better": [line if index % 2 else line[:4] for index, line in enumerate(REFERENCES)],
    "other": [line[5:] for line in REFERENCES],
}


SCORING = chrf_counting(EXPECTED)
SCORES = {arm: SCORING.score_sentences(lines) for arm, lines in TRANSLATIONS.items()}


def compared(*arms):
    sentences = [
        ContrastiveSentence(
            line + 1,
            PAIRS.source[line],
            PAIRS.target[line],
            {arm: ScoredTranslation(TRANSLATIONS[arm][line], round(SCORES[arm][line], 2)) for arm in arms},
        )
        for line in range(len(PAIRS))
    ]
    return ContrastiveSentences("chrF2", SCORING.signature, tuple(sentences))


def test_both_extremes_of_every_comparison_are_included_verbatim(tmp_path):
    found = extremes(compared(*TRANSLATIONS), "baseline")
    SENTENCES.save(found, tmp_path)
    assert SENTENCES.load(tmp_path) == found
    lines = [sentence.line for sentence in found.sentences]
    assert lines == sorted(set(lines))
    assert len(lines) < len(REFERENCES)
    for arm in ("better", "other"):
        gains = [ours - theirs for ours, theirs in zip(SCORES[arm], SCORES["baseline"], strict=True)]
        ranked = [sentence.difference(arm, "baseline") for sentence in found.ranked(arm, "baseline")]
        for end in (slice(SHOWN), slice(-SHOWN, None)):
            expected = sorted(gains, reverse=True)[end]
            assert all(abs(ours - theirs) < 0.02 for ours, theirs in zip(ranked[end], expected, strict=True))
    for sentence in found.sentences:
        assert (sentence.source, sentence.reference) == (PAIRS.source[sentence.line - 1], REFERENCES[sentence.line - 1])
        assert {arm: each.text for arm, each in sentence.translations.items()} == {
            arm: lines[sentence.line - 1] for arm, lines in TRANSLATIONS.items()
        }


def test_a_single_arm_has_no_extremes():
    assert extremes(compared("baseline"), "baseline").sentences == ()
