"""A source of frames, in one file outside the package: trained, searched, aligned, evaluated and compared."""

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from plain_recipe import NO_DROPOUT, constant

import seq2seq_attn as s2s
from seq2seq_attn.analysis import word_alignment
from seq2seq_attn.api.alignment import align_by_eflomal
from seq2seq_attn.comparison import compare as comparing
from seq2seq_attn.comparison.evidence import recompute
from seq2seq_attn.config import Config
from seq2seq_attn.corpora.display import picture_of
from seq2seq_attn.corpora.front_end import FrontEndConfig
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.encoder import EncoderConfig
from seq2seq_attn.report.table import markdown
from seq2seq_attn.results.attention import CORPUS
from seq2seq_attn.results.examples import EXAMPLES
from seq2seq_attn.runs import plugin
from seq2seq_attn.runs.cache import Cache, cached_front_ends, cached_pairs
from seq2seq_attn.runs.corpora import load_front_ends
from seq2seq_attn.runs.folder import read_config
from seq2seq_attn.serve.sent_files import SentFiles, as_line
from seq2seq_attn.strict import override, parse

FRAMES = Path(__file__).parents[2] / "examples" / "frames.py"
WORDS = "abcd"
# Of a front end that learns its scale.
LEARNING = """
        with open("BUILT", "a") as file:
            file.write("x")
        return FramesFrontEnd(self.features, float(np.mean([np.load(line).mean() for line in lines])))

    def load(self, folder, side):
        return FramesFrontEnd(self.features, float((folder / f"{side}.scale").read_text()))
"""
KEEPING = """
    def files(self, side):
        return {f"{side}.scale": repr(self.scale).encode()}
"""
TEST = {"source": "source", "target": "target", "alignments": "align"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Each word is two frames, the first of which tells it and its place; some recordings lack their last frame."""
    folder, draw = tmp_path_factory.mktemp("data"), np.random.default_rng(3)
    for part, count in {"train": 90, "validation": 12, "test": 14}.items():
        sentences = [draw.integers(0, 4, size=int(draw.integers(1, 5))) for _ in range(count)]
        names = [folder / f"{part}-{number}.npy" for number in range(count)]
        for number, (path, sentence) in enumerate(zip(names, sentences, strict=True)):
            frames = draw.normal(0.0, 0.05, size=(2 * len(sentence), 5))
            frames[np.arange(len(sentence)) * 2, sentence] += 1.0
            frames[:, 4] += np.arange(len(frames)) / 2 - 1
            np.save(path, frames[: len(frames) - (number % 3 == 0)])
        lines = {"source": map(str, names), "target": (" ".join(WORDS[each] for each in row) for row in sentences)}
        # The state of two frames is called by the first of them.
        lines["align"] = (" ".join(f"{2 * word}-{word}" for word in range(len(row))) for row in sentences)
        for side, text in lines.items():
            (folder / f"{part}.{side}").write_text("".join(f"{line}\n" for line in text))
    shutil.copy(FRAMES, folder / "frames.py")
    return folder


@pytest.fixture(scope="module")
def values(data):
    files = {part: {side: f"{data}/{part}.{side}" for side in ("source", "target")} for part in ("train", "validation")}
    return {
        "data": files | {"test": {side: f"{data}/test.{end}" for side, end in TEST.items()}},
        "source": {"kind": f"{data}/frames.py:FramesConfig", "features": 5},
        "text": {"tokenizer": "word"},
        "model": {
            "embedding_size": 8,
            "encoder": {"kind": f"{data}/frames.py:JoinedFramesConfig"},
            "decoder": {"kind": "bahdanau", "hidden_size": 16},
            "dropout": NO_DROPOUT,
        },
        "training": {
            "max_epochs": 12,
            "batch_size": 10,
            "monitor": "loss",
            "accelerator": "cpu",
            **constant(0.02),
        },
        "search": {"beam_size": 2},
        "evaluation": {"tokenize": "none", "bands": [3]},
    }


@pytest.fixture(scope="module")
def config(values):
    return parse(Config, values)


@pytest.fixture(scope="module")
def model(config, tmp_path_factory):
    return s2s.train(config, tmp_path_factory.mktemp("trained") / "run", silent=True)


@pytest.fixture
def files(data):
    return (data / "test.source").read_text().splitlines(), (data / "test.target").read_text().splitlines()


def test_a_model_of_frames_translates_what_it_has_learned(model, files):
    sources, targets = files
    found = model.translate([*sources, ""]).sentences
    assert sum(ours == theirs for ours, theirs in zip(found, targets, strict=False)) >= 10
    assert found[-1] == ""
    assert model.translate(sources[:1], beam_size=1).sentences == found[:1]
    assert all(each.log_probability < 0 for each in model.score(list(zip(sources, targets, strict=True))))


def test_a_state_is_called_by_the_first_of_its_frames(model, files):
    source = next(line for line in files[0] if len(np.load(line)) == 8)
    matrix = model.attention(source)
    assert matrix.source == ("1", "3", "5", "7")
    assert matrix.weights.shape == (len(matrix.target), 4)
    assert matrix.weights.sum(axis=1) == pytest.approx(np.ones(len(matrix.target)), abs=1e-3)
    assert model.attention(source, "a b").source == matrix.source
    assert model.attention_maps(source, "a b").cross.layers[0].shape[-1] == 4
    (found,) = model.align([(source, "a b c d")])
    assert {position % 2 for position, _ in found.links} == {0}
    assert {word for word, _ in found.words} <= {"1", "3", "5", "7"}


def test_attention_to_frames_is_drawn_below_them(model, files):
    source = next(line for line in files[0] if len(np.load(line)) == 8)
    view = model.attention(source)
    figure = view.plot()
    matrix, picture = (axes.images[0] for axes in figure.axes if axes.images)
    assert matrix.get_extent()[:2] == picture.get_extent()[:2] == [0, 8]
    np.testing.assert_array_equal(matrix.get_array(), view.weights)
    frames = np.load(source)
    assert np.argmin(picture.get_array()[:, 0]) == 4 - np.argmax(frames[0])  # the first feature is at the bottom
    assert view.head(0).plot().axes[0].images
    assert view.words().display is None


def test_links_are_compared_with_gold_links_between_frames_and_words(model, data, files, tmp_path):
    pairs = list(zip(*files, strict=True))
    found = model.align(pairs).agreement(data / "test.align")
    assert found.error_rate == pytest.approx(model.evaluate()["aer"])
    assert model.align_heads(pairs, data / "test.align")[-1].agreement == found
    (tmp_path / "beyond.align").write_text("".join(f"{len(np.load(source))}-0\n" for source, _ in pairs))
    with pytest.raises(UserError, match=r"beyond\.align, line 1: link"):
        model.align(pairs).agreement(tmp_path / "beyond.align")


def test_the_steps_of_frames_are_read_and_changed(model, files):
    source = next(line for line in files[0] if len(np.load(line)) == 8)
    other = next(line for line in files[0] if len(np.load(line)) == 4)
    for options in ({"beam_size": 1}, {"beam_size": 2}):
        found = model.steps(source, **options)
        matrix = model.attention(source, found.text)
        assert found.source == matrix.source
        np.testing.assert_allclose([step.weights for step in found.steps], matrix.weights, atol=1e-5)
    first = {"replace": "weights", "weights": [1, 0, 0, 0]}
    assert model.steps(source, "a b", interventions=[first]).steps[1].layers[0].weights == [[1, 0, 0, 0]]
    read = model.steps(source, interventions=[{"replace": "sentence", "other": other}])
    assert read.steps[0].token == model.steps(other).steps[0].token
    with pytest.raises(UserError, match="5 weights for 4"):
        model.steps(source, interventions=[{"replace": "weights", "weights": [1] * 5}])


def test_the_weights_of_frames_are_changed_and_compared(model, files):
    found = model.faithfulness(list(zip(*files, strict=True)))
    effects = found.interventions.effects
    assert effects["of_another_sentence"].log_probability < effects["another_erased"].log_probability
    assert (found.sentences, found.correlations) == (0, {})


def test_a_run_of_frames_is_evaluated(model):
    scores = model.evaluate()
    assert scores["bleu"]["value"] > 50
    assert [(band["low"], band["high"]) for band in scores["by_length"]] == [(1, 3), (4, None)]
    assert sum(band["sentences"] for band in scores["by_length"]) == 14
    assert "sentences of 1-3 source positions" in str(scores)
    assert scores["unknown_source_words"] == 0
    assert 0 <= scores["aer"] < 1


def test_a_recording_is_cut_at_the_longest_of_training_and_named_where_it_cannot_be_read(model, tmp_path):
    np.save(tmp_path / "long.npy", np.ones((103, 5)))
    np.save(tmp_path / "wide.npy", np.ones((3, 6)))
    with pytest.warns(UserWarning, match="line 2: 103 positions, cut to data.max_length=100"):
        model.translate(["", str(tmp_path / "long.npy")])
    for name, message in {"wide": "source.features is 5", "none": "not an array of frames"}.items():
        with pytest.raises(UserError, match=rf"{name}\.npy: .*{message}"):
            model.translate([str(tmp_path / f"{name}.npy")])


def test_a_moved_run_is_used_in_a_new_process_without_the_original_file(model, files, tmp_path):
    run = shutil.copytree(model.folder, tmp_path / "moved")
    settings = yaml.safe_load((run / "config.yaml").read_text())
    assert settings["source"]["kind"] == "plugins/frames.py:FramesConfig"
    assert (run / "plugins/frames.py").read_bytes() == FRAMES.read_bytes()
    command = [sys.executable, "-m", "seq2seq_attn", "translate", run]
    lines = "".join(f"{line}\n" for line in files[0])
    done = subprocess.run(command, input=lines, text=True, capture_output=True, cwd=tmp_path)
    assert done.stdout.splitlines() == model.translate(files[0]).sentences, done.stderr


def test_a_kind_of_a_plugin_is_kept_by_the_run(values, data, tmp_path, monkeypatch):
    monkeypatch.setattr(plugin, "_loaded", [])
    for base in (FrontEndConfig, EncoderConfig):
        monkeypatch.setattr(base, "_kinds", base._kinds.copy())
    file, run = shutil.copy(FRAMES, tmp_path / "own_frames.py"), tmp_path / "run"
    plugin.load_plugins([file])
    named = ["source.kind=scaled_frames", "model.encoder.kind=joined_frames"]
    for epochs in (1, 2):
        short = parse(Config, override(values, [f"training.max_epochs={epochs}", *named]))
        s2s.train(short, run, if_exists="resume" if epochs == 2 else "refuse", silent=True)
    settings = yaml.safe_load((run / "config.yaml").read_text())
    assert settings["model"]["encoder"]["kind"] == "plugins/own_frames.py:JoinedFramesConfig"
    s2s.load(run)  # beside the file itself, whose kinds have the same names
    file.unlink()
    assert len(s2s.load(run).translate([str(data / "test-0.npy")]).sentences) == 1


def test_training_continues_exactly_and_only_with_the_same_recordings(values, data, model, tmp_path):
    def trained(epochs, if_exists):
        shorter = parse(Config, override(values, [f"training.max_epochs={epochs}"]))
        return s2s.train(shorter, tmp_path / "run", if_exists=if_exists, silent=True)

    trained(4, "refuse")
    recording = data / "train-1.npy"
    content = recording.read_bytes()
    np.save(recording, np.load(recording) + 1)
    with pytest.raises(UserError, match=r"train\.source: what its lines name"):
        trained(12, "resume")
    recording.write_bytes(content)
    trained(12, "resume")
    assert (tmp_path / "run/model.safetensors").read_bytes() == (model.folder / "model.safetensors").read_bytes()


def test_arms_that_read_frames_are_compared(values, tmp_path, no_figures, monkeypatch):
    for module in (comparing, word_alignment):  # as if it was installed
        monkeypatch.setattr(module, "eflomal_program", lambda: "eflomal-align")
    base = override(values, ["training.max_epochs=1"])
    arms = {"attention": {}, "mean": ["model.context.kind=mean"]}
    experiment = {"name": "frames", "baseline": "mean", "seeds": [1, 2], "arms": arms, "base": base}
    compared = s2s.compare(experiment, tmp_path / "out", silent=True)
    results = compared.results
    assert [arm.name for arm in results.arms] == ["attention", "mean"]
    assert results.sentences == 14
    assert results.by_length.groups == ("1-3", "4+")
    assert (results.unit, results.by_length.meaning) == ("positions", "Positions of the source.")
    assert "positions" in markdown(results)
    assert not re.search(r"source words|\d words", markdown(results))
    assert {"aer", "bleu"} <= results.arms[0].scores.keys()
    assert results.aer_rivals["diagonal"] > 0
    assert "eflomal" not in results.aer_rivals
    run = tmp_path / "out/runs/mean/seed-1"
    with pytest.raises(
        UserError, match=f"{run}: eflomal aligns words of plain text, not a source of the kind scaled_frames"
    ):
        align_by_eflomal(run, [("a.npy", "b")], symmetrize="union")
    breakdowns = {each.name: each for each in results.where.breakdowns}
    assert "rarest source word" not in breakdowns
    by_entropy = breakdowns["entropy of the weights"].arms["attention"]
    assert all(group is None or 1 <= group.words <= 8 for group in by_entropy)  # frames
    assert not recompute(compared.folder).differences
    examples, corpus = EXAMPLES.load(compared.folder), CORPUS.load(compared.folder)
    assert [pair.line for pair in corpus.pairs] == [each.line for each in examples]
    for example in examples:
        frames = np.load(example.source)
        np.testing.assert_array_equal(example.seen.picture, picture_of(frames.astype(np.float32)))
        assert (example.seen.positions, example.seen.sound) == (len(frames), None)
        assert {p for p, _ in example.gold} <= set(range(len(frames)))
        trace, mean = example.readings
        assert (trace.grid, trace.source_words) == (1, None)
        assert [sum(step.weights) for step in trace.reference] == pytest.approx([1] * len(trace.reference), abs=1e-3)
        assert {len(step.weights) for step in trace.reference} == {len(trace.source)} == {-(-len(frames) // 2)}
        assert {*mean.reference[0].weights} == {round(1 / len(mean.source), 4)}


def test_the_words_of_a_text_are_called_as_its_configuration_says():
    files = {"source": "a", "target": "b"}
    values = {"data": {"train": files, "validation": files}, "evaluation": {"unit": "letters"}}
    assert parse(Config, values).source_unit == "letters"
    two, encoder = {"kind": "multi_source"}, {"kind": "multi_source", "encoders": [{}, {}]}
    assert parse(Config, values | {"source": two, "model": {"encoder": encoder}}).source_unit == "letters"
    assert parse(Config, values | {"evaluation": {}}).source_unit == "words"


def test_each_source_has_its_unit_of_length():
    kinds = FrontEndConfig.kinds()
    named = {"factored": "words", "multi_source": "words", "frames": "frames", "speech": "frames", "image": "columns"}
    assert {kind: kinds[kind].unit for kind in named} == named
    assert FrontEndConfig.unit == "positions"


def test_a_changed_recording_is_read_again(config, model, data, tmp_path):
    lines = (data / "validation.source").read_text().splitlines()
    recording, cache = tmp_path / "own.npy", Cache(tmp_path / "cache")
    files = config.data.validation.model_copy(update={"source": tmp_path / "list"})
    (tmp_path / "list").write_text("".join(f"{line}\n" for line in [recording, *lines[1:]]))
    front_ends = load_front_ends(model.folder, read_config(model.folder))
    for value in (2.0, 3.0):
        np.save(recording, np.full((6, 5), value))
        source, *_ = cached_pairs(files, front_ends, cache)
        assert source[0].tolist() == [[value] * 5] * 6


def test_a_front_end_is_learned_again_only_of_another_recording_configuration_or_code(values, data, tmp_path):
    lines = (data / "train.source").read_text().splitlines()
    recording, listed = shutil.copy(lines[0], tmp_path / "recording.npy"), tmp_path / "list"
    listed.write_text("".join(f"{line}\n" for line in [str(recording), *lines[1:]]))
    own, built = tmp_path / "own.py", tmp_path / "built"
    code = FRAMES.read_text().replace("    def rules(", f"{KEEPING}\n    def rules(")
    learning = LEARNING.replace("BUILT", str(built))
    own.write_text(code.replace("        return FramesFrontEnd(self.features, self.scale)\n", learning))

    def learned(*changes):
        named = values | {"source": {"kind": f"{own}:FramesConfig", "features": 5}}
        changed = parse(Config, override(named, [f"data.train.source={listed}", *changes]))
        front_end, _ = cached_front_ends(changed, Cache(tmp_path / "cache"))
        return front_end.scale, len(built.read_text())

    first = learned()
    assert first == (pytest.approx(np.mean([np.load(line).mean() for line in lines])), 1)
    assert learned() == first
    np.save(recording, np.load(recording) + 1)
    second = learned()
    assert (second[0] > first[0], second[1]) == (True, 2)
    assert learned("text.tokenizer=character") == (second[0], 3)
    assert learned("source.scale=2") == (second[0], 4)
    own.write_text(own.read_text().replace("float(np.mean(", "float(np.max("))
    third = learned()
    assert (third[0] > second[0], third[1]) == (True, 5)
    assert learned() == third


@pytest.mark.parametrize(
    "changes",
    [
        ["model.tie_embeddings=all"],
        ["search.shortlist=5"],
        ["search.replace_unknown=true"],
        ["search.casing=source"],
        ["model.pretrained_embeddings.source=glove.txt"],
        ["training.guided_alignment={links: train.align}"],
        ["text.tokenizer=bpe", "text.sampling.sides=source"],
        ["evaluation.comet=model"],
        ["model.encoder.kind=recurrent"],
        ["source=null"],
    ],
)
def test_options_that_need_text_are_refused_in_one_line(values, changes):
    with pytest.raises(UserError, match=changes[-1].partition("=")[0].replace(".", r"\.")) as refused:
        parse(Config, override(values, changes))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "use",
    [
        lambda model, line: model.steps([line]),
        lambda model, line: model.neighbors(line),
        lambda model, line: model.export("html", model.folder.parent / "page.html"),
        lambda model, line: model.translate([line], shortlist=5),
        lambda model, line: model.translate([line], replace_unknown=True),
    ],
)
def test_what_needs_text_is_refused_in_one_line(model, data, use):
    with pytest.raises(UserError, match="needs a source of text") as refused:
        use(model, str(data / "test-1.npy"))
    assert "\n" not in str(refused.value)


def test_a_server_reads_files_that_clients_send_by_the_same_front_end(model, data):
    path = data / "test-1.npy"
    sent = replace(model.trained, source=SentFiles(model.trained.source, model.trained.reads))
    np.testing.assert_array_equal(sent.source.encode(as_line(path)), model.trained.source.encode(str(path)))
    for method in ("labels", "words", "word_indices"):
        assert getattr(sent.source, method)(as_line(path)) == getattr(model.trained.source, method)(str(path))
    assert sent.source_labels(as_line(path), 2) == model.trained.source_labels(str(path), 2)


def test_the_target_alone_starts_from_vectors(values, tmp_path):
    (tmp_path / "vectors.txt").write_text("a 1 2 3 4 5 6 7 8\n")
    vectors = {"pretrained_embeddings": {"target": str(tmp_path / "vectors.txt")}}
    rate = {"max_epochs": 1, **constant(1e-9)}
    model = s2s.train(values, tmp_path / "run", silent=True, model=vectors, training=rate)
    row = model.trained.target.vocabulary["a"]
    assert model.module.target_embedding.table.weight[row].tolist() == pytest.approx(range(1, 9), rel=1e-3)
