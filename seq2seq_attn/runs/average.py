"""The mean of the weights of a run's last epochs (Vaswani et al. 2017, sec. 6.1), as a run of its own."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from seq2seq_attn.corpora.codec import front_end_files
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.checksums import checked, write_recorded
from seq2seq_attn.runs import CONFIG, MODEL
from seq2seq_attn.runs.corpora import load_front_ends, read_pairs
from seq2seq_attn.runs.folder import (
    clear,
    is_vacant,
    may_resume,
    read_config,
    read_metrics,
    reserved,
    write_metrics,
)
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.runs.plugin import FOLDER, run_files
from seq2seq_attn.runs.provenance import PROVENANCE, config_content
from seq2seq_attn.runs.validation import validation_score
from seq2seq_attn.saved import mean_of_weights
from seq2seq_attn.training.checkpoints import kept_epochs


class Average(NamedTuple):
    """How an averaged run was made; under `average` in its metrics.json."""

    run: str  # the folder with the weights
    epochs: list[int]  # counted from 1
    validation_score: float  # of greedy translations, in the main metric


def average(run: Path, output: Path, last: int | None = None, *, overwrite: bool = False) -> Average:
    """Writes a run with the mean of the weights of the last epochs of `run`, by default of all that it keeps.

    The new run has the configuration, tokenizers, training metrics and provenance of the other, and no checkpoints.
    UserError: the run has not ended, keeps fewer epochs, or its validation files are missing; the folder exists.
    """
    config, metrics = read_config(run), read_metrics(run)
    if "training" not in metrics:
        raise UserError(f"{run}: training has not ended; continue it with train --resume")
    if last is not None and last < 1:
        raise UserError(f"last={last}: give the number of epochs to average, at least 1")
    kept = {epoch: name for epoch, name in kept_epochs(run).items() if epoch <= metrics["training"]["epochs"]}
    epochs = list(kept)[-(last or len(kept)) :]
    if not kept or len(epochs) < (last or 1):
        count = f"the weights of {len(kept)} of its epochs" if kept else "the weights of its best epoch alone"
        raise UserError(f"{run}: keeps {count}; train with training.keep_epochs={last or 5}")
    pairs = read_pairs(config.data.validation)
    weights = mean_of_weights([checked(run, kept[epoch]) for epoch in epochs])
    files = {CONFIG: config_content(config), **front_end_files(*load_front_ends(run, config))}
    files |= {f"{FOLDER}/{name}": content for name, content in run_files(config).items()}
    files[PROVENANCE] = checked(run, PROVENANCE).read_bytes()
    trained = {key: each for key, each in metrics.items() if key != "test"}
    if output.resolve() == run.resolve():
        raise UserError(f"{output}: is the run itself; name another folder with --output")
    with reserved(config, output, "overwrite"):
        if not (overwrite or is_vacant(output)):
            raise UserError(f"{output}: exists; name another folder, or replace the run in it with --overwrite")
        may_resume(config, output, "overwrite")
        clear(output)
        write_recorded(output, files | {MODEL: weights})
        model = TrainedModel.load(output)
        made = Average(str(run), epochs, validation_score(model, [pairs]).score(model.translator))
        write_metrics(output, trained | {"average": made._asdict()})  # without metrics, a run has not ended
    return made
