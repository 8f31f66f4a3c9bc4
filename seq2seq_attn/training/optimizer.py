"""The optimizer of a training, by its name in torch, and the learning rate of each step."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import torch
from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    field_validator,
    model_validator,
)
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from seq2seq_attn.errors import UserError, did_you_mean
from seq2seq_attn.strict import Strict

Beta = Annotated[float, Field(ge=0.0, lt=1.0)]
Period = PositiveInt | Annotated[str, Field(pattern=r"^[1-9]\d* (epochs?|steps?)$")]
Schedule = Literal["constant", "inverse_sqrt", "linear", "cosine", "halving", "plateau"]

# All but those that need another loop: a closure, sparse gradients, nothing but matrices.
OPTIMIZERS: dict[str, Any] = {
    name.lower(): kind
    for name, kind in vars(torch.optim).items()
    if isinstance(kind, type) and name not in ("Optimizer", "LBFGS", "SparseAdam", "Muon")
}
_KEYS = {"lr": "learning_rate", "betas": "betas", "eps": "epsilon", "weight_decay": "weight_decay"}
_NOT_OPTIONS = {"params", "foreach", "fused", "capturable", "differentiable", "maximize"}


class OptimizerConfig(Strict):
    name: str = "adam"  # a class of torch.optim in any case: adam, adamw, sgd, adafactor, nadam, ...
    options: dict[str, Any] = Field(default_factory=dict)  # further ones of that class, as in {momentum: 0.9}
    learning_rate: PositiveFloat = 0.004  # the peak of the schedule
    betas: tuple[Beta, Beta] | None = (0.9, 0.999)  # decay of the two moments; null: not an option of this optimizer
    epsilon: PositiveFloat | None = 1e-8  # in the denominator of a step; null: not an option of this optimizer
    weight_decay: NonNegativeFloat = 0.0  # for `adamw` decoupled, for most others L2: see torch.optim
    decay_vectors: bool = True  # false: no weight decay on biases, norms and other vectors
    schedule: Schedule = "inverse_sqrt"  # of the learning rate, by step or, for `plateau`, by validations
    warmup_steps: NonNegativeInt = 200  # linear warm-up; `plateau` has none, and by default `halving`
    halving_start: Period = 5  # epochs, or as in `5000 steps`: from here on, `halving` has half the rate
    halving_every: Period = 1  # epochs, or as in `1000 steps`, after which `halving` halves it again
    plateau_factor: float = Field(default=0.5, gt=0.0, lt=1.0)  # of the learning rate, for `plateau`
    plateau_patience: NonNegativeInt = 1  # validations without improvement before the learning rate is reduced

    @property
    def decays_to_zero(self) -> bool:
        """Whether the learning rate is zero at the end, and every rate before depends on the number of steps."""
        return self.schedule in ("linear", "cosine")

    @field_validator("name")
    @classmethod
    def _is_known(cls, name: str) -> str:
        if name.lower() not in OPTIMIZERS:
            hint = did_you_mean(name.lower(), OPTIMIZERS, f"choose from {', '.join(OPTIMIZERS)}")
            raise ValueError(f"there is no such optimizer; {hint}")
        return name

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_the_kind(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        own: dict[str, Any] = {"warmup_steps": 0} if values.get("schedule") in ("plateau", "halving") else {}
        kind = OPTIMIZERS.get(str(values.get("name", "adam")).lower(), Adam)
        known = _signature(kind)
        own["betas"] = known.get("betas")
        own["epsilon"] = known["eps"] if isinstance(known.get("eps"), float) else None  # Adafactor has two of them
        return {**own, **values}

    @model_validator(mode="after")
    def _options_are_those_of_the_kind(self) -> OptimizerConfig:
        kind = OPTIMIZERS[self.name.lower()]
        known = _signature(kind)
        for option, key in _KEYS.items():
            if getattr(self, key) and option not in known:
                raise ValueError(f"{key}: {kind.__name__} has no such option; leave it out")
        keys = {option: key for option, key in _KEYS.items() if key != "epsilon" or self.epsilon is not None}
        choices = [option for option in known if option not in _NOT_OPTIONS and option not in keys]
        for option in self.options:
            if option in keys:
                raise ValueError(f"options.{option}: give it as {keys[option]}, beside options")
            if option not in choices:
                hint = did_you_mean(option, choices, f"it has {', '.join(choices) or 'none'}")
                raise ValueError(f"options.{option}: {kind.__name__} has no such option; {hint}")
        if self.options:  # the types of the fields check the others; the first optimizer makes torch load its compiler
            try:
                make_optimizer([nn.Parameter(torch.zeros(1))], self)
            except (ValueError, TypeError, RuntimeError) as error:
                raise ValueError(f"options of {kind.__name__}: {error}") from None
        return self

    @model_validator(mode="after")
    def _schedule_suits_the_warm_up(self) -> OptimizerConfig:
        if self.schedule == "plateau" and self.warmup_steps:
            raise ValueError("schedule=plateau has no warm-up; set warmup_steps=0 or schedule=inverse_sqrt")
        if self.schedule == "inverse_sqrt" and not self.warmup_steps:
            raise ValueError("schedule=inverse_sqrt decays from the end of the warm-up; set warmup_steps")
        return self


def _signature(kind: Any) -> dict[str, Any]:
    """The arguments of the class, with their defaults."""
    return {name: each.default for name, each in inspect.signature(kind).parameters.items()}


def make_optimizer(parameters: list[nn.Parameter], config: OptimizerConfig) -> Optimizer:
    """The class of torch.optim with this name; Adam and AdamW in their fused implementation."""
    kind = OPTIMIZERS[config.name.lower()]
    options: dict[str, Any] = {
        option: tuple(value) if isinstance(value, list) else value for option, value in config.options.items()
    }
    own = {"betas": config.betas, "eps": config.epsilon, "weight_decay": config.weight_decay or None}
    options |= {option: value for option, value in own.items() if value is not None}
    if kind in (Adam, AdamW):
        options["fused"] = True
    if "weight_decay" in _signature(kind):
        options.setdefault("weight_decay", 0.0)  # the default of AdamW is another
    groups: Any = parameters
    if config.weight_decay and not config.decay_vectors:
        matrices, vectors = ([each for each in parameters if (each.ndim > 1) == wide] for wide in (True, False))
        groups = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
    made: Optimizer = kind(groups, lr=config.learning_rate, **options)
    return made


def state_keys(config: OptimizerConfig) -> set[str]:
    """The names of the tensors in the state of such an optimizer, for a matrix or a vector."""
    weights = [nn.Parameter(torch.zeros(shape)) for shape in ((2, 2), (2,))]
    optimizer = make_optimizer(weights, config)
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    return {key for own in optimizer.state.values() for key, kept in own.items() if isinstance(kept, Tensor)}


class Updates:
    """The steps of an optimizer at the rates of its schedule: some are skipped, and a checkpoint has its tensors."""

    def __init__(self, weights: Mapping[str, nn.Parameter], config: OptimizerConfig, sign: int = 1) -> None:
        """`sign` is -1 if lower scores of a validation are better, else 1."""
        self.weights, self.config = weights, config
        self.optimizer: Any = make_optimizer(list(weights.values()), config)
        self.plateau: ReduceLROnPlateau | None = None
        if config.schedule == "plateau":
            self.plateau = ReduceLROnPlateau(
                self.optimizer,
                "max" if sign > 0 else "min",
                factor=config.plateau_factor,
                patience=config.plateau_patience,
            )
        self.rate: Callable[[int], float] | None = None  # before `begin`, and for `plateau`: as the optimizer has it
        self.first = 0
        # A fused Adam reads on the device whether to skip a step. Any other optimizer must be told before.
        self.skips_by_itself = isinstance(self.optimizer, (Adam, AdamW))
        if self.skips_by_itself:
            self._step_without_gradient()  # skipped, it makes the moments: zero

    def begin(self, first: int, steps: int, epoch: int) -> None:
        """The schedule counts its steps from `first`, of `steps` in all and of `epoch` in an epoch."""
        self.rate, self.first = rate_per_step(self.config, steps - first, epoch), first

    def step(self, number: int, skip: Tensor) -> None:
        """Changes the weights by their gradients, which are then gone, unless `skip` () is 1.0.

        Args:
            number: Of the step, from 0, for its learning rate.
            skip: 0.0 or 1.0, on the device of the weights.
        """
        if self.rate is not None:
            self._set_rate(self.rate(number - self.first))
        if self.skips_by_itself:
            self.optimizer.found_inf = skip
            self.optimizer.step()
        elif not skip:
            self.optimizer.step()
        self.optimizer.zero_grad()

    def _set_rate(self, rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def tensors(self) -> dict[str, Tensor]:
        """The moments of each weight, and whatever else the optimizer keeps of it: `optimizer.WEIGHT.KEY`."""
        return {
            f"optimizer.{name}.{key}": kept
            for name, weight in self.weights.items()
            for key, kept in self.optimizer.state.get(weight, {}).items()
            if isinstance(kept, Tensor)
        }

    def start_from(self, tensors: Mapping[str, Tensor]) -> None:
        """Starts with the state of another optimizer of the same kind, named as in `tensors()`; rates are its own."""
        state = self.optimizer.state_dict()
        numbers = {
            weight: number
            for group, saved in zip(self.optimizer.param_groups, state["param_groups"], strict=True)
            for weight, number in zip(group["params"], saved["params"], strict=True)
        }
        for name, tensor in tensors.items():
            of, _, key = name.removeprefix("optimizer.").rpartition(".")
            if of in self.weights:
                state["state"].setdefault(numbers[self.weights[of]], {})[key] = tensor
        self.optimizer.load_state_dict(state)

    def prepare_to_read(self) -> str | None:
        """Makes the tensors into which a checkpoint is read: a fused Adam has them, others take a step for it.

        That changes the weights, too, which are read as well. Returns how the names of tensors begin which a checkpoint
        may not have: those of weights that had no gradient.
        """
        if self.skips_by_itself:
            return None
        self._step_without_gradient()
        return "optimizer."

    def _step_without_gradient(self) -> None:
        for weight in self.weights.values():
            weight.grad = torch.zeros_like(weight)
        self.step(0, torch.full((), float(self.skips_by_itself), device=weight.device))

    def forget_others(self, tensors: Mapping[str, Tensor]) -> None:
        """Removes what is kept of weights of which none of these tensors is."""
        for name, weight in self.weights.items():
            if not any(each.startswith(f"optimizer.{name}.") for each in tensors):
                self.optimizer.state.pop(weight, None)

    @property
    def plateau_state(self) -> tuple[float, int, float] | None:
        """Best score, validations without improvement and learning rate of the schedule `plateau`; None for another."""
        if self.plateau is None:
            return None
        return self.plateau.best, self.plateau.num_bad_epochs, self.optimizer.param_groups[0]["lr"]

    @plateau_state.setter
    def plateau_state(self, state: tuple[float, int, float] | None) -> None:
        if self.plateau is not None and state is not None:
            self.plateau.best, self.plateau.num_bad_epochs, rate = state
            self._set_rate(rate)


def steps_in(period: int | str, epoch: int) -> int:
    """The steps of a period such as 2 (epochs), `2 epochs` or `500 steps`, if an epoch has this many."""
    count, _, unit = str(period).partition(" ")
    return int(count) * (1 if unit.startswith("step") else epoch)


def rate_per_step(config: OptimizerConfig, steps: int, epoch: int = 1) -> Callable[[int], float] | None:
    """The learning rate of each step, counted from 0; None for `plateau`, whose rate depends on validations.

    It is `learning_rate` times a factor: linear warm-up over `warmup_steps`, then what `schedule` says.

    - constant: 1
    - inverse_sqrt: sqrt(warmup_steps / step), as Vaswani et al. 2017, eq. 3, up to a constant
    - linear: the fraction r of the steps after the warm-up that are left, of `steps` in all, which only decay needs
    - cosine: (1 + cos(π (1 - r))) / 2   (Loshchilov & Hutter 2017, eq. 5, without restarts)
    - halving: 1, then 1/2 from `halving_start` on, halved again after every `halving_every` (Luong et al. 2015, sec.
      4.1: from epoch 5 of 10, or 8 of 12, after every epoch)

    Args:
        config: The options of the schedule.
        steps: The number of all steps.
        epoch: The number of steps in an epoch.

    Raises:
        UserError: The warm-up leaves no step to decay.
    """
    warmup = config.warmup_steps
    if config.decays_to_zero and warmup >= steps:
        raise UserError(
            f"training.optimizer.warmup_steps={warmup} leaves no step for schedule={config.schedule}: "
            f"training.max_epochs or training.max_steps allows {steps} steps; lower the one or raise the other"
        )
    start, every = steps_in(config.halving_start, epoch), steps_in(config.halving_every, epoch)

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        if config.schedule == "inverse_sqrt":
            return math.sqrt(warmup / (step + 1))
        if config.schedule == "halving":
            return 1.0 if step < start else 0.5 ** (1 + (step - start) // every)
        if not config.decays_to_zero:
            return 1.0
        left = (steps - step) / (steps - warmup)
        return left if config.schedule == "linear" else (1 - math.cos(math.pi * left)) / 2

    return None if config.schedule == "plateau" else lambda step: config.learning_rate * factor(step)
