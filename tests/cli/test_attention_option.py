"""`--attention`: the weights of translations that were found, or given."""

import json

import numpy as np
import pytest

from seq2seq_attn.runs.model import TrainedModel

LINES = "a b c d\n\ne\nb d\n"
BEAM = "--beam-size", "4", "--n-best", "3"


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("options", [("--beam-size", "1"), BEAM], ids=["greedy", "beam"])
def test_the_file_holds_the_weights_of_every_translation_of_the_search(program, trained, tmp_path, options):
    plain = program("translate", trained, *options, stdin=LINES.encode())
    answer = program("translate", trained, *options, "--attention", tmp_path / "x.jsonl", stdin=LINES.encode())
    assert answer == plain

    model = TrainedModel.load(trained)
    changes = {"beam_size": int(options[1]), "n_best": int([*options, 1, "1"][3])}
    searched = model.search(LINES.splitlines(), model.config.search.model_copy(update=changes), with_weights=True)
    sentences = read(tmp_path / "x.jsonl")
    assert [len(sentence["translations"]) for sentence in sentences] == [len(best) for best in searched]
    for line, sentence, best in zip(LINES.splitlines(), sentences, searched, strict=True):
        assert sentence["source"] == ([*line.split(), "</s>"] if line else [])
        for found, hypothesis in zip(sentence["translations"], best, strict=True):
            assert " ".join(found["target"]).removesuffix("</s>").strip() == model.target.decode(hypothesis.tokens)
            assert found["score"] == pytest.approx(hypothesis.score)
            weights = np.array(found["weights"])
            assert weights.shape == (len(found["target"]), len(sentence["source"]))  # so there is no padding
            np.testing.assert_allclose(weights, hypothesis.weights, atol=1e-6)
            np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-5)


def test_a_translation_that_was_cut_has_no_end_and_a_source_that_was_cut_has_one(program, trained, tmp_path):
    file = tmp_path / "x.jsonl"
    program(
        "translate", trained, "--max-length", "2", "--min-length", "2", "--attention", file, stdin=b"a b c d e a b c d"
    )
    (sentence,) = read(file)
    (found,) = sentence["translations"]
    assert sentence["source"] == [*"abcdeabc", "</s>"]  # data.max_length is 8
    assert np.shape(found["weights"]) == (2, 9)
    assert len(found["target"]) == 2


def test_a_given_translation_is_written_with_its_log_probability(program, trained, tmp_path):
    (tmp_path / "source").write_text("a b c\nd\ne d\n")
    (tmp_path / "target").write_text("c b a\n\nd\n")
    pairs = tmp_path / "source", tmp_path / "target"
    assert program("align", trained, *pairs, "--attention", tmp_path / "x.jsonl") == program("align", trained, *pairs)

    model = TrainedModel.load(trained)
    forced = model.force(["a b c", "d", "e d"], ["c b a", "", "d"])
    sentences = read(tmp_path / "x.jsonl")
    assert sentences[1] == {"source": [], "translations": []}
    for sentence, expected, source, target in (
        (sentences[0], forced[0], "abc", "cba"),
        (sentences[2], forced[2], "ed", "d"),
    ):
        (found,) = sentence["translations"]
        assert (sentence["source"], found["target"]) == ([*source, "</s>"], [*target, "</s>"])
        assert found["score"] == pytest.approx(expected.total)
        np.testing.assert_allclose(found["weights"], expected.weights, atol=1e-6)


def test_bad_input_leaves_no_file(program, refused, trained, tmp_path, monkeypatch):

    message = refused("translate", trained, "--attention", tmp_path / "x.csv", stdin=b"a\n")
    assert "x.csv: attention is written to a file that ends in .jsonl or .npz" in message
    monkeypatch.setattr("seq2seq_attn.api.model.CHUNK", 2)
    answer = program("translate", trained, "--attention", tmp_path / "x.jsonl", stdin=b"a\nb\ncaf\xe9\n")
    assert answer.code == 2
    assert list(tmp_path.iterdir()) == []
