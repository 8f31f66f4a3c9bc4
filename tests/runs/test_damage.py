"""A flipped bit or a cut in any file of a run: one line that names a file, or the same result; never another one.

Each file is damaged once by default, and 500 times over all files with
`python -m pytest -m slow -n 0 tests/runs/test_damage.py`, in minutes.
"""

import random
import shutil
from pathlib import Path

import pytest

import seq2seq_attn as s2s
from seq2seq_attn.comparison.evidence import read_run
from seq2seq_attn.config import Config
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.checksums import SUMS
from seq2seq_attn.runs.folder import read_config
from seq2seq_attn.runs.lexicon import with_lexicon
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.runs.train import train
from seq2seq_attn.strict import override, parse
from seq2seq_attn.training import LAST, PREVIOUS

SCORER = "from seq2seq_attn.attention import Additive\n\n\nclass Mine(Additive):\n    'As additive.'\n"
LINES = ["a b c", "e d", "b b a e"]


@pytest.fixture
def finished(grid, tmp_path):
    """A run with every kind of file, two of its checkpoints among them."""
    (tmp_path / "mine.py").write_text(SCORER)
    changes = {
        "model.context.scorer": {"name": f"{tmp_path}/mine.py:Mine"},
        "model.dropout.readout": 0.2,
        "text.tokenizer": "bpe",
        "text.vocabulary_size": 13,
        "search.shortlist": 2,
    }
    config = parse(Config, override(grid.runs[2].config.model_dump(mode="json"), changes.items()))
    s2s.train(config, tmp_path / "run", silent=True)
    return tmp_path / "run"


def reading(folder):
    """What commands read from a run."""
    model = with_lexicon(TrainedModel.load(folder), folder)
    return (
        model.translate(LINES),
        [pair.total for pair in model.force(LINES, LINES)],
        read_run(folder, 1, 32),
    )


def continued(folder, config, said):
    """The weights after another epoch from the last checkpoint."""
    model = train(config, folder, if_exists="resume", say=said.append, bar=None)
    weights = model.translator.state_dict()
    return {name: weight.tolist() for name, weight in weights.items()}, (folder / "metrics.json").exists()


def damaged(content, draw, cut):
    if cut:
        return content[: draw.randrange(len(content))]
    place = draw.randrange(len(content))
    return content[:place] + bytes([content[place] ^ (1 << draw.randrange(8))]) + content[place + 1 :]


def same_or_refused(use, expected):
    """Whether it was the same; otherwise it was refused, in one line."""
    refused = None
    try:
        found = use()
    except UserError as error:
        refused = str(error)
    assert "\n" not in refused if refused else found == expected
    return refused is None


def damage_every_file(finished, times, tmp_path):
    config = read_config(finished)
    config = config.model_copy(update={"training": config.training.model_copy(update={"max_epochs": 3})})
    expected = reading(finished)
    files = sorted(path.relative_to(finished).as_posix() for path in finished.rglob("*") if path.is_file())
    assert {"plugins/mine.py", "lexicon.safetensors", "test.links.txt", LAST, PREVIOUS, SUMS} < set(files)
    (tmp_path / "copies").mkdir()
    whole = Path(shutil.copytree(finished, tmp_path / "copies" / "whole"))
    weights = continued(whole, config, [])
    draw = random.Random(0)
    same = set()
    for number in range(times * len(files)):
        name, cut = files[number % len(files)], (number + number // len(files)) % 2 == 1
        folder = Path(shutil.copytree(finished, tmp_path / "copies" / "run"))
        (folder / name).write_bytes(damaged((folder / name).read_bytes(), draw, cut))
        said: list[str] = []
        if same_or_refused(lambda folder=folder: reading(folder), expected):
            same.add(name)
        if name in (LAST, PREVIOUS):
            assert name in same
            assert continued(folder, config, said) == weights
            assert any(f"{LAST}: damaged; continuing from the checkpoint before it" in text for text in said) == (
                name == LAST
            )
        elif not cut and not name.startswith(("log/", "test.", "model.", "lexicon.")):  # which resuming does not read
            same_or_refused(lambda folder=folder, said=said: continued(folder, config, said), weights)
        shutil.rmtree(folder)
    logs = {name for name in files if name.startswith("log/") and not name.endswith("metrics.csv")}
    assert same - logs <= {LAST, PREVIOUS, SUMS}, "these are read"


def test_damage_is_named_or_changes_nothing(finished, tmp_path):
    damage_every_file(finished, 1, tmp_path)


@pytest.mark.slow
def test_damage_is_named_or_changes_nothing_five_hundred_times(finished, tmp_path):
    damage_every_file(finished, 24, tmp_path)


def test_an_edit_is_refused_with_the_way_to_accept_it(finished):
    path = finished / "config.yaml"
    path.write_text(path.read_text().replace("beam_size: 2", "beam_size: 1"))
    with pytest.raises(UserError, match=r"config\.yaml: damaged or edited.*delete its line in .*SHA256SUMS"):
        TrainedModel.load(finished)
    sums = finished / SUMS
    sums.write_text("".join(line for line in sums.read_text().splitlines(True) if "config.yaml" not in line))
    assert TrainedModel.load(finished).config.search.beam_size == 1


def test_no_file_of_a_run_names_the_place_where_it_is(finished, tmp_path):
    place = str(tmp_path).encode()
    data = str(read_config(finished).data.train.source.parent).encode()
    assert not data.startswith(place)
    assert [path for path in finished.rglob("*") if path.is_file() and place in path.read_bytes()] == []
