"""How much a prediction depends on each word of the source, by other means than attention."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from seq2seq_attn.models.translator import Sentences, Translator, pad

COPIES = 16  # of a sentence in one batch

Ids = Sequence[int]


def gradient_norms(translator: Translator, source: Ids, target: Ids) -> Tensor:
    """|∂ log p(y_i | y_1 .. y_{i-1}, X) / ∂ E x_j| (T, S): the Euclidean norm, over the embedding of source token j.

    By all ways, through the encoder as well as through the weights. Each y_i has a copy of the sentence.
    """
    found = []
    for tokens in torch.split(torch.arange(len(target)), COPIES):
        sources, targets = _copies(translator, [source] * len(tokens), target)
        # torch's own recurrent layers on CUDA have no gradient in evaluation mode otherwise.
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            embedded = translator.embed_source(sources).detach().requires_grad_()
            logits = _logits(translator, translator.encode_embedded(embedded, sources), targets)
            chosen = _of_targets(logits, targets)[torch.arange(len(tokens)), tokens].sum()
            (gradient,) = torch.autograd.grad(chosen, embedded)
        found.append(torch.linalg.vector_norm(gradient, dim=-1))
    return torch.cat(found).cpu()


@torch.inference_mode()
def leave_one_out(translator: Translator, source: Ids, target: Ids) -> Tensor:
    """|log p(y_i | X) - log p(y_i | X without token j)| (T, S - 1), for all source tokens but `</s>`.

    The token is taken out of the sentence before the encoder reads it.
    """
    found = []
    shorter = [[*source[:index], *source[index + 1 :]] for index in range(len(source) - 1)]
    for first in range(0, len(shorter), COPIES):
        sources, targets = _copies(translator, shorter[first : first + COPIES], target)
        found.append(_of_targets(_logits(translator, translator.encode(sources), targets), targets))
    sources, targets = _copies(translator, [source], target)
    whole = _of_targets(_logits(translator, translator.encode(sources), targets), targets)
    return (torch.cat(found) - whole).abs().t().cpu()


def _copies(translator: Translator, sources: Sequence[Ids], target: Ids) -> tuple[Sentences, Sentences]:
    device = translator.output.weight.device
    return pad(sources, device), pad([target] * len(sources), device)


def _logits(translator: Translator, memory: object, target: Sentences) -> Tensor:
    return translator.project(translator.decode(translator.decoder_inputs(target), memory).features)


def _of_targets(logits: Tensor, target: Sentences) -> Tensor:
    """log p (B, T) of the given tokens."""
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return -F.cross_entropy(exact.transpose(1, 2), target.tokens, reduction="none")
