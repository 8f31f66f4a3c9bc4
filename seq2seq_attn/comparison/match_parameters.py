"""Arms of equal size: `match_parameters: true` widens the decoder of an arm, as far as it takes.

That is to the parameter count of the largest arm without this option, so that a difference in scores is not due to the
size of a model.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import torch

from seq2seq_attn.comparison.experiment import RunGrid
from seq2seq_attn.config import Config
from seq2seq_attn.errors import UserError
from seq2seq_attn.runs import Say
from seq2seq_attn.runs.building import build_translator, count_parameters
from seq2seq_attn.runs.cache import Cache, cached_front_ends
from seq2seq_attn.runs.corpora import FrontEnds


def match_parameters(grid: RunGrid, cache: Cache, say: Say = lambda _: None) -> RunGrid:
    """The grid with wider decoders in the arms with `match_parameters`; `say` reports each `decoder.hidden_size`.

    The size is the one whose parameter count is nearest to that of the largest arm without `match_parameters`.
    UserError: there is no such arm, or an arm to be matched is already larger or cannot be widened.
    """
    if not any(run.match_parameters for run in grid.runs):
        return grid
    count = parameter_counter(cache)
    arms = {arm: runs[0] for arm, runs in grid.arms()}  # the size is the same for all seeds
    counts = {arm: count(run.config) for arm, run in arms.items() if not run.match_parameters}
    if not counts:
        raise UserError(
            f"experiment {grid.experiment.name}: match_parameters is set in every arm; leave it out in at least one"
        )
    largest = max(counts, key=lambda arm: counts[arm])
    matched = {}
    for arm, run in arms.items():
        if run.match_parameters:
            try:
                size = nearest_decoder_size(run.config, counts[largest], count)
            except UserError as error:
                raise UserError(f"arm {arm!r} cannot be widened by match_parameters: {error}") from None
            matched[arm] = size
            own = count(with_decoder_size(run.config, size))
            key = run.config.model.decoder_size_key
            say(f"{arm}: {own:,} parameters with {key}={size}; {largest} has {counts[largest]:,}")
    runs = [
        run._replace(config=with_decoder_size(run.config, matched[run.arm])) if run.arm in matched else run
        for run in grid.runs
    ]
    return grid._replace(runs=runs)


def nearest_decoder_size(config: Config, wanted: int, count: Callable[[Config], int]) -> int:
    """The `decoder_size`, at least the configured one, whose parameter count is nearest to `wanted`."""

    def parameters(size: int) -> int:
        return count(with_decoder_size(config, size))

    low = high = config.model.decoder_size
    if parameters(low) > wanted:
        raise UserError(
            f"it has {parameters(low):,} parameters, but the largest arm without match_parameters has {wanted:,}; "
            f"leave match_parameters out, or make the model smaller"
        )
    while parameters(high) < wanted:
        high *= 2
    enough = low + bisect_left(range(low, high + 1), wanted, key=parameters)
    return min(range(max(low, enough - 1), enough + 1), key=lambda size: abs(parameters(size) - wanted))


def with_decoder_size(config: Config, size: int) -> Config:
    """The configuration with another `decoder_size` of its model."""
    return config.model_copy(update={"model": config.model.with_decoder_size(size)})


def parameter_counter(cache: Cache) -> Callable[[Config], int]:
    """A function that counts the parameters of the model of a configuration, without allocating them.

    The count depends on the vocabularies, which come from the same cache as those of the runs.
    """
    known: dict[Any, FrontEnds] = {}  # kept because many sizes are tried

    def count(config: Config) -> int:
        learned_from = config.data.train, config.text, config.source
        if learned_from not in known:
            known[learned_from] = cached_front_ends(config, cache)
        with torch.device("meta"):
            return count_parameters(build_translator(config, *known[learned_from]))

    return count
