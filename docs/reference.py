"""The pages that are made from the package: commands, configuration and API; and READMEs as pages of the site.

    python docs/reference.py    writes the committed pages again: `make reference`

The site (`conf.py`) has these pages as they are committed.
"""

import inspect
import os
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, get_origin

import typer
from pydantic import BaseModel

import seq2seq_attn
from seq2seq_attn import attention, testing
from seq2seq_attn.analysis import neighbors, other_models, stepwise, value_plane, verify
from seq2seq_attn.api import answers, catalog, comparison, data, heads, scores, view
from seq2seq_attn.cli import PROGRAM
from seq2seq_attn.cli.app import app
from seq2seq_attn.comparison.experiment import Experiment
from seq2seq_attn.config import Config
from seq2seq_attn.evaluation import attention_weights
from seq2seq_attn.strict import Strict
from seq2seq_attn.strict.keys import keys, kind_of, records
from seq2seq_attn.walkthrough import self_attention, steps

ROOT = Path(__file__).parents[1]

# What the functions of the front door return, as far as it does not name the class itself.
RESULTS = {
    answers: [
        "Translations", "Translation", "Candidate", "PairScores", "PairScore", "Alignments", "PairLinks",
        "Steps", "Neighbors",
    ],
    view: ["AttentionView", "AttentionViews"],
    heads: ["HeadTable", "BestHead", "AttentionMaps"],
    attention_weights: ["CrossAttention", "HeadMeasures"],
    other_models: ["ReadAttention"],
    neighbors: ["Neighbor"],
    stepwise: ["DecodedSteps", "DecodedStep", "LayerReading", "Intervention"],
    value_plane: ["ValuePlane"],
    scores: ["Scores"],
    verify: ["Verification", "VerifiedItem"],
    comparison: ["ComparisonTable"],
    catalog: ["Catalog", "Entry"],
    testing: testing.__all__,
    steps: ["Walk", "WalkStep"],
    self_attention: ["SelfAttentionWalk"],
}  # fmt: skip

# Pages outside docs/ that the site shows as well, each with the name of its copy.
PAGES = {
    path.relative_to(ROOT): "-".join([*path.relative_to(ROOT).parts[:-1], path.name]).replace("-README", "")
    for pattern in ("CONTRIBUTING.md", "[bde]*/README.md", "experiments/*/README.md", "benchmarks/**/*.md")
    for path in sorted(ROOT.glob(pattern))
} | {Path("README.md"): "../index.md"}


def relinked(text: str, place: Path, to: Path) -> str:
    """A page with links relative to the folder `place` of the repository, with links relative to the folder `to`."""

    def relative(match: re.Match[str]) -> str:
        label, path, anchor = match.groups()
        target = Path(os.path.normpath(place / path))
        if target in PAGES:
            target = Path("docs/_generated") / PAGES[target]
        elif not (ROOT / target).is_file() or (target.suffix == ".md" and target.parts[0] != "docs"):
            return label.strip("![]")  # a folder, or a table of results: the site has no page for it
        return f"{label}({os.path.relpath(ROOT / target, to)}{anchor or ''})"

    return re.sub(r"(!?\[[^\]]*\])\((?!\w+:|#)([^)#\s]+)(#[^)]*)?\)", relative, text)


def write(folder: Path) -> None:
    """Write the parts that pages include, and copies of the pages outside docs/."""
    parts = folder / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    texts = {
        "front_door": _documented(seq2seq_attn, seq2seq_attn.__all__),
        "data": _documented(data, data.__all__, "seq2seq_attn.data"),
        "results": "\n".join(_documented(module, names) for module, names in RESULTS.items()),
        "attention": _documented(attention, attention.__all__),
    }
    files = {parts / f"{name}.md": text for name, text in texts.items()}
    for page, name in PAGES.items():
        if name.startswith(".."):
            continue
        text = (ROOT / page).read_text(encoding="utf-8")
        files[folder / name] = relinked(text, page.parent, folder)
    for path in {*folder.rglob("*.md")} - {*files}:
        path.unlink()  # of a page that is gone
    for path, text in files.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")  # else Sphinx would read it again


