"""results.json, curves.json and attention.json: written as specified, parsed strictly."""

import json
import subprocess
import sys

import numpy as np
import pytest

from seq2seq_attn.errors import UserError
from seq2seq_attn.results.attention import ATTENTION, CORPUS, pack_weights, unpack_weights
from seq2seq_attn.results.breakdowns import Breakdown, GroupResult, GroupScore
from seq2seq_attn.results.curves import CURVES, Curve
from seq2seq_attn.results.differences import JointTest, PairedComparison, Significance
from seq2seq_attn.results.results import ArmResult, MetricRecord, Results, Spread


def built_by_hand():
    """A small experiment as `collect` builds it, with lists and with spreads without an interval."""
    metrics = [
        MetricRecord("bleu", "BLEU", 1, "higher", "cased", 1.0, True),
        MetricRecord("ter", "TER", 1, "lower", "edits"),
    ]
    arms = [
        ArmResult(
            name=name,
            parameters=5,
            seeds=[3],
            scores={
                "bleu": Spread(mean, 0.0, low=1.0, high=9.0, seeds_low=0.0, seeds_high=9.5),
                "ter": Spread(4.0, 0.0),
            },
            train_seconds=6.0,
            tokens_per_second=0.0,
        )
        for name, mean in (("a", 2.0), ("b", 7.0))
    ]
    band = GroupResult(8, {"bleu": GroupScore(2.0, 1.0, 3.0)})
    lengths = Breakdown("source length", "Words.", ("1+",), {"a": (band,), "b": (band,)})
    joint = JointTest(0.2, 0.3, 3.0, 7.0, 1.5, True, None)
    pair = PairedComparison("b", "a", 5.0, 4.0, 6.0, 0.5, 0.6, Significance(0.4, 0.7), joint)
    return Results("x", metrics, 8, arms, [pair], lengths, {"bleu": "sig"}, "0.1", "c0ffee", "cpu")


def test_the_file_has_exactly_the_specified_keys_in_their_order(tmp_path):
    path = tmp_path / "results.json"
    built_by_hand().save(path)
    bleu = {"mean": 2.0, "std": 0.0, "low": 1.0, "high": 9.0, "seeds_low": 0.0, "seeds_high": 9.5}
    ter = {"mean": 4.0, "std": 0.0}
    arm = {
        "name": "a",
        "parameters": 5,
        "seeds": [3],
        "scores": {"bleu": bleu, "ter": ter},
        "train_seconds": 6.0,
        "tokens_per_second": 0.0,
    }
    band = {"sentences": 8, "scores": {"bleu": {"value": 2.0, "low": 1.0, "high": 3.0}}}
    pair = {
        "arm": "b",
        "baseline": "a",
        "difference": 5.0,
        "low": 4.0,
        "high": 6.0,
        "p_value": 0.5,
        "p_holm": 0.6,
        "randomization": {"p_value": 0.4, "p_holm": 0.7},
        "joint": {
            "p_value": 0.2,
            "p_holm": 0.3,
            "low": 3.0,
            "high": 7.0,
            "degrees_of_freedom": 1.5,
            "paired": True,
            "detectable": None,
        },
    }
    expected = {
        "experiment": "x",
        "metrics": [
            {"key": "bleu", "label": "BLEU", "digits": 1, "direction": "higher", "meaning": "cased", "floor": 1.0,
             "is_prominent": True},
            {"key": "ter", "label": "TER", "digits": 1, "direction": "lower", "meaning": "edits"},
        ],
        "sentences": 8,
        "arms": [arm, arm | {"name": "b", "scores": {"bleu": bleu | {"mean": 7.0}, "ter": ter}}],
        "comparisons": [pair],
        "by_length": {
            "name": "source length",
            "meaning": "Words.",
            "groups": ["1+"],
            "arms": {"a": [band], "b": [band]},
        },
        "signatures": {"bleu": "sig"},
        "version": "0.1",
        "commit": "c0ffee",
        "hardware": "cpu",
    }  # fmt: skip
    written = path.read_text(encoding="utf-8")
    assert json.loads(written) == expected
    assert json.dumps(json.loads(written)) == json.dumps(expected)  # including the order of keys


def test_a_saved_record_is_loaded_unchanged(tmp_path, folder, values):
    results = built_by_hand()
    results.save(tmp_path / "saved.json")
    assert Results.load(tmp_path / "saved.json") == results
    loaded = Results.load(folder / "results.json")
    loaded.save(tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text(encoding="utf-8")) == values["results.json"]


def test_breakdowns_are_loaded_unchanged_and_may_be_absent(tmp_path, all_values, write):
    loaded = Results.load(write(all_values) / "results.json")
    loaded.save(tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text())["where"] == all_values["results.json"]["where"]
    del all_values["results.json"]["where"]
    assert Results.load(write(all_values) / "results.json").where is None


