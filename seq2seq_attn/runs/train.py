"""One run: a configuration in, a folder with a trained model out."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lightning
import torch

from seq2seq_attn.config import Config, PairFiles
from seq2seq_attn.strict import dump
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.metrics import bleu_metric, corpus_score
from seq2seq_attn.runs.cache import Cache
from seq2seq_attn.runs.corpora import read_pairs, read_test
from seq2seq_attn.runs.folder import CONFIG, METRICS, IfExists, clear, may_resume
from seq2seq_attn.runs.provenance import made_with, on_cuda
from seq2seq_attn.runs.pretrained import Pretrained, start_from_vectors
from seq2seq_attn.runs.tokenised import TOKENISED, Codecs, codecs_of, encoded
from seq2seq_attn.runs.trained import TrainedModel, build
from seq2seq_attn.ops.memory import give_back_freed_memory
from seq2seq_attn.ops.int8 import need_int8
from seq2seq_attn.models.translator import Translator
from seq2seq_attn.search.options import SearchOptions
from seq2seq_attn.text.codec import load_codecs, save_codecs
from seq2seq_attn.text.corpus import ParallelCorpus
from seq2seq_attn.text.files import write_bytes
from seq2seq_attn.text.selection import filter_pairs
from seq2seq_attn.training.batches import EncodedPairs, loader
from seq2seq_attn.training.fit import fit, fork_random_state

Say = Callable[[str], object]


@fork_random_state()
def train(
    config: Config,
    folder: Path,
    *,
    name: str = "training",
    if_exists: IfExists = "refuse",
    say: Say = lambda _: None,
    bar: bool = True,
    pretrained: Pretrained | None = None,
    cache: Path | None = None,
) -> TrainedModel:
    """Trains the model of a configuration into a run folder; returns it with the best weights.

    A folder that exists is refused, resumed from its last checkpoint, or overwritten. Raises UserError for bad data
    and for a loss that is no number, `training.fit.Interrupted` on Ctrl-C. `bar=False` shows lines, for where several
    runs share a terminal. `pretrained` holds word vectors that are in memory already, for embeddings to start from.
    `cache` is the folder of what runs on the same text share, beside the run folder unless given.
    """
    if config.training.accelerator == "cuda" and not torch.cuda.is_available():
        raise UserError("training.accelerator=cuda, but this machine has no CUDA device; set it to auto or cpu")
    if config.search.precision == "int8":  # in which the validation set is translated, after an epoch
        need_int8("cuda" if on_cuda(config.training.accelerator) else "cpu")
    making = made_with(config.training.accelerator)  # at the start: files may change while a training runs
    data = config.data
    validation_pairs = read_pairs(data.validation)
    if data.test is not None:
        read_test(data.test)  # what is wrong with it is better known now than after the training
    resuming = may_resume(config, folder, if_exists)
    give_back_freed_memory()
    # Codecs and weights must not hang on what ran before in this process.
    lightning.seed_everything(config.seed, workers=True, verbose=False)
    shared = Cache(cache or folder.parent / TOKENISED, say)
    source, target = codecs = load_codecs(folder) if resuming else codecs_of(config, shared)
    training = _fitting(data.train, data.max_training_length or data.max_length, codecs, shared, say)
    validation = _fitting(data.validation, data.max_length, codecs, shared, say)
    translator = build(config, source, target)
    coverage = None if resuming else start_from_vectors(translator, config, source, target, pretrained, say)
    model = TrainedModel(config, source, target, translator)
    open_folder(model, folder, resuming)
    if coverage:
        write_metrics(folder, {"pretrained_embeddings": {side: c._asdict() for side, c in coverage.items()}})
    options = config.training
    size, unit, pinned = options.batch_size, options.batch_unit, on_cuda(options.accelerator)
    fitted = fit(
        model.translator,
        options,
        loader(training, size, unit, config.seed, pinned=pinned),
        loader(validation, size, unit, pinned=pinned),
        _validation_bleu(model, validation_pairs),
        folder,
        name,
        resume=resuming,
        bar=bar,
    )
    model.save(folder)
    metrics = {"parameters": model.parameters(), "training": fitted._asdict(), "made_with": making}
    write_metrics(folder, metrics)
    return model


def open_folder(model: TrainedModel, folder: Path, resuming: bool) -> None:
    """The folder as it is when training begins: configuration and codecs, and what else a run to be resumed has."""
    if not resuming:
        clear(folder)
        save_codecs(model.source, model.target, folder)
    write_bytes(folder / CONFIG, dump(model.config).encode())


def read_metrics(folder: Path) -> dict[str, Any]:
    """What is known of a run; before its training has ended at most where its embeddings started."""
    path = folder / METRICS
    if not path.exists():
        return {}
    try:
        metrics = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path}: not JSON ({error}); delete it and run again") from None
    return dict(metrics)


def write_metrics(folder: Path, metrics: dict[str, Any]) -> None:
    """Adds to what is known of a run."""
    text = json.dumps(read_metrics(folder) | metrics, indent=2, ensure_ascii=False)
    write_bytes(folder / METRICS, f"{text}\n".encode())


def _fitting(files: PairFiles, max_length: int, codecs: Codecs, shared: Cache, say: Say) -> EncodedPairs:
    """The pairs that are neither blank nor too long; says how many are not."""
    source, target = encoded(files, codecs, shared)
    name = " and ".join(map(str, files.paths))
    filtered = filter_pairs(name, source.lengths - 1, target.lengths - 1, max_length)  # without `</s>`
    if len(filtered.kept) < len(source):
        say(str(filtered))
    return EncodedPairs(source, target, filtered.kept)


def _validation_bleu(model: TrainedModel, pairs: ParallelCorpus) -> Callable[[Translator], float]:
    """BLEU of greedy translations: a beam would take several times as long to say the same of progress."""
    changes = {"beam_size": 1, "n_best": 1, "shortlist": None}
    greedy = SearchOptions.model_validate(model.config.search.model_dump() | changes)
    # sacrebleu warns of lines that look tokenised: once is enough, when the test set is scored.
    metric = bleu_metric(model.config.evaluation.tokenize, lowercase=False)

    def validate(translator: Translator) -> float:
        translations: Sequence[str] = model.translate(pairs.source, greedy)
        return corpus_score(metric, translations, pairs.target).value

    return validate
