"""A warm start: a training that begins with the weights of a run."""

import hashlib
import json
import re

import pytest
import torch
from plain_recipe import NO_DROPOUT, constant

import seq2seq_attn as s2s
from seq2seq_attn.config import Config
from seq2seq_attn.errors import UserError
from seq2seq_attn.runs.building import build_translator
from seq2seq_attn.runs.cache import Cache, cached_front_ends
from seq2seq_attn.runs.folder import read_config, read_metrics
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.runs.train import train
from seq2seq_attn.runs.warm_start import WarmStart, completed, read_configuration
from seq2seq_attn.strict import override, parse
from seq2seq_attn.training import CURVES, LAST
from seq2seq_attn.training.checkpoints import read_optimizer
from seq2seq_attn.training.optimizer import Updates


@pytest.fixture
def config(grid):
    return grid.runs[2].config


@pytest.fixture
def run(train_once, config, tmp_path):
    """A run of two epochs, whose words are a, b, c, d and e on both sides."""
    train_once(config, tmp_path / "run")
    return tmp_path / "run"


def started(config, run, *changes):
    values = config.model_dump(mode="json")
    return parse(Config, override(values, [f"training.start_from={run}", "training.max_epochs=1", *changes]))


@pytest.mark.parametrize("family", ["recurrent", "transformer"])
@pytest.mark.parametrize("joint", [False, True])
def test_the_first_validation_on_the_same_data_equals_the_last_of_the_run(config, tmp_path, family, joint):
    values = config.model_dump(mode="json")
    if family == "transformer":
        sizes = {"layers": 1, "heads": 2}
        values["model"] = {"kind": "transformer", "embedding_size": 8, "encoder": sizes, "decoder": sizes}
    changes = [f"text.joint={joint}", "training.max_epochs=1", "training.ema_decay=0.5"]
    config = parse(Config, override(values, changes))
    train(config, tmp_path / "run")
    again = train(started(config, tmp_path / "run", "training.optimizer.learning_rate=1e-30"), tmp_path / "again")
    row = (tmp_path / "again" / CURVES).read_text().splitlines()[1].split(",")
    last = (tmp_path / "run" / CURVES).read_text().splitlines()[-1].split(",")
    assert row[:3] == ["0", "0", ""]
    assert row[3:] == last[3:]  # loss and score
    # Nothing is better than the weights that it began with, so they are kept.
    assert read_metrics(tmp_path / "again")["training"]["best_epoch"] == 0
    for name, weight in TrainedModel.load(tmp_path / "run").translator.state_dict().items():
        assert torch.equal(again.translator.state_dict()[name], weight)


