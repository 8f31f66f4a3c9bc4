"""The candidate of the highest mean utility, by hand."""

import pytest
from sacrebleu import BLEU, CHRF

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.bayes_risk import mean_utilities, utility_metric

CANDIDATES = ["the cat sat on the mat", "a cat sat on the mat", "the cat sat on a mat", "dogs bark"]


@pytest.mark.parametrize(("name", "reference"), [("chrf", CHRF()), ("bleu", BLEU(effective_order=True))])
def test_a_utility_is_the_mean_of_sacrebleus_sentence_scores(name, reference):
    found = mean_utilities(CANDIDATES, utility_metric(name, "13a"))
    for index, (ours, value) in enumerate(zip(CANDIDATES, found, strict=True)):
        others = [theirs for place, theirs in enumerate(CANDIDATES) if place != index]
        scores = [reference.sentence_score(ours, [theirs]).score for theirs in others]
        assert value == pytest.approx((100 + sum(scores)) / 4)
    assert max(found) == found[0]  # which is nearest to the two that differ from it in a word
    assert min(found) == found[3]


class Overlap:
    """The share of a hypothesis's words that the reference has, as sacrebleu returns a score."""

    def sentence_score(self, ours, references):
        (theirs,) = references
        words = ours.split()
        self.score = 100 * sum(word in theirs.split() for word in words) / len(words)
        return self


def test_the_first_text_is_the_hypothesis_and_the_second_its_reference():
    # u(a, ab) = 100, u(ab, a) = 50, and 0 with c
    assert mean_utilities(["a", "a b", "c"], Overlap()) == pytest.approx([200 / 3, 150 / 3, 100 / 3])


def test_duplicates_count():
    few = mean_utilities(["a b", "a c", "d e"], Overlap())
    many = mean_utilities(["a b", "d e", "a c", "d e", "d e"], Overlap())
    assert few == pytest.approx([50, 50, 100 / 3])
    assert many == pytest.approx([30, 60, 30, 60, 60])


@pytest.mark.parametrize("name", ["chrf", "bleu"])
def test_the_text_of_the_majority_wins(name):
    candidates = ["b", "", "", "a b c d", ""]
    found = mean_utilities(candidates, utility_metric(name, "none"))
    assert max(zip(found, candidates, strict=True)) == (pytest.approx(60), "")


def test_chinese_has_n_grams_with_its_tokeniser_and_unknown_ones_are_named():
    pair = ["汤姆追逐杰瑞", "汤姆追逐斯派克"]
    assert min(mean_utilities(pair, utility_metric("bleu", "zh"))) > max(
        mean_utilities(pair, utility_metric("bleu", "13a"))
    )
    with pytest.raises(UserError, match="no tokeniser 'zhh'"):
        utility_metric("bleu", "zhh")
