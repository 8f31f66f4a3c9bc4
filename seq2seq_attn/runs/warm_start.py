"""A warm start: training that begins with the weights of a run, on other text or with other options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq_attn.config import Config
from seq2seq_attn.corpora.codec import Codec
from seq2seq_attn.corpora.front_end import FrontEnd, Sizes
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.checksums import SUMS
from seq2seq_attn.files.reading import digest
from seq2seq_attn.models.config import weights_from_a_file
from seq2seq_attn.models.seq2seq import Seq2Seq
from seq2seq_attn.runs import MODEL, find_run
from seq2seq_attn.runs.corpora import FrontEnds
from seq2seq_attn.runs.folder import read_config
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.strict import Override, merge, override, parse, parse_overridden
from seq2seq_attn.training.checkpoints import read_optimizer
from seq2seq_attn.training.freezing import frozen_parameters
from seq2seq_attn.training.optimizer import OptimizerConfig, state_keys

SECTIONS = ("source", "text", "model")  # which the new configuration takes from the run where it says nothing else


def read_configuration(
    values: Mapping[str, Any], overrides: Sequence[Override] = (), path: Path | None = None
) -> Config:
    """The configuration of a training, with overrides, completed by that of the run that it starts from.

    UserError, in one line, for the first mistake: in the file `path` with its line, or as one of the command line if it
    comes from an override.
    """
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

    def _shared_rows(self, source: FrontEnd, target: Codec) -> dict[str, _Rows]:
        """The rows that tokens of both have, of each side that has another vocabulary."""
        pairs = {"source": (self.model.source, source), "target": (self.model.target, target)}
        return {
            side: _Rows.of(before, now)
            for side, (before, now) in pairs.items()
            if isinstance(before, Codec) and isinstance(now, Codec) and before.difference(now) is not None
        }

    @torch.no_grad()
    def copy_into(self, translator: Seq2Seq, config: Config, source: FrontEnd, target: Codec) -> str:
        """Copies the weights into an untrained model, token by token where its vocabularies are others.

        Rows of tokens that are new to the run keep their random initialization. Returns what was done, in words.
        UserError: the models do not fit.
        """
        if not isinstance(source, Codec) and self.model.source.files("source") != source.files("source"):
            raise self._misfit("the parts of its source are of another kind, or learned from other text")
        rows = self._shared_rows(source, target)
        if source is target and rows and self.model.source is not self.model.target:
            raise self._misfit("one vocabulary for both sides here and two there; set text.joint=false")
        axes = _vocabulary_axes(config, source, target) if rows else {}
        weights, found = translator.state_dict(), self.model.translator.state_dict()
        for name in sorted(weights.keys() ^ found.keys()):
            raise self._misfit(f"{name} is in {'this model' if name in weights else 'that of the run'} alone")
        for name, weight in weights.items():
            axis, side = axes.get(name, (0, ""))
            shared = rows.get(side)
            expected = list(weight.shape)
            if shared is not None:
                expected[axis] = shared.before
            if list(found[name].shape) != expected:
                raise self._misfit(f"{name} has shape {tuple(found[name].shape)} there and {tuple(expected)} here")
            if shared is None:
                weight.copy_(found[name])
            else:
                shared.copy(weight, found[name], axis)
        names = {"target": "joint vocabulary"} if source is target else {"source": "source", "target": "target"}
        counts = [
            f"{name}: {len(rows[side].ours):,} of {rows[side].now:,} tokens as in the run, "
            f"{rows[side].now - len(rows[side].ours):,} new"
            for side, name in names.items()
            if side in rows
        ]
        return f"starts from {self.run}, " + ("; ".join(counts) or "with its vocabularies")

    def optimizer_state(
        self, translator: Seq2Seq, config: Config, source: FrontEnd, target: Codec
    ) -> tuple[dict[str, Tensor], str]:
        """The optimizer state of the run for the weights that are trained, and a line about it.

        Rows of shared tokens are those of the run, rows of new tokens are 0. To be called after `copy_into`. UserError:
        the run has no whole checkpoint, or the state of its optimizer has other tensors.
        """
        try:
            state, tensors = read_optimizer(self.folder)
        except UserError as error:
            raise UserError(f"{error}; training.start_optimizer=fresh does without") from None
        before = parse(OptimizerConfig, state.optimizer)
        now = config.training.optimizer
        keys = state_keys(now)
        if before.name.lower() != now.name.lower() or state_keys(before) != keys:
            theirs, ours = (f"{each.name} {each.options or ''}".rstrip() for each in (before, now))
            raise UserError(
                f"training.start_optimizer=kept: {self.run} was trained by {theirs}, and this training is by {ours}; "
                f"give the name and options of the run under training.optimizer, or set training.start_optimizer=fresh"
            )
        rows = self._shared_rows(source, target)
        axes = _vocabulary_axes(config, source, target) if rows else {}
        frozen = {id(each) for each in frozen_parameters(translator, config.training.freeze)}
        kept, names = {}, set()
        for name, weight in translator.named_parameters():
            axis, side = axes.get(name, (0, ""))
            for key in keys:
                tensor = tensors.get(f"optimizer.{name}.{key}")
                if tensor is None or id(weight) in frozen:
                    continue
                if (shared := rows.get(side)) is not None and tensor.shape[axis : axis + 1] == (shared.before,):
                    shape = list(tensor.shape)
                    shape[axis] = shared.now
                    tensor = shared.copy(tensor.new_zeros(shape), tensor, axis)
                kept[f"optimizer.{name}.{key}"] = tensor
                names.add(name)
        return kept, f"with what {now.name} kept of {len(names)} tensors in its {state.step:,} steps"

    def _misfit(self, reason: str) -> UserError:
        return UserError(
            f"training.start_from={self.run}: another model: {reason}; leave out the options under model, and it is "
            f"that of the run"
        )


class _Rows(NamedTuple):
    """The tokens that the vocabularies of the run and of this training share."""

    ours: Tensor  # their ids in the new vocabulary
    theirs: Tensor  # and in that of the run
    before: int  # tokens of the run
    now: int

    @classmethod
    def of(cls, before: Codec, now: Codec) -> _Rows:
        ids = before.vocabulary.get_stoi()
        shared = [(index, ids[token]) for index, token in enumerate(now.vocabulary.get_itos()) if token in ids]
        ours, theirs = torch.tensor(shared).T
        return cls(ours, theirs, before.size, now.size)

    def copy(self, tensor: Tensor, found: Tensor, axis: int) -> Tensor:
        """The tensor, into which their rows of the one of the run were copied."""
        return tensor.index_copy_(axis, self.ours, found.index_select(axis, self.theirs).to(tensor))


def _vocabulary_axes(config: Config, source: FrontEnd, target: Codec) -> dict[str, tuple[int, str]]:
    """For each tensor with one row per token: the axis of its rows, and the side whose tokens they are.

    Found by building the model with one token more on a side, so that it holds for parts that a user wrote.
    """

    def shapes(read: Sizes, written: int) -> dict[str, torch.Size]:
        with torch.random.fork_rng(devices=()), weights_from_a_file(), torch.device("meta"):
            built = config.model.build(read, written, source is target)
        return {name: tensor.shape for name, tensor in built.state_dict().items()}

    read, written = source.size, target.size
    plain = shapes(read, written)
    if source is target:
        grown = {"target": shapes(written + 1, written + 1)}
    else:
        grown = {"target": shapes(read, written + 1)}
        if isinstance(read, int):
            grown["source"] = shapes(read + 1, written)
    return {
        name: (axis, side)
        for side, larger in grown.items()
        for name, shape in plain.items()
        for axis, size in enumerate(shape)
        if larger[name][axis] != size
    }
