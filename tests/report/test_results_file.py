"""The files of a results folder: read as written, and refused with file and key if they are malformed."""

import json
import subprocess
import sys

import numpy as np
import pytest

from seq2seq_attn.errors import UserError
from seq2seq_attn.results.attention import ATTENTION, CORPUS, pack_weights, unpack_weights
from seq2seq_attn.results.curves import CURVES, Curve
from seq2seq_attn.results.examples import EXAMPLES, SENTENCES
from seq2seq_attn.results.reproduction import REPRODUCTION
from seq2seq_attn.results.results import Results

FILES = {file.name: file for file in (CURVES, ATTENTION, CORPUS, EXAMPLES, SENTENCES, REPRODUCTION)}


def test_saved_records_have_the_keys_and_values_that_were_loaded_in_their_order(tmp_path, all_values, corpus, write):
    """Optional fields with their default are left out, and Chinese names are readable."""
    all_values["corpus_attention.json"] = corpus
    folder, again = write(all_values), tmp_path / "again"
    again.mkdir()
    Results.load(folder / "results.json").save(again / "results.json")
    for file in FILES.values():
        file.save(file.load(folder), again)
    for name, value in all_values.items():
        written = (again / name).read_text(encoding="utf-8")
        assert json.dumps(json.loads(written)) == json.dumps(value), name
        assert "注意力" in written or (name == "sentences.json" and "注2" in written)


def at(contents, keys, value):
    """Set contents[k1][k2]... to the value, or delete the last key."""
    *path, last = keys
    for key in path:
        contents = contents[key]
    contents[last] = value
    if value is DROP:
        del contents[last]


DROP = object()
R, A, C = "results.json", "attention.json", "corpus_attention.json"
MALFORMED = {
    "a missing key": (R, ("arms", 1, "scores", "bleu", "mean"), DROP, ["arms.1.scores.bleu.mean", "missing"]),
    "half an interval": (R, ("arms", 0, "scores", "bleu", "low"), DROP, ["arms.0.scores.bleu", "low and high"]),
    "an unknown key": (R, ("arms", 0, "blue"), 3, ["arms.0.blue", "no such key"]),
    "a number as text": (R, ("arms", 0, "parameters"), "12", ["arms.0.parameters", "'12'"]),
    "a probability above 1": (R, ("comparisons", 0, "p_value"), 1.5, ["comparisons.0.p_value", "1.5"]),
    "NaN": (R, ("arms", 0, "scores", "bleu", "mean"), float("nan"), ["arms.0.scores.bleu.mean", "finite"]),
    "no arm": (R, ("arms",), [], ["arms"]),
    "a comparison of nobody": (R, ("comparisons", 0, "arm"), "nobody", ["'nobody'"]),
    "two baselines": (R, ("comparisons", 0, "baseline"), "注意力", ["more than one baseline"]),
    "two arms of one name": (R, ("arms", 2, "name"), "mean of states", ["same name", "mean of states"]),
    "a group too few": (R, ("where", "breakdowns", 0, "groups"), ["1-5"], ["where.breakdowns.0", "2 entries for 1"]),
    "an agreement that is not square": (R, ("where", "agreement", "f1"), [[None, 0.5]], ["where.agreement", "2 rows"]),
    "a breakdown of nobody": (R, ("where", "agreement", "arms", 0), "nobody", ["'nobody'"]),
    "another number of bands": (R, ("by_length", "groups"), ["1+"], ["by_length", "entries for 1 groups"]),
    "a curve cut short": ("curves.json", ("注意力", 0, "epoch"), [1], ["注意力.0", "differ in length"]),
    "a row of weights too few": (A, (0, "weights"), [[0.7, 0.2, 0.1]], ["0", "2 rows", "3 numbers"]),
    "scores for weights": (A, (0, "weights", 1, 0), -7.5, ["0.weights.1.0", "-7.5"]),
    "a link outside of the sentence": (A, (0, "gold", 0), [3, 0], ["3-0"]),
    "a translation too few": (C, ("arms", "注意力", "translations"), ["汤姆"], ["'注意力'", "3"]),
    "a token without a word": (C, ("segmentations", 0, "source_words", 1), [0, 1], ["segmentations.0", "source_words"]),
    "no such segmentation": (C, ("arms", "注意力", "segmentation"), 2, ["'注意力'", "no segmentation 2"]),
    "weights of other tokens": (C, ("arms", "注意力", "segmentation"), 1, ["40 numbers", "need 29"]),
    "weights that are cut": (C, ("arms", "注意力", "weights"), "eJw=", ["cannot be decompressed"]),
}  # fmt: skip


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_file_is_refused_in_one_line_with_file_and_key(case, all_values, corpus, write):
    name, keys, value, words = MALFORMED[case]
    all_values["corpus_attention.json"] = corpus
    at(all_values[name], keys, value)
    folder = write(all_values)
    with pytest.raises(UserError) as error:
        Results.load(folder / name) if name == R else FILES[name].load(folder)
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
    with pytest.raises(UserError, match="a folder, not a file"):
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


def test_the_weights_of_the_corpus_are_those_of_the_file(corpus, write):
    read = CORPUS.load(write({"corpus_attention.json": corpus}))
    assert read.weights("distracted (C at every step)") == []
    first, *_ = read.weights("注意力")
    np.testing.assert_allclose(first[1], [0.2, 0.4, 0.2, 0.2, 0], atol=1e-9)


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
