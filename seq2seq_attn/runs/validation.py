"""The validation score of a training: the main metric of greedy translations, shared out among its processes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from seq2seq_attn.corpora.corpus import ParallelCorpus, joined
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.seq2seq import Seq2Seq
from seq2seq_attn.runs import Say
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.training.loop import Validation
from seq2seq_attn.training.processes import ALONE, Processes


def validation_score(
    model: TrainedModel,
    sets: Sequence[ParallelCorpus],
    say: Say = lambda _: None,
    processes: Processes = ALONE,
) -> Validation:
    """The main metric of greedy translations: beam search takes several times as long and tracks progress no better.

    It is that of all validation sets together; where there are several, `say` gets a line with the score of each. The
    processes share out the sources, and the first one scores their translations; the others return NaN.
    """
    greedy = model.config.search.greedy()
    metric = model.config.evaluation.main
    sets = _spread_over(sets, model.config.training.validation_sentences)
    pairs = joined(sets)
    counting = metric.counting and metric.counting(model.config.expected([pairs.target], pairs.source))
    if counting is None:
        raise UserError(f"evaluation.metrics: the validation set cannot be scored by {metric.label}; put another first")
    starts = np.cumsum([0, *map(len, sets[:-1])])

    def score(_: Seq2Seq) -> float:
        # A new model, because its forms hold the weights of the epoch.
        own = pairs.source[processes.rank :: processes.world]
        outputs = processes.interleave(replace(model, forms={}).translate(own, greedy))
        if not processes.is_first:
            return math.nan
        counts = counting.count(outputs)
        if len(sets) > 1:
            alone = zip(counting.score(np.add.reduceat(counts, starts)), sets, strict=True)
            said = (f"{value:.{metric.digits}f} on {each.name}" for value, each in alone)
            say(f"validation {metric.label} {'; '.join(said)}")
        return float(counting.score(counts.sum(axis=0, keepdims=True))[0])

    return Validation(metric, score)


def _spread_over(sets: Sequence[ParallelCorpus], count: int | None) -> list[ParallelCorpus]:
    """This many pairs of all sets, at equal distances from each other; all if there are no more, or `count` is None."""
    total = sum(map(len, sets))
    if count is None or count >= total:
        return list(sets)
    chosen = np.arange(count) * total // count
    ends = np.cumsum([len(each) for each in sets])
    rows = np.split(chosen, np.searchsorted(chosen, ends[:-1]))
    starts = [0, *ends[:-1].tolist()]
    return [
        each.select((own - start).tolist()) for each, own, start in zip(sets, rows, starts, strict=True) if len(own)
    ]
