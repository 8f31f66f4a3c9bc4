"""Embeddings initialized from pretrained vectors of any origin, exactly and once."""

import re
from pathlib import Path

import pytest
import torch
import yaml
from torchtext.vocab import Vectors

from seq2seq_attn.comparison.experiment import read_experiment
from seq2seq_attn.config import Config
from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.corpora.learning import train_codecs
from seq2seq_attn.corpora.text_config import TextConfig
from seq2seq_attn.errors import UserError
from seq2seq_attn.runs.building import build_translator
from seq2seq_attn.runs.folder import read_metrics
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.runs.pretrained import Pretrained, start_from_vectors
from seq2seq_attn.runs.train import train
from seq2seq_attn.strict import dump, merge, parse

LETTERS = ParallelCorpus(["a b c d e"], ["e d c b a"], "letters")
ROW = [0.5, -1.5, 2.0, 0.0, 1.0, 3.0, -2.0, 0.25]
OTHER = ROW[::-1]


@pytest.fixture
def config(grid):
    return grid.runs[2].config  # the attention arm; embeddings of size 8, words a b c d e on both sides


@pytest.fixture
def vectors(tmp_path):
    """A file with vectors for two of the five words of a side."""
    path = tmp_path / "vectors.txt"
    path.write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in {"b": ROW, "d": OTHER}.items()))
    return path


def changed(config, **sections):
    return parse(Config, merge(config.model_dump(mode="json"), sections))


def naming(config, **files):
    return changed(config, model={"pretrained_embeddings": {side: str(path) for side, path in files.items()}})


def started(config, given=None, say=lambda _: None, joint=False):
    """An initialized model, and the same model without vectors."""
    codecs = train_codecs(LETTERS, TextConfig(tokenizer="word", joint=joint))
    models = []
    for _ in range(2):
        torch.manual_seed(3)
        models.append(build_translator(config, *codecs))
    start_from_vectors(models[0], config, *codecs, given, say)
    return *models, codecs


def row(embedding, codec, word):
    return embedding.table.weight[codec.vocabulary[word]].tolist()


def test_known_words_start_at_their_vectors_and_everything_else_is_unchanged(config, vectors):
    said = []
    model, plain, (source, target) = started(naming(config, target=vectors), say=said.append)
    assert row(model.target_embedding, target, "b") == ROW
    assert row(model.target_embedding, target, "d") == OTHER
    known = target.vocabulary.lookup_indices(["b", "d"])
    for (name, value), (_, before) in zip(model.state_dict().items(), plain.state_dict().items(), strict=True):
        if name in ("target_embedding.table.weight", "head.projection.weight"):  # the same table
            value, before = (
                torch.stack([r for i, r in enumerate(weight) if i not in known]) for weight in (value, before)
            )
        assert torch.equal(value, before), name
    assert said == ["target embedding: 2 of 5 tokens start from their vectors"]
    assert source is not target


