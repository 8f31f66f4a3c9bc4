"""Queries at once are queries one by one."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2seq_attn.attention import Attention, History, Scorer, each_tensor
from seq2seq_attn.doctor.reading import apart, is_same, scores_of
from seq2seq_attn.doctor.report import Finding, ok, wrong
from seq2seq_attn.doctor.subject import Subject


@torch.no_grad()
def queries(subject: Subject) -> Finding:
    """T queries at once get what T steps get, one after another; how many there are changes the score of none."""
    scorer = subject.scorer()
    query, keys = subject.sample()
    singles = torch.cat([scores_of(scorer, one, keys) for one in torch.split(query, 1, dim=1)], dim=1)
    distance = apart(scores_of(scorer, query, keys), singles)
    if not is_same(distance):
        return wrong(f"scores of {query.shape[1]} queries at once move by {distance:.2g} from those of one by one")
    attention = Attention(scorer)
    source = attention.prepare(keys.clone())
    steps, history = [], attention.start(source)
    for one in torch.split(query, 1, dim=1):
        _, weights, history = attention(one.clone(), source, history)
        steps.append(weights)
    distance = max(distance, apart(attention(query.clone(), source)[1], torch.cat(steps, dim=1)))
    if not is_same(distance):
        return wrong(f"weights of {query.shape[1]} steps in one call move by {distance:.2g} from those of one by one")
    return ok(f"{query.shape[1]} queries at once and one by one differ by {distance:.1g}")


@torch.no_grad()
def hypotheses(subject: Subject) -> Finding:
    """Hypotheses side by side do not meet, and no history is changed in place."""
    scorer = subject.scorer()
    if not scorer.needs_history:
        return ok("no history is needed")
    query, keys = subject.sample()
    together, changed = _three_steps(scorer, query, keys)
    if not is_same(changed):
        return wrong(f"a step changes the history before it in place, by {changed:.2g}")
    alone = torch.cat([_three_steps(scorer, one, keys)[0] for one in torch.split(query, 1, dim=1)], dim=1)
    distance = apart(together, alone)
    if not is_same(distance):
        return wrong(f"scores of {query.shape[1]} hypotheses side by side move by {distance:.2g} from those alone")
    return ok(f"{query.shape[1]} hypotheses side by side and alone differ by {distance:.1g} after 3 steps")


def _three_steps(scorer: Scorer, query: Tensor, keys: Tensor) -> tuple[Tensor, float]:
    """The scores of each query as a hypothesis in its third step, and how far a history was moved on the way."""
    prepared = scorer.prepare(keys.clone())
    history = each_tensor(lambda one: one.expand(-1, query.shape[1], *one.shape[2:]).clone(), scorer.start(prepared))
    changed = 0.0
    for scale in (1.0, -1.0):
        before = each_tensor(torch.clone, history)
        weights = scorer.after(history, scale * query, prepared).softmax(dim=-1)
        following = scorer.advance(history, scale * query, prepared, weights)
        changed = max([changed, *map(apart, _tensors(history), _tensors(before))])
        history = following
    return scorer.after(history, query, prepared), changed


def _tensors(history: History) -> list[Tensor]:
    return [tensor for part in history for tensor in _tensors(part)] if isinstance(history, tuple) else [history]
