"""ROUGE by numbers from hand and as rouge-score computes it, and its mean over sentences."""

import sys

import numpy as np
import pytest

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.corpus_scores import Expected
from seq2seq_attn.evaluation.metrics import METRICS

rouge_scorer = pytest.importorskip("rouge_score.rouge_scorer", reason="the extra [rouge] is not installed")

OURS = ["a fast parser of XML files", "parsers", "the dog"]
REFERENCES = ["fast XML parsers", "parser", "a cat"]


@pytest.mark.parametrize(
    ("key", "first"),
    [
        # Of 6 words and 3, stemmed, 3 are shared: P = 3/6, R = 3/3. No pair of neighbors of 5 and 2 is. In order: 2.
        ("rouge_1", 200 * 0.5 / 1.5),
        ("rouge_2", 0.0),
        ("rouge_l", 200 * (2 / 6) * (2 / 3) / (2 / 6 + 2 / 3)),
    ],
)
def test_a_score_is_the_mean_of_the_f1_of_sentences(key, first):
    metric = METRICS[key]
    sentences = metric.score_sentences(OURS, Expected([REFERENCES])).values
    second = 0.0 if key == "rouge_2" else 100.0  # a single word has no neighbor
    assert sentences == pytest.approx([first, second, 0.0], abs=1e-3)
    found = metric.score(OURS, Expected([REFERENCES]))
    assert found.value == pytest.approx(np.mean(sentences), abs=1e-3)
    assert f"metric:rouge{key[-1].upper()}-F1" in found.signature
    assert "case:lc|" in found.signature


def test_the_best_of_several_references_counts():
    references = [REFERENCES, ["a fast parser of XML files", "", "the dog barks"]]
    best = METRICS["rouge_1"].score_sentences(OURS, Expected(references)).values
    scorer = rouge_scorer.RougeScorer(["rouge1"], use_stemmer=True)
    alone = [
        max(100 * scorer.score(each, ours)["rouge1"].fmeasure for each in theirs if each)
        for ours, *theirs in zip(OURS, *references, strict=True)
    ]
    assert best == pytest.approx(alone, abs=1e-3)


def test_without_the_extra_the_way_to_install_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "rouge_score", None)
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    monkeypatch.setattr("seq2seq_attn.errors.requires", lambda _: ['rouge-score>=0.1.2; extra == "rouge"'])
    with pytest.raises(UserError, match=r"rouge_score.*seq2seq_attn\[rouge\]"):
        METRICS["rouge_l"].score(OURS, Expected([REFERENCES]))
