"""`average`, `export`, `push` and `verify`: what is done with a finished run as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import seq2seq_attn as s2s
from seq2seq_attn.cli.arguments import AsJson, Plugin, RunFolder, argument, folder, load_model, load_plugins
from seq2seq_attn.cli.console import answer, progress, say
from seq2seq_attn.options import ExportTarget


def average(
    run: RunFolder,
    output: Annotated[Path, folder("The run folder to write.")],
    last: Annotated[int | None, typer.Option(min=1, help="How many epochs; default: all that the run keeps.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in the folder.")] = False,
    as_json: AsJson = False,
    plugin: Plugin = None,
) -> None:
    """Average the weights of the last epochs of a run.

    Needs a run that was trained with training.keep_epochs, the number of epochs whose weights it keeps. Writes a run
    folder, which every command takes, and prints its score on the validation set (greedy search), to compare with that
    of the run and of other averages.

    Examples:
        seq2seq-attn average runs/x --output runs/x-average
        seq2seq-attn average runs/x --last 2 --output runs/x-average-2
    """
    averaged = load_model(run, plugin).average(output, last=last, overwrite=overwrite)
    made = averaged.metrics["average"]
    if as_json:
        answer(made)
        return
    first, *_, final = 2 * made["epochs"]
    of = f"epochs {first} to {final}" if first < final else f"epoch {first}"
    label = averaged.config.evaluation.main.label
    answer(f"validation {label} {made['validation_score']:.2f}, mean of the weights of {of}")


def export(
    run: RunFolder,
    to: Annotated[
        ExportTarget, typer.Option(help="The format: torch.export, ONNX, CTranslate2 (Transformers only), HTML.")
    ],
    output: Annotated[Path, folder("The folder to write.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier export.")] = False,
    plugin: Plugin = None,
) -> None:
    """Export a trained model to other programs.

    Prints the folder. It contains the model, its tokenizers and vocabularies, export.json, which describes the model to
    programs, and a README on its use. For torch and onnx, the model is two graphs: an encoder, and one step of the
    decoder. For html, it is live.html: one file that translates and shows attention in a browser, offline. See
    docs/export.md.

    Examples:
        seq2seq-attn export runs/x --to onnx --output exported
        seq2seq-attn export runs/x --to torch --output exported --overwrite
        seq2seq-attn export runs/x --to html --output exported
    """
    answer(load_model(run, plugin).export(to, output, overwrite=overwrite))


def push(
    run: RunFolder,
    repository: Annotated[str, argument("OWNER/NAME", "The repository, which is created if it does not exist.")],
    private: Annotated[bool, typer.Option("--private", help="Create it so that only its owner sees it.")] = False,
    plugin: Plugin = None,
) -> None:
    """Upload a run to the Hugging Face hub, with a model card.

    Prints the address. Checkpoints and logs are left out. Every command then takes hf:OWNER/NAME in place of the run;
    its files are checked by their manifest, and a run with code of its own is refused. Needs huggingface_hub, and a
    token: hf auth login.

    Examples:
        seq2seq-attn push runs/x me/en-de
        seq2seq-attn translate hf:me/en-de test.en
    """
    answer(load_model(run, plugin).push(repository, private=private))


def verify(
    run: RunFolder,
    score: Annotated[
        bool, typer.Option("--score", help="Predict and score the test set again, and compare the results.")
    ] = False,
    as_json: AsJson = False,
    plugin: Plugin = None,
) -> None:
    """Check a run against what it recorded when it was trained.

    Prints one line per item: ok, note (worth knowing) or wrong. Files, model, configuration and data must be those of
    the training; another version, other libraries or another device are noted. With --score, outputs and scores
    must be equal as well, which is only to be expected with the same versions on the same device. Nothing is written.
    The exit code is 1 if anything is wrong.

    Examples:
        seq2seq-attn verify runs/x
        seq2seq-attn verify runs/x --score --json
    """
    load_plugins(plugin)
    with progress("test set") as advance:
        found = s2s.verify(run, score=score, progress=advance, say=say)
    answer({"is_wrong": found.is_wrong, "items": found.items} if as_json else found)
    if found.is_wrong:
        raise typer.Exit(1)
