"""`export`: a trained model in the format of another program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from seq2seq_attn.cli.arguments import Plugin, RunFolder, folder, load_model
from seq2seq_attn.cli.console import answer

Target = Literal["torch", "onnx", "ctranslate2", "html"]  # as in export/, which imports torch


def export(
    run: RunFolder,
    to: Annotated[Target, typer.Option(help="The format: torch.export, ONNX, CTranslate2 (Transformers only), HTML.")],
    output: Annotated[Path, folder("The folder to write.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier export.")] = False,
    plugin: Plugin = None,
) -> None:
    """Export a trained model to other programs.

    Prints the folder. It contains the model, its tokenisers and vocabularies, export.json, which describes the model to
    programs, and a README on its use. For torch and onnx, the model is two graphs: an encoder, and one step of the
    decoder. For html, it is live.html: one file that translates and shows attention in a browser, offline. See
    docs/export.md.
    """
    answer(str(load_model(run, plugin).export(to, output, overwrite=overwrite)))
