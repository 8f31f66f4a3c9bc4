"""The registry of metrics: one record is all that a metric takes."""

import numpy as np
import pytest

from seq2seq_attn.evaluation.alignment import GoldCorpus, parse_links
from seq2seq_attn.evaluation.corpus_scores import bleu, bleu_lc_tok, chrf, exact_match, ter
from seq2seq_attn.evaluation.metrics import (
    METRICS,
    ForcedTest,
    Metric,
    TranslatedTest,
    register,
    score_forced,
    score_translations,
    score_value,
)


@pytest.fixture
def test(references, spoil):
    return TranslatedTest(spoil(references, 0.3, seed=2), references)


def test_translations_get_every_score_with_its_signature(test, references):
    expected = {
        "bleu": bleu(test.translations, references),
        "chrf": chrf(test.translations, references),
        "ter": ter(test.translations, references),
        "exact_match": exact_match(test.translations, references),
    }
    plain = {key: {"value": each.value, "signature": each.signature} for key, each in expected.items()}
    assert score_translations(test) == plain
    assert score_translations(test, skip=["ter", "chrf"]).keys() == {"bleu", "exact_match"}


def test_lowercased_tokenized_bleu_is_scored_only_with_references_of_that_kind(test, references):
    lowercased = [line.lower() for line in references]
    score = score_translations(test._replace(lc_tok=lowercased))["bleu_lc_tok"]
    assert score["value"] == bleu_lc_tok(test.translations, lowercased, "en").value
    assert score["signature"].startswith("nrefs:1|case:lc")


def forced(lines, gold=None):
    return ForcedTest(
        log_likelihood=-6.0,
        tokens=4,
        weights=[np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([[0.25] * 4])],
        links=[parse_links(line).sure for line in lines],
        gold=gold and GoldCorpus(*zip(*map(parse_links, gold), strict=True)),
    )


def test_forced_decoding_gives_perplexity_entropy_and_alignment_error_rate():
    scores = score_forced(forced(["0-0 1-1", "0-0"], gold=["0-0 0-1", "0-0"]))
    assert scores["perplexity"] == pytest.approx(np.exp(6 / 4))
    assert scores["attention_entropy"] == pytest.approx((0 + 1 + 2) / 3)
    assert scores["aer"] == pytest.approx(1 - (2 + 2) / (3 + 3))


@pytest.mark.parametrize(("lines", "gold"), [(["0-0", "0-0"], None), (["", ""], ["0-0", "0-0"])])
def test_without_gold_or_predicted_links_there_is_no_alignment_error_rate(lines, gold):
    assert score_forced(forced(lines, gold))["aer"] is None


def test_a_value_is_found_for_both_kinds_of_metrics():
    scores = {"bleu": {"value": 12.5, "signature": "s"}, "perplexity": 3.5, "aer": None}
    assert [score_value(scores, key) for key in ("bleu", "perplexity", "aer", "chrf")] == [12.5, 3.5, None, None]


def test_a_duplicate_key_and_an_ambiguous_metric_are_refused(monkeypatch):
    with pytest.raises(ValueError, match="there is a metric 'bleu' already"):
        register(METRICS["bleu"])
    for ways in ({}, {"from_translations": lambda test: None, "from_forced": lambda test: None}):
        with pytest.raises(ValueError, match="metric 'x' needs either from_translations or from_forced"):
            Metric("x", "X", "X", 1, "higher", "an unknown", **ways)


def test_the_explanation_of_a_metric_ends_with_the_better_direction():
    assert METRICS["ter"].explanation == "TER: edits per 100 reference words, lower is better"
    assert METRICS["attention_entropy"].direction is None
    assert "better" not in METRICS["attention_entropy"].explanation
