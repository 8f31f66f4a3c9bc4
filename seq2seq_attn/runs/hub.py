"""Runs on the Hugging Face hub: `model.push("OWNER/NAME")` and `s2s.load("hf:OWNER/NAME")`."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from seq2seq_attn.config import Config
from seq2seq_attn.errors import UserError, needing, one_line
from seq2seq_attn.files.checksums import SUMS, damaged, read_sums, record
from seq2seq_attn.runs import CONFIG, HUB, require_run
from seq2seq_attn.runs.folder import read_config, read_metrics

CARD = "README.md"
_LEFT_OUT = ("checkpoints/", "log/")  # what only continues a training


def download(name: str) -> Path:
    """The folder of the run `hf:OWNER/NAME`, or of a revision of it, `hf:OWNER/NAME@REVISION`, in the cache of the hub.

    UserError: it cannot be downloaded, is not a run, has a damaged file, or has code of its own, which would be
    executed: such a run is loaded from a folder that somebody has looked at.
    """
    repository, _, revision = name.removeprefix(HUB).partition("@")
    with needing(name):
        from huggingface_hub import snapshot_download
    try:
        folder = Path(snapshot_download(repository, revision=revision or None))
    except (OSError, ValueError) as error:  # no connection, no such repository, a name that cannot be one
        raise UserError(f"{name}: cannot be downloaded: {one_line(str(error))}") from None
    require_run(folder)
    for damage in damaged(folder):
        raise UserError(damage)
    for code in folder.rglob("*.py"):  # a configuration may name any of them
        raise UserError(
            f"{name}: has code of its own, which loading would execute; read {code}, copy the folder, and load the "
            "copy if you trust it"
        )
    return folder


def push(folder: Path, repository: str, *, private: bool = False) -> str:
    """Uploads a run with a model card, without checkpoints and logs, and returns its address.

    UserError: it is not a finished run, has a damaged file, or cannot be uploaded.
    """
    metrics = read_metrics(folder)
    if "training" not in metrics:
        raise UserError(f"{folder}: its training has not ended; continue it with seq2seq-attn train --resume")
    for damage in damaged(folder):
        raise UserError(damage)
    with needing("sharing a run"):
        from huggingface_hub import HfApi
    names = [name for name in read_sums(folder) if not name.startswith(_LEFT_OUT) and (folder / name).exists()]
    with TemporaryDirectory() as temporary:
        copy = Path(temporary)
        for name in names:
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / name, copy / name)
        (copy / CARD).write_text(model_card(repository, read_config(folder), metrics), encoding="utf-8")
        record(copy, [*names, CARD])
        try:
            address = HfApi().create_repo(repository, private=private, exist_ok=True)
            HfApi().upload_folder(
                repo_id=repository,
                folder_path=copy,
                commit_message="A run of seq2seq_attn",
                allow_patterns=[*names, CARD, SUMS],
            )
        except (OSError, ValueError) as error:
            raise UserError(f"{repository}: cannot be uploaded: {one_line(str(error))}") from None
    return str(address)


def model_card(repository: str, config: Config, metrics: Mapping[str, Any]) -> str:
    """The page of a run on the hub: what it was trained on, how it scores, and how to use it."""
    text, training = config.text, metrics["training"]
    languages = {"source": text.source_language, "target": text.target_language} if config.source is None else {}
    about = {
        "library_name": "seq2seq_attn",
        "language": sorted({text.target_language, *languages.values()}),
        "tags": ["seq2seq_attn", config.model.kind],
    }
    scores = [
        f"| {key} | {test['value']:.2f} | `{test['signature']}` |"
        for key, test in metrics.get("test", {}).items()
        if isinstance(test, Mapping) and {"value", "signature"} <= test.keys()
    ]
    table = ["", "| metric | test set | signature |", "|---|---|---|", *scores] if scores else []
    return "\n".join(
        [
            "---",
            yaml.safe_dump(about, sort_keys=False).rstrip(),
            "---",
            f"# {repository}",
            "",
            f"An encoder-decoder of [seq2seq_attn](https://pypi.org/project/seq2seq_attn), {metrics['parameters']:,} "
            f"parameters, trained for {training['epochs']} epochs. Its complete configuration is `{CONFIG}`; versions, "
            "hardware and the SHA-256 of its data are in `provenance.json`.",
            *table,
            "",
            "```python",
            "import seq2seq_attn as s2s",
            "",
            f'model = s2s.load("{HUB}{repository}")',
            'model.translate(["..."]).sentences',
            "```",
            "",
        ]
    )
