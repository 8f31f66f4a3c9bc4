"""Interventions: what a decoder reads of the source is replaced, at one step or at all of them.

The changes of `faithfulness.py` apply to the weights that the unchanged model computes; here they apply to those that
the model computes after all earlier interventions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field, NonNegativeInt, model_validator

from seq2seq_attn.analysis.attention_files import NO_WEIGHTS
from seq2seq_attn.attention import Normalizer
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.context_config import ReplacementNormalizerConfig, replacement_normalizers
from seq2seq_attn.models.intervened import Changes, IntervenedModel
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.strict import Strict


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
    temperature: float | None = Field(default=None, ge=0.001, le=1000)  # the scores are divided by it
    normalizer: ReplacementNormalizerConfig | None = None  # in place of the model's own

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
    has_scores = IntervenedModel(model.fused).has_scores
    return replacement_normalizers() if has_scores and all(has_scores) else []


def check_layer(model: IntervenedModel, layer: int) -> None:
    """UserError if the decoder does not read the source in this layer."""
    if not 0 <= layer < len(model.heads):
        raise UserError(f"layer {layer}: this model reads the source in layers 0 to {len(model.heads) - 1}")


def check_head(head: int, heads: int) -> None:
    """UserError if there is no such head among this many."""
    if not 0 <= head < heads:
        raise UserError(f"head {head}: this model has heads 0 to {heads - 1}")


def check_interventions(interventions: Sequence[Intervention], model: IntervenedModel, states: int) -> None:
    """UserError if an intervention does not fit the model, or a source with this many states."""
    if interventions and not model.heads:
        raise UserError(NO_WEIGHTS)
    for each in interventions:
        if each.layer is not None:
            check_layer(model, each.layer)
        if each.head is not None:
            check_head(each.head, min(model.heads))
        reads_nothing = each.replace == "nothing" or (each.weights is not None and not any(each.weights))
        if (reads_nothing or each.replace == "sentence") and not model.model.sums_values:
            raise UserError(
                f"replace={each.replace}: this model reads one position of its own source at a step (hard attention); "
                f"use replace=mean, temperature or normalizer, or weights above 0"
            )
        if each.replace in ("temperature", "normalizer") and not all(model.has_scores):
            raise UserError(
                f"replace={each.replace} needs weights from one scorer; those of this model have none or several"
            )
        if each.weights is not None and len(each.weights) != states:
            raise UserError(
                f"{len(each.weights)} weights for {states} source tokens: give one for each, `</s>` included"
            )


def other_sources(interventions: Sequence[Intervention]) -> list[str]:
    """The other sentences whose contexts are read, each once."""
    return list(dict.fromkeys(each.other for each in interventions if each.other is not None))


def changes_at(
    interventions: Sequence[Intervention], step: int, model: IntervenedModel, is_state: torch.Tensor
) -> Changes | None:
    """What the interventions change at a step; None if nothing.

    The first sentence of the batch, whose states `is_state` (B, S) shows, is the one that is decoded; after it come
    the `other_sources`.
    """
    applied = [each for each in interventions if each.step in (None, step)]
    if not applied:
        return None
    others, own_states = other_sources(interventions), is_state[0]
    rows, heads, device = 1 + len(others), sum(model.heads), is_state.device
    given = torch.zeros(rows, heads, is_state.shape[1], device=device)
    is_given, is_uniform = torch.zeros(2, rows, heads, dtype=torch.bool, device=device)
    reads = torch.arange(rows, device=device)[:, None].repeat(1, len(model.heads))
    temperatures, normalizers = torch.ones(heads, device=device), dict[int, Normalizer]()
    for each in applied:
        for layer in range(len(model.heads)) if each.layer is None else [each.layer]:
            own = model.heads_of(layer)
            if each.head is not None:
                own = slice(own.start + each.head, own.start + each.head + 1)
            match each.replace:
                case "weights":
                    is_given[0, own] = True
                    given[0, own] = given.new_zeros(len(own_states)).masked_scatter(
                        own_states, given.new_tensor(each.weights)
                    )
                case "nothing":
                    is_given[0, own] = True
                    given[0, own] = 0.0
                case "mean":  # of weights that were given before it, or of the model's own
                    is_uniform[0, own] = True
                    given[0, own] = given[0, own].sum(dim=-1, keepdim=True) * own_states / own_states.sum()
                case "sentence":
                    reads[0, layer] = 1 + others.index(str(each.other))
                case "temperature":
                    temperatures[own] *= each.temperature or 1.0
                case "normalizer" if each.normalizer is not None:
                    normalizers |= dict.fromkeys(range(own.start, own.stop), each.normalizer().eval())
    return Changes(given, is_given, is_uniform, reads, temperatures, normalizers)
