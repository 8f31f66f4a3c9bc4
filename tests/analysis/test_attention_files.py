"""Attention files: both formats hold the weights, and a file is complete or absent."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from seq2seq_attn.analysis.attention_files import TargetAttention, TokenAttention, attention_file
from seq2seq_attn.errors import UserError

DRAW = np.random.default_rng(2)


def translation(tokens, score, source_length):
    weights = DRAW.dirichlet(np.ones(source_length), size=len(tokens))
    return TargetAttention(tokens, score, weights.astype(np.float32))


SENTENCES = [
    TokenAttention(["▁a", "b", "</s>"], [translation(["汤姆", "</s>"], -0.5, 3), translation(["x", "y"], -1.25, 3)]),
    TokenAttention([], []),
    TokenAttention(["c", "</s>"], [translation(["z", "y", "x", "</s>"], -2.0, 2)]),
]


def written(path):
    with attention_file(path) as write:
        for sentence in SENTENCES:
            write(sentence)
    return path


def test_json_lines_has_one_line_per_sentence(tmp_path):
    lines = [json.loads(line) for line in written(tmp_path / "x.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(lines) == len(SENTENCES)
    for line, sentence in zip(lines, SENTENCES, strict=True):
        assert line["source"] == sentence.source
        for found, expected in zip(line["translations"], sentence.translations, strict=True):
            assert (found["target"], found["score"]) == (expected.tokens, expected.score)
            np.testing.assert_allclose(found["weights"], expected.weights, rtol=0, atol=5.1e-7)


def test_the_arrays_of_an_npz_are_named_by_sentence_and_translation_and_need_no_pickle(tmp_path):
    with np.load(written(tmp_path / "x.npz"), allow_pickle=False) as arrays:
        names = {f"{place}/{name}" for place in ("0/0", "0/1", "2/0") for name in ("target", "score", "weights")}
        assert set(arrays) == names | {"0/source", "1/source", "2/source"}
        for number, sentence in enumerate(SENTENCES):
            assert arrays[f"{number}/source"].tolist() == sentence.source
            for place, expected in enumerate(sentence.translations):
                assert arrays[f"{number}/{place}/target"].tolist() == expected.tokens
                assert arrays[f"{number}/{place}/score"] == expected.score
                np.testing.assert_array_equal(arrays[f"{number}/{place}/weights"], expected.weights)
                assert arrays[f"{number}/{place}/weights"].dtype == np.float32


def test_the_documented_way_to_read_the_file_works(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs" / "alignment.md").read_text(encoding="utf-8")
    shown = json.loads(re.search(r"```json\n(.*?)```", page, re.DOTALL)[1])
    sentence = json.loads(written(tmp_path / "x.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert shown.keys() == sentence.keys()
    assert shown["translations"][0].keys() == sentence["translations"][0].keys()

    written(tmp_path / "attention.npz")
    monkeypatch.chdir(tmp_path)
    exec(re.search(r"```python\n(import numpy.*?)```", page, re.DOTALL)[1], {})
    read = [SENTENCES[0].source[row.argmax()] for row in SENTENCES[0].translations[0].weights]
    assert capsys.readouterr().out == f"汤姆 {read[0]}\n</s> {read[1]}\n"


@pytest.mark.parametrize("name", ["x.jsonl", "x.npz"])
def test_an_exception_leaves_the_previous_file(tmp_path, name):
    (tmp_path / name).write_text("before")
    with pytest.raises(ZeroDivisionError), attention_file(tmp_path / name) as write:  # noqa: PT012
        write(SENTENCES[0])
        raise ZeroDivisionError
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: "before"}


@pytest.mark.parametrize("name", ["x.json", "x", "x.jsonl.gz"])
def test_an_unknown_suffix_is_refused_with_the_known_ones(tmp_path, name):
    with pytest.raises(UserError, match=rf"{name}: .* ends in \.jsonl or \.npz"):
        attention_file(tmp_path / name)


@pytest.mark.parametrize("name", ["x.jsonl", "x.npz"])
def test_a_file_that_cannot_be_written_is_named(tmp_path, name):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=rf"{name}: cannot be written"), attention_file(tmp_path / "file" / name):
        pass


@pytest.mark.parametrize("name", ["x.jsonl", "x.npz"])
def test_other_errors_are_not_reported_as_errors_of_the_file(tmp_path, name):
    with pytest.raises(BrokenPipeError), attention_file(tmp_path / name):
        raise BrokenPipeError
