"""What is written when the site is built: help, configuration and API from the package, READMEs from their folders."""

import ast
import inspect
import io
import os
import re
import textwrap
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_origin

import typer
from pydantic import BaseModel

import seq2seq_attn
from seq2seq_attn import attention, doctor
from seq2seq_attn.analysis import neighbours, stepwise, verify
from seq2seq_attn.api import answers, data, experiments, heads, scores
from seq2seq_attn.cli import PROGRAM
from seq2seq_attn.cli.app import app
from seq2seq_attn.comparison.experiment import Experiment
from seq2seq_attn.config import Config
from seq2seq_attn.strict import Strict, Tagged
from seq2seq_attn.walkthrough import self_attention, steps

ROOT = Path(__file__).parents[1]

# What the functions of the front door return, as far as it does not name the class itself.
RESULTS = {
    answers: [
        "Translations", "Translation", "Candidate", "PairScores", "PairScore", "Alignments", "PairLinks",
        "AttentionMatrix", "Steps", "Neighbours",
    ],
    heads: ["HeadAgreements", "BestHead", "AttentionMaps"],
    neighbours: ["Neighbour"],
    stepwise: ["DecodedSteps", "DecodedStep", "LayerReading", "Intervention"],
    scores: ["Scores"],
    verify: ["Verification", "VerifiedItem"],
    experiments: ["ComparisonTable"],
    doctor: ["Report", "Finding", "Catalogue", "Entry"],
    steps: ["Walk", "WalkStep"],
    self_attention: ["SelfAttentionWalk"],
}  # fmt: skip

# Pages outside docs/ that the site shows as well, each with the name of its copy.
PAGES = {
    path.relative_to(ROOT): "-".join([*path.relative_to(ROOT).parts[:-1], path.name]).replace("-README", "")
    for pattern in ("CONTRIBUTING.md", "[bde]*/README.md", "experiments/*/README.md", "benchmarks/peers/README.md")
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
        "commands": commands(),
        "configuration": configuration(),
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
    lines = []
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


def configuration() -> str:
    """Every record of a run's configuration and of an experiment: its keys, their types, defaults and meanings."""
    lines = []
    for title, record in (("A run", Config), ("An experiment", Experiment)):
        lines.append(f"## {title}\n")
        found: dict[type[Strict], dict[str, None]] = {}
        for path, part in _records(record, ""):
            found.setdefault(part, {})[path] = None
        anchored: set[str] = set()
        for part, paths in found.items():
            lines += [f"({anchor(path)})=\n" for path in paths if path and path not in anchored]
            anchored.update(paths)
            lines += _section(list(paths), part)
    return "\n".join(lines)


def _records(
    record: type[Strict], path: str, around: tuple[type[Strict], ...] = ()
) -> Iterator[tuple[str, type[Strict]]]:
    """This record and those inside it, outermost first, each with its path of keys; every kind of a tagged one.

    Where a record contains records of its own base, as an encoder of encoders does, these are not described again.
    """
    yield path, record
    around = (*around, record)
    for name, field in record.model_fields.items():
        below = f"{path}.{name}".lstrip(".")
        for part in _parts(field.annotation):
            if any(issubclass(each, part) for each in around):
                continue
            for kind in part.kinds().values() if issubclass(part, Tagged) else [part]:
                if kind.__module__.startswith("seq2seq_attn."):
                    yield from _records(kind, below, around)


def _parts(annotation: Any) -> list[type[Strict]]:
    if isinstance(annotation, type) and issubclass(annotation, Strict):
        return [annotation]
    return [part for each in get_args(annotation) for part in _parts(each)]


def _section(paths: list[str], record: type[Strict]) -> list[str]:
    kind = record.model_fields["kind"].default if issubclass(record, Tagged) else ""
    path = paths[0]
    names = ", ".join(f"`{each}`" for each in paths)
    lines = [f"### {names}{f', kind `{kind}`' if kind else ''}\n"] if path else []
    about = inspect.cleandoc(record.__doc__ or "") if record.__doc__ != Strict.__doc__ else ""
    if about and "__doc__" in vars(record):
        lines.append(f"{about}\n")
    lines += ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    meanings = _meanings(record)
    for name, field in record.model_fields.items():
        parts = _parts(field.annotation)
        default = "" if parts or field.is_required() else f"`{_yaml(field.get_default(call_default_factory=True))}`"
        is_own = any(issubclass(record, part) for part in parts)
        below = path if is_own else f"{path}.{name}".lstrip(".")
        told = [f"see [{below}](#{anchor(below)})"] if parts else []
        told += ["required"] if field.is_required() else []
        told += [field.description or meanings.get(name, "")]
        cells = f"`{name}`", _type(field.annotation, field.metadata), default, "; ".join(filter(None, told))
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return [*lines, ""]


def anchor(path: str) -> str:
    """The target of a link to the section of these keys."""
    return f"key-{path.replace('.', '-').replace('_', '-')}"


def undescribed() -> list[str]:
    """The keys whose meaning nothing says."""
    return [
        f"{path}.{name}".lstrip(".")
        for path, record in [*_records(Config, ""), *_records(Experiment, "")]
        for name, field in record.model_fields.items()
        if not (_parts(field.annotation) or field.description or name in _meanings(record) or name == "kind")
    ]


def _meanings(record: type[Strict]) -> dict[str, str]:
    """What the comments beside the fields of a record and of its bases say."""
    found: dict[str, str] = {}
    for base in reversed(record.__mro__):
        if not (issubclass(base, Strict) and base not in (Strict, Tagged)):
            continue
        source = textwrap.dedent(inspect.getsource(base))
        comments = {
            token.start[0]: token.string.lstrip("# ")
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type == tokenize.COMMENT
        }
        for node in ast.parse(source).body[0].body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.end_lineno in comments:
                found[node.target.id] = comments[node.end_lineno]
    return found


_NAMES = {"int": "whole number", "float": "number", "str": "text", "bool": "`true` or `false`", "Path": "path"}


def _type(annotation: Any, metadata: Any = ()) -> str:
    limits = [f"{word} {getattr(each, name)}" for each in metadata for name, word in _LIMITS if hasattr(each, name)]
    bounds = f" {', '.join(limits)}" if limits else ""
    parts = _parts(annotation)
    if parts:
        return "a record" + (" or `null`" if type(None) in get_args(annotation) else "")
    arguments = get_args(annotation)
    if getattr(annotation, "__metadata__", None):
        return _type(arguments[0], annotation.__metadata__)
    if str(annotation).startswith("typing.Literal"):
        return ", ".join(f"`{_yaml(each)}`" for each in arguments)
    origin = get_origin(annotation)
    if origin in (tuple, list):
        kinds = list(dict.fromkeys(_type(each) for each in arguments if each is not ...))
        return f"list of {' and '.join(_PLURALS.get(kind, kind) for kind in kinds)}{bounds}"
    if origin is dict:
        return "mapping"
    if arguments:  # a union
        return " or ".join("`null`" if each is type(None) else _type(each) for each in arguments) + bounds
    return _NAMES.get(getattr(annotation, "__name__", ""), f"`{annotation}`") + bounds


_PLURALS = {"whole number": "whole numbers", "number": "numbers", "text": "texts"}
_LIMITS = (("gt", ">"), ("ge", "≥"), ("lt", "<"), ("le", "≤"))


def _yaml(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_yaml(each) for each in value)}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)
