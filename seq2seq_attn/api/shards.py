"""Translation of a file of any length: in shards, each a file that is named by its lines, where a launcher puts them.

The shards of a file are divided into parts of several neighbors. A process, with a device of its own where there is
one, translates the shards of a part one after the other and writes each as a whole. One that is there is not
translated again, so a part that lost its process, and a command that was ended, continue.

Every shard begins where one process would begin a new batch: the outputs are those of one process, line by line. This
is why `ray.data` does not drive it: its blocks have no such bounds, it drops blank lines of text, and keeps no order
unless all blocks wait for each other.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import torch
from pydantic import TypeAdapter

from seq2seq_attn.api.answers import Translation
from seq2seq_attn.api.model import CHUNK, Model
from seq2seq_attn.comparison.launchers import Ended, Launcher
from seq2seq_attn.corpora.placeholders import PlaceholderReport
from seq2seq_attn.corpora.unknown_words import UnknownReport
from seq2seq_attn.errors import FailedError, UserError
from seq2seq_attn.files.json_files import load_values
from seq2seq_attn.files.lock import locked
from seq2seq_attn.files.plain import to_json
from seq2seq_attn.files.reading import index_lines, iterate_lines, lines_from, sha256
from seq2seq_attn.files.writing import write_bytes
from seq2seq_attn.ops.host import give_back_freed_memory, keep_freed_memory
from seq2seq_attn.options import Resources, SearchOptions
from seq2seq_attn.runs import CONFIG, MODEL, Say, messages
from seq2seq_attn.runs.plugin import load_plugins, loaded_plugins
from seq2seq_attn.runs.requests import Glossary, SourceLine, lines_of

SHARD = 20 * CHUNK  # lines: 10,240
NEIGHBORS = 8  # shards of a part at most: loading the model takes a few seconds
MANY = 16  # jobs, where there are as many as there is room for
RECORD = "translation.json"  # in the folder of the shards: what they are translations of
TIDY = 20_000  # lines

Tabs = Literal["prefix", "constraints"]


class FileTask(NamedTuple):
    """What is asked for each line of a file. It can be sent to other processes."""

    run: Path
    source: Path
    output: Path  # the folder of the shards
    options: SearchOptions
    ensemble: tuple[Path, ...] = ()
    tabs: Tabs | None = None
    glossary: Path | None = None
    split_sentences: bool = False
    as_json: bool = False
    plugins: tuple[Path, ...] = ()
    folder: Path = Path()  # in which a configuration names files, unless its paths are absolute

    @property
    def record(self) -> dict[str, Any]:
        """What the outputs depend on, but for the source."""
        folders = (self.run, *self.ensemble)
        return {
            "runs": [[sha256(folder / name) for name in (CONFIG, MODEL)] for folder in folders],
            "options": self.options.model_dump(mode="json"),
            "tabs": self.tabs,
            "glossary": self.glossary and sha256(self.glossary),
            "split_sentences": self.split_sentences,
            "json": self.as_json,
            "lines_per_shard": SHARD,
        }


class Shard(NamedTuple):
    """Some neighboring lines."""

    path: Path
    first: int  # from 0
    lines: int
    offset: int  # of its text in the source, as by `index_lines`


class Part(NamedTuple):
    """Neighboring shards that one process translates."""

    shards: tuple[Shard, ...]
    resources: Resources

    @property
    def name(self) -> str:
        """Its lines, for messages."""
        return f"lines {self.shards[0].first:,} to {self.shards[-1].first + self.shards[-1].lines - 1:,}"

    @property
    def missing(self) -> list[Shard]:
        """The shards that are not there."""
        return [shard for shard in self.shards if not shard.path.exists()]

    @property
    def lines(self) -> int:
        """Their number."""
        return sum(shard.lines for shard in self.shards)


class Done(NamedTuple):
    """What a process says of its part."""

    unknown: UnknownReport
    placed: PlaceholderReport
    warnings: tuple[str, ...]
    mistake: str | None = None  # the user's, which ended it


def translate_file(
    task: FileTask,
    launcher: Launcher | None = None,
    *,
    jobs: int | None = 1,
    resources: Resources | None = None,
    say: Say = lambda _: None,
    progress: Callable[[int], object] = lambda _: None,
) -> tuple[UnknownReport, PlaceholderReport]:
    """Writes the outputs of all lines of a file as shards, `00000000-00010239.txt` and so on, those that are missing.

    Args:
        task: What is asked.
        launcher: Where the parts are translated, by default in this process.
        jobs: How many parts the launcher has at once; None: as many as there is room for.
        resources: Those of a part.
        say: Called with messages.
        progress: Called with the number of lines of each part that is done.

    Returns:
        What the lines that were translated now have of words that are unknown, and of placeholders.

    Raises:
        UserError: The file cannot be read, or the folder holds outputs of something else.
        FailedError: Processes ended, again and again, before they had written a shard.
    """
    unknown, placed = UnknownReport(messages(silent=True), most=0), PlaceholderReport()
    index = index_lines(task.source, SHARD)
    if not index.lines:
        raise UserError(f"{task.source}: the file is empty")
    with locked(task.output):
        _claim(task.output / RECORD, task.record | {"source": index.digest, "lines": index.lines})
        parts = _parts(task, index.offsets, index.lines, jobs, resources or Resources())
        if there := sum(len(part.shards) - len(part.missing) for part in parts):
            say(f"{task.output}: {there:,} of {len(index.offsets):,} shards are there")
        left = [part for part in parts if part.missing]
        progress(sum(part.lines for part in parts if not part.missing))
        while left:
            before = sum(len(part.missing) for part in left)
            ended: list[tuple[Part, str]] = []
            for part, done in _launched(task, left, launcher, say):
                if isinstance(done, Ended):
                    ended.append((part, done.reason))
                    continue
                if done.mistake is not None:
                    raise UserError(done.mistake)
                for warning in done.warnings:
                    say(warning)
                unknown.include(done.unknown)
                placed.include(done.placed)
                progress(part.lines)
            left = [part for part, _ in ended if part.missing]
            if sum(len(part.missing) for part in left) == before:
                part, reason = ended[-1]
                raise FailedError(f"{part.name}: {reason}; the same command continues with what is missing")
            for part, reason in ended:
                say(f"{part.name}: {reason}; translated again, but for what it has written")
    return unknown, placed


def _launched(
    task: FileTask, parts: Sequence[Part], launcher: Launcher | None, say: Say
) -> Iterator[tuple[Part, Done | Ended]]:
    if launcher is None:
        return ((part, translate_part(task, part)) for part in parts)
    work: Any = functools.partial(translate_part, task)
    found: Any = launcher.launch(work, cast(Any, parts), say)  # a part has what is needed of a run: name and resources
    return cast("Iterator[tuple[Part, Done | Ended]]", found)


def translate_part(task: FileTask, part: Part, threads: int | None = None) -> Done:
    """Writes the shards of a part that are missing.

    Args:
        task: What is asked.
        part: The part.
        threads: How many threads compute, in a process of its own; None: this process is not ours to change.
    """
    warnings: list[str] = []
    unknown, placed = UnknownReport(messages(silent=True), most=0), PlaceholderReport()
    if threads is not None:
        torch.set_num_threads(threads)
        keep_freed_memory()
        os.chdir(task.folder)
    try:
        model, *others = _models(task.run, task.ensemble, task.plugins)
        refuse_tabs(model, task.tabs)
        for shard in part.missing:
            _translate_shard(task, shard, model, others, unknown, placed, warnings.append)
    except UserError as error:
        return Done(unknown, placed, tuple(warnings), str(error))
    return Done(unknown, placed, tuple(warnings))


@functools.lru_cache(maxsize=1)  # a process may get one part after the other
def _models(run: Path, ensemble: tuple[Path, ...], plugins: tuple[Path, ...]) -> list[Model]:
    load_plugins(each for each in plugins if each not in loaded_plugins())
    return [Model.load(each) for each in (run, *ensemble)]


def _translate_shard(
    task: FileTask,
    shard: Shard,
    model: Model,
    others: Sequence[Model],
    unknown: UnknownReport,
    placed: PlaceholderReport,
    say: Say,
) -> None:
    lines = islice(lines_from(task.source, shard.offset, shard.first), shard.lines)
    batches = tidied(iter(lambda: list(islice(lines, CHUNK)), []))
    found = model.stream(
        asked(batches, None, None, task.tabs, task.glossary),
        task.options,
        ensemble=others,
        split_sentences=task.split_sentences,
        say=lambda text: say(f"{shard.path.name}: {text}"),
        first=shard.first,
    )
    text: list[str] = []
    for number, translation in enumerate(found, start=shard.first):
        count(translation, unknown, placed)
        text += shown(number, translation, task.options, task.as_json)
    write_bytes(shard.path, "".join(f"{line}\n" for line in text).encode())


def count(translation: Translation, unknown: UnknownReport, placed: PlaceholderReport) -> None:
    """Adds what a translation has of unknown words and of placeholders to reports."""
    unknown.add(translation.source, translation.unknown)
    for best in (each for one in translation.sentences or [translation] for each in one.candidates[:1]):
        placed.add(best.placeholders)
        unknown.add_replaced(each.by for each in best.replaced)


def shown(number: int, translation: Translation, options: SearchOptions, as_json: bool) -> list[str]:
    """The lines that stand for a translation: its text, its record, or with several outputs those of Moses.

    A blank source has one blank output, so that every line number occurs.
    """
    if as_json:
        return [to_json(translation._replace(token_attention=None).record)]
    if options.n_best == 1:
        return [translation.text]
    candidates = translation.candidates or [("", 0.0)]
    return [f"{number} ||| {text} ||| {score:.6f}" for text, score, *_ in candidates]


def refuse_tabs(model: Model, tabs: Tabs | None) -> None:
    """UserError if lines are divided at a TAB, and the sources of the model have TABs in them."""
    if tabs is not None and model.trained.source.has_tabs:
        raise UserError(f"--tabs {tabs}: a TAB separates the parts of this model's sources; give a file: --{tabs} FILE")


def asked(
    batches: Iterable[list[str]],
    prefix: Path | None,
    constraints: Path | None,
    tabs: Tabs | None,
    glossary: Path | None,
) -> Iterator[list[SourceLine]]:
    """The lines of each batch with what is asked of them, in files beside the source or after a TAB."""
    known = None if glossary is None else Glossary.load(glossary)
    files = {path: iterate_lines(path) for path in (prefix, constraints) if path is not None}

    def beside(path: Path, count: int) -> list[str]:
        lines = list(islice(files[path], count))
        if len(lines) < count:
            raise UserError(f"{path}: fewer lines than the source; give one for every line, blank for none")
        return lines

    for batch in batches:
        fields = [line.split("\t") for line in batch] if tabs else [[line] for line in batch]
        begun = None if prefix is None else beside(prefix, len(batch))
        phrases = None if constraints is None else [line.split("\t") for line in beside(constraints, len(batch))]
        if tabs == "prefix":
            begun = ["\t".join(rest) for _, *rest in fields]
        elif tabs == "constraints":
            phrases = [rest for _, *rest in fields]
        if phrases is not None:
            phrases = [[phrase for phrase in each if phrase.strip()] for each in phrases]
        yield list(lines_of([source for source, *_ in fields], begun, phrases, known))
    for path, lines in files.items():
        if next(lines, None) is not None:
            raise UserError(f"{path}: more lines than the source; give one for every line, blank for none")


def tidied(batches: Iterable[list[str]]) -> Iterator[list[str]]:
    """The same batches. Every `TIDY` lines, memory that is free in scattered pieces is returned to the system.

    Batches of many shapes leave such pieces behind: 5 MB per 100,000 lines.
    """
    lines = 0
    for batch in batches:
        yield batch
        lines += len(batch)
        if lines >= TIDY:
            give_back_freed_memory()
            lines = 0


def _parts(task: FileTask, offsets: Sequence[int], lines: int, jobs: int | None, resources: Resources) -> list[Part]:
    """All shards, in parts of at most `NEIGHBORS`, and of fewer if not each of the jobs would get one."""
    suffix, width = ".jsonl" if task.as_json else ".txt", max(8, len(str(lines - 1)))
    shards = []
    for number, offset in enumerate(offsets):
        first = number * SHARD
        last = min(first + SHARD, lines) - 1
        path = task.output / f"{first:0{width}d}-{last:0{width}d}{suffix}"
        shards.append(Shard(path, first, last - first + 1, offset))
    size = min(NEIGHBORS, max(1, len(shards) // (jobs or MANY)))
    return [Part(tuple(shards[start : start + size]), resources) for start in range(0, len(shards), size)]


def _claim(path: Path, record: dict[str, Any]) -> None:
    """Writes what the shards of a folder are; UserError if they are something else."""
    if not path.exists():
        others = sorted(each.name for each in path.parent.iterdir() if not each.name.startswith("."))
        if others:
            raise UserError(f"{path.parent}: holds {others[0]} and no {path.name}; choose another folder")
        write_bytes(path, to_json(record, indent=2).encode())
        return
    before = load_values(TypeAdapter(dict[str, Any]), path, "delete the folder, or choose another")
    differs = [key for key, value in record.items() if before.get(key) != value]
    if differs:
        raise UserError(
            f"{path}: the outputs here were made with other {', '.join(differs)}; delete the folder, or choose another"
        )
