"""Interventions: what a decoder reads of the source is replaced, at one step or at all of them.

The changes of the weights are those of `faithfulness.py`; there they apply to the weights that the unchanged model
computes, here to those that the model computes after all earlier interventions.
"""

from __future__ import annotations

import copy
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import torch
from pydantic import Field, NonNegativeInt, model_validator
from torch import Tensor, nn

from seq2seq_attn.analysis.attention_files import NO_WEIGHTS
from seq2seq_attn.attention import Attention, Change, Context, Intervened, Normalizer
from seq2seq_attn.attention.contexts.counterfactual import uniform, without_any
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.context_config import ReplacementNormalizerConfig, replacement_normalizers
from seq2seq_attn.models.replace import replace_modules
from seq2seq_attn.models.seq2seq import Seq2Seq
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.strict import Strict

CHANGES: dict[str, Change] = {"mean": uniform, "nothing": without_any}  # of the weights that follow from the scores


class Intervention(Strict):
    """What replaces the context at a step.

    `weights`: the sum of the values under these weights, which are used as they are; they need not sum to 1.
    `mean`: under equal weights. `nothing`: under weights of 0. `sentence`: the context that the model reads at the same
    step of the same translation of the sentence `other`. `temperature`: under the weights a_i = normalize(e_i / t),
    where e_i are the model's own scores, `normalize` is its own normalizer, and t is `temperature`; with softmax,
    a_ij = exp(e_ij / t) / Σ_k exp(e_ik / t) (Hinton et al. 2015, eq. 1). Below 1 the weights are more concentrated,
    above 1 closer to equal. `normalizer`: under the weights a_i = normalize'(e_i), where normalize' is `normalizer`, in
    place of the model's own; with a temperature as well, a_i = normalize'(e_i / t). It is given by name, "sparsemax",
    or with its options, {"name": "softmax", "temperature": 0.5}; see `ReplacementNormalizerConfig` for what is refused.
    At one place, several temperatures multiply, and the last of several normalizers counts. Other interventions at the
    same step apply to the weights that follow.
    """

    replace: Literal["weights", "mean", "sentence", "nothing", "temperature", "normalizer"]  # by what
    step: NonNegativeInt | None = None  # counted from 0, tokens of a prefix included; null: at every step
    layer: NonNegativeInt | None = None  # of the decoder; null: in every layer
    head: NonNegativeInt | None = None  # null: in every head
    weights: tuple[float, ...] | None = None  # one per source token, `</s>` included
    other: str | None = None  # a source sentence
    temperature: float | None = Field(default=None, ge=0.001, le=1000)
    normalizer: ReplacementNormalizerConfig | None = None

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Intervention:
        for name in ("weights", "other", "temperature", "normalizer"):
            needed = "sentence" if name == "other" else name
            is_given, is_needed = getattr(self, name) is not None, self.replace == needed
            if is_needed and not is_given:
                raise ValueError(f"replace={needed} needs {name}")
            if is_given and not is_needed:
                raise ValueError(f"{name} is for replace={needed} alone, not for replace={self.replace}")
        if self.weights is not None and not all(0 <= weight < float("inf") for weight in self.weights):
            raise ValueError("weights must be finite numbers of at least 0")
        if self.replace == "sentence" and self.head is not None:
            raise ValueError("replace=sentence replaces the context of all heads of a layer; leave head out")
        return self


def normalizers_for(model: TrainedModel) -> list[str]:
    """The names that `replace=normalizer` takes for this model; none if its weights are not those of one scorer."""
    contexts = model.fused.contexts_that_read()
    return replacement_normalizers() if contexts and _have_scores(contexts) else []


def _have_scores(contexts: Sequence[Context]) -> bool:
    return all(isinstance(context.reader(), Attention) for context in contexts)


