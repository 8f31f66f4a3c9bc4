"""The registry of metrics: one record is all that a metric takes."""

import math
import random

import numpy as np
import pytest
import sacrebleu
from counted import bleu

from seq2seq_attn.evaluation.alignment import GoldCorpus, parse_links
from seq2seq_attn.evaluation.corpus_scores import Expected, Score, lc_norm_tok
from seq2seq_attn.evaluation.counts import edit_distance
from seq2seq_attn.evaluation.metrics import (
    METRICS,
    ForcedTest,
    Metric,
    find_metrics,
    register,
    score_forced,
    score_lines,
    score_translations,
    score_value,
    with_given_files,
)


@pytest.fixture
def lines(references, spoil):
    return spoil(references, 0.3, seed=2)


def test_lowercased_tokenized_bleu_is_scored_only_with_references_of_that_kind(lines, references):
    lowercased = [line.lower() for line in references]
    test = Expected([references], lc_tok=lowercased)
    score = score_translations(lines, test, with_given_files([METRICS["bleu"]], test))["bleu_lc_tok"]
    tokenized = [lc_norm_tok(line, "en") for line in lines]
    assert score["value"] == bleu(tokenized, lowercased, tokenize="none", lowercase=True).value
    assert score["signature"].startswith("nrefs:1|case:lc")
    assert METRICS["bleu_lc_tok"].score(lines, Expected([references])) is None


@pytest.mark.parametrize("key", [key for key, metric in METRICS.items() if metric.counting is not None])
@pytest.mark.parametrize("lowercase", [False, True])
def test_the_counts_of_sentences_sum_to_the_score_of_the_corpus(key, lowercase, lines, references, spoil):
    """With the same signature; to the last digit, as validation selects weights by counts and `evaluate` reports."""
    second = ["" if number % 3 else line for number, line in enumerate(spoil(references, 0.2, seed=5))]
    test = Expected([references, second], lowercase=lowercase, lc_tok=[line.lower() for line in references])
    metric = METRICS[key]
    counts = metric.counts([lines, second], test)
    assert counts.counts.shape[:2] == (2, len(references))
    for run, translations in enumerate((lines, second)):
        score = metric.score(translations, test)
        assert counts.scores()[run] == counts.counting.score_corpus(translations) == score.value
        assert counts.signature() == score.signature


def test_error_rates_are_edits_per_word_or_character_of_the_nearest_reference():
    ours, theirs = ["the cat sat", "a", ""], ["the cat  sat down", "a", "b"]
    assert METRICS["wer"].score(ours, Expected([theirs])).value == pytest.approx(100 * (1 + 0 + 1) / (4 + 1 + 1))
    assert METRICS["cer"].score(ours, Expected([theirs])).value == pytest.approx(100 * (5 + 0 + 1) / (16 + 1 + 1))
    nearest = Expected([theirs, ["the cat sat", "", "x y"]])
    assert METRICS["wer"].score(ours, nearest).value == pytest.approx(100 * (0 + 0 + 1) / (3 + 1 + 1))


def test_the_edit_distance_is_that_of_a_plain_recursion():
    def plain(one, other):
        if not one or not other:
            return len(one) + len(other)
        same = plain(one[1:], other[1:]) + (one[0] != other[0])
        return min(same, plain(one[1:], other) + 1, plain(one, other[1:]) + 1)

    draw = random.Random(3)
    for _ in range(60):
        one, other = ("".join(draw.choices("abc", k=draw.randint(0, 6))) for _ in range(2))
        assert edit_distance(one, other) == plain(one, other)


def test_a_metric_that_cannot_be_validated_by_does_not_come_first():
    assert [metric.key for metric in find_metrics(["wer", "ter"], None)] == ["wer", "ter"]
    for keys, reason in (
        (["ter", "bleu"], "'ter' cannot come first"),
        (["bleu_lc_tok"], "cannot come first"),
        (["blue"], "did you mean 'bleu'"),
        (["perplexity"], "no metric 'perplexity' of outputs"),
        (["bleu", "bleu"], "each once"),
        ([], "at least one"),
    ):
        with pytest.raises(ValueError, match=reason):
            find_metrics(keys, None)


def test_whether_a_score_is_informative_depends_on_the_direction():
    assert [METRICS["bleu"].is_informative(score) for score in (0.5, 1.0, math.nan)] == [False, True, True]
    assert [METRICS["wer"].is_informative(score) for score in (130.0, 100.0, 20.0)] == [False, True, True]
    assert METRICS["bleu_lc_tok"].is_informative(0.0)


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
    for ways in ({}, {"counting": lambda test: None, "from_forced": lambda test: None}):
        with pytest.raises(ValueError, match="metric 'x' needs either counting or from_translations, or from_forced"):
            Metric("x", "X", "X", 1, "higher", "an unknown", **ways)


def test_lines_have_the_sentence_scores_of_sacrebleu_and_one_reference_may_be_missing():
    ours = ["the cat sat on a mat", "a dog", "they saw it here at once", "", "same words here now"]
    theirs = ["the cat sat on the mat", "a dog ran", "it was there", "something", "same words here now"]
    second = ["a cat sat on a mat", "", "they saw it", "else", ""]
    expected = Expected([theirs, second])
    metrics = [METRICS[key] for key in ("bleu", "chrf", "ter", "exact_match", "wer")]
    found = score_lines([("mine", ours), ("theirs", theirs)], expected, metrics)
    assert [(each["output"], each["line"]) for each in found["lines"]] == [
        (name, line) for name in ("mine", "theirs") for line in range(1, 6)
    ]
    for mine, line, *references in zip(ours, found["lines"], theirs, second, strict=False):
        known = [each for each in references if each]
        for key in ("bleu", "chrf", "ter"):
            sentence = getattr(sacrebleu, f"sentence_{key}")(mine, known)
            assert line[key] == pytest.approx(sentence.score, abs=1e-9), (key, mine)
        assert line["exact_match"] == 100 * (mine in known)
    # By hand: one word of six is another, one of three is missing, and three follow the whole of the nearer reference.
    assert [line["wer"] for line in found["lines"][:3]] == pytest.approx([100 / 6, 100 / 3, 100.0])
    # All words and bigrams are those of the reference, which is longer: exp(1 - 3/2).
    assert found["lines"][1]["bleu"] == pytest.approx(100 * math.exp(1 - 3 / 2))
    assert found["signatures"]["bleu"].startswith("nrefs:var|case:mixed|eff:yes|tok:13a|smooth:exp|")


def test_metrics_that_need_a_file_or_have_no_score_of_a_line():
    expected = Expected([["Das Haus ist klein."]], language="de", lc_tok=["das haus ist klein ."])
    mine = Metric("mine", "mine", "Mine", 1, "higher", "one of a user", from_translations=lambda *_: Score(1.0, "s"))
    metrics = with_given_files([METRICS["bleu"], mine], expected)
    found = score_lines([("x", ["Das Haus war klein."])], expected, metrics)
    (line,) = found["lines"]
    assert found["signatures"]["mine"] is None
    assert set(line) == {"output", "line", "bleu", "bleu_lc_tok"}
    lowered = sacrebleu.sentence_bleu("das haus war klein .", ["das haus ist klein ."], tokenize="none").score
    assert line["bleu_lc_tok"] == pytest.approx(lowered)
    assert found["signatures"]["bleu_lc_tok"].partition("|hyp:")[2].startswith("lowercase+moses-normalize")
