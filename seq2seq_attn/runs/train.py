"""Training: a configuration in, a run folder with a trained model out."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seq2seq_attn.config import Config, PairFiles
from seq2seq_attn.corpora.codec import front_end_files
from seq2seq_attn.corpora.corpus import ParallelCorpus, filter_pairs, joined, usable_pairs
from seq2seq_attn.corpora.mixture import WINDOW, Mixture
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.corpus_scores import require_comet, require_tokenizer
from seq2seq_attn.files.checksums import write_recorded
from seq2seq_attn.files.reading import digest
from seq2seq_attn.models.seq2seq import Seq2Seq
from seq2seq_attn.ops.host import device_type, give_back_freed_memory, on_cuda
from seq2seq_attn.ops.int8 import require_int8
from seq2seq_attn.runs import CONFIG, MODEL, Say
from seq2seq_attn.runs.building import build_translator, require_memory
from seq2seq_attn.runs.cache import (
    CACHE_FOLDER,
    Cache,
    Digest,
    cached_front_ends,
    cached_pairs,
    cached_text,
    named_in,
)
from seq2seq_attn.runs.corpora import (
    FrontEnds,
    iterate_pairs,
    linked_tokens,
    load_front_ends,
    read_pairs,
    read_test,
    sampled_pairs,
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
    _require_device_and_packages(config)
    if processes.once(lambda: _is_begun_by(processes, folder)):
        if_exists = "resume"
        say(f"{name}: started again by its launcher; continues from the last checkpoint")
    # Codecs and weights must not depend on what ran before in this process.
    holds = reserved(config, folder, if_exists, given=given) if processes.is_first else nullcontext()
    with holds, seeded(config.seed):
        return _train(config, folder, name, if_exists, say, bar, pretrained, cache, given, group, draw, processes)


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


def _train(
    config: Config,
    folder: Path,
    name: str,
    if_exists: IfExists,
    say: Say,
    bar: bool | None,
    pretrained: Pretrained | None,
    cache: Path | None,
    given: Collection[str],
    group: str | None,
    draw: Draw | None,
    processes: Processes,
) -> TrainedModel:
    """`train` in a folder that is locked."""

    def tell(text: str) -> None:
        say(f"{name}: {text}")

    data = config.data
    validation_sets = [read_pairs(each) for each in data.validation.each]
    validation_pairs = joined(validation_sets)
    # Its errors should appear before training, not after.
    test = None if data.test is None else read_test(data.test, source_words(config))
    own_files = run_files(config)  # its errors, too
    resuming = processes.once(lambda: may_resume(config, folder, if_exists, given))
    # Files may change during training.
    started = session(config) | processes.record() if processes.is_first else {}
    if resuming and processes.is_first:
        _resume(config, folder, started, tell)
    give_back_freed_memory()
    shared = Cache(cache or folder.parent / CACHE_FOLDER, say)
    digest_once = functools.cache(digest)  # of recordings and images, which several steps need
    start = None if resuming or config.training.start_from is None else WarmStart(config.training.start_from)
    with processes.first_before_others():  # who find in the cache what it has prepared
        if resuming:
            front_ends = load_front_ends(folder, config)
        else:
            front_ends = (start and start.front_ends(config)) or cached_front_ends(config, shared, digest_once)
        source, target = front_ends
        if start is not None:
            started["start_from"] = start.record()
        if processes.is_first:
            started["named_files"] = named = named_in(data, source, digest_once)
            before = read_sessions(folder)[0].get("named_files", {}) if resuming else named
            if changed := next((name for name in named if named[name] != before.get(name)), None):
                part: PairFiles = getattr(data, changed)
                raise UserError(
                    f"{(*part.paths, part.name)[0]}: what its lines name is not what {folder} was trained with "
                    f"(another SHA-256); restore it, name another folder, or replace the run with --overwrite"
                )
        training, kept = _usable_pairs(config, front_ends, shared, digest_once, is_training=True)
        validation, kept_to_validate = _usable_pairs(config, front_ends, shared, digest_once, is_training=False)
    require_memory(config, source, target, copies=4)
    translator = build_translator(config, source, target)
    _require_weights_to_train(config.training, translator)
    coverage = optimizer = None
    if start is not None:
        if pretrained is not None:
            raise UserError(f"training.start_from={start.run} has weights for the embeddings; leave out pretrained")
        copied = start.copy_into(translator, config, source, target)
        if config.training.start_optimizer == "kept":
            optimizer, kept_state = start.optimizer_state(translator, config, source, target)
            copied += f"; {kept_state}"
        tell(copied)
    elif not resuming:
        coverage = start_from_vectors(translator, config, source, target, pretrained, say)
    frozen = sum(weight.numel() for weight in frozen_parameters(translator, config.training.freeze))
    model = TrainedModel(config, source, target, translator)
    model.require_weights(config.search)
    if test is not None:
        model.limits.require_positions(test.pairs.source, test.pairs.target, f"{test.pairs.name}, ")
    unknown = {"validation": model.unknown_words(validation_pairs)}
    if test is not None:
        unknown["test"] = model.unknown_words(test.pairs)
    tell(summary(model, frozen, f"{kept}, validation {kept_to_validate}", unknown, processes))
    for remark in remarks(model, training, validation_pairs.target):
        tell(remark)
    pictures = None
    if config.training.attention_pictures and not translator.attends:
        tell("training.attention_pictures: this model has no attention weights to draw")
    elif config.training.attention_pictures and draw is not None and processes.is_first:
        pictures = functools.partial(_pictures, model, validation_pairs, validation.mixture.draw(0, 0), draw)
    tracked = TrackedRun(name)
    if processes.is_first:
        files = {CONFIG: config_content(config)}
        if resuming:  # a run that had ended may go on, and be interrupted: until its new end, it has no scores
            unended = {key: each for key, each in read_metrics(folder).items() if key not in ("training", "test")}
            files[METRICS] = metrics_content(unended)
        else:
            clear(folder)
            begun: dict[str, Any] = {
                "initial_weights": checksum(translator),  # whether runs of different arms began with the same ones
                "validation": unknown["validation"].shares,
            }
            if coverage:
                begun["pretrained_embeddings"] = {side: each._asdict() for side, each in coverage.items()}
            files |= front_end_files(source, target) | {METRICS: metrics_content(begun)}
            files |= {f"{FOLDER}/{file}": content for file, content in own_files.items()}
        write_recorded(folder, files | {PROVENANCE: provenance_content(folder, started)})  # of the cleared folder
        tracked = _tracked(config, folder, name, group)._replace(pictures=pictures)
    try:
        fitted = fit(
            model.translator,
            config.training,
            training,
            validation,
            validation_score(model, validation_sets, tell, processes),
            folder,
            run=tracked,
            resume=resuming,
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
            write_recorded(folder, {SKIPPED: _batch_content(np.concatenate(rows), data.train)})
        raise UserError(f"{error}; the sentences of this batch are in {folder / SKIPPED}") from None
    translator.eval()
    if processes.is_first:
        write_recorded(folder, {MODEL: weights_content(translator)})
        record_logs(folder)
        write_metrics(folder, {"parameters": model.parameters(), "training": fitted._asdict()})
    return model


def _resume(config: Config, folder: Path, started: dict[str, Any], tell: Say) -> None:
    """Prepares the folder of a run that continues, and adds to its new session what has changed.

    UserError: it has trained for longer than the configuration allows.
    """
    trained = trained_state(folder)
    config.training.require_length(trained.epoch, trained.step, folder)
    if changes := phase_changes(config, folder):
        started["phase"] = {"step": trained.step, "changed": changes}
        listed = ", ".join(f"{key}={new} (was {old})" for key, (old, new) in changes.items())
        tell(f"a new phase after step {trained.step:,}: {listed}")
    prepare_to_resume(folder)
    if (changed := changed_surroundings(folder, started)) is not None:
        tell(changed)


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


def _tracked(config: Config, folder: Path, name: str, group: str | None) -> TrackedRun:
    """What loggers are told; the key is that of the folder and of the time at which the run was begun."""
    begun = f"{folder.resolve()} {read_sessions(folder)[0]['started']}"
    key = hashlib.sha256(begun.encode()).hexdigest()[:8]
    return TrackedRun(name, group or PROJECT, key, run_values(config))


def _batch_content(rows: NDArray[np.int64], files: PairFiles) -> bytes:
    """These pairs of the training text, one JSON object per line, with their line in the files, from 1.

    Where there are several corpora, each pair names its own.
    """
    wanted, found, row = set(rows.tolist()), {}, 0
    for one in files.each:
        corpus = {"corpus": one.name} if len(files.each) > 1 else {}
        for line, (source, target) in enumerate(iterate_pairs(one), start=1):
            if row in wanted:
                found[row] = corpus | {"line": line, "source": source, "target": target}
            row += 1
    return "".join(f"{json.dumps(found[row], ensure_ascii=False)}\n" for row in rows.tolist()).encode()


def _usable_pairs(
    config: Config, front_ends: FrontEnds, shared: Cache, digest_of: Digest, *, is_training: bool
) -> tuple[EncodedPairs, str]:
    """The pairs of training or validation that are neither blank nor too long, and what is left out, in words.

    As the configuration says, training pairs have links, or get a new segmentation in every epoch.
    """
    data, options, sampling = config.data, config.training, config.text.sampling
    files, longest = (data.train, data.longest_training) if is_training else (data.validation, data.max_length)
    key = "data.max_training_length" if is_training and data.max_training_length else "data.max_length"
    seed = config.seed if is_training else 0
    encoded = cached_pairs(files, front_ends, shared, digest_of)

    def lengths(lines: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        read, written = (
            each.lengths_of(lines) - side.marks for each, side in zip(encoded[:2], front_ends, strict=True)
        )
        return read, written

    pairs = sum(encoded.sizes)
    parts = (lengths(np.arange(start, min(start + WINDOW, pairs))) for start in range(0, pairs, WINDOW))
    filtered = filter_pairs(files.name, parts, longest, key)
    mixture = Mixture(
        encoded.sizes,
        [each.weight for each in data.train.corpora] if is_training else None,
        data.train.temperature if is_training else 1.0,
        seed,
        lambda lines: lines[usable_pairs(*lengths(lines), longest)],
    )
    in_words = str(filtered)
    if is_training and data.train.corpora:
        counts = mixture.counts()
        for one, count in zip(files.each, counts, strict=True):
            if not count:
                raise UserError(f"{one.name}: no pair is left to train on; leave the corpus out")
        drawn = (f"{count:,} of {(*one.paths, one.name)[0]}" for one, count in zip(files.each, counts, strict=True))
        in_words = f"{filtered}, in each epoch {', '.join(drawn)}"
    encode = links = None
    if is_training and sampling is not None:
        encode = sampled_pairs(cached_text(files, shared), encoded, front_ends, sampling, seed, longest)
    if is_training and options.guided_alignment is not None:
        links = linked_tokens(options.guided_alignment.links, files, front_ends)
    dataset = EncodedPairs(
        encoded.source,
        encoded.target,
        options.batch_size,
        options.batch_unit,
        seed,
        mixture=mixture,
        links=links,
        collate=front_ends[0].collate,
        encode=encode,
        is_pinned=on_cuda(options.accelerator),
    )
    return dataset, in_words
