"""Training: a configuration in, a run folder with a trained model out."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2seq_attn.config import Config, PairFiles
from seq2seq_attn.corpora.codec import front_end_files
from seq2seq_attn.corpora.corpus import ParallelCorpus, joined
from seq2seq_attn.corpora.unknown_words import UnknownWords
from seq2seq_attn.corpora.vectors import Coverage
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.corpus_scores import require_comet, require_tokenizer
from seq2seq_attn.files.checksums import write_recorded
from seq2seq_attn.files.reading import digest
from seq2seq_attn.models.seq2seq import Seq2Seq
from seq2seq_attn.ops.host import device_type, give_back_freed_memory
from seq2seq_attn.ops.int8 import require_int8
from seq2seq_attn.runs import CONFIG, MODEL, Say
from seq2seq_attn.runs.building import build_translator, require_memory
from seq2seq_attn.runs.cache import (
    CACHE_FOLDER,
    Cache,
    cached_front_ends,
    named_in,
)
from seq2seq_attn.runs.corpora import (
    FrontEnds,
    load_front_ends,
    read_pairs,
    read_test,
    source_words,
)
from seq2seq_attn.runs.folder import (
    METRICS,
    SKIPPED,
    IfExists,
    changed_surroundings,
    clear,
    is_run,
    may_resume,
    metrics_content,
    phase_changes,
    prepare_to_resume,
    read_metrics,
    record_logs,
    reserved,
    write_metrics,
)
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.runs.plugin import FOLDER, run_files, run_values
from seq2seq_attn.runs.pretrained import Pretrained, start_from_vectors
from seq2seq_attn.runs.provenance import PROVENANCE, config_content, provenance_content, read_sessions, session
from seq2seq_attn.runs.remarks import remarks, summary
from seq2seq_attn.runs.training_pairs import content_of, pairs_to_learn
from seq2seq_attn.runs.validation import validation_score
from seq2seq_attn.runs.warm_start import WarmStart
from seq2seq_attn.saved import checksum, weights_content
from seq2seq_attn.training.batches import EncodedPairs
from seq2seq_attn.training.checkpoints import trained_state
from seq2seq_attn.training.config import TrainingConfig
from seq2seq_attn.training.divergence import DivergenceError
from seq2seq_attn.training.freezing import frozen_parameters
from seq2seq_attn.training.loggers import PROJECT, Pictures, TrackedRun, require_loggers
from seq2seq_attn.training.loop import fit
from seq2seq_attn.training.processes import ALONE, Processes
from seq2seq_attn.training.randomness import seeded

Draw = Callable[[TrainedModel, Sequence[str], Sequence[str]], Sequence[NDArray[np.uint8]]]


def train(
    config: Config,
    folder: Path,
    *,
    name: str = "training",
    if_exists: IfExists = "refuse",
    say: Say = lambda _: None,
    bar: bool | None = True,
    pretrained: Pretrained | None = None,
    cache: Path | None = None,
    given: Collection[str] = (),
    group: str | None = None,
    draw: Draw | None = None,
    processes: Processes = ALONE,
) -> TrainedModel:
    """Trains the model of a configuration into a run folder; returns it with the weights of the best validation.

    An existing folder is refused, resumed from its last checkpoint, or overwritten, as `if_exists` says. A resumed run
    has the same weights as without the interruption, on the same device and with the same versions. `name` labels the
    progress: a bar, lines with `bar=False` (for several runs that share a terminal), or nothing with None.
    `pretrained` holds word vectors in memory for the embeddings. `cache` is the folder of codecs and token ids that
    runs on the same text share; by default it is beside the run folder. `given` are the keys of the configuration that
    were given as overrides: a run that is resumed may have another learning rate or schedule only if they name it.
    `group` is the experiment of the run, for the programs in `training.loggers`. `draw` makes pictures of the
    attention with which the model predicts some targets, for them as well. All `processes` call this with the same
    arguments; the first of them holds the folder and writes to it, and the others say nothing.

    Raises UserError for invalid data or a loss that is not finite, BusyError for a folder that another process trains
    into; Ctrl-C is KeyboardInterrupt, and leaves the last checkpoint.
    """

    def tell(text: str) -> None:
        say(f"{name}: {text}")

    _require_device_and_packages(config)
    if processes.once(lambda: _is_begun_by(processes, folder)):
        if_exists = "resume"
        tell("started again by its launcher; continues from the last checkpoint")
    # Codecs and weights must not depend on what ran before in this process.
    holds = reserved(config, folder, if_exists, given=given) if processes.is_first else nullcontext()
    with holds, seeded(config.seed):
        validation_sets = [read_pairs(each) for each in config.data.validation.each]
        validation_text = joined(validation_sets)
        # The errors of these should appear before training, not after.
        test = None if config.data.test is None else read_test(config.data.test, source_words(config))
        own_files = run_files(config)
        is_resumed = processes.once(lambda: may_resume(config, folder, if_exists, given))
        start = None if is_resumed or config.training.start_from is None else WarmStart(config.training.start_from)
        # Files may change during training.
        started = session(config) | processes.record() if processes.is_first else {}
        run = _Run(config, folder, is_resumed, start, started, processes, tell)
        if is_resumed and processes.is_first:
            _resume(run)
        give_back_freed_memory()
        front_ends, training, validation, kept = _pairs(run, Cache(cache or folder.parent / CACHE_FOLDER, say))
        require_memory(config, *front_ends, copies=4)
        model = TrainedModel(config, *front_ends, build_translator(config, *front_ends))
        _require_weights_to_train(config.training, model.translator)
        optimizer, coverage = _first_weights(run, model, pretrained, say)
        model.require_weights(config.search)
        if test is not None:
            model.limits.require_positions(test.pairs.source, test.pairs.target, f"{test.pairs.name}, ")
        texts = {"validation": validation_text} | ({} if test is None else {"test": test.pairs})
        unknown = {part: model.unknown_words(text) for part, text in texts.items()}
        frozen = sum(weight.numel() for weight in frozen_parameters(model.translator, config.training.freeze))
        tell(summary(model, frozen, kept, unknown, processes))
        for remark in remarks(model, training, validation_text.target):
            tell(remark)
        tracked = TrackedRun(name)
        if processes.is_first:
            _write_beginning(run, model, unknown["validation"], coverage, own_files)
            tracked = _tracked(run, name, group)
        if config.training.attention_pictures and not model.translator.attends:
            tell("training.attention_pictures: this model has no attention weights to draw")
        elif config.training.attention_pictures and draw is not None and processes.is_first:
            drawn = functools.partial(_pictures, model, validation_text, validation.mixture.draw(0, 0), draw)
            tracked = tracked._replace(pictures=drawn)
        try:
            fitted = fit(
                model.translator,
                config.training,
                training,
                validation,
                validation_score(model, validation_sets, tell, processes),
                folder,
                run=tracked,
                resume=is_resumed,
                bar=bar,
                say=tell,
                optimizer=optimizer,
                processes=processes,
            )
        except DivergenceError as error:
            own = [batch.rows for batch in error.batches if batch.rows is not None]
            rows = [each for one in processes.gather(own) for each in one]
            if not rows:
                raise
            if processes.is_first:
                write_recorded(folder, {SKIPPED: content_of(np.concatenate(rows), config.data.train)})
            raise UserError(f"{error}; the sentences of this batch are in {folder / SKIPPED}") from None
        model.translator.eval()
        if processes.is_first:
            write_recorded(folder, {MODEL: weights_content(model.translator)})
            record_logs(folder)
            write_metrics(folder, {"parameters": model.parameters(), "training": fitted._asdict()})
        return model


class _Run(NamedTuple):
    """A run, as the steps of its training see it."""

    config: Config
    folder: Path
    is_resumed: bool
    start: WarmStart | None  # the run that it starts from
    started: dict[str, Any]  # the record of this session, which grows until it is written
    processes: Processes
    tell: Say


def _is_begun_by(processes: Processes, folder: Path) -> bool:
    """Whether the launcher has started these processes again, in the same job that began the run in the folder."""
    has_record = processes.restarts > 0 and is_run(folder) and (folder / PROVENANCE).exists()
    return has_record and read_sessions(folder)[-1].get("job") == processes.job


def _require_device_and_packages(config: Config) -> None:
    if config.training.accelerator == "cuda" and not torch.cuda.is_available():
        raise UserError("training.accelerator=cuda, but this machine has no CUDA device; set it to auto or cpu")
    if config.search.precision == "int8":  # the validation set is decoded in this precision
        require_int8(device_type(config.training.accelerator))
    has_pictures = config.training.attention_pictures > 0
    require_loggers(("tensorboard",) if has_pictures and config.training.loggers is None else config.training.loggers)
    require_tokenizer(config.evaluation.words[0])
    for metric in config.evaluation.chosen:  # one may need a package that is not installed
        if metric.counting is not None:
            metric.counting(config.expected([[""]]))
    if config.evaluation.comet and config.data.test:  # which is scored after all training
        require_comet(config.evaluation.comet)


def _pairs(run: _Run, shared: Cache) -> tuple[FrontEnds, EncodedPairs, EncodedPairs, str]:
    """Front ends, the pairs of training and of validation, and what is left out of them, in words.

    UserError: the recordings or images of a run that is resumed are not those that it was trained with.
    """
    config, folder, digest_once = run.config, run.folder, functools.cache(digest)  # which several steps need
    with run.processes.first_before_others():  # who find in the cache what it has prepared
        if run.is_resumed:
            front_ends = load_front_ends(folder, config)
        else:
            front_ends = (run.start and run.start.front_ends(config)) or cached_front_ends(config, shared, digest_once)
        if run.start is not None:
            run.started["start_from"] = run.start.record()
        if run.processes.is_first:
            run.started["named_files"] = named = named_in(config.data, front_ends[0], digest_once)
            before = read_sessions(folder)[0].get("named_files", {}) if run.is_resumed else named
            if changed := next((name for name in named if named[name] != before.get(name)), None):
                part: PairFiles = getattr(config.data, changed)
                raise UserError(
                    f"{(*part.paths, part.name)[0]}: what its lines name is not what {folder} was trained with "
                    f"(another SHA-256); restore it, name another folder, or replace the run with --overwrite"
                )
        training, kept = pairs_to_learn(config, front_ends, shared, digest_once, is_training=True)
        validation, kept_to_validate = pairs_to_learn(config, front_ends, shared, digest_once, is_training=False)
    return front_ends, training, validation, f"{kept}, validation {kept_to_validate}"


def _first_weights(
    run: _Run, model: TrainedModel, pretrained: Pretrained | None, say: Say
) -> tuple[dict[str, Tensor] | None, dict[str, Coverage]]:
    """Gives a model that does not start with random weights alone those of another run, or of word vectors.

    Returns the optimizer state of that run, if training continues with it, and how many words have vectors.
    """
    config, source, target = run.config, model.source, model.target
    if run.is_resumed:
        return None, {}
    if run.start is None:
        return None, start_from_vectors(model.translator, config, source, target, pretrained, say)
    if pretrained is not None:
        raise UserError(f"training.start_from={run.start.run} has weights for the embeddings; leave out pretrained")
    copied, optimizer = run.start.copy_into(model.translator, config, source, target), None
    if config.training.start_optimizer == "kept":
        optimizer, kept_state = run.start.optimizer_state(model.translator, config, source, target)
        copied += f"; {kept_state}"
    run.tell(copied)
    return optimizer, {}


def _write_beginning(
    run: _Run,
    model: TrainedModel,
    unknown: UnknownWords,
    coverage: Mapping[str, Coverage],
    own_files: Mapping[str, bytes],
) -> None:
    """Writes what a run has before it is trained; of one that is resumed, configuration and record of the session."""
    files = {CONFIG: config_content(run.config)}
    if run.is_resumed:  # a run that had ended may go on, and be interrupted: until its new end, it has no scores
        unended = {key: each for key, each in read_metrics(run.folder).items() if key not in ("training", "test")}
        files[METRICS] = metrics_content(unended)
    else:
        clear(run.folder)
        begun: dict[str, Any] = {
            "initial_weights": checksum(model.translator),  # whether runs of different arms began with the same ones
            "validation": unknown.shares,
        }
        if coverage:
            begun["pretrained_embeddings"] = {side: each._asdict() for side, each in coverage.items()}
        files |= front_end_files(model.source, model.target) | {METRICS: metrics_content(begun)}
        files |= {f"{FOLDER}/{file}": content for file, content in own_files.items()}
    files[PROVENANCE] = provenance_content(run.folder, run.started)  # of the cleared folder
    write_recorded(run.folder, files)


def _resume(run: _Run) -> None:
    """Prepares the folder of a run that continues, and adds to its new session what has changed.

    UserError: it has trained for longer than the configuration allows.
    """
    config, folder, started = run.config, run.folder, run.started
    trained = trained_state(folder)
    config.training.require_length(trained.epoch, trained.step, folder)
    if changes := phase_changes(config, folder):
        started["phase"] = {"step": trained.step, "changed": changes}
        listed = ", ".join(f"{key}={new} (was {old})" for key, (old, new) in changes.items())
        run.tell(f"a new phase after step {trained.step:,}: {listed}")
    prepare_to_resume(folder)
    if (changed := changed_surroundings(folder, started)) is not None:
        run.tell(changed)


def _require_weights_to_train(options: TrainingConfig, translator: Seq2Seq) -> None:
    """UserError if an option trains attention weights, and this model has none."""
    if any(context.reads_query for context in translator.contexts_that_read()):
        return
    given = {"guided_alignment": options.guided_alignment is not None, "coverage_loss": options.coverage_loss > 0}
    for option in (option for option, is_given in given.items() if is_given):
        raise UserError(
            f"training.{option}: this model has no attention weights to train; leave it out, or choose a model that "
            "has, as with model.context.kind=attention"
        )


def _pictures(model: TrainedModel, pairs: ParallelCorpus, kept: NDArray[np.int64], draw: Draw) -> Pictures:
    """The same pairs in every validation, at equal distances from each other, by their line in the validation set."""
    count = min(model.config.training.attention_pictures, len(kept))
    lines = kept[np.arange(count) * len(kept) // count].tolist()
    chosen = pairs.select(lines)
    # A new model, because its forms hold the weights of the last validation.
    drawn = draw(replace(model, forms={}), chosen.source, chosen.target)
    return {f"attention/{line + 1}": picture for line, picture in zip(lines, drawn, strict=True)}


def _tracked(run: _Run, name: str, group: str | None) -> TrackedRun:
    """What loggers are told; the key is that of the folder and of the time at which the run was begun."""
    begun = f"{run.folder.resolve()} {read_sessions(run.folder)[0]['started']}"
    key = hashlib.sha256(begun.encode()).hexdigest()[:8]
    return TrackedRun(name, group or PROJECT, key, run_values(run.config))
