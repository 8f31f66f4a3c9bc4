"""What a checkpoint must hold before training continues from it: every value of its type, every tensor of its shape.

The fused optimizer reads and writes the memory of its moments by the size of the weights alone: a smaller tensor ends
the process, or training goes on with numbers of something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, ValidationError
from torch import Tensor, nn

_MOMENTS = {"exp_avg", "exp_avg_sq"}


class _Record(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, arbitrary_types_allowed=True)


class _BestWeights(_Record):
    score: float | None
    epoch: NonNegativeInt | None = None
    since: NonNegativeInt = 0
    weights: dict[str, Tensor] = {}


class _Clock(_Record):
    seconds: NonNegativeFloat
    training_seconds: NonNegativeFloat
    epoch_seconds: NonNegativeFloat = 0.0
    tokens: NonNegativeInt


class _Checkpoints(_Record):
    done: NonNegativeInt


class _Callbacks(_Record):
    best: _BestWeights = Field(alias="BestWeights")
    clock: _Clock = Field(alias="Clock")
    checkpoints: _Checkpoints | None = Field(alias="Checkpoints", default=None)


class _Group(_Record):
    lr: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float
    params: list[NonNegativeInt]


class _Optimizer(_Record):
    state: dict[int, dict[str, Tensor]]
    groups: list[_Group] = Field(alias="param_groups", min_length=1, max_length=1)


class _Schedule(_Record):
    last_epoch: NonNegativeInt


class _Checkpoint(_Record):
    """Besides these, counters of Lightning."""

    epoch: NonNegativeInt
    global_step: NonNegativeInt
    state_dict: dict[str, Tensor]
    callbacks: _Callbacks
    optimizers: list[_Optimizer] = Field(alias="optimizer_states", min_length=1, max_length=1)
    schedules: list[_Schedule] = Field(alias="lr_schedulers")
    plateau: dict[str, Any] | None
    random_state: Tensor
    epoch_so_far: tuple[NonNegativeInt, Tensor] = (0, torch.zeros(()))
    skipped_steps: NonNegativeInt = 0
    split_steps: NonNegativeInt = 0


def require_layout(values: object, module: nn.Module, translator: nn.Module) -> None:
    """ValueError, with the place, if these are not the values of a checkpoint of this module and its translator."""
    try:
        checkpoint = _Checkpoint.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    _require_alike("state_dict", checkpoint.state_dict, module.state_dict())
    if best := checkpoint.callbacks.best.weights:
        _require_alike("best weights", best, translator.state_dict())
    weights = [weight for weight in module.parameters() if weight.requires_grad]
    (optimizer,) = checkpoint.optimizers
    if optimizer.groups[0].params != list(range(len(weights))):
        raise ValueError(f"the optimizer is not that of {len(weights)} weights")
    for index, state in optimizer.state.items():
        if not 0 <= index < len(weights):
            raise ValueError(f"the optimizer has no weight {index}")
        expected: dict[str, Tensor] = {"step": torch.zeros(()), **dict.fromkeys(_MOMENTS, weights[index])}
        _require_alike(f"optimizer.{index}", state, expected)
    _require_alike("", {"random_state": checkpoint.random_state}, {"random_state": torch.get_rng_state()})
    _require_alike("", {"epoch_so_far": checkpoint.epoch_so_far[1]}, {"epoch_so_far": torch.zeros(())})


def _require_alike(place: str, found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    if found.keys() != expected.keys():
        raise ValueError(f"{place}: {min(found.keys() ^ expected.keys())} is missing, or too many")
    for name, tensor in found.items():
        wanted = expected[name]
        if (tensor.shape, tensor.stride(), tensor.dtype) != (wanted.shape, wanted.stride(), wanted.dtype):
            kinds = [f"{each.dtype} {tuple(each.shape)}" for each in (tensor, wanted)]
            raise ValueError(f"{place}.{name}: {kinds[0]} where {kinds[1]} belongs")
