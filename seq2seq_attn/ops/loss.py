"""Cross-entropy over the vocabulary: projection, log-softmax and gradient in one pass over real tokens.

Reference implementation: `project`, then `torch.nn.functional.cross_entropy`.

The logits of a batch are the largest tensor of training. The fused form has one such tensor, in the precision of the
product: chunk by chunk of tokens, small enough for the processor's cache, logits are taken to fp32 and overwritten by
their gradient. It is known as soon as they are, so the backward pass only returns it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq_attn.ops import native
from seq2seq_attn.ops.dispatch import changed, first_derivative_only, unserved
from seq2seq_attn.ops.linear import padded_for, product, summed_product

CHUNK_VALUES = 1 << 18  # logits per chunk: 1 MB in fp32
BLOCKS = 16  # of rows, which the kernel sums one by one


def vocabulary_loss(
    model: nn.Module,
    project: Callable[[Tensor], Tensor],
    output: nn.Linear,
    features: Tensor,
    targets: Tensor,
    label_smoothing: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Sums over tokens of the smoothed loss, which has a gradient, and of -log p(target), which has none.

    features (M, R), targets (M,) int64; with smoothing e the target distribution is (1 - e) at the target plus e / V
    everywhere (Szegedy et al. 2016, sec. 7), as in `torch.nn.functional.cross_entropy`. `project` makes the logits
    (M, V) of the features in `model`, by its layer `output` and nothing else unless a user changed it.
    """
    if why_not(model, output) is not None or unserved(features) is not None:
        logits = project(features)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        loss = F.cross_entropy(logits, targets, label_smoothing=label_smoothing, reduction="sum")
        return loss, F.cross_entropy(logits.detach(), targets, reduction="sum")
    return fused_loss(features, output.weight, output.bias, targets, label_smoothing)


def why_not(model: nn.Module, output: nn.Linear) -> str | None:
    """Why the loss goes over the logits of the model's own projection; None if the fused form is taken."""
    reason = unserved(*output.parameters()) or changed(model, deep=False) or changed(output)
    return reason or ("the output layer has no bias" if output.bias is None else None)


def fused_loss(
    features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """`vocabulary_loss` of logits W x + b, as one autograd node.

    The products are in autocast's precision if it is on, everything between them in fp32.
    """
    loss, log_loss = _VocabularyLoss.apply(  # type: ignore[no-untyped-call]
        features, weight, bias, targets, label_smoothing
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
            x = padded_for(features.to(dtype), w)
            tokens, words = len(features), len(w)
            logits = product(x, w, b)
            at_targets = logits[:tokens].gather(1, targets[:, None]).sum(dtype=exact)
            log_probabilities, sums = softmax_(logits[:tokens], targets, 1 - smoothing)
            log_loss = -log_probabilities.sum()
            share = smoothing / words
            sum_of_features, sum_of_weights = (part.sum(dim=0, dtype=exact) for part in (x, weight))
            mean_logits = (sum_of_features @ sum_of_weights + tokens * bias.sum(dtype=exact)) / words
            loss = log_loss + smoothing * (at_targets - mean_logits)
            if wanted:
                gradient = logits  # which it has overwritten
                gradient[tokens:] = 0
                counts = torch.bincount(targets, minlength=words)
                grad_bias = sums - (1 - smoothing) * counts.to(exact) - tokens * share
                grad_features = product(gradient, w.t())[:tokens].sub_((share * sum_of_weights).to(dtype))
                grad_weight = torch.empty_like(weight).copy_(summed_product(gradient, x))
                grad_weight -= (share * sum_of_features).to(weight.dtype)
                ctx.save_for_backward(grad_features.to(features.dtype), grad_weight, grad_bias.to(bias.dtype))
        ctx.mark_non_differentiable(log_loss)
        return loss, log_loss

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        features, weight, bias = ctx.saved_tensors
        return features * scale.to(features.dtype), weight * scale, bias * scale, None, None


def softmax_(logits: Tensor, targets: Tensor, at_target: float) -> tuple[Tensor, Tensor]:
    """log p(target) (M,) of logits (M, V) and the sums of softmax over the rows (V,), in fp32 or better.

    The logits are overwritten by softmax, less `at_target` at the target, which the sums leave out.
    """
    tokens, words = logits.shape
    exact = torch.promote_types(logits.dtype, torch.float32)
    log_probabilities = logits.new_empty(tokens, dtype=exact)
    if native.has_kernels(logits):
        sums = log_probabilities.new_empty(BLOCKS, words)
        results = log_probabilities, BLOCKS, sums
        native.run(
            "vocabulary_loss", logits.dtype, tokens, words, logits, targets.contiguous(), float(at_target), *results
        )
        return log_probabilities, sums.sum(dim=0)
    sums = log_probabilities.new_zeros(words)
    rows = max(1, CHUNK_VALUES // words)
    parts = (torch.split(part, rows) for part in (logits, targets[:, None], log_probabilities[:, None]))
    for chunk, target, log_probability in zip(*parts, strict=True):
        target_logit, largest = chunk.gather(-1, target), chunk.amax(dim=-1, keepdim=True)
        probabilities = torch.softmax(chunk, dim=-1, dtype=exact)
        # log Σ exp = the largest logit less the log of its probability, which is never small
        log_probability.copy_(target_logit.to(exact) - largest + probabilities.amax(dim=-1, keepdim=True).log_())
        sums += probabilities.sum(dim=0)
        chunk.copy_(probabilities.scatter_(-1, target, log_probability.exp().sub_(at_target)))
    return log_probabilities, sums
