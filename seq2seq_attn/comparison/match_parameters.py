"""Arms with as many parameters as the largest: a wider decoder, so that a difference is not one of size."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import torch

from seq2seq_attn.comparison.experiment import Grid
from seq2seq_attn.config import Config, PairFiles, TextConfig
from seq2seq_attn.errors import UserError
from seq2seq_attn.runs.data import Cache, Codecs, cached_codecs
from seq2seq_attn.runs.model import build_translator, count_parameters


def match_parameters(grid: Grid, cache: Cache, say: Callable[[str], object] = lambda _: None) -> Grid:
    """The grid with `model.decoder.hidden_size` resolved in the arms with `match_parameters`, and said.

    It is the size that brings an arm nearest to the parameter count of the largest arm without `match_parameters`.
    UserError: there is no such arm, or one to be matched is larger already, or cannot be widened.
    """
    if not any(run.match_parameters for run in grid.runs):
        return grid
    count = ParameterCount(cache)
    arms = {arm: runs[0] for arm, runs in grid.arms()}  # seeds change no size
    counts = {arm: count(run.config) for arm, run in arms.items() if not run.match_parameters}
    if not counts:
        raise UserError(f"experiment {grid.experiment.name}: match_parameters in every arm; leave one as it is")
    largest = max(counts, key=lambda arm: counts[arm])
    matched = {}
    for arm, run in arms.items():
        if run.match_parameters:
            try:
                size = nearest_hidden_size(run.config, counts[largest], count)
            except UserError as error:
                raise UserError(f"arm {arm!r} cannot be widened by match_parameters: {error}") from None
            matched[arm] = size
            own = count(with_hidden_size(run.config, size))
            say(f"{arm}: {own:,} parameters by decoder.hidden_size={size}; {largest} has {counts[largest]:,}")
    runs = [
        run._replace(config=with_hidden_size(run.config, matched[run.arm])) if run.arm in matched else run
        for run in grid.runs
    ]
    return grid._replace(runs=runs)


def nearest_hidden_size(config: Config, wanted: int, count: Callable[[Config], int]) -> int:
    """The decoder's hidden size, at least the configured one, that gives nearest to so many parameters."""

    def parameters(size: int) -> int:
        return count(with_hidden_size(config, size))

    low = high = config.model.decoder.hidden_size
    if parameters(low) > wanted:
        raise UserError(
            f"it has {parameters(low):,} parameters, and the largest arm without has {wanted:,}; "
            f"leave match_parameters out, or make the model smaller"
        )
    while parameters(high) < wanted:
        high *= 2
    enough = low + bisect_left(range(low, high + 1), wanted, key=parameters)
    return min(range(max(low, enough - 1), enough + 1), key=lambda size: abs(parameters(size) - wanted))


def with_hidden_size(config: Config, size: int) -> Config:
    """The configuration with another `model.decoder.hidden_size`."""
    decoder = config.model.decoder.model_copy(update={"hidden_size": size})
    return config.model_copy(update={"model": config.model.model_copy(update={"decoder": decoder})})


class ParameterCount:
    """How many parameters the model of a configuration has, counted without making their numbers.

    Vocabularies decide as well: they are those of the runs, from the same cache.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._codecs: dict[tuple[PairFiles, TextConfig], Codecs] = {}  # many a size is tried for each

    def __call__(self, config: Config) -> int:
        text = config.data.train, config.text
        if text not in self._codecs:
            self._codecs[text] = cached_codecs(config, self._cache)
        with torch.device("meta"):
            return count_parameters(build_translator(config, *self._codecs[text]))
