"""Losses over the vocabulary, of which no more logits exist at a time than fit the cache or a stated memory.

The logits of a batch would be the largest tensor of training: with 64,000 words, 1 GB for 4,000 tokens in fp32. The
fused form of the softmax head computes them chunk by chunk, in the dtype of the product: for `ROWS` tokens on a CPU, at
most `MOST_LOGITS` on other devices. It overwrites them by their gradient, and takes the gradients of features and
weights from it while it is in the cache. All gradients are computed in the forward pass; the backward pass only scales
them (as in Liger's fused linear cross-entropy, Hsu et al. 2024). The pointer-generator, whose gradients have no such
form, recomputes the logits of a chunk in the backward pass (Chen et al. 2016, Training deep nets with sublinear memory
cost).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from seq2seq_attn.models.head import Loss, Read, SoftmaxHead
from seq2seq_attn.models.heads.pointer_generator import CopiedTokens, PointerGeneratorHead
from seq2seq_attn.models.replace import with_parts
from seq2seq_attn.ops import native
from seq2seq_attn.ops.autograd import first_derivative_only
from seq2seq_attn.ops.form import Form, changed
from seq2seq_attn.ops.layers import Linear, add_weight_gradient_, pad_rows_for, product

ROWS = 256  # tokens whose logits exist at a time: with fewer, adding up the weight's gradient costs more than it saves
MOST_LOGITS = 1 << 25  # at a time, on other devices and of heads that recompute them: 128 MB in fp32
CHUNK_VALUES = 1 << 18  # logits per chunk of `softmax_` on a CPU without kernels: 1 MB in fp32
IGNORED = -100  # the target that `torch.nn.functional.cross_entropy` leaves out
BLOCKS = 16  # of rows: the kernel sums each separately, so that results do not depend on the number of threads


class FusedSoftmaxHead(Form, SoftmaxHead):
    """`SoftmaxHead` with fused losses, whose projection computes only what is asked for."""

    stands_for = SoftmaxHead

    def loss(
        self,
        read: Read,
        targets: Tensor,
        memory: Any = None,
        label_smoothing: float = 0.0,
    ) -> Loss:
        if type(self.projection) is not Linear or self.projection.bias is None:
            return super().loss(read, targets, memory, label_smoothing)
        weight, bias = self.projection.weight, self.projection.bias
        loss, negative = fused_loss(read.features, weight, bias, targets, label_smoothing)
        return Loss(loss, negative, len(targets))

    def r_drop_loss(
        self, read: Read, targets: Tensor, alpha: float, memory: Any = None, label_smoothing: float = 0.0
    ) -> Loss:
        if type(self.projection) is not Linear or self.projection.bias is None:
            return super().r_drop_loss(read, targets, alpha, memory, label_smoothing)
        weight, bias = self.projection.weight, self.projection.bias
        return Loss(*paired_loss(read.features, weight, bias, targets, alpha, label_smoothing), len(targets))

    def with_outputs(self, tokens: Tensor) -> SoftmaxHead:
        if not isinstance(self.projection, Form):
            return super().with_outputs(tokens)
        return with_parts(self, {**self._modules, "projection": cast(Any, self.projection).select(tokens)})


class ChunkedPointerGeneratorHead(Form, PointerGeneratorHead):
    """`PointerGeneratorHead`, of which a loss computes at most `MOST_LOGITS` logits at a time."""

    stands_for = PointerGeneratorHead
    any_dtype = True

    @classmethod
    def why_not(cls, module: PointerGeneratorHead) -> str | None:
        return changed(module)  # a hook would be called again in the backward pass

    def loss(
        self,
        read: Read,
        targets: Tensor,
        memory: CopiedTokens | None = None,
        label_smoothing: float = 0.0,
    ) -> Loss:
        whole = super().loss

        def loss(read: Read, targets: Tensor, memory: CopiedTokens | None) -> Loss:
            return whole(read, targets, memory, label_smoothing)

        return self._by_chunks(read, targets, memory, loss)

    def r_drop_loss(
        self,
        read: Read,
        targets: Tensor,
        alpha: float,
        memory: CopiedTokens | None = None,
        label_smoothing: float = 0.0,
    ) -> Loss:
        whole = super().r_drop_loss

        def loss(read: Read, targets: Tensor, memory: CopiedTokens | None) -> Loss:
            return whole(read, targets, alpha, memory, label_smoothing)

        return self._by_chunks(read, targets, memory, loss)

    def _by_chunks(
        self,
        read: Read,
        targets: Tensor,
        memory: CopiedTokens | None,
        loss: Callable[[Read, Tensor, CopiedTokens | None], Loss],
    ) -> Loss:
        """The sum of a loss over chunks of M tokens, with a row of features each, or two as in `r_drop_loss`."""
        count, rows = len(targets), len(read.features)
        at_once = max(1, MOST_LOGITS * count // (self.projection.out_features * max(1, rows)))
        if count <= at_once or memory is None:
            return loss(read, targets, memory)
        places = torch.arange(rows, device=targets.device).view(-1, count)

        def chunk(start: int) -> Loss:
            chosen = places[:, start : start + at_once].flatten()
            features, weights, inputs = read
            part = Read(
                features[chosen], None if weights is None else weights[chosen], tuple(each[chosen] for each in inputs)
            )
            return loss(part, targets[start : start + at_once], memory.select(chosen))

        parts = [checkpoint(chunk, start, use_reentrant=False) for start in range(0, count, at_once)]
        totals, negatives, _ = zip(*parts, strict=True)
        return Loss(torch.stack(totals).sum(), torch.stack(negatives).sum(), count)


def paired_loss(
    features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, alpha: float, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """`r_drop_loss` of M tokens from features (2 M, R): all with the first mask, then all with the other."""
    count = len(targets)
    pairs = features.view(2, count, -1).transpose(0, 1).reshape(2 * count, -1)  # both rows of a token side by side
    loss, negative = fused_loss(pairs, weight, bias, targets.repeat_interleave(2), label_smoothing, alpha / 2)
    return loss / 2, negative / 2


def fused_loss(
    features: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    label_smoothing: float,
    divergence: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """`smoothed_loss` of the logits W x + b as one autograd node: weight (V, R), bias (V,).

    With a `divergence` above 0, rows 2i and 2i + 1 are predictions p and q of the same token, and `divergence` times
    KL(p ‖ q) + KL(q ‖ p) is added. Without one, rows may be left out: those whose target is `IGNORED`.

    Products have autocast's dtype if it is enabled; everything else is computed in fp32 or better. ValueError: there
    are not as many targets as rows of features.
    """
    if len(features) != len(targets):
        raise ValueError(f"{len(features)} rows of features need as many targets, got {len(targets)}")
    loss, nll = _VocabularyLoss.apply(  # type: ignore[no-untyped-call]
        features, weight, bias, targets, label_smoothing, divergence
    )
    return loss, nll


class _VocabularyLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        smoothing: float,
        divergence: float,
    ) -> tuple[Tensor, Tensor]:
        device = features.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        sum_dtype = torch.promote_types(weight.dtype, torch.float32)
        needs_gradients = any(ctx.needs_input_grad[:3])
        with torch.autocast(device, enabled=False):
            w, b = weight.to(dtype), bias.to(sum_dtype)
            x = pad_rows_for(features.to(dtype), w)
            rows_given, words = len(features), len(w)
            share = None if divergence else share_of(targets, sum_dtype)
            targets = targets if share is None else targets.clamp(min=0)
            mask = None if share is None else F.pad(share, (0, len(x) - rows_given)).to(dtype)[:, None]
            counted = x if mask is None else x * mask
            tokens: Any = rows_given if share is None else share.sum()
            target_logits, nll, divergences = (torch.zeros((), dtype=sum_dtype, device=x.device) for _ in range(3))
            sums = torch.zeros(words, dtype=sum_dtype, device=x.device)
            gradients = (torch.empty_like(x), torch.zeros_like(weight)) if needs_gradients else None
            at_once = ROWS if device == "cpu" else max(2, MOST_LOGITS // words // 2 * 2)  # even: rows may be pairs
            for start in range(0, len(x), at_once):
                rows, labels = x[start : start + at_once], targets[start : start + at_once]
                own = None if share is None else share[start : start + at_once]
                logits = product(rows, w)  # without the bias, which `softmax_` adds while it reads them
                at_targets = logits[: len(labels)].gather(1, labels[:, None])
                if own is None:
                    target_logits += at_targets.sum(dtype=sum_dtype) + b[labels].sum()
                else:
                    target_logits += (at_targets.squeeze(1) + b[labels]) @ own
                if divergence:
                    log_probabilities, part, kl = paired_softmax_(
                        logits[: len(labels)], b, labels, 1 - smoothing, divergence
                    )
                    divergences += kl
                else:
                    log_probabilities, part = softmax_(logits[: len(labels)], b, labels, 1 - smoothing, own)
                nll -= log_probabilities.sum() if own is None else log_probabilities @ own
                sums += part
                if gradients is not None:
                    grad_features, grad_weight = gradients
                    logits[len(labels) :] = 0  # the others are now their gradient, but for the uniform part
                    grad_features[start : start + at_once] = product(logits, w.t())
                    add_weight_gradient_(grad_weight, logits, counted[start : start + at_once])
                del logits  # the next ones take its place in the cache
            # The uniform part of the target distribution, e / V, needs sums of features and weights alone.
            uniform = smoothing / words
            feature_sum, weight_sum = (part.sum(dim=0, dtype=sum_dtype) for part in (counted, weight))
            mean_logits = (feature_sum @ weight_sum + tokens * b.sum()) / words
            loss = nll + smoothing * (target_logits - mean_logits) + divergence * divergences
            if gradients is not None:
                grad_features, grad_weight = gradients
                # not bincount, for which a GPU waits
                each = torch.ones_like(targets, dtype=sum_dtype) if share is None else share
                counts = torch.zeros_like(sums).index_add_(0, targets, each)
                grad_bias = sums - (1 - smoothing) * counts - tokens * uniform
                grad_features = grad_features[:rows_given]
                grad_features -= (uniform * weight_sum).to(dtype)
                if mask is not None:
                    grad_features *= mask[:rows_given]
                grad_weight -= (uniform * feature_sum).to(weight.dtype)
                ctx.save_for_backward(grad_features.to(features.dtype), grad_weight, grad_bias.to(bias.dtype))
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad_loss: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        features, weight, bias = ctx.saved_tensors
        return features * grad_loss.to(features.dtype), weight * grad_loss, bias * grad_loss, None, None, None


def share_of(targets: Tensor, dtype: torch.dtype) -> Tensor | None:
    """(M,) of each row: 1, or 0 if its target is `IGNORED`; None if no row can be left out.

    An accelerator is not asked whether there is such a row, because the program would wait for the answer.
    """
    counts = targets != IGNORED
    return None if targets.device.type == "cpu" and bool(counts.all()) else counts.to(dtype)


def softmax_(
    logits: Tensor, bias: Tensor, targets: Tensor, at_target: float, share: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """log p(target) (M,) of logits (M, V) + bias (V,), and the sum over rows of their softmax (V,), in fp32 or better.

    Overwrites the logits by that softmax minus `at_target` at the target; the sum is that of the softmax itself, in
    which each row is multiplied by its `share` (M,), if there is one. The bias is in fp32 or better.
    """
    tokens, words = logits.shape
    sum_dtype = torch.promote_types(logits.dtype, torch.float32)
    log_probabilities = logits.new_empty(tokens, dtype=sum_dtype)
    if native.has_kernels(logits) and share is None:
        sums = log_probabilities.new_empty(BLOCKS, words)
        native.run(
            "vocabulary_loss", logits.dtype, rows=tokens, words=words, logits=logits, bias=bias.contiguous(),
            targets=targets.contiguous(), at_target=float(at_target), log_probabilities=log_probabilities,
            blocks=BLOCKS, sums=sums,
        )  # fmt: skip
        return log_probabilities, sums.sum(dim=0)
    sums = log_probabilities.new_zeros(words)
    rows = max(1, _rows_at_once(logits))
    shares = log_probabilities.new_ones(()).expand(tokens) if share is None else share
    parts = (torch.split(part, rows) for part in (logits, targets[:, None], log_probabilities[:, None], shares))
    for chunk, target, log_probability, own in zip(*parts, strict=True):
        biased = chunk + bias
        target_logit, largest = biased.gather(-1, target), biased.amax(dim=-1, keepdim=True)
        probabilities = torch.softmax(biased, dim=-1)
        # logsumexp is the largest logit minus the log of its probability, which is never tiny.
        log_probability.copy_(target_logit - largest + probabilities.amax(dim=-1, keepdim=True).log_())
        at_targets = log_probability.exp().sub_(at_target)
        sums += probabilities.sum(dim=0) if share is None else own @ probabilities
        chunk.copy_(probabilities.scatter_(-1, target, at_targets))
    return log_probabilities, sums


def paired_softmax_(
    logits: Tensor, bias: Tensor, targets: Tensor, at_target: float, weight: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`softmax_` of pairs of rows p and q, 2i and 2i + 1, and the sum of their divergences KL(p ‖ q) + KL(q ‖ p).

    The gradient of `weight` times that sum is added to what overwrites the logits, and its sum over rows to the second
    result.
    """
    tokens, words = logits.shape
    sum_dtype = torch.promote_types(logits.dtype, torch.float32)
    log_probabilities = logits.new_empty(tokens, dtype=sum_dtype)
    if native.has_kernels(logits):
        divergences, sums = log_probabilities.new_empty(tokens // 2), log_probabilities.new_empty(BLOCKS, words)
        native.run(
            "paired_loss", logits.dtype, pairs=tokens // 2, words=words, logits=logits, bias=bias.contiguous(),
            targets=targets.contiguous(), at_target=float(at_target), weight=float(weight),
            log_probabilities=log_probabilities, divergences=divergences, blocks=BLOCKS, sums=sums,
        )  # fmt: skip
        return log_probabilities, sums.sum(dim=0), divergences.sum()
    sums, total = log_probabilities.new_zeros(words), log_probabilities.new_zeros(())
    pairs = max(1, _rows_at_once(logits) // 2)
    parts = (torch.split(part, 2 * pairs) for part in (logits, targets[:, None], log_probabilities))
    for chunk, target, log_probability in zip(*parts, strict=True):
        first, second = chunk.to(sum_dtype).view(-1, 2, words).unbind(dim=1)
        difference = first - second  # of log p and log q, up to a constant
        found, part = softmax_(chunk, bias, target[:, 0], at_target)
        log_probability.copy_(found)
        both = chunk.to(sum_dtype, copy=True).scatter_(-1, target, log_probability.exp()[:, None])
        p, q = both.view(-1, 2, words).unbind(dim=1)
        log_p, log_q = log_probability.view(-1, 2, 1).unbind(dim=1)
        difference += log_p - log_q - difference.gather(-1, target[::2])
        kl_pq, kl_qp = ((each * difference).sum(dim=-1, keepdim=True) for each in (p, -q))
        added = weight * torch.stack([p * (difference + 1 - kl_pq) - q, q * (1 - difference - kl_qp) - p], dim=1)
        chunk += added.view_as(chunk)
        sums += part + added.sum(dim=(0, 1))
        total += kl_pq.sum() + kl_qp.sum()
    return log_probabilities, sums, total


def _rows_at_once(logits: Tensor) -> int:
    """The rows of logits (M, V) that fit a CPU's cache; on other devices, where launching a chunk costs more, all M."""
    tokens, words = logits.shape
    return CHUNK_VALUES // words if logits.device.type == "cpu" else tokens
