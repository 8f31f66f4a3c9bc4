"""Whether a model's attention is an explanation: what hangs on its weights, and what they hang together with."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray

from seq2seq_attn.analysis.importance import gradient_norms, leave_one_out
from seq2seq_attn.analysis.interventions import Ids, Interventions, intervene
from seq2seq_attn.attention import Change
from seq2seq_attn.attention.contexts import counterfactual as changes
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.rank_correlation import RankCorrelation, rank_correlation
from seq2seq_attn.models.recurrent.translator import RecurrentTranslator
from seq2seq_attn.models.sentences import pad
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.search.corpus import Progress
from seq2seq_attn.search.forced import force
from seq2seq_attn.text.corpus import ParallelCorpus

Measures = dict[str, NDArray[np.float64]]  # by name: (T, words) of one sentence


class Faithfulness(NamedTuple):
    """All that is measured of one model."""

    interventions: Interventions
    sentences: int  # on which the correlations were measured
    correlations: dict[tuple[str, str], RankCorrelation]  # of two measures, over target tokens


def faithfulness(
    model: TrainedModel,
    pairs: ParallelCorpus,
    sentences: int = 50,
    seed: int = 1,
    progress: Progress = lambda _: None,
) -> Faithfulness:
    """Interventions on all pairs, correlations on `sentences` of them; `seed` draws these and what is random in those.

    Pairs with a blank side are left out. UserError if fewer than two are left, or if the model has no weights.
    """
    kind = model.config.model.context.kind
    if kind in ("fixed", "none"):
        raise UserError(f"model.context.kind={kind}: this model reads no single word of the source, so has no weights")
    encoded = [
        (model.source.encode(source), model.target.encode(target))
        for source, target in zip(pairs.source, pairs.target, strict=True)
    ]
    filled = [pair for pair in encoded if min(map(len, pair)) > 1]
    if len(filled) < 2:
        raise UserError(f"{pairs.name}: {len(filled)} pairs with text on both sides; give two at least")
    translator = cast(RecurrentTranslator, model.translator)
    sample = random.Random(seed).sample(filled, min(sentences, len(filled)))
    return Faithfulness(
        intervene(translator, filled, all_changes(seed), progress), len(sample), correlate(translator, sample, progress)
    )


def all_changes(seed: int) -> dict[str, Change]:
    """The changes of the table, by name."""
    generator = torch.Generator().manual_seed(seed)
    return {
        "uniform": changes.uniform,
        "permuted": partial(changes.permuted, generator=generator),
        "of_another_sentence": changes.of_another_sentence,
        "most_read_erased": changes.without_the_most_read,
        "another_erased": partial(changes.without_another, generator=generator),
    }


def correlate(
    translator: RecurrentTranslator, pairs: Sequence[tuple[Ids, Ids]], progress: Progress = lambda _: None
) -> dict[tuple[str, str], RankCorrelation]:
    """How far any two of weights, gradient and leave-one-out order the words of a source alike, over target tokens."""
    measured = []
    for source, target in pairs:
        measured.append(measure(translator, source, target))
        progress(1)
    return {
        (one, other): rank_correlation(
            rows for found in measured for rows in zip(found[one], found[other], strict=True)
        )
        for one, other in combinations(("weights", "gradient", "leave_one_out"), 2)
    }


def measure(translator: RecurrentTranslator, source: Ids, target: Ids) -> Measures:
    """The measures (T, S - 1) of one pair, for all source tokens but `</s>`, without which nothing is a sentence."""
    device = translator.output.weight.device
    (forced,) = force(translator, pad([source], device), pad([target], device))
    found: dict[str, Any] = {
        "weights": forced.weights,
        "gradient": gradient_norms(translator, source, target),
        "leave_one_out": leave_one_out(translator, source, target),
    }
    return {name: values[:, : len(source) - 1].double().numpy() for name, values in found.items()}
