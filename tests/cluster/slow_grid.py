"""A grid whose runs take a while and write every step into their messages, and the program that compares them."""

import csv
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

from seq2seq_attn.runs.folder import read_metrics
from seq2seq_attn.runs.provenance import read_sessions

STEPS = 5  # of an epoch, which ends with a checkpoint
EPOCHS = 80

SCORER = """
import sys, time
from seq2seq_attn.attention.scorers.general import General

class Slow(General):
    def prepare(self, keys):
        if self.training:
            time.sleep(0.05)
            print("a step of training", file=sys.stderr)
        return super().prepare(keys)
"""


class Run(NamedTuple):
    """A run folder, as a test sees it from outside."""

    folder: Path

    @property
    def checkpoint(self) -> int:
        """The steps up to the last checkpoint; 0 without one."""
        path = self.folder / "log/metrics.csv"
        if not (self.folder / "checkpoints/last.safetensors").exists() or not path.exists():
            return 0
        return int([*csv.DictReader(path.read_text().splitlines())][-1]["step"])

    @property
    def owner(self) -> int | None:
        """The process that trains it."""
        try:
            return int((self.folder / ".lock").read_text().split()[0])
        except (OSError, IndexError):
            return None

    @property
    def computed(self) -> int:
        """The steps that all processes together have computed for it."""
        return self.folder.with_name(f"{self.folder.name}.log").read_text().count("a step of training")


class Comparison(NamedTuple):
    process: subprocess.Popen
    runs: Path

    def training(self) -> list[Run]:
        """The runs that are trained now, have a checkpoint, and will be for a while."""
        assert self.process.poll() is None, self.process.communicate()
        found = [Run(path.parent) for path in sorted(self.runs.glob("*/*/.lock"))]
        return [run for run in found if run.owner and 0 < run.checkpoint < STEPS * EPOCHS / 2]

    def end(self, seconds=900) -> str:
        """Waits for it; returns what it wrote to stderr."""
        _, err = self.process.communicate(timeout=seconds)
        assert self.process.returncode == 0, err
        assert "Traceback" not in err
        return err

    def lost(self) -> dict[str, int]:
        """The steps that were computed twice, of each run that was interrupted; of the others, none was."""
        found = {}
        for folder in sorted(self.runs.glob("arm-*/seed-*/")):
            run = Run(folder)
            again = run.computed - read_metrics(folder)["training"]["steps"]
            if len(read_sessions(folder)) > 1:
                found[f"{folder.parent.name}/{folder.name}"] = again
            else:
                assert again == 0, folder
        print("steps that were computed twice:", found)
        return found


def descendants(pid: int) -> set[int]:
    """The process and those below it."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(own): int(parent) for own, parent in re.findall(r"(\d+) +(\d+)", listed)}
    found = {pid}
    while more := {own for own, parent in parents.items() if parent in found} - found:
        found |= more
    return found
