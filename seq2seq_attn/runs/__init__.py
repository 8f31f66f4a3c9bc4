"""One run: its folder, its data, its training, and its trained model."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from seq2seq_attn.errors import UserError

CONFIG, MODEL = "config.yaml", "model.safetensors"  # in a run folder
SHIPPED = Path(__file__).parents[1] / "demo_models"  # run folders that are part of the package
DEMO = "demo"  # the name of the first of them; demo/distracted is that of another

HUB = "hf:"  # begins the name of a run on the Hugging Face hub

Say = Callable[[str], object]  # receives the progress messages of slow functions, one line per call


def messages(silent: bool) -> Say:
    """Prints to stderr, as the command line does, or drops what it is called with. Both can be sent to a process."""
    return _nothing if silent else _to_stderr


def _nothing(text: str) -> None:
    """Ignores the message. A function of the module, because a lambda cannot be pickled."""


def _to_stderr(text: str) -> None:
    with suppress(OSError):  # a full disk or a closed terminal must not end training
        sys.stderr.write(f"{text}\n")  # in one piece, as other processes may write to it as well
        sys.stderr.flush()


def warn(text: str) -> None:
    """A warning of Python, which the caller can catch or filter."""
    warnings.warn(text, stacklevel=2)


def shipped_runs() -> dict[str, Path]:
    """The trained models of the demo that the package ships, by name: demo/attention and those it is compared with."""
    return {f"{DEMO}/{path.parent.name}": path.parent for path in sorted(SHIPPED.glob(f"*/{CONFIG}"))}


def is_shipped(folder: Path) -> bool:
    """Whether a run folder is part of the package. Nothing is written to it."""
    return folder.resolve().parent == SHIPPED.resolve()


def find_run(given: Path) -> Path:
    """The run folder with this path or, for `demo` and `demo/NAME`, the one in the package, or for `hf:OWNER/NAME` that
    of the Hugging Face hub.

    A file or folder `demo` in the current folder takes precedence. UserError: there is no such run.
    """
    if given.as_posix().startswith(HUB):
        from seq2seq_attn.runs.hub import download

        return download(given.as_posix())
    if given.parts[:1] != (DEMO,):
        require_run(given)
        return given
    if Path(DEMO).exists():
        if not (given / CONFIG).exists():
            raise UserError(
                f"{given}: not a run folder (no {CONFIG}), and {DEMO} means the models of the package only where there "
                f"is no file or folder {DEMO}; rename yours, or use another current folder"
            )
        return given
    runs = shipped_runs()
    found = next(iter(runs.values()), None) if given == Path(DEMO) else runs.get(given.as_posix())
    if found is None:
        raise UserError(f"{given}: neither a run folder nor a model of the package, which has {', '.join(runs)}")
    return found


def require_run(folder: Path) -> None:
    """UserError if the folder is not a run. Defined here so that the check does not import torch."""
    from seq2seq_attn.files.checksums import SUMS, has_sums

    missing = CONFIG if not (folder / CONFIG).exists() else None if has_sums(folder) else f"{SUMS} of this program"
    if missing is not None:
        raise UserError(f"{folder}: not a run folder (no {missing}); train writes one: seq2seq-attn train --help")
