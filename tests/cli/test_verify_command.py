"""`verify`: what was changed since a training run is named, and nothing is written."""

import json
import shutil

import pytest
import yaml

from seq2seq_attn.runs import provenance


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


@pytest.fixture
def unrecorded(run):
    """The run without its checksums, as one whose owner changes it on purpose."""
    (run / "SHA256SUMS").write_text("# seq2seq_attn\n")
    return run


def recorded(run, **changes):
    """The record of a run, with these fields of its last session."""
    path = run / "provenance.json"
    record = json.loads(path.read_text())
    record["sessions"][-1] |= changes
    path.write_text(json.dumps(record))


def lines(answer):
    return dict(line.split(": ", 1) for line in answer.out.splitlines())


def test_a_moved_run_is_sound_and_its_scores_are_the_same(program, run):
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    answer = program("verify", run, "--score")
    assert (answer.code, answer.err) == (0, "")
    found = lines(answer)
    assert found.pop("ok     scores").startswith("bleu ")
    assert found.pop("ok     model").endswith(" parameters, 6 epochs")
    assert found.pop("ok     code").endswith(", unchanged")
    assert found == {
        "ok     files": "complete",
        "ok     configuration": "as in training",
        "ok     data": "7 files as in training",
        "ok     libraries": "as in training",
        "ok     hardware": "as in training",
        "ok     translations": "7 lines are equal",
    }
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def change_config(run):
    values = yaml.safe_load((run / "config.yaml").read_text())
    (run / "config.yaml").write_text(yaml.safe_dump(values | {"seed": 7}))


def change_translation(run):
    path = run / "test.translations.txt"
    path.write_text("zz\n" + path.read_text().split("\n", 1)[1])


def change_score(run):
    metrics = json.loads((run / "metrics.json").read_text())
    metrics["test"]["chrf"]["value"] += 0.5
    metrics["test"]["other"] = 2.0
    (run / "metrics.json").write_text(json.dumps(metrics))


def forget_training(run):
    metrics = json.loads((run / "metrics.json").read_text())
    del metrics["training"]
    (run / "metrics.json").write_text(json.dumps(metrics))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda run: (run / "model.safetensors").unlink(), ["wrong  files: ", "model.safetensors: no such file"]),
        (lambda run: (run / "model.safetensors").write_bytes(b""), ["wrong  model: ", "or truncated"]),
        (lambda run: (run / "provenance.json").write_text(""), ["wrong  model: ", "provenance.json: not JSON"]),
        (change_config, ["wrong  configuration: config.yaml was changed after training"]),
        (
            lambda run: recorded(run, data={"data.test.source": "0"}),
            ["wrong  data: ", "/test.src: not the file"],
        ),
        (lambda run: recorded(run, data={"data.x": "0"}), ["wrong  data: data.x: no such file (data.x)"]),
        (forget_training, ["wrong  model: training has not ended; continue it with train --resume"]),
        (change_translation, ["wrong  translations: 1 of 7 lines differ"]),
        (change_score, ["wrong  scores: chrf ", " stored, ", "other was not computed"]),
    ],
)
def test_what_is_wrong_is_named_and_the_exit_code_is_1(program, unrecorded, change, words):
    change(unrecorded)
    answer = program("verify", unrecorded, "--score")
    assert (answer.code, answer.err) == (1, "")
    for word in words:
        assert word in answer.out


@pytest.mark.parametrize("name", ["config.yaml", "model.safetensors", "test.translations.txt", "log/metrics.csv"])
def test_each_damaged_file_is_named(program, run, name):
    path = run / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    answer = program("verify", run)
    assert answer.code == 1
    assert f"{path}: damaged or edited" in answer.out


def test_other_versions_libraries_and_devices_are_noted(program, unrecorded, monkeypatch):
    run = unrecorded
    recorded(
        run, code="0", version="0.0.9", commit="abc+", uncommitted="diff", hardware="a GPU", packages={"torch": "1.0"}
    )
    record = json.loads((run / "provenance.json").read_text())
    record["sessions"].insert(0, record["sessions"][0])
    (run / "provenance.json").write_text(json.dumps(record))
    monkeypatch.setattr(provenance, "PACKAGES", ("numpy",))
    monkeypatch.setattr(provenance, "_version", lambda name: "2.0")
    answer = program("verify", run)
    assert answer.code == 0
    found = lines(answer)
    made = "trained with version 0.0.9, commit abc+; its uncommitted changes are in provenance.json"
    assert found["note   code"] == made
    assert found["note   libraries"] == "numpy absent in training, 2.0 now; torch 1.0 in training, absent now"
    assert found["note   hardware"].startswith("a GPU in training, ")
    assert found["note   training"] == "in 2 sessions; what follows is about the last one"


def test_a_run_without_its_provenance_is_wrong(program, run):
    (run / "provenance.json").unlink()
    answer = program("verify", run, "--json")
    found = json.loads(answer.out)
    assert (answer.code, found["is_wrong"]) == (1, True)
    assert f"{run / 'provenance.json'}: no such file" in [item["said"] for item in found["items"]]


def test_a_folder_that_is_no_run_is_refused(refused, tmp_path):
    assert "not a run folder (no config.yaml)" in refused("verify", tmp_path)