def test_chinese_names_are_readable_in_the_file(tmp_path, folder):
    Results.load(folder / "results.json").save(tmp_path / "again.json")
    assert "注意力" in (tmp_path / "again.json").read_text(encoding="utf-8")


def at(contents, keys, value):
    """Set contents[k1][k2]... to the value, or delete the last key."""
    *path, last = keys
    for key in path:
        contents = contents[key]
    if value is DROP:
        del contents[last]
    else:
        contents[last] = value


DROP = object()
MALFORMED = {
    "a missing key": ("results.json", ("signatures",), DROP, ["signatures", "missing"]),
    "a missing key deep inside": (
        "results.json",
        ("arms", 1, "scores", "bleu", "mean"),
        DROP,
        ["arms.1.scores.bleu.mean", "missing"],
    ),
    "no interval of BLEU": (
        "results.json",
        ("arms", 0, "scores", "bleu", "low"),
        DROP,
        ["arms.0.scores.bleu", "low and high"],
    ),
    "an unknown key": ("results.json", ("arms", 0, "blue"), 3, ["arms.0.blue", "no such key"]),
    "a number as text": ("results.json", ("arms", 0, "parameters"), "12", ["arms.0.parameters", "'12'"]),
    "a probability above 1": (
        "results.json",
        ("comparisons", 0, "p_value"),
        1.5,
        ["comparisons.0.p_value", "1.5"],
    ),
    "a corrected probability below 0": (
        "results.json",
        ("comparisons", 1, "randomization", "p_holm"),
        -0.5,
        ["comparisons.1.randomization.p_holm", "-0.5"],
    ),
    "NaN": ("results.json", ("arms", 0, "scores", "bleu", "mean"), float("nan"), ["arms.0.scores.bleu.mean", "finite"]),
    "no arm": ("results.json", ("arms",), [], ["arms"]),
    "no seed": ("results.json", ("arms", 2, "seeds"), [], ["arms.2.seeds"]),
    "a comparison of nobody": ("results.json", ("comparisons", 0, "arm"), "nobody", ["'nobody'"]),
    "two baselines": ("results.json", ("comparisons", 0, "baseline"), "注意力", ["more than one baseline"]),
    "two arms of one name": (
        "results.json",
        ("arms", 2, "name"),
        "mean of states",
        ["same name", "mean of states"],
    ),
    "a breakdown with a group too few": (
        "results.json",
        ("where", "breakdowns", 0, "groups"),
        ["1-5"],
        ["where.breakdowns.0", "has 2 entries for 1 groups"],
    ),
    "an agreement that is not square": (
        "results.json",
        ("where", "agreement", "f1"),
        [[None, 0.5]],
        ["where.agreement", "f1 needs 2 rows"],
    ),
    "a breakdown of nobody": ("results.json", ("where", "agreement", "arms", 0), "nobody", ["'nobody'"]),
    "another number of bands": ("results.json", ("by_length", "groups"), ["1+"], ["by_length", "entries for 1 groups"]),
    "a curve cut short": ("curves.json", ("注意力", 0, "epoch"), [1], ["注意力.0", "differ in length"]),
    "a row of weights too few": (
        "attention.json",
        (0, "weights"),
        [[0.7, 0.2, 0.1]],
        ["0", "2 rows", "3 numbers"],
    ),
    "scores for weights": ("attention.json", (0, "weights", 1, 0), -7.5, ["0.weights.1.0", "-7.5"]),
    "a link outside of the sentence": ("attention.json", (0, "gold", 0), [3, 0], ["3-0"]),
    "no target word": ("attention.json", (0, "target"), [], ["0.target"]),
}
MALFORMED |= {
    "a translation too few": ("corpus_attention.json", ("arms", "注意力", "translations"), ["汤姆"], ["'注意力'", "3"]),
    "a token without a word": (
        "corpus_attention.json",
        ("segmentations", 0, "source_words", 1),
        [0, 1],
        ["segmentations.0", "source_words"],
    ),
    "a segmentation that is not there": (
        "corpus_attention.json",
        ("arms", "注意力", "segmentation"),
        2,
        ["'注意力'", "no segmentation 2"],
    ),
    "weights of other tokens": (
        "corpus_attention.json",
        ("arms", "注意力", "segmentation"),
        1,
        ["40 numbers", "need 29"],
    ),
    "weights that are cut": (
        "corpus_attention.json",
        ("arms", "注意力", "weights"),
        "eJw=",
        ["cannot be decompressed"],
    ),
}
LOAD = {
    "results.json": lambda folder: Results.load(folder / "results.json"),
    "curves.json": CURVES.load,
    "attention.json": ATTENTION.load,
    "corpus_attention.json": CORPUS.load,
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_file_is_refused_in_one_line_with_file_and_key(case, all_values, corpus, write):
    name, keys, value, words = MALFORMED[case]
    all_values["corpus_attention.json"] = corpus
    at(all_values[name], keys, value)
    folder = write(all_values)
    with pytest.raises(UserError) as error:
        LOAD[name](folder)
    message = str(error.value)
    assert message.startswith(f"{folder / name}: ")
    assert "\n" not in message
    for word in words:
        assert word in message


def test_a_missing_truncated_or_unreadable_file_is_reported(tmp_path):
    path = tmp_path / "results.json"
    with pytest.raises(UserError, match=r"results\.json: no such file"):
        Results.load(path)
    path.write_text('{"experiment": "x", "arms": [')
    with pytest.raises(UserError, match=r"results\.json: not JSON: .* line 1 column"):
        Results.load(path)
    with pytest.raises(UserError, match="cannot be read"):
        Results.load(tmp_path)


def test_the_weights_of_the_pieces_of_a_word_may_sum_to_more_than_1(values, write):
    """With a sigmoid, the rows have no fixed sum."""
    values["attention.json"][0]["weights"][1][0] = 2.75
    assert ATTENTION.load(write(values))[0].weights[1][0] == 2.75


def test_packed_weights_are_exact_to_half_a_level_in_a_third_of_the_bytes():
    random = np.random.default_rng(3)
    matrices = [random.dirichlet([0.1] * columns, size=rows) for rows, columns in [(7, 5), (1, 11), (4, 3)]]
    packed = pack_weights(matrices)
    back = unpack_weights(packed, [(7, 5), (1, 11), (4, 3)])
    for ours, theirs in zip(back, matrices, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=0.5 / 255 + 1e-12)
    assert len(packed) < 2 * sum(each.size for each in matrices)
    with pytest.raises(ValueError, match="58 numbers, but the tokens of all pairs need 57"):
        unpack_weights(packed, [(7, 5), (1, 10), (4, 3)])


def test_the_attention_on_the_corpus_is_read_as_written(corpus, write, tmp_path):
    read = CORPUS.load(write({"corpus_attention.json": corpus}))
    assert read.weights("distracted (C at every step)") == []
    first, *_ = read.weights("注意力")
    np.testing.assert_allclose(first[1], [0.2, 0.4, 0.2, 0.2, 0], atol=1e-9)
    CORPUS.save(read, tmp_path)
    assert CORPUS.load(tmp_path) == read


def test_curves_and_attention_are_read_as_written(folder):
    curves = CURVES.load(folder)
    assert [run.seed for run in curves["注意力"]] == [1, 2]
    assert curves["注意力"][0].validation_score == (None, 20.0, 30.0)
    first = ATTENTION.load(folder)[0]
    assert first.weights == ((0.7, 0.2, 0.1), (0.05, 0.9, 0.05))
    assert first.gold == ((0, 0), (2, 1))


def test_the_report_imports_neither_torch_nor_the_training_code_nor_pyplot():
    check = """
import sys
import seq2seq_attn.report.write
from seq2seq_attn.report.figures import font_families
font_families(["汤姆"])
print(sorted({"torch", "seq2seq_attn.lab", "matplotlib.pyplot"} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("bleu", "loss", "expected"),
    [
        ([10.0, 20.0, 21.0, 21.6], [4.0, 3.0, 2.9, 2.8], True),
        ([10.0, 20.0, 21.0, 21.5], [4.0, 3.0, 2.9, 2.0], False),  # BLEU decides, by more than half a point
        ([10.0, 20.0, 22.0, 21.6], [4.0, 3.0, 2.9, 2.8], False),
        ([1.0, 2, 3, 4, 9.0, 9.1, 9.2, 9.3, 9.4, 9.6], [1.0] * 10, False),  # the last two of ten against 9.3
        ([1.0, 2, 3, 4, 9.0, 9.1, 9.2, 9.3, 9.9, 9.6], [1.0] * 10, True),
        ([None, 20.0], [4.0, 3.97], False),
        ([None, None], [4.0, 3.95], True),
        ([5.0], [1.0], False),
        ([], [], False),
    ],
)
def test_a_curve_that_rose_in_its_last_fifth_was_still_improving(bleu, loss, expected):
    assert Curve(1, tuple(range(len(bleu))), tuple(loss), tuple(bleu)).is_still_improving(1, 0.5) == expected
    negative = tuple(None if score is None else -score for score in bleu)
    assert Curve(1, tuple(range(len(bleu))), tuple(loss), negative).is_still_improving(-1, 0.5) == expected