def test_each_side_starts_from_its_own_file(config, vectors, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text(f"a {' '.join(map(str, OTHER))}\n")
    model, plain, (source, target) = started(naming(config, source=other, target=vectors))
    assert row(model.encoder.embedding, source, "a") == OTHER
    assert row(model.encoder.embedding, source, "b") == row(plain.encoder.embedding, source, "b")
    assert row(model.target_embedding, target, "b") == ROW


@pytest.mark.parametrize("sides", [["source"], ["target"], ["source", "target"]])
def test_a_tied_embedding_starts_from_one_file_and_predicts_with_it(config, vectors, sides):
    tied = changed(config, model={"tie_embeddings": "all"}, text={"joint": True})
    model, _, (joint, _) = started(naming(tied, **dict.fromkeys(sides, vectors)), joint=True)
    assert row(model.encoder.embedding, joint, "b") == row(model.target_embedding, joint, "b") == ROW
    assert model.head.projection.weight[joint.vocabulary["b"]].tolist() == ROW


def test_a_tied_embedding_cannot_start_from_two(config, vectors, tmp_path):
    tied = changed(config, model={"tie_embeddings": "all"}, text={"joint": True})
    with pytest.raises(UserError, match=r"tie_embeddings=all .* cannot start from both a\.txt and b\.txt"):
        naming(tied, source="a.txt", target="b.txt")
    one, two = (Vectors(str(vectors), cache=str(tmp_path)) for _ in range(2))
    with pytest.raises(UserError, match="tie_embeddings=all shares one embedding"):
        started(tied, Pretrained(one, two), joint=True)
    model, _, (joint, _) = started(tied, Pretrained(one, one), joint=True)
    assert row(model.target_embedding, joint, "b") == ROW


def test_training_starts_from_the_vectors_and_needs_the_file_only_once(config, vectors, tmp_path):
    # The first step of Adam changes a parameter by at most the learning rate.
    rate, said = 1e-3, []
    training = {"max_epochs": 1, "batch_size": 40, "optimizer": {"learning_rate": rate}}
    config = naming(changed(config, training=training), target=vectors)
    model = train(config, tmp_path / "run", say=said.append)
    assert read_metrics(tmp_path / "run")["training"]["steps"] == 1
    moved = torch.tensor(row(model.translator.target_embedding, model.target, "b")) - torch.tensor(ROW)
    assert 0 < moved.abs().max() <= rate * 1.001
    assert read_metrics(tmp_path / "run")["pretrained_embeddings"] == {"target": {"found": 2, "tokens": 5}}
    assert "target embedding: 2 of 5 tokens start from their vectors" in said

    vectors.unlink()
    again = TrainedModel.load(tmp_path / "run")
    assert again.translate(["a b c"]) == model.translate(["a b c"])
    train(changed(config, training={"max_epochs": 2}), tmp_path / "run", if_exists="resume")
    metrics = read_metrics(tmp_path / "run")
    assert metrics["training"]["steps"] == 2
    assert metrics["pretrained_embeddings"] == {"target": {"found": 2, "tokens": 5}}


def test_unusable_vectors_are_refused_before_anything_is_written(config, vectors, tmp_path):
    for values, message in (
        (naming(config, source=tmp_path / "none.txt"), r"none\.txt: no such file"),
        (
            naming(changed(config, model={"embedding_size": 7}), source=vectors),
            r"vectors\.txt: vectors of size 8, but model\.embedding_size=7; set it to 8",
        ),
    ):
        with pytest.raises(UserError, match=message):
            train(values, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_vocabulary_without_vectors_is_a_warning_with_the_likely_reason(config, tmp_path):
    (tmp_path / "words.txt").write_text("dog 1 2 3 4 5 6 7 8\n")
    said = []
    started(naming(config, source=tmp_path / "words.txt"), say=said.append)
    (warning,) = said
    assert warning.startswith("warning: source embedding: 0 of 5 tokens")
    assert "rarely for subwords (bpe, unigram)" in warning


def test_an_arm_may_start_from_vectors(values, vectors, tmp_path):
    values["arms"]["attention"] = [f"model.pretrained_embeddings.source={vectors}"]
    (tmp_path / "arms.yaml").write_text(yaml.safe_dump(values))
    files = {
        run.arm: run.config.model.pretrained_embeddings.source for run in read_experiment(tmp_path / "arms.yaml").runs
    }
    assert files == {"distracted": None, "attention": vectors}


def test_vectors_in_memory_and_in_files_cannot_be_combined(config, vectors, tmp_path):
    theirs = Pretrained(target=Vectors(str(vectors), cache=str(tmp_path)))
    with pytest.raises(UserError, match="use only one of the two"):
        started(naming(config, source=vectors), theirs)


def test_the_documented_lines_train_from_torchtext_vectors(config, vectors, tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs/training.md").read_text(encoding="utf-8")
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL) if "torchtext" in block)
    monkeypatch.chdir(tmp_path)
    values = changed(config, training={"max_epochs": 1}, model={"embedding_size": 9})
    Path("mine.yaml").write_text(dump(values), encoding="utf-8")
    vectors.rename("glove.txt")
    exec(code)
    metrics = read_metrics(Path("runs/glove"))
    assert metrics["pretrained_embeddings"] == {"source": {"found": 2, "tokens": 5}}
