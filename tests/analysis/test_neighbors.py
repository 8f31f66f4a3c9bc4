"""The search of neighbors against NumPy over the same states, each computed for one sentence at a time."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import seq2seq_attn as s2s
from seq2seq_attn.analysis import neighbors
from seq2seq_attn.analysis.neighbors import StateIndex, source_vectors, step_vectors
from seq2seq_attn.corpora.source import pad
from seq2seq_attn.errors import UserError
from seq2seq_attn.options import SearchOptions
from seq2seq_attn.runs.limits import Limits

pytest.importorskip("usearch", reason="the extra [neighbors] is not installed")

SOURCES = ["a b", "b a c", "", "c", "a a a b", "c b a", "b " * 30, "a b"]
TARGETS = ["x y", "y x z", "y", "z", "x x x y", "z y x", "y", "y x"]
KEPT = [0, 1, 3, 4, 5, 7]  # without the blank pair and the one that is too long


@pytest.fixture(scope="module", params=["additive", "none", "transformer"])
def model(request, tmp_path_factory):
    """Models of different widths, untrained but for one epoch."""
    folder = tmp_path_factory.mktemp(request.param)
    for name, lines in (("source", SOURCES), ("target", TARGETS)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    pairs = {"source": str(folder / "source"), "target": str(folder / "target")}
    context = {"kind": "none"} if request.param == "none" else {"scorer": {"name": "additive", "hidden_size": 7}}
    recurrent = {"encoder": {"hidden_size": 5}, "decoder": {"hidden_size": 11}, "context": context}
    layers = {"layers": 2, "heads": 2, "feed_forward_size": 10}
    transformer = {"kind": "transformer", "encoder": layers, "decoder": layers, "context": {"heads": 2}}
    values = {
        "data": {"train": pairs, "validation": pairs, "max_length": 20},
        "text": {"tokenizer": "word"},
        "model": {"embedding_size": 6, **(transformer if request.param == "transformer" else recurrent)},
        "training": {"max_epochs": 1, "monitor": "loss", "accelerator": "cpu"},
    }
    return s2s.train(values, folder / "run", silent=True)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "seq2seq_attn"


def index(model):
    return StateIndex.of_run(model.trained, model.folder)


def encoded(model, row):
    trained = model.trained
    return pad([trained.source.encode(SOURCES[row])]), pad([trained.target.encode(TARGETS[row])])


def test_the_vectors_are_those_of_every_pair_alone(model):
    found = index(model)
    assert isinstance(found.steps, np.memmap)
    assert isinstance(found.sources, np.memmap)
    assert found.lines.tolist() == KEPT
    assert len(found.steps) == sum(len(TARGETS[row].split()) + 1 for row in KEPT)
    translator = model.trained.translator
    for number, row in enumerate(KEPT):
        source, target = encoded(model, row)
        with torch.inference_mode():
            states = translator.encoder_states(source).states[0]
            features = translator.decode(translator.decoder_inputs(target), translator.encode(source)).features[0]
        np.testing.assert_allclose(found.sources[number], states.mean(dim=0).numpy(), atol=1e-5)
        steps = found.steps[found.starts[number] : found.starts[number + 1]]
        np.testing.assert_allclose(steps, features.numpy(), atol=1e-5)
        np.testing.assert_allclose(source_vectors(translator, source)[0], found.sources[number], atol=1e-5)


@pytest.mark.parametrize("source", ["a c b", "b b"])
def test_sources_are_found_as_numpy_finds_them(model, source):
    found, trained = index(model), model.trained
    query = source_vectors(trained.translator, pad([trained.source.encode(source)]))[0]
    distances = np.sqrt(((np.asarray(found.sources) - query) ** 2).sum(axis=1))
    near = model.neighbors(source, most=4)
    np.testing.assert_allclose(near.distances, np.sort(distances)[:4], atol=1e-5)
    for each in near:
        assert (each.source, each.target) == (SOURCES[each.line - 1], TARGETS[each.line - 1])
        np.testing.assert_allclose(each.distance, distances[KEPT.index(each.line - 1)], atol=1e-5)


def test_steps_are_found_as_numpy_finds_them(model):
    found, trained = index(model), model.trained
    for step in range(3):
        (rows,) = step_vectors(
            trained.translator, pad([trained.source.encode("a c b")]), pad([trained.target.encode("y z")])
        )
        distances = np.sqrt(((np.asarray(found.steps) - rows[step]) ** 2).sum(axis=1))
        near = model.neighbors("a c b", "y z", step=step, most=5)
        np.testing.assert_allclose(near.distances, np.sort(distances)[:5], atol=1e-5)
        assert near.to_records() == model.neighbors("a c b", ["y", "z"], step=step, most=5).to_records()
        for each in near:
            assert each.tokens == (*TARGETS[each.line - 1].split(), "</s>")
            assert each.token == each.tokens[each.step]
            row = found.starts[KEPT.index(each.line - 1)] + each.step
            np.testing.assert_allclose(each.distance, distances[row], atol=1e-5)


def test_a_training_pair_is_its_own_neighbor(model):
    nearest = model.neighbors("b a c")[0]
    assert (nearest.line, nearest.step, nearest.token, nearest.tokens) == (2, None, None, None)
    assert nearest.distance < 1e-3
    (nearest,) = model.neighbors("b a c", "y x z", step=2, most=1)
    assert (nearest.line, nearest.step, nearest.token) == (2, 2, "z")


def test_by_default_the_step_is_one_of_the_best_translation(model):
    (text,) = model.translate(["a c b"], beam_size=3).sentences
    wanted = model.neighbors("a c b", text.split(), step=0, most=2)
    assert model.neighbors("a c b", step=0, most=2, beam_size=3).to_records() == wanted.to_records()


def test_the_step_is_one_of_the_best_translation_whatever_the_run_searches_for(model):
    search = SearchOptions(beam_size=6, n_best=5, mbr="chrf", candidates=6)
    config = model.config.model_copy(update={"search": search})
    other = replace(model, trained=replace(model.trained, config=config))
    wanted = model.neighbors("a c b", step=0, most=2, beam_size=1)
    assert other.neighbors("a c b", step=0, most=2, beam_size=1).to_records() == wanted.to_records()


def test_an_index_is_computed_once_and_no_more_than_its_most_vectors(model, cache, monkeypatch):
    before = np.array(index(model).steps)
    (entry,) = (path for path in (cache / "neighbors").iterdir() if path.is_dir())
    with monkeypatch.context() as patched:
        patched.setattr(neighbors, "_compute", lambda *_: pytest.fail("computed again"))
        assert (index(model).steps == before).all()
    assert sorted(path.name for path in cache.iterdir()) == ["neighbors"], "nothing unfinished is left"
    with (entry / "steps.npy").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x7f")
    np.testing.assert_allclose(index(model).steps, before, atol=1e-6, err_msg="a damaged file is computed again")
    monkeypatch.setattr(neighbors, "MOST", 8)
    assert index(model).lines.tolist() == [0, 1]
    assert len(neighbors.find_neighbors(model.trained, index(model), "a", most=9)) == 2


def test_what_cannot_be_answered_is_one_line(model, monkeypatch):
    with pytest.raises(UserError, match="step 3: this target has steps 0 to 2"):
        model.neighbors("a", "y z", step=3)
    with pytest.raises(UserError, match="target: sources are compared without their targets"):
        model.neighbors("a", "y z")
    with pytest.raises(UserError, match="beam_size: options of a search, and nothing is searched for here"):
        model.neighbors("a", beam_size=2)
    with pytest.raises(UserError, match="blank"):
        model.neighbors(" ")
    with pytest.raises(UserError, match="'q' is not in this model's vocabulary"):
        model.neighbors("a", ["q"], step=0)
    monkeypatch.setattr(Limits, "max_positions", property(lambda _: (None, 2)))
    with pytest.raises(UserError, match="step 2: 3 tokens, and this model has 2 positions; give fewer"):
        model.neighbors("a", "y z", step=2)
    monkeypatch.undo()
    with pytest.raises(UserError, match="most = 0"):
        model.neighbors("a", most=0)
    monkeypatch.setitem(sys.modules, "usearch", None)
    with pytest.raises(UserError, match=r"needs usearch, which is not installed: pip install 'seq2seq_attn\["):
        index(model)


def test_a_cache_that_cannot_be_written_is_one_line(model, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(UserError, match="cache folder cannot be written"):
        index(model)
