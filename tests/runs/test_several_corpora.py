"""Several training corpora in one run, with weights and tags."""

import json

import pytest

from seq2seq_attn.config import Config
from seq2seq_attn.runs import MODEL
from seq2seq_attn.runs.folder import read_config
from seq2seq_attn.runs.train import train
from seq2seq_attn.strict import ConfigError, parse


@pytest.fixture
def values(grid, tmp_path):
    """A configuration with a corpus that is copied beside the one that is reversed."""
    lines = "".join(f"{word} {word} a\n" for word in "bcde" * 2)
    for side in ("source", "target"):
        (tmp_path / f"copied.{side}").write_text(lines)
    values = grid.runs[2].config.model_dump(mode="json", exclude_defaults=True)
    copied = {side: str(tmp_path / f"copied.{side}") for side in ("source", "target")}
    data = values["data"]
    data["train"] = [data["train"] | {"tag": "<reverse>"}, copied | {"tag": "<copy>", "weight": 3}]
    data["validation"] = [data["validation"] | {"tag": "<reverse>"}, copied | {"tag": "<copy>"}]
    data["test"] |= {"tag": "<reverse>"}
    return values


def test_corpora_are_mixed_by_weight_and_told_apart_by_their_tags(values, tmp_path):
    said = []
    model = train(parse(Config, values), tmp_path / "run", say=said.append)
    report = "\n".join(said)
    # 40 and 8 pairs: 48 are drawn, in proportion to 40 and 3 * 8.
    assert "48 pairs, in each epoch 30 of " in report
    assert "18 of " in report
    # Both validation sets have a score of their own after each of two epochs.
    lines = [line for line in said if "validation BLEU" in line]
    assert len(lines) == 2
    assert all(" on " in line and "copied.source" in line for line in lines)
    assert model.source.encode("<copy> b")[0] == model.source.vocabulary["<copy>"] != model.source.vocabulary["<unk>"]
    assert read_config(tmp_path / "run").text.protected == ("<reverse>", "<copy>")


def test_a_training_on_a_mixture_goes_on_as_if_it_had_not_been_interrupted(values, tmp_path):
    """An epoch's pairs are drawn from its number alone."""
    train(parse(Config, values), tmp_path / "whole")
    shorter = values | {"training": values["training"] | {"max_epochs": 1}}
    train(parse(Config, shorter), tmp_path / "parts")
    train(parse(Config, values), tmp_path / "parts", if_exists="resume")
    assert (tmp_path / "parts" / MODEL).read_bytes() == (tmp_path / "whole" / MODEL).read_bytes()


def test_a_list_in_the_record_is_what_the_run_writes(values):
    config = parse(Config, values)
    assert parse(Config, config.model_dump(mode="json")) == config
    assert [each.tag for each in config.data.train.each] == ["<reverse>", "<copy>"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"training": {"batch_unit": "tokens", "batch_size": 100}}, "batch_unit"),
        ({"data": {"train": []}}, "source and target"),
        ({"data": {"train": {"source": "a", "target": "b", "temperature": 2}}}, "temperature"),
        ({"data": {"train": [{"source": "a", "target": "b", "tag": "two words"}]}}, "two words"),
        ({"data": {"train": {"corpora": [{"tsv": "a"}], "tsv": "b"}}}, "data.train: tsv: of several corpora, each"),
        ({"data": {"train": {"corpora": [{"tsv": "a"}], "columns": [1, 0]}}}, "columns: of several corpora, each"),
        ({"data": {"test": [{"tsv": "a"}]}}, "data.test"),
    ],
)
def test_what_cannot_be_mixed_is_refused_in_one_line(values, change, named):
    for section, keys in change.items():
        values[section] = values[section] | keys
    with pytest.raises(ConfigError) as refusal:
        parse(Config, values)
    assert named in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_the_sentences_of_a_skipped_batch_are_found_in_their_corpus(values):
    import numpy as np

    from seq2seq_attn.runs.training_pairs import content_of

    config = parse(Config, values)
    first, second = map(json.loads, content_of(np.array([39, 41]), config.data.train).splitlines())
    assert first["line"] == 40
    assert second["line"] == 2
    assert "copied" in second["corpus"]
    assert second["source"] == "<copy> c c a"
