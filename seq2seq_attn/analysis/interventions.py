"""What a model predicts when the weights under which it reads are changed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq_attn.attention import Change
from seq2seq_attn.models.translator import Translator, pad
from seq2seq_attn.search.batched import Progress

BATCH = 16  # sentences; with all their copies some hundred rows

Ids = Sequence[int]


class Effect(NamedTuple):
    """What a change does to the prediction of given tokens, each after the given ones before it; means over tokens."""

    log_probability: float  # log p of the given token under the change, less what it is without, in nats
    perplexity: float  # under the change
    changed: float  # share of tokens whose likeliest prediction becomes another one, 0 to 1
    total_variation: float  # between the two distributions over the vocabulary, 0 to 1
    jensen_shannon: float  # divergence of the two, in nats, 0 to log 2
    moved: float  # total variation between the weights before and after: how much there was to notice


class Interventions(NamedTuple):
    """The effect of each change, by its name, beside the model as it is."""

    tokens: int  # that were predicted, `</s>` counted
    perplexity: float
    effects: dict[str, Effect]


@torch.inference_mode()
def intervene(
    translator: Translator,
    pairs: Sequence[tuple[Ids, Ids]],
    changes: Mapping[str, Change],
    progress: Progress = lambda _: None,
) -> Interventions:
    """Forced decoding of at least two pairs under each change of the weights, made at all steps of a sentence."""
    changed = translator.with_changed_weights(list(changes.values()))
    tokens, log_probability = 0, 0.0
    sums = torch.zeros(len(changes), len(Effect._fields), dtype=torch.double)
    for batch in _batches(pairs):
        own, others = _predict(changed, batch, 1 + len(changes))
        tokens += len(own.targets)
        log_probability += float(own.of_targets().sum())
        sums += torch.stack([_differences(own, other) for other in others]).cpu()
        progress(len(batch))
    return Interventions(
        tokens,
        math.exp(-log_probability / tokens),
        {name: _effect(row, log_probability, tokens) for name, row in zip(changes, sums.tolist(), strict=True)},
    )


class Predictions(NamedTuple):
    """What one copy of a batch makes of its N target tokens."""

    targets: Tensor  # (N,)
    log_probabilities: Tensor  # (N, V)
    weights: Tensor  # (N, S)

    def of_targets(self) -> Tensor:
        """log p (N,) of the given tokens."""
        return self.log_probabilities.gather(-1, self.targets[:, None]).squeeze(-1).double()


def _predict(
    translator: Translator, pairs: Sequence[tuple[Ids, Ids]], copies: int
) -> tuple[Predictions, Iterator[Predictions]]:
    """The first copy of a batch, and the others one after another: the logits of all would fill the memory."""
    device = translator.output.weight.device
    source, target = (pad(side, device) for side in zip(*pairs, strict=True))
    rows = torch.arange(len(pairs), device=device).repeat(copies)
    inputs = translator.decoder_inputs(target)[rows]
    decoded = translator.decode(inputs, translator.encode(source).select(rows))
    is_token = target.is_token
    targets = target.tokens[is_token]

    def predictions(features: Tensor, weights: Tensor) -> Predictions:
        logits = translator.project(features[is_token])
        exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return Predictions(targets, torch.log_softmax(exact, dim=-1), weights[is_token])

    each = map(predictions, decoded.features.chunk(copies), decoded.weights.chunk(copies))
    return next(each), each


def _differences(own: Predictions, other: Predictions) -> Tensor:
    """The sums over tokens, in the order of `Effect`; log p stands in the perplexity's place."""
    p, q = own.log_probabilities.exp(), other.log_probabilities.exp()
    of_mean, of_p, of_q = (torch.special.entr(each).sum(dim=-1) for each in ((p + q) / 2, p, q))
    log_probabilities = other.of_targets()
    rows = (
        log_probabilities - own.of_targets(),
        log_probabilities,
        p.argmax(dim=-1) != q.argmax(dim=-1),
        _total_variation(p, q),
        (of_mean - (of_p + of_q) / 2).clamp(min=0),  # the rounding of a sum can be below 0
        _total_variation(own.weights, other.weights),
    )
    return torch.stack([row.double().sum() for row in rows])


def _total_variation(p: Tensor, q: Tensor) -> Tensor:
    return (p - q).abs().sum(dim=-1) / 2


def _effect(sums: list[float], log_probability: float, tokens: int) -> Effect:
    means = Effect(*(value / tokens for value in sums))
    return means._replace(perplexity=math.exp(-means.perplexity))


def _batches(pairs: Sequence[tuple[Ids, Ids]]) -> Iterator[list[tuple[Ids, Ids]]]:
    """Pairs of like length, at least two of them together: another sentence's weights must come from somewhere."""
    ordered = sorted(pairs, key=lambda pair: (len(pair[1]), len(pair[0])))
    batches = math.ceil(len(ordered) / BATCH)
    ends = [round(len(ordered) * number / batches) for number in range(batches + 1)]
    for first, end in pairwise(ends):
        yield ordered[first:end]
