"""Interventions: what a model predicts when its attention weights are changed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq_attn.attention import Change
from seq2seq_attn.corpora.encoded import Ids, Item
from seq2seq_attn.corpora.source import pad
from seq2seq_attn.evaluation.metrics import perplexity
from seq2seq_attn.models.seq2seq import Decoded, Seq2Seq
from seq2seq_attn.search.batched import Collate, Progress, device_of

BATCH = 16  # sentences; with one copy per change about a hundred rows


class Effect(NamedTuple):
    """The effect of a change of the weights on the prediction of given target tokens; means over tokens."""

    log_probability: float  # log p of the given token under the change minus log p without it, in nats
    perplexity: float  # under the change
    changed: float  # share of tokens whose most probable prediction is another one, 0 to 1
    total_variation: float  # between the two distributions over the vocabulary, 0 to 1
    jensen_shannon: float  # divergence between the two, in nats, 0 to log 2
    moved: float  # total variation between the (mean) weights before and after, 0 to 1 where rows sum to 1


class Interventions(NamedTuple):
    """The effect of each change, and the perplexity of the unchanged model."""

    tokens: int  # predicted target tokens, `</s>` included
    perplexity: float
    effects: dict[str, Effect]  # by name of the change


@torch.inference_mode()
def intervene(
    translator: Seq2Seq,
    pairs: Sequence[tuple[Item, Ids]],
    changes: Mapping[str, Change],
    progress: Progress = lambda _: None,
    collate: Collate = pad,
) -> Interventions:
    """Forced decoding of at least two pairs under each change of the weights, which applies to every step.

    A model that predicts from single positions, by hard attention, has to read one: a change that would leave none is
    not made.
    """
    made = list(changes.values())
    changed = translator.with_changed_weights(made if translator.sums_values else [_leaving_one(each) for each in made])
    tokens, log_probability = 0, 0.0
    sums = torch.zeros(len(changes), len(Effect._fields), dtype=torch.double)
    for batch in _batches(pairs):
        own, others = _predict(changed, batch, 1 + len(changes), collate)
        tokens += len(own.targets)
        log_probability += float(own.target_log_probabilities().sum())
        sums += torch.stack([_differences(own, other) for other in others]).cpu()
        progress(len(batch))
    return Interventions(
        tokens,
        perplexity(log_probability / tokens),
        {name: _effect(row, tokens) for name, row in zip(changes, sums.tolist(), strict=True)},
    )


def _leaving_one(change: Change) -> Change:
    """The change of those rows of weights that are not all 0 after it."""

    def changed(weights: Tensor, is_token: Tensor) -> Tensor:
        found = change(weights, is_token)
        return torch.where(found.sum(dim=-1, keepdim=True) > 0, found, weights)

    return changed


class _Predictions(NamedTuple):
    """The predictions of the N target tokens of a batch under one version of the weights."""

    targets: Tensor  # (N,)
    log_probabilities: Tensor  # (N, V)
    weights: Tensor  # (N, S)

    def target_log_probabilities(self) -> Tensor:
        """log p (N,) of the given tokens."""
        return self.log_probabilities.gather(-1, self.targets[:, None]).squeeze(-1).double()


def _predict(
    translator: Seq2Seq, pairs: Sequence[tuple[Item, Ids]], copies: int, collate: Collate
) -> tuple[_Predictions, Iterator[_Predictions]]:
    """The first copy of a batch, and an iterator over the others: the logits of all would take too much memory."""
    device = device_of(translator)
    sources, targets = zip(*pairs, strict=True)
    source, target = collate(sources).to(device), pad(targets, device)
    rows = torch.arange(len(pairs), device=device).repeat(copies)
    inputs = translator.decoder_inputs(target)[rows]
    memory = translator.encode(source)
    decoded = translator.decode(inputs, memory.select(rows))
    assert decoded.weights is not None
    places, tokens = target.placed

    def predictions(features: Tensor, weights: Tensor, *inputs: Tensor) -> _Predictions:
        logits = translator.logits(Decoded(features, weights, inputs), memory, places)
        exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return _Predictions(tokens, torch.log_softmax(exact, dim=-1), weights.flatten(0, 1)[places])

    parts = decoded.features, decoded.weights, *decoded.inputs
    each = map(predictions, *(part.chunk(copies) for part in parts))
    return next(each), each


def _differences(own: _Predictions, other: _Predictions) -> Tensor:
    """Sums over tokens, in the order of `Effect`, with log p in place of the perplexity."""
    p, q = own.log_probabilities.exp(), other.log_probabilities.exp()
    entropy_mean, entropy_p, entropy_q = (torch.special.entr(each).sum(dim=-1) for each in ((p + q) / 2, p, q))
    log_probabilities = other.target_log_probabilities()
    rows = (
        log_probabilities - own.target_log_probabilities(),
        log_probabilities,
        p.argmax(dim=-1) != q.argmax(dim=-1),
        _total_variation(p, q),
        (entropy_mean - (entropy_p + entropy_q) / 2).clamp(min=0),  # rounding can make it negative
        _total_variation(own.weights, other.weights),
    )
    return torch.stack([row.double().sum() for row in rows])


def _total_variation(p: Tensor, q: Tensor) -> Tensor:
    return (p - q).abs().sum(dim=-1) / 2


def _effect(sums: list[float], tokens: int) -> Effect:
    means = Effect(*(value / tokens for value in sums))
    return means._replace(perplexity=perplexity(means.perplexity))


def _batches(pairs: Sequence[tuple[Item, Ids]]) -> Iterator[list[tuple[Item, Ids]]]:
    """Batches of similar lengths with at least two pairs each: one change takes the weights of another sentence."""
    ordered = sorted(pairs, key=lambda pair: (len(pair[1]), len(pair[0])))
    batches = math.ceil(len(ordered) / BATCH)
    ends = [round(len(ordered) * number / batches) for number in range(batches + 1)]
    for first, end in pairwise(ends):
        yield ordered[first:end]
