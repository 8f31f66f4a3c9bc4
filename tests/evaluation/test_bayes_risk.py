"""The candidate of the highest mean utility, by hand and by sacrebleu."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu import BLEU, CHRF

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.bayes_risk import bleu_matrix, chrf_matrix, mean_utilities, utility
from seq2seq_attn.evaluation.corpus_scores import Expected
from seq2seq_attn.evaluation.metrics import METRICS

CANDIDATES = ["the cat sat on the mat", "a cat sat on the mat", "the cat sat on a mat", "dogs bark"]


@pytest.mark.parametrize(("name", "reference"), [("chrf", CHRF()), ("bleu", BLEU(effective_order=True))])
def test_a_utility_is_the_mean_of_sacrebleus_sentence_scores(name, reference):
    found = mean_utilities(CANDIDATES, utility(METRICS[name], "13a"))
    for index, (ours, value) in enumerate(zip(CANDIDATES, found, strict=True)):
        others = [theirs for place, theirs in enumerate(CANDIDATES) if place != index]
        scores = [reference.sentence_score(ours, [theirs]).score for theirs in others]
        assert value == pytest.approx((100 + sum(scores)) / 4)
    assert max(found) == found[0]  # which is nearest to the two that differ from it in a word
    assert min(found) == found[3]


@given(st.lists(st.text(alphabet="abc \u6c64\u3000", max_size=12), max_size=6))
def test_chrf_of_all_pairs_is_sacrebleus(texts):
    expected = [[CHRF().sentence_score(ours, [theirs]).score for theirs in texts] for ours in texts]
    np.testing.assert_allclose(chrf_matrix(texts), np.reshape(expected, (len(texts), len(texts))), atol=1e-9)


def shared_words(texts):
    """The percentage of a text's words that occur in its reference."""
    words = [text.split() for text in texts]
    return np.array([[100 * sum(word in theirs for word in ours) / len(ours) for theirs in words] for ours in words])


def test_the_first_text_is_the_hypothesis_and_the_second_its_reference():
    # u(a, ab) = 100, u(ab, a) = 50, and 0 with c
    assert mean_utilities(["a", "a b", "c"], shared_words) == pytest.approx([200 / 3, 150 / 3, 100 / 3])


def test_duplicates_count():
    assert mean_utilities(["a b", "a c", "d e"], shared_words) == pytest.approx([50, 50, 100 / 3])
    found = mean_utilities(["a b", "d e", "a c", "d e", "d e"], shared_words)
    assert found == pytest.approx([30, 60, 30, 60, 60])


@pytest.mark.parametrize("name", ["chrf", "bleu"])
def test_the_text_of_the_majority_wins_even_if_it_is_empty(name):
    candidates = ["b", "", "", "a b c d", ""]
    found = mean_utilities(candidates, utility(METRICS[name], "none"))
    assert max(zip(found, candidates, strict=True)) == (pytest.approx(60), "")


@pytest.mark.parametrize("key", ["wer", "cer", "exact_match"])
def test_any_metric_that_counts_ranks_candidates(key):
    found = mean_utilities(CANDIDATES, utility(METRICS[key], "13a", lowercase=True))
    for ours, value in zip(CANDIDATES, found, strict=True):
        scores = [METRICS[key].score([ours], Expected([[theirs]])).value for theirs in CANDIDATES]
        assert value == pytest.approx(np.mean(scores) if key == "exact_match" else 100 - np.mean(scores))


def test_bleu_has_the_tokenizer_that_is_named():
    pair = ["汤姆追逐杰瑞", "汤姆追逐斯派克"]
    chinese, european = (mean_utilities(pair, partial(bleu_matrix, tokenize=name)) for name in ("zh", "13a"))
    assert min(chinese) > max(european)
    with pytest.raises(UserError, match="no tokenizer 'zhh'"):
        bleu_matrix(pair, "zhh")
