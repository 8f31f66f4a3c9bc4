"""Whatever fails while a run is written: one line says so, and `--resume` ends where an undisturbed run does.

The suite tries some of the operations of a run; all of them, with every fault, once and for good:

    python -m pytest -m slow tests/faults
"""

import errno
import shutil
from fnmatch import fnmatch
from pathlib import Path

import pytest

from seq2seq_attn.files.writing import PART

ERRORS = {"no space": errno.ENOSPC, "input/output": errno.EIO, "read-only": errno.EROFS}
KINDS = [("kill", 0, False), ("torn", 0, False)] + [
    ("fail", code, for_good) for code in ERRORS.values() for for_good in (False, True)
]


@pytest.fixture(scope="module")
def undisturbed(forks, toy, tmp_path_factory):
    """The operations of a run without faults, the weights that it ends with, and the temporary files that it had."""
    folder = tmp_path_factory.mktemp("undisturbed")
    operations = forks.operations("train", toy, "--output", folder / "run", below=folder)
    relative = [line.replace(str(folder), "") for line in operations]
    gone = {path for path in (line.split(" ", 1)[1] for line in relative) if not (folder / path[1:]).exists()}
    return relative, (folder / "run" / "model.safetensors").read_bytes(), gone


def check(forks, toy, folder, undisturbed, at, fault, error, for_good):
    """Lets operation `at` of a run in the folder fail; an AssertionError says what was promised and did not hold."""
    operations, weights, _ = undisturbed
    run = folder / "run"
    mine = folder / "notes.txt"
    mine.write_text("mine")
    train = "train", toy, "--output", run
    outcome = forks.run(*train, below=folder, at=at, fault=fault, error=error, for_good=for_good)
    about = f"operation {at}, {operations[at - 1] if at <= len(operations) else 'beyond the end'}: {outcome}"
    assert "Traceback" not in outcome.said, about
    if outcome.code == 0:  # a fault that does no harm: in tidying up, say
        assert (run / "model.safetensors").read_bytes() == weights, about
    elif fault == "fail":
        assert outcome.code == 2, about
        assert outcome.said.splitlines()[-1].startswith("seq2seq-attn: "), about
    resumed = forks.run(*train, "--resume", below=folder)
    about += f"\nresumed: {resumed}"
    assert resumed.code == 0, about
    assert (run / "model.safetensors").read_bytes() == weights, about
    # A checkpoint that was complete before the fault is not lost.
    complete = [
        line for line in operations[: at - 1] if line.startswith("rename ") and line.endswith("last.safetensors")
    ]
    if complete and outcome.code != 0:
        assert "epoch 1/" not in resumed.said, about
    assert mine.read_text() == "mine", about
    left = [path.name for path in folder.rglob("*") if fnmatch(path.name, PART) or ".tmp" in path.name]
    assert left == [], about


def test_the_shim_sees_every_kind_of_operation(undisturbed):
    operations, _, _ = undisturbed
    assert {line.split()[0] for line in operations} >= {"open", "write", "rename", "mkdir"}
    assert 50 < len(operations) < 1000


def test_temporary_files_have_names_that_resume_removes(undisturbed):
    _, _, gone = undisturbed
    of_the_run = {path.removeprefix("/run/") for path in gone if path.startswith("/run/")} - {".lock"}
    assert of_the_run
    assert [name for name in of_the_run if not fnmatch(Path(name).name, PART)] == []


@pytest.mark.parametrize(
    ("fault", "error", "for_good"),
    [("kill", 0, False), ("fail", errno.ENOSPC, True)],
)
def test_a_fault_in_some_operations_of_a_run(forks, toy, tmp_path, undisturbed, fault, error, for_good):
    """One operation for each of two kinds of faults, another for each."""
    kinds = len(KINDS)
    at = (2 * KINDS.index((fault, error, for_good)) + 1) * len(undisturbed[0]) // (2 * kinds)
    check(forks, toy, tmp_path, undisturbed, at, fault, error, for_good)


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "error", "for_good"), KINDS)
def test_a_fault_in_every_operation_of_a_run(forks, toy, tmp_path, undisturbed, fault, error, for_good):
    failures = []
    for at in range(1, len(undisturbed[0]) + 1):
        folder = tmp_path / str(at)
        folder.mkdir()
        try:
            check(forks, toy, folder, undisturbed, at, fault, error, for_good)
        except AssertionError as failure:
            failures.append(str(failure))
        shutil.rmtree(folder)
    assert failures == [], f"{len(failures)} of {len(undisturbed[0])}\n" + "\n\n".join(failures)