def write(folder, name, lines):
    (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return str(folder / name)


def test_tokens_that_both_vocabularies_have_keep_their_rows_and_others_begin_at_random(run, config, tmp_path):
    """The run knows a to e on both sides; here sources are of b, a and x, targets of c, y and z."""
    files = [write(tmp_path, "new.source", ["b x a"] * 3 + ["b"]), write(tmp_path, "new.target", ["y c z"] * 3 + ["c"])]
    data = f"data.train={{source: {files[0]}, target: {files[1]}}}"
    said = []
    changes = [data, "text.minimum_frequency=2", "training.optimizer.learning_rate=1e-30", "model.tie_embeddings=none"]
    new = train(started(config, run, *changes), tmp_path / "new", say=said.append)
    old = TrainedModel.load(run)
    words = [side.vocabulary.get_itos()[4:] for side in (new.source, new.target)]
    assert [sorted(each) for each in words] == [["a", "b", "x"], ["c", "y", "z"]]
    ours, theirs = new.translator.state_dict(), old.translator.state_dict()
    tables = {
        "encoder.embedding.table.weight": (new.source, old.source),
        "target_embedding.table.weight": (new.target, old.target),
        "head.projection.weight": (new.target, old.target),
        "head.projection.bias": (new.target, old.target),
    }
    for name, weight in ours.items():
        if name not in tables:
            assert torch.equal(weight, theirs[name]), name
            continue
        here, there = (codec.vocabulary for codec in tables[name])
        for token in here.get_itos():
            if token in there:
                assert torch.equal(weight[here[token]], theirs[name][there[token]]), (name, token)
            else:
                assert not any(torch.equal(weight[here[token]], each) for each in theirs[name])
    counts = "source: 6 of 7 tokens as in the run, 1 new; target: 5 of 7 tokens as in the run, 2 new"
    assert said[0] == f"training: starts from {run}, {counts}"


def test_what_the_configuration_leaves_out_is_as_in_the_run(run, config):
    given = {"data": config.model_dump(mode="json")["data"], "training": {"start_from": str(run)}}
    found = read_configuration(given)
    assert (found.text, found.model, found.source) == (config.text, config.model, config.source)
    assert found.training.max_epochs == 50
    own = read_configuration({**given, "text": {"lowercase": True}})
    assert own.text == config.text.model_copy(update={"lowercase": True})
    assert completed(found.model_dump(mode="json")) == found.model_dump(mode="json")


def test_the_demo_of_the_package_is_a_run_to_start_from(tmp_path, config):
    found = read_configuration(
        {"data": config.model_dump(mode="json")["data"], "training": {"start_from": "demo", "max_epochs": 1}}
    )
    said = []
    train(found, tmp_path / "adapted", say=said.append)
    assert said[0] == "training: starts from demo, with its vocabularies"
    assert read_config(tmp_path / "adapted").model == s2s.load("demo").config.model


def test_provenance_records_the_run_and_its_manifest_and_a_resumed_training_needs_neither(run, config, tmp_path):
    settings = started(config, run)
    whole = train(settings, tmp_path / "whole")
    (session,) = json.loads((tmp_path / "whole/provenance.json").read_text())["sessions"]
    digests = {
        name: hashlib.sha256((run / name).read_bytes()).hexdigest() for name in ("SHA256SUMS", "model.safetensors")
    }
    assert session["start_from"] == {"run": str(run), **digests}
    run.rename(tmp_path / "gone")
    longer = parse(Config, override(settings.model_dump(mode="json"), ["training.max_epochs=2"]))
    train(longer, tmp_path / "whole", if_exists="resume")
    assert read_metrics(tmp_path / "whole")["training"]["epochs"] == 2
    assert s2s.load(tmp_path / "whole").config.training.start_from == str(run)
    assert whole.config == settings


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("model.decoder.hidden_size=11", ("start_from", "has shape", "leave out the options under model")),
        ("model.context.kind=fixed", ("start_from", "decoder.context.scorer", "alone")),
        ("text={tokenizer: word, joint: true, lowercase: true}", ("one vocabulary for both sides", "text.joint=false")),
        ("model.pretrained_embeddings.source=vectors.txt", ("pretrained_embeddings", "start_from", "leave out one")),
        ("training.start_from=nowhere", ("nowhere", "not a run folder")),
    ],
)
def test_a_run_that_does_not_fit_is_refused_in_one_line_before_anything_is_written(
    run, config, tmp_path, change, words
):
    values = override(config.model_dump(mode="json"), {"training.start_from": str(run)}.items())
    with pytest.raises(UserError) as refused:
        train(parse(Config, override(values, [change])), tmp_path / "new")
    assert "\n" not in str(refused.value)
    assert [word for word in words if word not in str(refused.value)] == []
    assert not (tmp_path / "new").exists() or not (tmp_path / "new/config.yaml").exists()


def test_frozen_parts_stay_as_they_are_and_are_counted(run, config, tmp_path):
    said = []
    parts = "training.freeze=[encoder, target_embedding.table]"
    new = train(started(config, run, parts), tmp_path / "new", say=said.append)
    old = TrainedModel.load(run).translator.state_dict()
    frozen = {name for name in old if name.startswith(("encoder.", "target_embedding."))}
    kept = {name for name, weight in new.translator.state_dict().items() if torch.equal(weight, old[name])}
    assert kept == frozen
    total = sum(weight.numel() for weight in old.values())
    count = sum(old[name].numel() for name in frozen)
    assert f"{total:,} parameters ({total - count:,} trained, {count:,} frozen); " in said[1]
    assert read_metrics(tmp_path / "new")["parameters"] == total
    assert all(parameter.requires_grad for parameter in new.translator.parameters())


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ("[encodr]", "has no part 'encodr' with parameters; did you mean 'encoder'?"),
        ("[encoder.embeding]", "did you mean 'encoder.embedding'?"),
        ("[enc]", "has no part 'enc'"),
        ("[encoder, decoder, head, target_embedding, readout, initial]", "leaves no parameter to train"),
    ],
)
def test_a_part_that_is_not_there_names_its_neighbor(config, tmp_path, parts, words):
    values = override(config.model_dump(mode="json"), [f"training.freeze={parts}"])
    with pytest.raises(UserError, match=re.escape(words)):
        train(parse(Config, values), tmp_path / "run")


def test_the_flag_sets_the_key(run, config, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from seq2seq_attn.cli.app import app

    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(json.dumps({"data": config.model_dump(mode="json")["data"]}))
    arguments = ["train", "mine.yaml", "--from", str(run), "training.max_epochs=1", "training.accelerator=cpu"]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    assert read_config(tmp_path / "runs/mine").training.start_from == str(run)
    assert read_config(tmp_path / "runs/mine").model == config.model


def kept_tensors(folder):
    _, found = read_optimizer(folder)
    return found


def test_a_step_with_the_optimizer_that_was_kept_is_the_next_one_of_the_run(config, tmp_path):
    """All pairs are one batch, so that an epoch is a step, at a constant rate and without dropout."""
    values = config.model_dump(mode="json")
    values["model"]["dropout"] = NO_DROPOUT
    values["training"] |= constant(0.003) | {"batch_size": 64, "monitor": "loss"}

    def trained(name, *changes):
        settings = parse(Config, override(values, changes))
        return train(settings, tmp_path / name, say=said.append, bar=None).translator.state_dict()

    said: list[str] = []
    before, longer = trained("run"), trained("longer", "training.max_epochs=3")
    start = "training.max_epochs=1", f"training.start_from={tmp_path / 'run'}"
    kept, fresh = (trained(kind, f"training.start_optimizer={kind}", *start) for kind in ("kept", "fresh"))

    def distance(one, other):
        return max(float((one[name] - other[name]).abs().max()) for name in one)

    step = distance(longer, before)
    assert distance(kept, longer) < 1e-4 * step
    assert distance(fresh, longer) > 1e-2 * step
    state, expected = kept_tensors(tmp_path / "kept"), kept_tensors(tmp_path / "longer")
    assert state.keys() == expected.keys()
    for name, tensor in state.items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-4, atol=1e-8)
    assert any("with what adam kept of" in each and "in its 2 steps" in each for each in said)