class IntervenedModels:
    """Copies of a translator in which the interventions of a step apply; what their layers read is left in `read`.

    The first sentence of a batch is the one that is decoded, with `length` source tokens; those after it are `others`.
    UserError: an intervention does not fit the sentence or the model.
    """

    def __init__(self, translator: Seq2Seq, interventions: Sequence[Intervention], length: int) -> None:
        self.translator = translator
        self.contexts = translator.contexts_that_read()
        self.interventions = interventions
        self.others = list(dict.fromkeys(each.other for each in interventions if each.other is not None))
        self._check(length)
        self.read: list[tuple[Tensor, Tensor]] = []  # at the current step: weights and values of each layer
        self.scored: dict[int, Tensor] = {}  # likewise, the scores by number of the layer
        # One model for every step that has interventions of its own, made when it is reached; None: for all others.
        self._own_steps = {each.step for each in interventions}
        self._models: dict[int | None, Seq2Seq] = {}

    def at(self, step: int | None) -> Seq2Seq:
        """The model of this step; None: of a step without interventions of its own. Forgets what was read before."""
        self.read.clear()
        self.scored.clear()
        key = step if step in self._own_steps else None
        if key not in self._models:
            self._models[key] = self._intervened(key)
        return self._models[key]

    def reads_another(self, step: int) -> bool:
        """Whether another sentence is read at this step."""
        return any(_applies(each, step) and each.other is not None for each in self.interventions)

    def _check(self, length: int) -> None:
        if self.interventions and not self.contexts:
            raise UserError(NO_WEIGHTS)
        for each in self.interventions:
            if each.layer is not None and each.layer >= len(self.contexts):
                raise UserError(
                    f"layer {each.layer}: this model reads the source in layers 0 to {len(self.contexts) - 1}"
                )
            heads = min(context.heads for context in self.contexts)
            if each.head is not None and each.head >= heads:
                raise UserError(f"head {each.head}: this model has heads 0 to {heads - 1}")
            if each.replace in ("temperature", "normalizer") and not _have_scores(self.contexts):
                raise UserError(
                    f"replace={each.replace} needs weights from one scorer; those of this model have none or several"
                )
            if each.weights is not None and len(each.weights) != length:
                raise UserError(
                    f"{len(each.weights)} weights for {length} source tokens: give one for each, `</s>` included"
                )

    def _intervened(self, step: int | None) -> Seq2Seq:
        """The model with what applies at this step; `None`: what applies at every step."""
        replacements: dict[nn.Module, nn.Module] = {}
        for number, context in enumerate(self.contexts):
            reader, heads = context.reader(), context.heads
            applied = [each for each in self.interventions if _applies(each, step) and each.layer in (None, number)]
            changes = [self._change(each, heads) for each in applied if each.replace in ("weights", *CHANGES)]
            others = [1 + self.others.index(each.other) for each in applied if each.other is not None]
            replacements[reader] = Intervened(
                self._scored(reader, number, _temperatures(applied, heads), _normalizers(applied, heads)),
                heads,
                partial(_in_turn, changes) if changes else None,
                others[-1] if others else None,
                lambda _, weights, values: self.read.append((weights, values)),
            )
        return replace_modules(self.translator, replacements).eval()

    def _scored(
        self, reader: Context, number: int, temperatures: Sequence[float], normalizers: Mapping[int, Normalizer]
    ) -> Context:
        """The reader with a copy of its scorer that leaves its scores behind; other threads use the original.

        The reader itself gets the scores of the first sentence divided by the temperature of each head, and normalizes
        them by the normalizer of each head, if there is one.
        """
        if not isinstance(reader, Attention):
            return reader

        def remember(_scorer: nn.Module, _inputs: object, scores: Tensor) -> Tensor | None:
            self.scored[number] = scores
            if all(each == 1 for each in temperatures):
                return None
            divisors = scores.new_ones(len(scores), 1, 1)  # (B * heads, 1, 1)
            divisors[: len(temperatures), 0, 0] = scores.new_tensor(temperatures)
            return scores / divisors

        parts: dict[nn.Module, nn.Module] = {reader.scorer: _with_hook(reader.scorer, remember)}
        if normalizers:
            parts[reader.normalizer] = _with_hook(reader.normalizer, partial(_normalized_by, normalizers))
        return replace_modules(reader, parts)

    def _change(self, each: Intervention, heads: int) -> Change:
        change = partial(_given, each.weights) if each.weights is not None else CHANGES[each.replace]
        return change if each.head is None else partial(_in_one_head, change, each.head, heads)


def _applies(each: Intervention, step: int | None) -> bool:
    return each.step is None or each.step == step


def _temperatures(applied: Sequence[Intervention], heads: int) -> list[float]:
    """The product of the temperatures of each head."""
    given = [(each.head, each.temperature) for each in applied if each.temperature is not None]
    return [math.prod(each for place, each in given if place in (None, head)) for head in range(heads)]


def _normalizers(applied: Sequence[Intervention], heads: int) -> dict[int, Normalizer]:
    """The last normalizer given for each head that gets another than the model's own."""
    return {
        head: each.normalizer().eval()
        for each in applied
        if each.normalizer is not None
        for head in range(heads)
        if each.head in (None, head)
    }


def _with_hook(part: nn.Module, hook: Callable[..., Tensor | None]) -> nn.Module:
    """A copy of the part with this hook and those that it has."""
    copied = copy.copy(part)
    copied.__dict__["_forward_hooks"] = OrderedDict(part._forward_hooks)
    copied.register_forward_hook(hook)
    return copied


def _normalized_by(
    normalizers: Mapping[int, Normalizer], _own: nn.Module, inputs: tuple[Any, ...], weights: Tensor
) -> Tensor:
    """The weights (B * heads, K, S) with those of these normalizers in these heads of the first sentence."""
    scores, is_token, *_ = inputs
    changed = weights.clone()
    for head, normalizer in normalizers.items():
        mask = None if is_token is None else is_token.expand_as(scores)[head]
        changed[head] = normalizer(scores[head], mask)
    return changed


def _given(row: Sequence[float], weights: Tensor, is_token: Tensor) -> Tensor:
    """The weights (B, N, S) are this row, at every step of every head."""
    given = torch.zeros_like(weights)
    given[..., : len(row)] = weights.new_tensor(row)
    return given


def _in_one_head(change: Change, head: int, heads: int, weights: Tensor, is_token: Tensor) -> Tensor:
    """The change in the rows of one head; rows (B, heads * T, S) are those of one head after the other."""
    own = torch.unflatten(weights, 1, (heads, -1))
    changed = torch.unflatten(change(weights, is_token), 1, (heads, -1))
    is_changed = torch.arange(heads, device=weights.device) == head
    return torch.where(is_changed[:, None, None], changed, own).flatten(1, 2)


def _in_turn(changes: Sequence[Change], weights: Tensor, is_token: Tensor) -> Tensor:
    for change in changes:
        weights = change(weights, is_token)
    return weights
