"""A warm start: training that begins with the weights of a run, on other text or with other options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2seq_attn.config import Config
from seq2seq_attn.corpora.codec import Codec
from seq2seq_attn.corpora.front_end import FrontEnd
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.checksums import SUMS
from seq2seq_attn.files.reading import digest
from seq2seq_attn.models.config import weights_from_a_file
from seq2seq_attn.models.seq2seq import Seq2Seq
from seq2seq_attn.runs import find_run
from seq2seq_attn.runs.corpora import FrontEnds
from seq2seq_attn.runs.folder import MODEL, read_config
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.strict import Override, merge, override, parse, parse_overridden

SECTIONS = ("source", "text", "model")  # which the new configuration takes from the run where it says nothing else


def read_configuration(
    values: Mapping[str, Any], overrides: Sequence[Override] = (), path: Path | None = None
) -> Config:
    """The configuration of a training, as `parse_values`; completed by that of the run that it starts from."""
    return parse_overridden(overrides, lambda given: parse(Config, completed(override(values, given)), path))


def completed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a configuration; what they leave out of source, text and model is as in `training.start_from`.

    A configuration that has all three sections, as that of a run has, is complete: the other run may be gone.
    """
    training = values.get("training")
    run = training.get("start_from") if isinstance(training, Mapping) else None
    if not isinstance(run, str) or all(section in values for section in SECTIONS):
        return dict(values)
    own = read_config(find_run(Path(run))).model_dump(mode="json")
    del own["model"]["pretrained_embeddings"]
    return merge({section: own[section] for section in SECTIONS if own[section] is not None}, values)


class WarmStart:
    """The run that a training starts from. UserError: it is not a run, has not ended, or is damaged."""

    def __init__(self, run: str) -> None:
        self.run, self.folder = run, find_run(Path(run))
        self.model = TrainedModel.load(self.folder, "cpu")

    def front_ends(self, config: Config) -> FrontEnds | None:
        """Those of the run, if the configuration has the same options for them; None if others are to be learned."""
        own, without = self.model.config, {"sampling": None}  # which encodes training text, and learns nothing
        same_text = own.text.model_copy(update=without) == config.text.model_copy(update=without)
        return (self.model.source, self.model.target) if same_text and own.source == config.source else None

    def record(self) -> dict[str, str]:
        """What provenance.json says of the run."""
        return {"run": self.run, **{name: digest(self.folder / name) for name in (SUMS, MODEL)}}

    @torch.no_grad()
    def copy_into(self, translator: Seq2Seq, config: Config, source: FrontEnd, target: Codec) -> str:
        """Copies the weights into an untrained model, token by token where its vocabularies are others.

        Rows of tokens that are new to the run keep their random initialization. Returns what was done, in words.
        UserError: the models do not fit.
        """
        pairs = {"source": (self.model.source, source), "target": (self.model.target, target)}
        rows = {
            side: _shared_rows(before, now)
            for side, (before, now) in pairs.items()
            if isinstance(before, Codec) and isinstance(now, Codec) and before.difference(now) is not None
        }
        if source is target and rows and self.model.source is not self.model.target:
            raise self._misfit("one vocabulary for both sides here and two there; set text.joint=false")
        axes = _vocabulary_axes(config, source, target) if rows else {}
        weights, found = translator.state_dict(), self.model.translator.state_dict()
        for name in sorted(weights.keys() ^ found.keys()):
            raise self._misfit(f"{name} is in {'this model' if name in weights else 'that of the run'} alone")
        for name, weight in weights.items():
            axis, side = axes.get(name, (0, ""))
            ours, theirs = rows.get(side, (None, None))
            expected = list(weight.shape)
            if ours is not None:
                expected[axis] = pairs[side][0].size
            if list(found[name].shape) != expected:
                raise self._misfit(f"{name} has shape {tuple(found[name].shape)} there and {tuple(expected)} here")
            if ours is None or theirs is None:
                weight.copy_(found[name])
            else:
                weight.index_copy_(axis, ours, found[name].index_select(axis, theirs).to(weight))
        names = {"target": "joint vocabulary"} if source is target else {side: side for side in pairs}
        counts = [
            f"{name}: {len(rows[side][0]):,} of {pairs[side][1].size:,} tokens as in the run, "
            f"{pairs[side][1].size - len(rows[side][0]):,} new"
            for side, name in names.items()
            if side in rows
        ]
        return f"starts from {self.run}, " + ("; ".join(counts) or "with its vocabularies")

    def _misfit(self, reason: str) -> UserError:
        return UserError(
            f"training.start_from={self.run}: another model: {reason}; leave out the options under model, and it is "
            f"that of the run"
        )


def _shared_rows(before: Codec, now: Codec) -> tuple[Tensor, Tensor]:
    """The ids of the tokens that both have: in the new vocabulary, and in that of the run."""
    ids = before.vocabulary.get_stoi()
    shared = [(index, ids[token]) for index, token in enumerate(now.vocabulary.get_itos()) if token in ids]
    ours, theirs = torch.tensor(shared).T
    return ours, theirs


def _vocabulary_axes(config: Config, source: FrontEnd, target: Codec) -> dict[str, tuple[int, str]]:
    """For each tensor with one row per token: the axis of its rows, and the side whose tokens they are.

    Found by building the model with one token more on a side, so that it holds for parts that a user wrote.
    """

    def shapes(more_source: int, more_target: int) -> dict[str, torch.Size]:
        joint = source is target
        with torch.random.fork_rng(devices=()), weights_from_a_file(), torch.device("meta"):
            built = config.model.build(source.size + more_source, target.size + more_target, joint)
        return {name: tensor.shape for name, tensor in built.state_dict().items()}

    plain = shapes(0, 0)
    grown = {"target": shapes(1, 1)} if source is target else {"source": shapes(1, 0), "target": shapes(0, 1)}
    return {
        name: (axis, side)
        for side, larger in grown.items()
        for name, shape in plain.items()
        for axis, size in enumerate(shape)
        if larger[name][axis] != size
    }
