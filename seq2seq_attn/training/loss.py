"""Cross-entropy over the vocabulary: projection, log-softmax and gradient in one pass over real tokens.

The logits of a batch are the largest tensor of training. There is one such tensor, in the precision of the product: a
chunk of tokens after the other, small enough to stay in the processor's cache, its logits are taken to fp32 and their
gradient is put in their place. It is known as soon as they are, so the backward pass only hands it out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from seq2seq_attn.models.products import filled_up, product, summed_product

CHUNK_VALUES = 1 << 18  # logits a chunk: 1 MB in fp32


def vocabulary_loss(
    features: Tensor, output: nn.Linear, targets: Tensor, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Sums over tokens of the smoothed loss, which has a gradient, and of -log p(target), which has none.

    features (M, R), targets (M,) int64; with smoothing e the target distribution is (1 - e) at the target plus e / V
    everywhere (Szegedy et al. 2016, sec. 7), as in `torch.nn.functional.cross_entropy`. The products are in autocast's
    precision if it is on, everything between them in fp32 (in double for double features).
    """
    loss, log_loss = _VocabularyLoss.apply(  # type: ignore[no-untyped-call]
        features, output.weight, output.bias, targets, label_smoothing
    )
    return loss, log_loss


class _VocabularyLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        device = features.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        exact = torch.promote_types(weight.dtype, torch.float32)
        wanted = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
        with torch.autocast(device, enabled=False):
            w, b = weight.to(dtype), bias.to(dtype)
            x = filled_up(features.to(dtype), w)
            tokens, words = len(features), len(w)
            log_loss, at_targets = x.new_zeros((), dtype=exact), x.new_zeros((), dtype=exact)
            logits = product(x, w, b)
            bias_gradient = torch.zeros_like(bias, dtype=exact)
            rows = max(1, CHUNK_VALUES // words)
            for chunk, target in zip(
                torch.split(logits[:tokens], rows), torch.split(targets[:, None], rows), strict=True
            ):
                of_target, largest = chunk.gather(-1, target), chunk.amax(dim=-1, keepdim=True)
                probabilities = torch.softmax(chunk, dim=-1, dtype=exact)
                # log Σ exp = the largest logit less the log of its probability, which is never small
                log_probability = of_target.to(exact) - largest + probabilities.amax(dim=-1, keepdim=True).log_()
                at_targets += of_target.sum(dtype=exact)
                log_loss -= log_probability.sum()
                if wanted:
                    # d loss / d logits = softmax, less 1 - e at the target, less e / V everywhere (that one below)
                    bias_gradient += probabilities.sum(dim=0)
                    chunk.copy_(probabilities.scatter_(-1, target, log_probability.exp_().sub_(1 - smoothing)))
            share = smoothing / words
            sum_of_features, sum_of_weights = (part.sum(dim=0, dtype=exact) for part in (x, weight))
            mean_logits = (sum_of_features @ sum_of_weights + tokens * bias.sum(dtype=exact)) / words
            loss = log_loss + smoothing * (at_targets - mean_logits)
            if wanted:
                gradient = logits  # in whose place it stands
                gradient[tokens:] = 0
                counts = torch.bincount(targets, minlength=words)
                bias_gradient -= (1 - smoothing) * counts.to(exact) + tokens * share
                of_features = product(gradient, w.t())[:tokens].sub_((share * sum_of_weights).to(dtype))
                of_weight = torch.empty_like(weight).copy_(summed_product(gradient, x))
                of_weight -= (share * sum_of_features).to(weight.dtype)
                ctx.save_for_backward(of_features.to(features.dtype), of_weight, bias_gradient.to(bias.dtype))
        ctx.mark_non_differentiable(log_loss)
        return loss, log_loss

    @staticmethod
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        features, weight, bias = ctx.saved_tensors
        return features * scale.to(features.dtype), weight * scale, bias * scale, None, None
