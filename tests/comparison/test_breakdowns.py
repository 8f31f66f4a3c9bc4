"""Breakdowns by group: computed from runs written by hand, without a model."""

from types import SimpleNamespace

import numpy as np
import pytest
from counted import bleu, bleu_counts, chrf_counts

from seq2seq_attn.analysis.scoring import AttentionRecord
from seq2seq_attn.comparison.arms import Arm
from seq2seq_attn.comparison.breakdowns import link_agreement, where_arms_differ
from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import GoldCorpus, parse_links
from seq2seq_attn.evaluation.metrics import METRICS
from seq2seq_attn.evaluation.resampling import score_interval
from seq2seq_attn.runs import corpora as data

SOURCES = ["a b", "a q", "b a c", "c c c b", "a a", "z a b"]
REFERENCES = ["A B", "A Q", "C A B", "B C C C", "A A", "B A Z"]
GOLD = ["0-0 1-1", "0-0 1-1", "2-0 1-1 0-2", "3-0 0-1 1-2 2-3", "0-0 1-1", "2-0 1-1 0-2"]  # jumps: 0 0 2 4/3 0 2
TRAINING = ParallelCorpus(["a b c"] * 6 + ["b c c"] * 50, ["A B C"] * 56)


def links(lines):
    return [parse_links(line).sure for line in lines]


def arm(runs, readings, grid):
    counts = {"bleu": bleu_counts(runs, REFERENCES, "none"), "chrf": chrf_counts(runs, REFERENCES)}
    return Arm(grid.runs[:1], [SimpleNamespace(translations=run) for run in runs], readings, counts)


@pytest.fixture
def arms(grid):
    reading = AttentionRecord(links(["0-0", "1-1", "0-0", "", "0-0 1-1", "2-0"]), [0.5, 0.1, 1.2, None, 0.3, 0.9])
    second = AttentionRecord(links(["0-0", "0-0", "2-0", "", "0-0 1-1", "2-0"]), [0.7, 0.1, 1.0, None, 0.3, 1.1])
    return {
        "fixed": arm([["A A A A", "A", "A B", "B B", "A A", "Z"], ["A", "A", "A", "A", "A A A A", "A"]], [], grid),
        "attention": arm([REFERENCES, ["A B", "A Q", "C B A", "B C C C", "A A", "B A Z"]], [reading, second], grid),
    }


@pytest.fixture
def where(arms, grid):
    def where(gold=None, training=TRAINING):
        pairs = ParallelCorpus(SOURCES, REFERENCES)
        known = gold and GoldCorpus(links(gold), links(gold))
        test_set = data.TestSet(pairs, [len(line.split()) for line in SOURCES], None, known)
        return where_arms_differ(arms, test_set, grid.runs[0].config, METRICS["bleu"], training)

    return where


def test_all_arms_are_scored_on_the_same_groups(where, arms):
    by_word, by_jump, by_entropy = where(GOLD).breakdowns
    assert by_word.groups == ("unseen", "6-50", "51+")  # q and z are unseen; the training text has a six times
    assert [[result.sentences for result in results] for results in by_word.arms.values()] == [[2, 3, 1]] * 2
    assert [result.words for result in by_word.arms["fixed"]] == [2.5, pytest.approx(7 / 3), 4]
    assert by_jump.groups == ("to 0", "0 to 1.34", "over 1.34")
    for name, tested in arms.items():
        for result, rows in zip(by_jump.arms[name], [(0, 1, 4), (3,), (2, 5)], strict=True):
            picked = [[run.translations[row] for row in rows] for run in tested.tested]
            scores = [bleu(run, [REFERENCES[row] for row in rows], "none").value for run in picked]
            assert result.main.value == pytest.approx(np.mean(scores))
            for key, counts in tested.counts.items():
                interval = score_interval(counts.select(rows))
                assert (result.scores[key].low, result.scores[key].high) == (interval.low, interval.high)
    assert "gold links" in by_jump.meaning
    assert list(by_entropy.arms) == ["attention"]