def test_before_its_first_step_the_optimizer_has_the_tensors_of_the_run_and_zeros_for_new_tokens(run, config, tmp_path):
    """As the weights do, rows follow their tokens; the scalar count of steps is that of the run."""
    files = [write(tmp_path, "new.source", ["b x a"] * 3 + ["b"]), write(tmp_path, "new.target", ["y c z"] * 3 + ["c"])]
    data = f"data.train={{source: {files[0]}, target: {files[1]}}}"
    settings = started(config, run, data, "text.minimum_frequency=2", "training.start_optimizer=kept")
    start = WarmStart(str(run))
    front_ends = cached_front_ends(settings, Cache(tmp_path / "cache", print))
    translator = build_translator(settings, *front_ends)
    start.copy_into(translator, settings, *front_ends)
    found, _ = start.optimizer_state(translator, settings, *front_ends)
    updates = Updates(dict(translator.named_parameters()), settings.training.optimizer)
    updates.start_from(found)
    own, before, old = updates.tensors(), kept_tensors(run), start.model
    assert own.keys() == before.keys()
    sides = {"encoder.embedding": 0, "target_embedding": 1, "head.projection": 1}
    for name, tensor in own.items():
        side = next((side for prefix, side in sides.items() if name.startswith(f"optimizer.{prefix}")), None)
        if side is None or name.endswith(".step"):
            assert torch.equal(tensor, before[name]), name
            continue
        here, there = front_ends[side].vocabulary, (old.source, old.target)[side].vocabulary
        assert len(here.get_itos()) > len({*here.get_itos()} & {*there.get_itos()})
        for token in here.get_itos():
            row = before[name][there[token]] if token in there else torch.zeros_like(tensor[0])
            assert torch.equal(tensor[here[token]], row), (name, token)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            "training.optimizer={name: sgd, betas: null, epsilon: null}",
            ("was trained by adam", "by sgd", "start_optimizer=fresh"),
        ),
        ("training.optimizer={name: adam, options: {amsgrad: true}}", ("by adam,", "amsgrad", "start_optimizer=fresh")),
        ("training.start_from=demo", ("last.safetensors: no such file", "start_optimizer=fresh")),
    ],
)
def test_an_optimizer_that_cannot_be_kept_is_refused_in_one_line(run, config, tmp_path, change, words):
    values = started(config, run, "training.start_optimizer=kept").model_dump(mode="json")
    if "demo" in change:
        values = {key: values[key] for key in ("data", "training")}
    with pytest.raises(UserError) as refused:
        train(read_configuration(override(values, [change])), tmp_path / "new")
    assert "\n" not in str(refused.value)
    assert [word for word in words if word not in str(refused.value)] == []
    assert not (tmp_path / "new/config.yaml").exists()


def test_a_damaged_checkpoint_gives_no_optimizer(run, config, tmp_path):
    path = run / LAST
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(UserError, match=r"last\.safetensors"):
        train(started(config, run, "training.start_optimizer=kept"), tmp_path / "new")
    with pytest.raises(UserError, match="start_optimizer=kept needs the run"):
        parse(Config, override(config.model_dump(mode="json"), ["training.start_optimizer=kept"]))


def test_frozen_parts_have_no_optimizer_to_keep_and_the_run_can_be_resumed(run, config, tmp_path):
    parts, said = "training.freeze=[encoder, target_embedding.table]", []
    settings = started(config, run, parts, "training.start_optimizer=kept")
    train(settings, tmp_path / "new", say=said.append)
    kept = {name.removeprefix("optimizer.").rpartition(".")[0] for name in kept_tensors(tmp_path / "new")}
    assert not any(name.startswith(("encoder.", "target_embedding.")) for name in kept)
    assert f"of {len(kept)} tensors" in said[0]
    longer = parse(Config, override(settings.model_dump(mode="json"), ["training.max_epochs=2"]))
    train(longer, tmp_path / "new", if_exists="resume")
    assert read_metrics(tmp_path / "new")["training"]["epochs"] == 2
