"""The settings that `tune` tries: the values of each key, and the sampler that suggests one setting after another.

A suggestion depends on the space, on the options of the sampler and on the trials so far, and on nothing else: a search
that was interrupted continues as if it had not been, and one with more trials begins with those of the shorter.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice, product
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Discriminator, Field, Tag, model_validator

from seq2seq_attn.errors import needing
from seq2seq_attn.strict import Seed, Strict
from seq2seq_attn.strict.tagged import Tagged


class Range(Strict):
    """`{low: 0.0001, high: 0.01, log: true}`: every number from `low` to `high`, of which a sampler draws."""

    low: int | float  # the least value
    high: int | float  # the greatest value; if both are whole, as 16 is and 16.0 is not, whole numbers are drawn
    log: bool = False  # draw evenly by the logarithm: as often from 0.001 to 0.01 as from 0.01 to 0.1

    @model_validator(mode="after")
    def _has_inside(self) -> Range:
        if self.low >= self.high:
            raise ValueError(f"low = {self.low} is not below high = {self.high}; list single values: [{self.low}]")
        if self.log and self.low <= 0:
            raise ValueError(f"low = {self.low} has no logarithm; give low > 0, or leave out log")
        return self

    @property
    def is_whole(self) -> bool:
        """Whether it has whole numbers only."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def at(self, u: float) -> int | float:
        """The value at u in [0, 1): with u drawn uniformly, a draw from the range.

        low + u (high - low), or low (high / low)^u with `log`. Of whole numbers, the greatest that is not above this
        value for the range that ends at high + 1.
        """
        low, high = self.low, self.high + self.is_whole
        value = low * (high / low) ** u if self.log else low + u * (high - low)
        return min(math.floor(value) if self.is_whole else value, self.high)


def _form(values: Any) -> str:
    return "range" if isinstance(values, (Range, Mapping)) else "list"


Listed = Annotated[list[Any], Field(min_length=1)]
# Of one key. The values of a list are tried one by one, or drawn alike.
Values = Annotated[Annotated[Listed, Tag("list")] | Annotated[Range, Tag("range")], Discriminator(_form)]
Space = Mapping[str, list[Any] | Range]  # by key of the configuration
Setting = Mapping[str, Any]  # a value of each key


class Trial(NamedTuple):
    """A setting that was suggested."""

    setting: Setting
    score: float | None  # of its validation, higher is better; None: it failed, or is still being trained


def ends(space: Space) -> list[Setting]:
    """Settings that have, together, every listed value and both limits of every range."""
    values = {key: [each.low, each.high] if isinstance(each, Range) else each for key, each in space.items()}
    count = max(map(len, values.values()))
    return [{key: each[number % len(each)] for key, each in values.items()} for number in range(count)]


def size(space: Space) -> float:
    """How many settings there are, math.inf with a range of fractions."""
    return math.prod(
        len(each) if isinstance(each, list) else each.high - each.low + 1 if each.is_whole else math.inf
        for each in space.values()
    )


class Sampler(Tagged):
    """What suggests the settings to try; one of your own is a subclass with `count` and `suggest`."""

    kind: str = "grid"

    @property
    def title(self) -> str:
        """What the report says of the search: the kind with its options."""
        return ", ".join([self.kind, *(f"{key} {value}" for key, value in self if key != "kind")])

    @abstractmethod
    def suggest(self, space: Space, trials: Sequence[Trial]) -> Setting:
        """Returns the next setting.

        Args:
            space: The values of each key.
            trials: Those so far, in the order of their suggestions.
        """

    @abstractmethod
    def count(self, space: Space) -> int:
        """Returns the number of trials of an arm.

        Raises:
            ValueError: There are not as many settings.
        """

    @property
    def at_once(self) -> int | None:
        """How many trials may be suggested before the first of them has a score; None: all."""
        return None


class Grid(Sampler):
    """Every combination of the listed values, the last key changing first."""

    kind: Literal["grid"] = "grid"

    def suggest(self, space: Space, trials: Sequence[Trial]) -> Setting:
        listed = {key: values for key, values in space.items() if isinstance(values, list)}
        chosen = next(islice(product(*listed.values()), len(trials), None))
        return dict(zip(listed, chosen, strict=True))

    def count(self, space: Space) -> int:
        for key, values in space.items():
            if isinstance(values, Range):
                raise ValueError(
                    f"{key} has a range, and a grid has listed values; list some, or draw them, as with "
                    "sampler: {kind: random, trials: 20}"
                )
        return int(size(space))