def test_entropies_are_means_over_seeds_and_each_arm_has_its_own_bounds(where):
    (results,) = where(GOLD).breakdowns[-1].arms.values()
    # 0.6 0.1 1.1 - 0.3 1.0: ranked 0.1 0.3 | 0.6 1.0 | 1.1
    assert [result.bounds for result in results] == ["to 0.3 bits", "0.3 to 1 bits", "over 1 bits"]
    assert [result.sentences for result in results] == [2, 2, 1]


def test_without_gold_links_the_best_arm_that_has_links_measures_reordering(where, arms):
    breakdowns = where().breakdowns
    assert [each.name for each in breakdowns] == ["rarest source word", "entropy of the weights"]  # all jumps are 0
    arms["attention"].attention[0].links[3] = parse_links("0-0 3-1").sure
    by_jump = where().breakdowns[1]
    assert "by the links of attention, seed 1, as there are no gold links" in by_jump.meaning
    arms["attention"].attention.clear()
    assert [each.name for each in where().breakdowns] == ["rarest source word"]


def test_rates_are_sums_over_the_test_set_and_means_over_seeds(where):
    by_frequency, faults = where().rates
    assert by_frequency.groups == ("unseen", "51+")
    unseen, _ = by_frequency.arms["fixed"]
    assert (unseen.value, unseen.of) == ((1 / 2 + 0) / 2, 2)  # Z is found in one seed of two, Q in none
    assert by_frequency.arms["attention"][0].value == 1
    # With so few words all are frequent, so no content word can be missing.
    assert faults.groups == ("repeated bigrams", "outputs that repeat", "length")
    repeated, repeats, length = faults.arms["fixed"]
    assert (repeated.value, repeated.of) == (pytest.approx((2 / 6 + 2 / 3) / 2), round((6 + 3) / 2))
    assert repeats.value == 1 / 6
    assert length.value == pytest.approx((12 / 16 + 9 / 16) / 2)
    assert faults.arms["attention"][2].value == 1


def test_without_the_training_text_there_is_no_breakdown_by_rare_words(where):
    found = where(training=None)
    assert [each.name for each in found.rates] == ["repetition and omission"]
    assert "rarest source word" not in [each.name for each in found.breakdowns]


def test_agreement_is_f1_over_pairs_of_runs_and_of_an_arm_with_itself_over_its_seeds(where):
    one, two, three = (links(each) for each in (["0-0 1-1", "0-0"], ["0-0", "0-1"], ["0-0 1-1 2-2", "0-0"]))
    table = link_agreement({"x": [one, two], "nothing": [], "y": [three]})
    assert table.arms == ("x", "y")
    # one and two share 1 of 3 and 2 links, one and three 3 of 3 and 4, two and three 1 of 2 and 4
    assert table.f1[0] == pytest.approx((2 / 5, (6 / 7 + 2 / 6) / 2))
    assert table.f1[1] == (pytest.approx((6 / 7 + 2 / 6) / 2), None)
    assert link_agreement({"x": [], "y": [three]}) is None


def test_an_attention_record_is_saved_in_the_run_folder(tmp_path):
    assert AttentionRecord.load(tmp_path, 3) is None, "a run from before"
    reading = AttentionRecord(links(["1-0 0-1", "", "0-0"]), [1.25, None, 0.0])
    reading.save(tmp_path)
    assert AttentionRecord.load(tmp_path, 3) == reading
    AttentionRecord([frozenset()] * 2, [None, None]).save(tmp_path)
    assert AttentionRecord.load(tmp_path, 2) is None, "nothing was read"


@pytest.mark.parametrize(("text", "complaint"), [("1.0\n", "1 lines for 2 pairs"), ("x\n1.0\n", "'x'")])
def test_a_damaged_attention_record_is_named(tmp_path, text, complaint):
    AttentionRecord(links(["0-0", "0-0"]), [1.0, 1.0]).save(tmp_path)
    (tmp_path / "test.entropies.txt").write_text(text)
    with pytest.raises(UserError, match=r"test.entropies.txt: damaged or edited"):
        AttentionRecord.load(tmp_path, 2)
    (tmp_path / "SHA256SUMS").write_text("# seq2seq_attn\n")
    with pytest.raises(UserError, match=f"test.entropies.txt: .*{complaint}.*; evaluate the run again"):
        AttentionRecord.load(tmp_path, 2)
