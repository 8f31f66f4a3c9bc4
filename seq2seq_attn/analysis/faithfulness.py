"""Faithfulness: whether the attention weights of a model explain its predictions.

Two kinds of evidence: predictions under changed weights (`interventions.py`), and the rank correlation of the weights
with two other measures of how important each source word is: the gradient, and the effect of leaving the word out.
docs/explanation.md says what can be concluded from them, and what cannot.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from seq2seq_attn.analysis.attention_files import NO_WEIGHTS
from seq2seq_attn.analysis.interventions import Interventions, intervene
from seq2seq_attn.attention import Change
from seq2seq_attn.attention.contexts import counterfactual as changes
from seq2seq_attn.corpora.codec import Codec
from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.corpora.encoded import Ids
from seq2seq_attn.corpora.source import pad
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.attention_weights import RankCorrelation, rank_correlation
from seq2seq_attn.models.seq2seq import Seq2Seq
from seq2seq_attn.options import FaithfulnessOptions
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.search.batched import Progress, device_of, force_corpus
from seq2seq_attn.search.forced import force

COPIES = 16  # of a sentence in one batch


class Faithfulness(NamedTuple):
    """Both kinds of evidence for one model."""

    interventions: Interventions
    sentences: int  # on which the correlations are measured
    correlations: dict[tuple[str, str], RankCorrelation]  # of two measures


def faithfulness(
    model: TrainedModel,
    pairs: ParallelCorpus,
    options: FaithfulnessOptions,
    progress: Progress = lambda _: None,
) -> Faithfulness:
    """Interventions on all pairs, and correlations on a sample of them.

    The seed determines the sample and the random changes of the weights. Pairs with a blank side are left out. Words
    that are left out, and their embeddings, need a source of text: of another one there are no correlations. UserError:
    fewer than two pairs are left, or the model has no attention weights.
    """
    if not model.fused.attends:
        raise UserError(NO_WEIGHTS)
    front_ends = model.source, model.target
    targets = (model.target.given(line).encode(other) for line, other in zip(pairs.source, pairs.target, strict=True))
    encoded = zip(model.source.items(pairs.source), targets, strict=True)
    filled = [
        pair for pair in encoded if all(side.length(item) > 0 for side, item in zip(front_ends, pair, strict=True))
    ]
    if len(filled) < 2:
        raise UserError(f"{pairs.name}: {len(filled)} pairs with text on both sides; at least two are needed")
    effects = intervene(model.fused, filled, weight_changes(options.seed), progress, model.source.collate)
    if not isinstance(model.source, Codec):
        return Faithfulness(effects, 0, {})
    sample: Any = random.Random(options.seed).sample(filled, min(options.sentences, len(filled)))
    return Faithfulness(effects, len(sample), correlate(model.fused, sample, progress))


def weight_changes(seed: int) -> dict[str, Change]:
    """The changes of the weights that are examined, by name."""
    generator = torch.Generator().manual_seed(seed)
    return {
        "uniform": changes.uniform,
        "permuted": partial(changes.permuted, generator=generator),
        "of_another_sentence": changes.of_another_sentence,
        "most_read_erased": changes.without_the_most_read,
        "another_erased": partial(changes.without_another, generator=generator),
    }


def correlate(
    translator: Seq2Seq, pairs: Sequence[tuple[Ids, Ids]], progress: Progress = lambda _: None
) -> dict[tuple[str, str], RankCorrelation]:
    """The rank correlation of any two measures over the words of a source; each target token gives one value."""
    measured = []
    for source, target in pairs:
        measured.append(word_importance(translator, source, target))
        progress(1)
    return {
        (one, other): rank_correlation(
            rows for found in measured for rows in zip(found[one], found[other], strict=True)
        )
        for one, other in combinations(("weights", "gradient", "leave_one_out"), 2)
    }


def word_importance(translator: Seq2Seq, source: Ids, target: Ids) -> dict[str, NDArray[np.float64]]:
    """How important each source token is for each target token, by three measures: {name: (T, S - 1)}.

    The `</s>` of the source is left out: a sentence without it is not valid input.
    """
    (forced,) = force_corpus(force, translator, [source], [target])
    found: dict[str, Any] = {
        "weights": forced.weights,
        "gradient": gradient_norms(translator, source, target),
        "leave_one_out": leave_one_out(translator, source, target),
    }
    return {name: values[:, : len(source) - 1].double().numpy() for name, values in found.items()}


def gradient_norms(translator: Seq2Seq, source: Ids, target: Ids) -> Tensor:
    """|∂ log p(y_i | y_1 .. y_{i-1}, X) / ∂ E x_j| (T, S): the Euclidean norm over the embedding of source token j.

    The gradient flows through the encoder and through the weights. The sentence is copied once for each y_i.
    """
    device, found = device_of(translator), []
    for steps in torch.split(torch.arange(len(target), device=device), COPIES):
        sources, targets = pad([source] * len(steps), device), pad([target] * len(steps), device)
        chosen = torch.arange(len(steps), device=device) * len(target) + steps  # step i of copy i
        # cuDNN's recurrent layers have no backward pass in evaluation mode.
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            embedded = translator.embed_source(sources).detach().requires_grad_()
            memory = translator.encode_embedded(embedded, sources)
            decoded = translator.decode(translator.decoder_inputs(targets), memory)
            logits = translator.logits(decoded, memory, chosen)
            exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
            loss = F.cross_entropy(exact, targets.tokens.flatten()[chosen], reduction="sum")
            (gradient,) = torch.autograd.grad(loss, embedded)
        found.append(torch.linalg.vector_norm(gradient, dim=-1))
    return torch.cat(found).cpu()


def leave_one_out(translator: Seq2Seq, source: Ids, target: Ids) -> Tensor:
    """|log p(y_i | X) - log p(y_i | X without token j)| (T, S - 1), for all source tokens but `</s>`.

    The token is removed before the sentence is encoded.
    """
    shorter = [[*source[:index], *source[index + 1 :]] for index in range(len(source) - 1)]
    whole, *others = force_corpus(force, translator, [source, *shorter], [target] * len(source), batch_size=COPIES)
    return torch.stack([(each.log_probabilities - whole.log_probabilities).abs() for each in others], dim=1)