def _documented(module: ModuleType, names: Iterable[str], place: str = "") -> str:
    """These names of a module with their docstrings; of a configuration record only what it says of itself.

    `place` is where a user finds the module, if that is another name than its own.
    """
    lines = []
    for name in sorted(names, key=lambda name: isinstance(getattr(module, name), type)):  # functions, then classes
        value = getattr(module, name)
        if isinstance(value, ModuleType):
            continue
        options = ""
        if not isinstance(value, type):
            kind = "autofunction" if callable(value) else "autodata"
        else:
            kind, is_record = "autoclass", issubclass(value, BaseModel)
            options = "\n   :no-members:" if is_record else "\n   :members:\n   :show-inheritance:"
        lines.append(f"```{{eval-rst}}\n.. {kind}:: {place or module.__name__}.{name}{options}\n```\n")
    return "\n".join(lines)


# Commands


def commands() -> str:
    """Every command's help, as `--help` prints it."""
    lines = ["# Commands\n\nThe help of every command, as `--help` prints it.\n"]
    for name, text in helps():
        lines += [f"## `{name}`\n", f"```text\n{text}\n```\n"]
    return "\n".join(lines)


def helps() -> Iterator[tuple[str, str]]:
    """The path of each command, and its help."""
    yield from _helps(typer.main.get_command(app), PROGRAM, None)


def _helps(command: Any, name: str, parent: Any) -> Iterator[tuple[str, str]]:
    context = command.make_context(name, ["--help"], parent=parent, resilient_parsing=True, terminal_width=100)
    yield context.command_path, command.get_help(context).rstrip()
    for short, below in getattr(command, "commands", {}).items():
        yield from _helps(below, short, context)


# Configuration


_CONFIGURATION = """\
# Configuration

A configuration is YAML. A key that is left out has its default; an unknown key is an error that names its nearest
neighbor. On the command line `key.path=value` overrides a value, where the value is YAML: `training.batch_size=32`,
`evaluation.bands=[10,20]`. A part that has options is given by its name or with them: `scorer: additive` or
`scorer: {name: additive, hidden_size: 256}`; on the command line, the name alone (`model.context.scorer=general`)
replaces the part with its options, a mapping is merged with them; [Scorers](scorers.md) lists the options of all
scorers, normalizers, windows and positions. The run folder keeps the complete configuration.

`seq2seq-attn train --keys` prints the keys of a run, `seq2seq-attn train --keys model.decoder` those below one of them.
"""


def configuration() -> str:
    """Every record of a run's configuration and of an experiment: its keys, their types, defaults and meanings."""
    lines = [_CONFIGURATION]
    for title, record in (("A run", Config), ("An experiment", Experiment)):
        lines.append(f"## {title}\n")
        found: dict[type[Strict], dict[str, None]] = {}
        for path, part in records(record):
            found.setdefault(part, {})[path] = None
        anchored: set[str] = set()
        for part, paths in found.items():
            lines += [f'<a id="{anchor(path)}"></a>\n' for path in paths if path and path not in anchored]
            anchored.update(paths)
            lines += _section(list(paths), part)
    return "\n".join(lines)


def _section(paths: list[str], record: type[Strict]) -> list[str]:
    kind, path = kind_of(record), paths[0]
    names = ", ".join(f"`{each}`" for each in paths)
    lines = [f"### {names}{f', kind `{kind}`' if kind else ''}\n"] if path else []
    about = inspect.cleandoc(record.__doc__ or "") if record.__doc__ != Strict.__doc__ else ""
    if about and "__doc__" in vars(record):
        lines.append(f"{about}\n")
    lines += ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    for key in keys(path, record):
        told = [] if key.below is None else [f"see [{key.below}](#{anchor(key.below)})"]
        told += ["required"] if key.is_required else []
        default = "" if key.default is None else f"`{key.default}`"
        cells = f"`{key.name}`", key.type, default, "; ".join(filter(None, [*told, key.meaning]))
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return [*lines, ""]


