"""Nothing of the user's is deleted: only what a run has recorded is its own."""

import pytest

import seq2seq_attn as s2s
from seq2seq_attn.comparison.compare import claim
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.checksums import read_sums, write_recorded
from seq2seq_attn.runs import folder
from seq2seq_attn.runs.folder import clear, may_resume, read_metrics
from seq2seq_attn.runs.provenance import read_sessions
from seq2seq_attn.runs.train import train
from seq2seq_attn.strict import dump


@pytest.fixture
def config(grid):
    config = grid.runs[2].config
    return config.model_copy(update={"training": config.training.model_copy(update={"max_epochs": 1})})


@pytest.fixture
def run(train_once, config, tmp_path):
    train_once(config, tmp_path / "run")
    return tmp_path / "run"


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("if_exists", ["refuse", "resume", "overwrite"])
@pytest.mark.parametrize("place", [".", "..", "../../project", "link"])
def test_the_current_folder_and_those_around_it_are_refused(config, tmp_path, monkeypatch, place, if_exists):
    work = tmp_path / "project" / "work"
    work.mkdir(parents=True)
    (work / "link").symlink_to(work)
    (work / "thesis.txt").write_text("years of work")
    monkeypatch.chdir(work)
    before = files(tmp_path)
    with pytest.raises(UserError, match="is the current folder, or contains it"):
        s2s.train(config, place, if_exists=if_exists, silent=True)
    with pytest.raises(UserError, match="is the current folder, or contains it"):
        claim(work / place, "mine")
    assert files(tmp_path) == before


@pytest.mark.parametrize("if_exists", ["refuse", "resume", "overwrite"])
@pytest.mark.parametrize("name", ["config.yaml", "configs/mine.yaml"])
def test_a_folder_with_the_configuration_is_refused(config, tmp_path, name, if_exists):
    path = tmp_path / "project" / name
    path.parent.mkdir(parents=True)
    path.write_text(dump(config))
    (tmp_path / "project" / "thesis").mkdir()
    (tmp_path / "project" / "thesis" / "chapter.txt").write_text("years of work")
    before = files(tmp_path)
    with pytest.raises(UserError, match=rf"project: contains .*{name}; name a folder of its own"):
        s2s.train(path, tmp_path / "project", if_exists=if_exists, silent=True)
    assert files(tmp_path) == before


def test_a_run_resumes_with_its_own_configuration_and_is_not_replaced_with_it(run):
    s2s.train(run / "config.yaml", run, if_exists="resume", silent=True, training={"max_epochs": 2})
    assert read_metrics(run)["training"]["epochs"] == 2
    before = files(run)
    with pytest.raises(UserError, match=r"run: contains .*config\.yaml"):
        s2s.train(run / "config.yaml", run, if_exists="overwrite", silent=True)
    assert files(run) == before


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.yaml", "of mine"),
        *(("SHA256SUMS", each) for each in ("", f"{'0' * 64}  thesis.txt\n", "# seq2seq_attn of mine\n", "\0" * 100)),
    ],
)
def test_without_the_manifest_of_this_program_a_folder_is_no_run(config, tmp_path, name, content):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    (tmp_path / "mine" / name).write_text(content)
    before = files(tmp_path)
    for if_exists in ("refuse", "resume", "overwrite"):
        with pytest.raises(UserError, match="exists and is not a run"):
            train(config, tmp_path / "mine", if_exists=if_exists)
    assert files(tmp_path) == before


def test_a_run_without_its_manifest_is_neither_used_nor_replaced(run, config):
    (run / "SHA256SUMS").unlink()
    before = files(run)
    with pytest.raises(UserError, match=r"not a run folder \(no SHA256SUMS of this program\)"):
        s2s.load(run)
    for if_exists in ("resume", "overwrite"):
        with pytest.raises(UserError, match="exists and is not a run"):
            train(config, run, if_exists=if_exists)
    assert files(run) == before


