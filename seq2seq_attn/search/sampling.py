"""Sampling: translations drawn token by token from the model's own distribution, or from its likely part."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seq2seq_attn.corpora.source import Source
from seq2seq_attn.corpora.vocabulary import EOS
from seq2seq_attn.models.seq2seq import Seq2Seq
from seq2seq_attn.options import SearchOptions
from seq2seq_attn.search.hypotheses import Choice, Hypothesis, active_rows, first_ends, trace
from seq2seq_attn.search.rules import NO_RULES, NoRules


@torch.inference_mode()
def sample(
    translator: Seq2Seq,
    source: Source,
    options: SearchOptions,
    with_weights: bool = False,
    rules: NoRules = NO_RULES,
) -> list[list[Hypothesis]]:
    """`n_best` independent translations Y ~ p(Y | X) of each of the B sentences, in the order in which they were drawn.

    y_i ~ p(y | y_1 .. y_{i-1}, X), as changed by `temperature`, `top_k` and `top_p`, until `</s>` or the maximum
    length. `<pad>`, `<s>` and, before the minimum length, `</s>` are never drawn. The log-probability of a translation
    is the model's own, whatever it was drawn from.

    The samples of a source depend on the seed and its content, and not on the other sources of its batch.
    """
    count, seed = options.n_best, 1 if options.seed is None else options.seed
    lengths = source.lengths.tolist()
    limits = rules.limits([options.limit(length) for length in lengths])
    memory = translator.encode(source)
    is_state, device = memory.is_state, memory.is_state.device
    first_rows = torch.arange(len(lengths), device=device).repeat_interleave(count)
    state, tracks = translator.start(memory).select(first_rows), rules.start(device).select(first_rows)

    sentences = list(range(len(lengths)))
    tokens = torch.full((len(sentences) * count,), translator.start_token, device=device)
    uniform = _uniform_numbers(source, limits, count, seed).to(device)
    total = torch.zeros(len(sentences), count, dtype=torch.float32, device=device)  # log-probability so far
    limit = torch.tensor(limits, device=device)
    running = torch.ones_like(total, dtype=torch.bool)
    parents = torch.arange(count, device=device).expand_as(total)
    history: list[Choice] = []
    totals: list[Tensor] = []
    for length in range(1, max(limits) + 1):
        output = translator.step(tokens, state, memory)
        logits = output.logits.to(torch.promote_types(output.logits.dtype, torch.float32))
        allowed = rules.allowed(logits, length >= options.min_length, tracks)
        drawn = draw(allowed, uniform[:, length - 1].flatten(), options)
        log_probabilities = logits.gather(1, drawn[:, None]).squeeze(1) - logits.logsumexp(dim=1)
        total, tokens = total + log_probabilities.view_as(total), drawn
        totals.append(total)
        history.append(Choice(sentences, parents, drawn.view_as(total), output.weights if with_weights else None))

        running = running & (drawn.view_as(total) != EOS) & (length < limit)[:, None]
        state = output.state
        rows = active_rows(running.any(dim=1), length)
        if len(rows) == 0:
            break
        if len(rows) < len(sentences):
            sentences = [sentences[row] for row in rows.tolist()]
            kept = (rows[:, None] * count + torch.arange(count, device=device)).flatten()
            memory, state, tracks, tokens = memory.select(rows), state.select(kept), tracks.select(kept), tokens[kept]
            total, limit, running, parents, uniform = (part[rows] for part in (total, limit, running, parents, uniform))
        tracks = rules.advance(tracks, tokens)
    return trace(history, first_ends(history, totals, limits, options), is_state)


def draw(logits: Tensor, uniform: Tensor, options: SearchOptions) -> Tensor:
    """A token (N,) for each row of the logits (N, V), chosen by a number (N,) in [0, 1) that falls into its share.

    A token with a logit of -inf is never drawn.
    """
    range_ = torch.finfo(logits.dtype)  # a temperature outside it would be 0 or infinite, and 0 / 0 is no number
    temperature = min(max(options.temperature or 1.0, range_.tiny), range_.max)
    scores = (logits - logits.amax(dim=1, keepdim=True)) / temperature  # at most 0: no overflow near t = 0
    if options.top_k is not None and options.top_k < scores.shape[1]:
        best, tokens = scores.topk(options.top_k)
        scores = torch.full_like(scores, -torch.inf).scatter(1, tokens, best)
    probabilities = scores.softmax(dim=1)
    if options.top_p is not None:
        probabilities = _nucleus(probabilities, options.top_p)
    # In float32 the sum over a large vocabulary would round small probabilities away.
    cumulative = probabilities.cumsum(dim=1, dtype=torch.double)
    positions = uniform[:, None] * cumulative[:, -1:]
    # The first token whose sum exceeds the position: a token of probability 0 is never drawn.
    return torch.searchsorted(cumulative, positions, right=True).squeeze(1).clamp(max=scores.shape[1] - 1)


def _nucleus(probabilities: Tensor, mass: float) -> Tensor:
    """The probabilities (N, V) of the fewest tokens that together have at least this mass; 0 for the others."""
    ordered, tokens = probabilities.sort(dim=1, descending=True, stable=True)
    before = ordered.cumsum(dim=1, dtype=torch.double) - ordered
    return torch.zeros_like(probabilities).scatter(1, tokens, ordered.masked_fill(before >= mass, 0.0))


def _uniform_numbers(source: Source, limits: list[int], count: int, seed: int) -> Tensor:
    """(B, T, n) in [0, 1): the numbers that choose token t of n translations of each sentence."""
    numbers = np.zeros((len(limits), max(limits), count))
    source = source.to("cpu")  # once, or every row would wait for the device
    for row, limit in enumerate(limits):
        numbers[row, :limit] = np.random.default_rng([seed, *_content(source, row)]).random((limit, count))
    return torch.from_numpy(numbers)


def _content(source: Source, row: int) -> list[int]:
    """Numbers that stand for one source, whatever its batch."""
    parts: Any = source.select(torch.tensor([row]))
    content = b"".join(part.numpy().tobytes() for part in parts)
    return list(hashlib.sha256(content).digest())
