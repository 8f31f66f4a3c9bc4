"""Laws of normalizers and windows alone; what they do inside an `Attention` is examined by `contexts.py`."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2seq_attn.testing.scorers import LONG
from seq2seq_attn.testing.subject import Subject, require, same

_IS_TOKEN = torch.tensor([[True, True, True, True, True], [True, True, False, False, False]])


@torch.no_grad()
def rows(subject: Subject) -> None:
    """Weights are 0 on padding and for scores of -inf, and sum to 1 unless `sums_to_one` is False."""
    normalizer = subject.fresh()
    for mode in ("eval", "training"):
        normalizer.train(mode == "training")
        for name, scores in _score_rows().items():
            for is_token in (None, _IS_TOKEN[:, None]):
                weights = normalizer(scores.clone(), is_token)
                masked = scores == -torch.inf if is_token is None else (scores == -torch.inf) | ~is_token
                where = f"in {mode} mode, with {name}"
                require(weights.isfinite().all(), f"weights are NaN or infinite {where}")
                require(not weights[masked].any(), f"padding, or a score of -inf, gets weight {where}")
                require(weights.min() >= 0, f"a weight is negative, {weights.min():.2g}, {where}")
                error = (weights.sum(dim=-1) - 1).abs().max().item() if normalizer.sums_to_one else 0.0
                require(error <= 1e-4, f"rows do not sum to 1, by {error:.2g} {where}; or set sums_to_one = False")


def _score_rows() -> dict[str, Tensor]:
    """Scores (2, 3, 5) by description, with at least one finite score on a token per row."""
    scores = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0))
    excluded, mixed = scores.clone(), scores.clone()
    excluded[:, :, 1:] = -torch.inf
    mixed[:, 1, 1] = mixed[:, 2, 3] = -torch.inf
    return {
        "scores around 1": scores,
        "scores around 1e4": 1e4 * scores,
        "scores around 1e30": 1e30 * scores,
        "scores far below 0": scores - 1e4,
        "equal scores": torch.zeros_like(scores),
        "some scores of -inf": mixed,
        "one finite score": excluded,
    }


@torch.no_grad()
def permutation(subject: Subject) -> None:
    """Permuting scores permutes their weights, unless the normalizer says that it depends on positions.

    A normalizer with a history may depend on them; any other declares `permutation_equivariant = False`.
    """
    part, scores = subject.fresh(), subject.inputs()["scores"]
    if getattr(part, "permutation_equivariant", not part.needs_history):
        order = torch.tensor([3, 0, 4, 1, 2])
        sentence = (
            "weights change with the order of the scores; set permutation_equivariant = False if that is intended"
        )
        same(part(scores[..., order]), part(scores)[..., order], sentence)


@torch.no_grad()
def open_tokens(subject: Subject) -> str | None:
    """A window leaves at least one token open in every row, for any query and after any number of steps.

    Its factors are finite and at least 0. It depends on the number of steps if, and only if, `needs_steps` is True.
    """
    window = subject.fresh()
    results = []
    for steps_taken in (0, 1, 4, LONG):
        for size in (0.0, 1.0, 100.0, 1e4):
            query, is_token, _ = subject.inputs().values()
            is_token[1, :, 2:] = False
            steps = torch.full(query.shape[:2], steps_taken)
            view = window(size * query, is_token, steps)
            where = f"after {steps_taken} steps, with queries around {size:g}"
            if view.is_open is not None:
                require((view.is_open & is_token).any(dim=-1).all(), f"no token of a row is open {where}")
            if view.factor is not None:
                is_sound = view.factor.isfinite().all() and view.factor.min() >= 0
                require(is_sound, f"a factor is NaN, infinite or negative {where}")
            if size == 1:
                results.append(subject.run(window, {"query": query, "is_token": is_token, "steps": steps}))
    if not window.needs_steps:
        for each in results:
            same(each, results[0], "the number of steps changes the window, but needs_steps is False")
    elif all(torch.equal(each, results[0]) for each in results):
        return "needs_steps is True, but the number of steps has no effect"
    return None
