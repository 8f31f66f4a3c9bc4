"""Verification of a run: its files, its data, its code, and on request its scores, against what it recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import seq2seq_attn
from seq2seq_attn.analysis.scoring import TRANSLATIONS, score_test
from seq2seq_attn.config import Config, PairFiles
from seq2seq_attn.corpora.front_end import FrontEnd
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.reading import digest, read_lines, sha256
from seq2seq_attn.runs import CONFIG, Say, find_run
from seq2seq_attn.runs.cache import named_files
from seq2seq_attn.runs.folder import check_files, read_config, read_metrics
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.runs.provenance import code_digest, data_files, hardware, packages, read_sessions
from seq2seq_attn.search.batched import Progress


class VerifiedItem(NamedTuple):
    """One thing that was checked. A note is worth knowing, and may explain other numbers."""

    item: str
    state: Literal["ok", "note", "wrong"]
    said: str

    def __str__(self) -> str:
        return f"{self.state:<6} {self.item}: {self.said}"


@dataclass(frozen=True)
class Verification:
    """What a verification found, as lines of text when it is printed."""

    items: tuple[VerifiedItem, ...]

    @property
    def is_wrong(self) -> bool:
        return any(each.state == "wrong" for each in self.items)

    def __str__(self) -> str:
        return "\n".join(map(str, self.items))


def verify(
    folder: Path | str, *, score: bool = False, progress: Progress | None = None, say: Say = lambda _: None
) -> Verification:
    """Checks a run against what it recorded when it was trained; nothing is written.

    Files, model, configuration and data must be those of the training. Another version, other libraries or another
    device are noted. With `score`, the test set is translated and scored again: translations and scores must be equal,
    which is only to be expected with the same versions on the same device. UserError: the folder is not a run.
    """
    return Verification(tuple(_verify(find_run(Path(folder)), score, progress, say)))


def _verify(folder: Path, score: bool, progress: Progress | None, say: Say) -> Iterator[VerifiedItem]:
    damaged = check_files(folder)
    yield from (VerifiedItem("files", "wrong", each) for each in damaged)
    if not damaged:
        yield VerifiedItem("files", "ok", "complete")
    try:
        config, metrics, sessions = read_config(folder), read_metrics(folder), read_sessions(folder)
        model = TrainedModel.load(folder)
    except UserError as error:
        yield VerifiedItem("model", "wrong", str(error))
        return
    if "training" in metrics:
        yield VerifiedItem("model", "ok", f"{model.parameters():,} parameters, {metrics['training']['epochs']} epochs")
    else:
        yield VerifiedItem("model", "wrong", "training has not ended; continue it with train --resume")
    if len(sessions) > 1:
        yield VerifiedItem("training", "note", f"in {len(sessions)} sessions; what follows is about the last one")
    if sessions[-1]["config"] == sha256(folder / CONFIG):
        yield VerifiedItem("configuration", "ok", "as in training")
    else:
        yield VerifiedItem("configuration", "wrong", "config.yaml was changed after training")
    yield from _against(sessions[-1], config, model.source)
    if score:
        yield from _scores(model, folder, metrics, progress, say)


def _against(recorded: Mapping[str, Any], config: Config, source: FrontEnd) -> Iterator[VerifiedItem]:
    """The data, code, libraries and hardware of now against those of a training run."""
    yield from _data(recorded["data"], config)
    for part, checksum in recorded.get("named_files", {}).items():
        yield _named(part, checksum, getattr(config.data, part), source)
    versions = seq2seq_attn.__version__, recorded["version"]
    if recorded["code"] == code_digest():
        yield VerifiedItem("code", "ok", f"seq2seq_attn {versions[0]}, unchanged")
    else:
        made = f"version {versions[1]}" if versions[0] != versions[1] else f"other code of version {versions[1]}"
        patch = "; its uncommitted changes are in provenance.json" if recorded["uncommitted"] else ""
        yield VerifiedItem("code", "note", f"trained with {made}, commit {recorded['commit']}{patch}")
    yield _difference("libraries", recorded["packages"], packages())
    here = {"hardware": hardware(config.training.accelerator)}
    yield _difference("hardware", {"hardware": recorded["hardware"]}, here)


def _data(recorded: Mapping[str, str], config: Config) -> Iterator[VerifiedItem]:
    files = data_files(config)
    sound = 0
    for key, checksum in recorded.items():
        path = files.get(key)
        if path is None or not path.exists():
            yield VerifiedItem("data", "wrong", f"{path or key}: no such file ({key})")
        elif digest(path) != checksum:
            yield VerifiedItem("data", "wrong", f"{path}: not the file of the training ({key}, another SHA-256)")
        else:
            sound += 1
    if sound == len(recorded):
        yield VerifiedItem("data", "ok", f"{sound} files as in training")


def _named(part: str, checksum: str, files: PairFiles | None, source: FrontEnd) -> VerifiedItem:
    """The recordings or images that lines name, of now against those of a training run."""
    if files is None:
        return VerifiedItem("data", "wrong", f"data.{part}: its recordings or images were there in training")
    try:
        is_same = named_files(files, source) == checksum
    except UserError as error:
        return VerifiedItem("data", "wrong", f"{files.name}: {error}")
    if is_same:
        return VerifiedItem("data", "ok", f"what the lines of {files.name} name is as in training")
    return VerifiedItem("data", "wrong", f"{files.name}: what the lines name is not that of the training")


def _difference(item: str, then: Mapping[str, str], now: Mapping[str, str]) -> VerifiedItem:
    changed = [
        f"{'' if name == item else f'{name} '}{then.get(name, 'absent')} in training, {now.get(name, 'absent')} now"
        for name in sorted(then.keys() | now.keys())
        if then.get(name) != now.get(name)
    ]
    return VerifiedItem(item, "note", "; ".join(changed)) if changed else VerifiedItem(item, "ok", "as in training")


def _scores(
    model: TrainedModel, folder: Path, metrics: Mapping[str, Any], progress: Progress | None, say: Say
) -> Iterator[VerifiedItem]:
    if model.config.data.test is None or "test" not in metrics:
        yield VerifiedItem("scores", "note", "the run has no scores of a test set to compare with")
        return
    try:
        found = score_test(model, folder, progress, say)
        lines = read_lines(folder / TRANSLATIONS)
    except UserError as error:
        yield VerifiedItem("scores", "wrong", str(error))
        return
    others = sum(old != new for old, new in zip(lines, found.translations, strict=False))
    others += abs(len(lines) - len(found.translations))
    if others:
        yield VerifiedItem("translations", "wrong", f"{others:,} of {len(lines):,} lines differ")
    else:
        yield VerifiedItem("translations", "ok", f"{len(lines):,} lines are equal")
    stored, new = _numbers(metrics["test"]), _numbers(found.scores)
    different = [
        f"{key} {stored[key]:.6g} stored, {new[key]:.6g} now" if key in new else f"{key} was not computed"
        for key in stored
        if key not in new or abs(stored[key] - new[key]) > 1e-6 * max(1.0, abs(stored[key]))
    ]
    if different:
        yield VerifiedItem("scores", "wrong", "; ".join(different))
    else:
        yield VerifiedItem("scores", "ok", ", ".join(f"{key} {value:.4g}" for key, value in stored.items()))


def _numbers(scores: Mapping[str, Any]) -> dict[str, float]:
    """The scores of the whole test set."""
    values = {key: each["value"] if isinstance(each, dict) else each for key, each in scores.items()}
    return {key: float(value) for key, value in values.items() if isinstance(value, (int, float))}