class Drawn(Sampler):
    """A number of settings, drawn with a seed."""

    trials: int = Field(ge=1, le=10_000)  # settings tried for each arm
    seed: Seed = 1  # of the draws

    def count(self, space: Space) -> int:
        if self.trials > size(space):
            raise ValueError(
                f"sampler.trials = {self.trials}, but the values have {size(space)} combinations; leave out sampler to "
                "try all"
            )
        return self.trials

    def draw(self, space: Space, trials: Sequence[Trial]) -> Setting:
        """A setting that was not tried before, every key drawn on its own."""
        tried = [trial.setting for trial in trials]
        generator = np.random.default_rng(self._seeds(trials))
        while (setting := {key: _drawn(each, generator.random()) for key, each in space.items()}) in tried:
            pass
        return setting

    def _seeds(self, trials: Sequence[Trial]) -> list[int]:
        """Of each suggestion its own, so that it depends on no state."""
        return [self.seed, len(trials)]


def _drawn(values: list[Any] | Range, u: float) -> Any:
    return values.at(u) if isinstance(values, Range) else values[int(u * len(values))]


class Random(Drawn):
    """`{kind: random, trials: 20}`: random search (Bergstra and Bengio 2012); no setting is tried twice."""

    kind: Literal["random"] = "random"

    def suggest(self, space: Space, trials: Sequence[Trial]) -> Setting:
        return self.draw(space, trials)


class TPE(Drawn):
    """`{kind: tpe, trials: 40}`: tree-structured Parzen estimators (Bergstra et al. 2011), by optuna.

    Each key is drawn where earlier trials scored best; a trial that failed counts as worse than all that did not. The
    first ten trials are those of `random`. Needs the extra `[tune]`.
    """

    kind: Literal["tpe"] = "tpe"
    batch: int = Field(default=1, ge=1)  # trials of an arm that are suggested from the same scores, for --jobs

    @property
    def at_once(self) -> int:
        return self.batch

    def suggest(self, space: Space, trials: Sequence[Trial]) -> Setting:
        with needing("tune.sampler: kind tpe"):
            import optuna
        if len(trials) < _DRAWN_FIRST:
            return self.draw(space, trials)
        known = {key: _distribution(values) for key, values in space.items()}
        seed = int(np.random.SeedSequence(self._seeds(trials)).generate_state(1)[0])
        with _quiet():
            study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
            study.add_trials([_told(trial, space, known) for trial in trials])
            suggested = study.ask(known).params
        setting = {
            key: values[suggested[key]] if isinstance(values, list) else suggested[key] for key, values in space.items()
        }
        return self.draw(space, trials) if setting in [trial.setting for trial in trials] else setting


_DRAWN_FIRST = 10  # optuna's default, n_startup_trials


def _distribution(values: list[Any] | Range) -> Any:
    """As optuna has it; of a list, of its places, since its entries may be anything."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(values, list):
        return CategoricalDistribution(range(len(values)))
    return (IntDistribution if values.is_whole else FloatDistribution)(values.low, values.high, log=values.log)


def _told(trial: Trial, space: Space, known: Mapping[str, Any]) -> Any:
    """A trial as optuna has it: pruned before its first score, which ranks last, if it has none."""
    from optuna.trial import TrialState, create_trial

    params = {
        key: values.index(trial.setting[key]) if isinstance(values, list) else trial.setting[key]
        for key, values in space.items()
    }
    state = TrialState.PRUNED if trial.score is None else TrialState.COMPLETE
    return create_trial(state=state, value=trial.score, params=params, distributions=dict(known))


@contextmanager
def _quiet() -> Iterator[None]:
    """optuna announces every study on stderr."""
    from optuna import logging

    before = logging.get_verbosity()
    logging.set_verbosity(logging.WARNING)
    try:
        yield
    finally:
        logging.set_verbosity(before)
