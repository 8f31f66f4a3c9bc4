"""Greedy search: the most probable token at every step."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2seq_attn.models.translator import Sentences, Translator
from seq2seq_attn.ops.continuations import best_continuations
from seq2seq_attn.search.hypotheses import Choice, End, Hypothesis, active_rows, to_lists, trace
from seq2seq_attn.search.options import SearchOptions
from seq2seq_attn.text.vocabulary import EOS


@torch.inference_mode()
def greedy_search(
    translator: Translator, source: Sentences, options: SearchOptions, with_weights: bool = False
) -> list[list[Hypothesis]]:
    """One hypothesis for each of the B sentences.

    y_i = argmax p(y | y_1 .. y_{i-1}, X), the lowest id in a tie, until `</s>` or the maximum length.
    """
    lengths = source.lengths.tolist()
    limits = [options.limit(length) for length in lengths]
    device = source.tokens.device
    memory = translator.encode(source)
    state = translator.start(memory)

    sentences = list(range(len(lengths)))
    tokens = torch.full((len(sentences),), translator.start_token, device=device)
    total = torch.zeros(len(sentences), device=device)  # log-probability so far
    limit = torch.tensor(limits, device=device)
    running = torch.ones_like(limit, dtype=torch.bool)
    history: list[Choice] = []
    totals: list[Tensor] = []
    for length in range(1, max(limits) + 1):
        output = translator.step(tokens, state, memory)
        # Without the total so far, in which small differences between tokens would be rounded away.
        best = best_continuations(torch.zeros_like(total)[:, None], output.logits, 1, length >= options.min_length)
        total, tokens = total + best.scores.squeeze(1), best.tokens.squeeze(1)
        totals.append(total)
        parents = torch.zeros_like(tokens)[:, None]
        history.append(Choice(sentences, parents, tokens[:, None], output.weights if with_weights else None))

        running = running & (tokens != EOS) & (length < limit)
        state = output.state
        rows = active_rows(running)
        if len(rows) == 0:
            break
        if len(rows) < len(sentences):
            sentences = [sentences[row] for row in rows.tolist()]
            memory, state = memory.select(rows), state.select(rows)
            tokens, total, limit, running = (part[rows] for part in (tokens, total, limit, running))
    return trace(history, _ends(history, totals, limits, options), lengths)


def _ends(history: list[Choice], totals: list[Tensor], limits: list[int], options: SearchOptions) -> list[list[End]]:
    """The first `</s>` of each sentence, or its truncation at the maximum length."""
    ends: list[list[End]] = [[] for _ in limits]
    log_probabilities, tokens = to_lists(totals), to_lists([choice.tokens for choice in history])
    for step, choice in enumerate(history):
        length = step + 1
        for row, sentence in enumerate(choice.sentences):
            closed = tokens[step][row][0] == EOS
            if not ends[sentence] and (closed or length == limits[sentence]):
                total = log_probabilities[step][row]
                ends[sentence].append(End(total / options.penalty(length), total, length, 0, closed))
    return ends
