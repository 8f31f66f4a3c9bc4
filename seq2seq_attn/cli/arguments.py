"""Arguments and options shared by several commands, and loading of the model.

In every command the inputs are positional arguments, as in RUN SOURCE TARGET, and everything else is an option.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

import seq2seq_attn as s2s
from seq2seq_attn.cli.console import say
from seq2seq_attn.errors import UserError
from seq2seq_attn.runs import MODEL, find_run, shipped_runs


def argument(
    metavar: str, help: str, complete: Callable[[str], list[str]] | None = None, check: Callable[..., Any] | None = None
) -> Any:
    """A positional argument; `complete` returns the values that start with what was typed, for shell completion.

    `check` receives the value and returns it, or raises UserError before anything heavy is imported.
    """
    return typer.Argument(metavar=metavar, help=help, autocompletion=complete, callback=check)


def file(help: str) -> Any:
    """An option that takes a file."""
    return typer.Option(metavar="FILE", help=help)


def folder(help: str, check: Callable[..., Any] | None = None) -> Any:
    """An option that takes a folder; `check` as for an argument."""
    return typer.Option(metavar="DIR", help=help, callback=check)


# Shell completion. These functions run whenever Tab is pressed, so they import nothing heavy. If one finds no name that
# starts with what was typed, the shell completes file names.

DEPTH = 4  # levels below what was typed: runs/EXPERIMENT/ARM/seed-N


def complete_runs(incomplete: str) -> list[str]:
    """Run folders with a model, at most `DEPTH` levels below the folder typed so far, and those of the package."""
    start = Path(incomplete if incomplete.endswith("/") else incomplete.rpartition("/")[0])
    levels = ["/".join("*" * depth) for depth in range(1, DEPTH + 1)]
    found = (path.parent for level in levels for path in start.glob(f"{level}/{MODEL}"))
    names = [*(str(path) for path in sorted(found)), *shipped_runs()]
    return [name for name in names if name.startswith(incomplete)]


def complete_corpora(incomplete: str) -> list[str]:
    """The corpora of `data list`."""
    from seq2seq_attn.corpora.download import known_corpora

    return [name for name in known_corpora() if name.startswith(incomplete)]


def complete_scorers(incomplete: str) -> list[str]:
    """The scorers of the package, read from the class statements in its files: importing them would load torch."""
    folder = Path(s2s.__file__).parent / "attention" / "scorers"
    text = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    classes = re.findall(r"^class (\w+)\(\w*Scorer\):", text, re.MULTILINE)
    names = sorted(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower() for name in classes)
    return [name for name in names if name.startswith(incomplete)]


def check_run(given: Path | None) -> Path | None:
    """The `check` of arguments that name a run: its folder."""
    return None if given is None else find_run(given)


RunFolder = Annotated[
    Path,
    argument("RUN", "A run folder; demo, which the package ships; or hf:OWNER/NAME.", complete_runs, check_run),
]
Overrides = Annotated[
    list[str] | None,
    argument(
        "KEY.PATH=VALUE",
        "Overrides a value of the file; VALUE is YAML, as in training.batch_size=32 or evaluation.bands=[10,20].",
    ),
]
SourceFile = Annotated[Path, argument("SOURCE", "Sources, one per line; plain or compressed.")]
TargetFile = Annotated[Path, argument("TARGET", "Their targets, line by line; plain or compressed.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Plugin = Annotated[
    list[Path] | None,
    file("A Python file to import first, so that configurations can name its classes. Repeatable."),
]
AttentionFile = Annotated[
    Path | None,
    file("Write the attention weights between tokens as JSON Lines (.jsonl) or for NumPy (.npz): docs/alignment.md."),
]


def check_runs(given: list[Path] | None) -> list[Path] | None:
    """The `check` of options that name several runs: their folders."""
    return given and [find_run(run) for run in given]


Ensemble = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="RUN",
        help="A further run, of the same vocabularies: probabilities are averaged over all runs. Repeatable.",
        autocompletion=complete_runs,
        callback=check_runs,
    ),
]


def require_file(part: str) -> None:
    """UserError if `part` names a class in a Python file, as in my_scorer.py:MyScorer, and the file does not exist."""
    file, colon, _ = part.rpartition(":")
    if colon and file.endswith(".py") and not Path(file).is_file():
        raise UserError(f"{file}: no such Python file")


def load_plugins(files: list[Path] | None) -> None:
    """Imports the user's files; without any, nothing that takes time."""
    if files:
        from seq2seq_attn.runs import plugin

        plugin.load_plugins(files)


def load_ensemble(runs: list[Path] | None) -> list[s2s.Model]:
    """The models of further run folders, after `load_model`."""
    return [s2s.load(run) for run in runs or ()]


def prepare(plugin: list[Path] | None = None) -> None:
    """Tunes the memory allocation of this process, which no function of Python does, and imports the user's files."""
    from seq2seq_attn.ops.host import keep_freed_memory

    keep_freed_memory()
    load_plugins(plugin)


def load_model(run: Path, plugin: list[Path] | None) -> s2s.Model:
    """The model of a run folder, in a process that is prepared for it."""
    prepare(plugin)
    return s2s.load(run)


def report_unknown(model: s2s.Model, sources: Iterable[str]) -> None:
    """Reports the source words that the model does not know, as `translate` does while it reads."""
    from seq2seq_attn.corpora.unknown_words import UnknownReport

    report = UnknownReport(say)
    for line in sources:
        report.add(line, model.trained.source.unknown_words(line))
    report.summarize()