@pytest.mark.parametrize(
    "name",
    [
        "notes.txt",
        "fixed/seed-1/model.safetensors",
        "checkpoints/epoch-7.safetensors",
        "test.notes.txt",
        "source.mine.json",
        "log/notes.txt",
        "plugins/mine.py",
        "model.safetensors.part",
        ".seq2seq_attn.notes",
    ],
)
def test_a_foreign_file_in_a_run_is_refused_by_name_and_not_removed(run, config, name):
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    (run / name).write_text("mine")
    before = files(run)
    with pytest.raises(UserError, match=rf"{name}: was not written by the run"):
        train(config, run, if_exists="overwrite")
    assert files(run) == before


@pytest.mark.parametrize("name", ["model.safetensors", "checkpoints"])
def test_a_link_is_not_removed(run, config, tmp_path, name):
    (run / name).rename(tmp_path / "elsewhere")
    (run / name).symlink_to(tmp_path / "elsewhere")
    before = files(tmp_path / "elsewhere")
    with pytest.raises(UserError, match=rf"{name}: was not written by the run"):
        train(config, run, if_exists="overwrite")
    assert (run / name).is_symlink()
    assert files(tmp_path / "elsewhere") == before


def test_an_empty_folder_of_the_users_stays(run, config):
    (run / "notes").mkdir()
    train(config, run, if_exists="overwrite", bar=None)
    assert (run / "notes").is_dir()


def test_a_run_without_its_configuration_is_not_replaced_by_resuming(run, config):
    (run / "config.yaml").unlink()
    before = files(run)
    with pytest.raises(UserError, match=r"config\.yaml: no such file; restore it"):
        train(config, run, if_exists="resume")
    assert files(run) == before


def test_a_folder_in_which_a_run_was_killed_before_its_first_file_is_used(config, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".seq2seq_attn.4711.part").write_text('{"form')
    train(config, tmp_path / "run", bar=None)
    assert not list((tmp_path / "run").glob("*.part"))


@pytest.mark.parametrize("if_exists", ["resume", "overwrite"])
def test_what_a_killed_process_was_writing_anywhere_in_a_run_is_removed(run, config, if_exists):
    for place in (".", "checkpoints", "log"):
        (run / place / ".seq2seq_attn.4711.part").write_text('{"form')
        (run / place / ".seq2seq_attn.4711.part.lock").touch()
    train(config, run, if_exists=if_exists, bar=None)
    assert [path for path in run.rglob("*") if path.name.startswith(".")] == []


def test_a_run_that_is_resumed_elsewhere_says_so_and_keeps_the_record_of_its_start(run, config, monkeypatch):
    (begun,) = read_sessions(run)
    assert set(begun["data"]) == {
        *(f"data.{part}.{side}" for part in ("train", "validation", "test") for side in ("source", "target")),
        "data.test.alignments",
    }
    said = []
    train(config, run, if_exists="resume", say=said.append, bar=None)
    assert not any("continues on" in text for text in said)
    monkeypatch.setattr("seq2seq_attn.runs.provenance.hardware", lambda *_: "another processor")
    train(config, run, if_exists="resume", say=said.append, bar=None)
    assert [text for text in said if "continues on" in text] == [
        f"training: continues on another processor, but began on {begun['hardware']}: its numbers may "
        "differ in the last digits from one training on either"
    ]
    assert [each["hardware"] for each in read_sessions(run)] == [begun["hardware"]] * 2 + ["another processor"]


def test_what_another_process_writes_into_its_run_meanwhile_is_not_the_users(config, tmp_path, monkeypatch):
    """Two comparisons that share their runs look at the folder of a run while one of them trains it."""
    clear(tmp_path / "run")

    def read_just_before(path):
        sums = read_sums(path)
        write_recorded(path, {"metrics.json": b"{}"})
        return sums

    monkeypatch.setattr(folder, "read_sums", read_just_before)
    assert not may_resume(config, tmp_path / "run", "resume")
