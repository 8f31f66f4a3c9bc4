"""A toy corpus, and a comparison small enough to be trained in a test.

The process that distributes the tests reads this file too, and needs no torch: imports are inside the fixtures.
"""

import gzip
import shutil

import pytest

EXPERIMENT = """
name: toy
baseline: distracted
seeds: [1, 2]
arms:
  distracted: {{model: {{context: {{kind: fixed}}}}}}
  attention: [model.context.kind=attention]
base:
  data:
    train: {{source: {folder}/train.source.gz, target: {folder}/train.target.gz}}
    validation: {{source: {folder}/validation.source, target: {folder}/validation.target}}
    test: {{source: {folder}/test.source, target: {folder}/test.target, alignments: {folder}/test.align}}
  text: {{tokenizer: word}}
  model:
    embedding_size: 8
    encoder: {{hidden_size: 6}}
    decoder: {{kind: bahdanau, hidden_size: 10}}
    tie_embeddings: none
    dropout: {{embedding: 0, state: 0, readout: 0}}
  training:
    max_epochs: 2
    batch_size: 8
    monitor: loss
    accelerator: cpu
    optimizer: {{learning_rate: 0.02, schedule: constant, warmup_steps: 0}}
    label_smoothing: 0
    ema_decay: null
  search: {{beam_size: 2}}
  evaluation: {{tokenize: none, bands: [3]}}
"""


def write_toy_corpus(folder, words="abcde"):
    """Sentences of two to five of the five words, reversed; those of the test set are all different."""
    chosen = [[(i * 7 + k * k + (i >= 72) * k) % 5 for k in range(2 + i % 4)] for i in range(84)]
    sources = [[words[each] for each in row] for row in chosen]
    for part, pairs in {"train": sources[:40], "validation": sources[40:52], "test": sources[52:]}.items():
        links = [[f"{i}-{len(source) - 1 - i}" for i in range(len(source))] for source in pairs]
        for side, lines in {"source": pairs, "target": [source[::-1] for source in pairs], "align": links}.items():
            text = "".join(f"{' '.join(line)}\n" for line in lines).encode()
            path = folder / (f"{part}.{side}.gz" if part == "train" else f"{part}.{side}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress(text) if part == "train" else text)


@pytest.fixture(scope="session")
def toy_corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    write_toy_corpus(folder)
    return folder


@pytest.fixture(scope="session")
def experiment_text():
    """The experiment, with a place for the folder of its corpus."""
    return EXPERIMENT


@pytest.fixture
def experiment_file(tmp_path, toy_corpus, experiment_text):
    path = tmp_path / "experiment.yaml"
    path.write_text(experiment_text.format(folder=toy_corpus))
    return path


@pytest.fixture
def grid(experiment_file):
    from seq2seq_attn.comparison.experiment import read_experiment

    return read_experiment(experiment_file)


@pytest.fixture
def values(experiment_file):
    from seq2seq_attn.strict import read_yaml

    return read_yaml(experiment_file)


@pytest.fixture(scope="session")
def train_once(tmp_path_factory):
    """A function that puts a trained run into a folder: trained for the first test that asks for it, then copied."""
    from seq2seq_attn.runs.train import train
    from seq2seq_attn.strict import dump

    made = {}

    def train_once(config, folder):
        key = dump(config)
        if key not in made:
            made[key] = tmp_path_factory.mktemp("trained") / "run"
            train(config, made[key], bar=None)
        shutil.copytree(made[key], folder)

    return train_once
