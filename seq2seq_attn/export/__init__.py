"""A trained model in the formats of other programs: torch.export, ONNX, CTranslate2, and a page for browsers.

An export is a folder: the model, the run's tokenizer files, `export.json`, which describes the model to programs, and a
README for people. It is written completely or not at all.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from pydantic import BaseModel, TypeAdapter

import seq2seq_attn
from seq2seq_attn.corpora.codec import save_front_ends
from seq2seq_attn.corpora.vocabulary import SPECIALS
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.json_files import OPEN, load_record
from seq2seq_attn.files.writing import explained, unfinished_in
from seq2seq_attn.options import ExportTarget
from seq2seq_attn.runs.folder import refuse_folder
from seq2seq_attn.runs.model import TrainedModel

DESCRIPTION = "export.json"  # marks a folder as an export: no other folder is ever replaced
FORMAT = "seq2seq_attn export"


class Exported(NamedTuple):
    """What a target wrote into the folder."""

    description: dict[str, Any]  # for export.json
    usage: str  # for the README, in Markdown


def export_model(model: TrainedModel, to: ExportTarget, output: Path, *, overwrite: bool = False) -> Path:
    """Write a model in the format of another program into the folder `output`, and return the folder.

    UserError: the target or a part of the model is unknown to the other program, its library is not installed, or the
    folder exists. With `overwrite`, a folder that contains an earlier export, and nothing else, is replaced.
    """
    if to not in get_args(ExportTarget):
        raise UserError(f"{to!r} is not an export target; choose from {', '.join(get_args(ExportTarget))}")
    source = model.text_source("an export")
    refuse_folder(output)
    _restore(output)
    refuse_existing(output, overwrite)
    with _replacing_folder(output) as folder:
        exported = _writer(to)(model, folder)
        with explained(output):
            save_front_ends(source, model.target, folder)
            description = {
                "format": FORMAT,
                "to": to,
                "seq2seq_attn": seq2seq_attn.__version__,
                "special_tokens": {token: index for index, token in enumerate(SPECIALS)},
                **exported.description,
            }
            (folder / "README.md").write_text(_readme(to, exported.usage), encoding="utf-8", newline="\n")
            names = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
            description["files"] = sorted([*names, DESCRIPTION])
            (folder / DESCRIPTION).write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8", newline="\n")
    return output


def refuse_existing(output: Path, overwrite: bool) -> None:
    """UserError if the folder exists and is not an export to be replaced."""
    if not output.exists():
        return
    if not overwrite:
        raise UserError(f"{output}: exists; name another folder with --output, or replace an export with --overwrite")
    files = _files_of_export(output)
    if files is None:
        raise UserError(
            f"{output}: is not an earlier export (it has no {DESCRIPTION} of one), and is not replaced; name another"
        )
    for path in sorted(output.rglob("*")):
        own = path.relative_to(output).as_posix() in files or path.is_dir()
        if path.is_symlink() or not own:
            raise UserError(f"{path}: is not a file of the export in {output}; move it, or name another folder")


def need(package: str, to: ExportTarget) -> Any:
    """The imported package. UserError if it is not installed, or cannot be imported."""
    try:
        return import_module(package)
    except ImportError as error:
        raise UserError(
            f"export to {to} needs {package} ({error}); install it: pip install 'seq2seq_attn[export]'"
        ) from None


def _writer(to: ExportTarget) -> Any:
    return import_module(f"{__name__}.{to}").write


def _files_of_export(folder: Path) -> list[str] | None:
    """The files that an export wrote into the folder; None if there is none."""
    try:
        return load_record(_DESCRIPTION, folder / DESCRIPTION).files
    except UserError:
        return None


class _Description(BaseModel):
    model_config = OPEN

    format: Literal["seq2seq_attn export"]
    files: list[str]


_DESCRIPTION = TypeAdapter(_Description)


@contextmanager
def _replacing_folder(output: Path) -> Iterator[Path]:
    """The temporary name of a folder that the block fills: renamed at its end, deleted if it raises."""
    with ExitStack() as stack:
        with explained(output):
            output.parent.mkdir(parents=True, exist_ok=True)
            unfinished = stack.enter_context(unfinished_in(output.parent, is_folder=True))
        yield unfinished
        before = _before(output)
        with explained(output):
            if output.exists():
                output.rename(before)
            unfinished.rename(output)
        shutil.rmtree(before, ignore_errors=True)


def _before(output: Path) -> Path:
    """Where the earlier export is while the new one takes its place."""
    return output.with_name(f".seq2seq_attn.{output.name}.before")


def _restore(output: Path) -> None:
    """Ends what a process did not that was killed between the two renames that replace an export, or after them."""
    before = _before(output)
    with explained(output):
        if before.exists() and not output.exists():
            before.rename(output)
    shutil.rmtree(before, ignore_errors=True)


def _readme(to: ExportTarget, usage: str) -> str:
    return f"""# A model, exported to {to}

`{DESCRIPTION}` describes the model to programs. The tokenizers are `source.*` and `target.*`, or `joint.*` for both:
line n of `*.vocabulary.txt` is the token with id n - 1, `*.tokenizer.json` names the kind of tokenizer, and with
sentencepiece its model is `*.model`.

{usage.strip()}
"""
