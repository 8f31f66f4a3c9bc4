"""The losses of training, from logits: sums over tokens, in nats."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def smoothed_loss(logits: Tensor, targets: Tensor, label_smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """Cross-entropy with label smoothing, and -log p(target), which has no gradient.

    With smoothing e the target distribution is (1 - e) at the target plus e / V everywhere (Szegedy et al. 2016,
    sec. 7), as in `torch.nn.functional.cross_entropy`.

    Args:
        logits: Of M tokens (M, V).
        targets: Their ids (M,) int64.
        label_smoothing: e.

    Returns:
        Two sums over the tokens, in full precision.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    loss = F.cross_entropy(logits, targets, label_smoothing=label_smoothing, reduction="sum")
    return loss, F.cross_entropy(logits.detach(), targets, reduction="sum")


def r_drop_loss(logits: Tensor, targets: Tensor, alpha: float, label_smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """R-Drop: a token is predicted under two dropout masks, and the predictions are drawn to each other.

    L = ½ [L_NLL + α L_KL], with L_NLL = -log p_1(y) - log p_2(y) and L_KL = ½ [KL(p_1 ‖ p_2) + KL(p_2 ‖ p_1)], summed
    over tokens: half of Liang et al. 2021, eq. 4 (with eq. 2 and 3), so that α = 0 is the mean of two usual losses.

    Args:
        logits: Of M tokens, each under two masks (2, M, V).
        targets: Their ids (M,) int64.
        alpha: α.
        label_smoothing: As in `smoothed_loss`, within L_NLL.

    Returns:
        L, and ½ L_NLL without label smoothing, which has no gradient.
    """
    log_p = logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    first, second = log_p
    negative = -log_p.gather(-1, targets.expand(2, -1).unsqueeze(-1)).sum() / 2
    uniform = -log_p.mean(dim=-1).sum() / 2
    # KL(p ‖ q) + KL(q ‖ p) = Σ (p - q) (log p - log q), as one dot product, which stores no further tensor of that size
    divergence = torch.tensordot(first.exp() - second.exp(), first - second, dims=2) / 2
    loss = (1 - label_smoothing) * negative + label_smoothing * uniform + alpha / 2 * divergence
    return loss, negative.detach()