def anchor(path: str) -> str:
    """The target of a link to the section of these keys."""
    return f"key-{path.replace('.', '-').replace('_', '-')}"


# API: one line per name in the committed pages; the site has the whole docstrings below (`for_site`).

_MODELS = {
    "The interface": ["corpora.source", "models.seq2seq", "models.encoder", "models.head", "models.config"],
    "A head that copies": ["models.heads.pointer_generator"],
    "Ensembles": ["models.ensemble"],
    "The recurrent family": [
        f"models.recurrent.{name}"
        for name in ("seq2seq", "encoder", "decoders", "bahdanau", "luong", "conditional", "hard")
    ],
    "Search": [
        *(f"search.{name}" for name in ("batched", "beam", "sampling", "forced", "hypotheses", "shortlist")),
        "evaluation.bayes_risk",
    ],
}


def api_attention() -> str:
    """Every public name of the attention package."""
    return f"""\
# Attention

`seq2seq_attn.attention` needs torch and nothing else of this package. [Attention in your own code](attention.md) is the
guide to it; [Scorers](scorers.md) lists equations, papers and costs.

{_names_table(map(vars(attention).get, attention.__all__))}
"""


def api_models() -> str:
    """Every public name of the modules of models and search."""
    lines = [
        """\
# Models and search

What training, search, alignment and analysis know of a model is the interface `Seq2Seq`; a family of models is a
configuration record with a `kind` and `build`.
"""
    ]
    for title, modules in _MODELS.items():
        loaded = [import_module(f"seq2seq_attn.{name}") for name in modules]
        own = [
            value
            for module in loaded
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__ and value.__doc__
            if get_origin(value) is None  # an annotated type has the module and the docstring of its class
        ]
        lines.append(f"## {title}\n\n{_names_table(own)}\n")
    return "\n".join(lines)


def _names_table(values: Iterable[Any]) -> str:
    rows = ["| name | what it is | file |", "| --- | --- | --- |"]
    for value in values:
        if not getattr(value, "__module__", "").startswith("seq2seq_attn."):
            continue  # a type of Python's own, under a name of ours
        about = inspect.cleandoc(value.__doc__).partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        place = Path(inspect.getsourcefile(inspect.unwrap(value))).relative_to(ROOT)
        rows.append(f"| `{value.__name__}` | {about} | [{place.name}](../{place}) |")
    return "\n".join(rows)


def for_site(page: str, text: str) -> str:
    """A committed page that was made from the package, as the site has it."""
    if page == "api-attention":
        return f"{text}\n```{{include}} _generated/parts/attention.md\n```\n"
    if page == "api-models":
        modules = "\n\n".join(f".. automodule:: seq2seq_attn.{each}" for part in _MODELS.values() for each in part)
        return f"{text}\n## Details\n\n```{{eval-rst}}\n{modules}\n```\n"
    return re.sub(r'<a id="([\w-]+)"></a>', r"(\1)=", text)


PAGES_MADE = {
    "commands.md": commands,
    "configuration.md": configuration,
    "api-attention.md": api_attention,
    "api-models.md": api_models,
}


def undescribed() -> list[str]:
    """The keys whose meaning nothing says."""
    return [
        key.path
        for path, record in [*records(Config), *records(Experiment)]
        for key in keys(path, record)
        if not (key.below is not None or key.meaning or key.name == "kind")
    ]


if __name__ == "__main__":
    for name, make in PAGES_MADE.items():
        (Path(__file__).parent / name).write_text(make(), encoding="utf-8")
