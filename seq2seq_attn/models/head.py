"""Heads: what turns a step of the decoder into probabilities of the next token; and the losses of training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq_attn.corpora.source import Source
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.replace import with_parts
from seq2seq_attn.strict.tagged import Tagged


class Read(NamedTuple):
    """What a decoder computed to predict M tokens."""

    features: Tensor  # (M, R)
    weights: Tensor | None = None  # (M, S): attention weights; given to a head that `needs_weights`
    inputs: tuple[Tensor, ...] = ()  # (M, ...) each, given likewise: H_i, C_i and E y_{i-1}, of which the features are


class Loss(NamedTuple):
    """Sums over tokens, in nats, and the number of tokens: batches can be split, and processes can share one."""

    total: Tensor  # (): what training minimizes
    negative: Tensor  # (): -log p(target), without label smoothing and without a gradient
    tokens: int  # their number, padding excluded


class Head(nn.Module, ABC):
    """p(y_i | y_1 .. y_{i-1}, X), from what the decoder computed and, if the head copies, from the source itself.

    A head defines `forward`; one that reads the source defines `prepare` as well.
    """

    needs_weights: bool = False  # whether `forward` reads the attention weights, or the inputs of the features

    def prepare(self, source: Source) -> Any:
        """What the head needs of the source, computed once: a record with `select(rows)`, or None."""
        return None

    @abstractmethod
    def forward(self, read: Read, memory: Any) -> Tensor:
        """Returns logits, of which the log-softmax are the log-probabilities.

        Log-probabilities are such logits themselves.

        Args:
            read: What predicts M tokens.
            memory: What `prepare` returned, with one row for each of the M tokens.

        Returns:
            The logits (M, V).
        """

    def log_probabilities(self, read: Read, memory: Any = None) -> Tensor:
        """log p (M, V) of each next token, in full precision; arguments as for `forward`."""
        logits = self(read, memory)
        return torch.log_softmax(logits, dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))

    def loss(
        self,
        read: Read,
        targets: Tensor,
        memory: Any = None,
        label_smoothing: float = 0.0,
    ) -> Loss:
        """Cross-entropy with label smoothing, and -log p(target).

        With smoothing e the target distribution is (1 - e) at the target plus e / V everywhere (Szegedy et al. 2016,
        sec. 7), as in `torch.nn.functional.cross_entropy`.

        Args:
            read: What predicts M tokens.
            targets: Their ids (M,) int64; those that are -100 add nothing to either sum.
            memory: As for `forward`.
            label_smoothing: e.
        """
        logits = self(read, memory)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        total = F.cross_entropy(logits, targets, label_smoothing=label_smoothing, reduction="sum")
        return Loss(total, F.cross_entropy(logits.detach(), targets, reduction="sum"), len(targets))

    def r_drop_loss(
        self, read: Read, targets: Tensor, alpha: float, memory: Any = None, label_smoothing: float = 0.0
    ) -> Loss:
        """R-Drop: a token is predicted under two dropout masks, and the predictions are drawn to each other.

        L = ½ [L_NLL + α L_KL], with L_NLL = -log p_1(y) - log p_2(y) and L_KL = ½ [KL(p_1 ‖ p_2) + KL(p_2 ‖ p_1)]: half
        of Liang et al. 2021, eq. 4 (with eq. 2 and 3), so that α = 0 is the mean of two usual losses.

        Args:
            read: What predicts 2 M tokens: all with one dropout mask, then all with another.
            targets: The ids of M tokens (M,) int64.
            alpha: α.
            memory: As for `forward`, with 2 M rows.
            label_smoothing: As in `loss`, within L_NLL.

        Returns:
            L, and ½ L_NLL without label smoothing.
        """
        log_p = self.log_probabilities(read, memory).view(2, len(targets), -1)
        first, second = log_p
        negative = -log_p.gather(-1, targets.expand(2, -1).unsqueeze(-1)).sum() / 2
        uniform = -log_p.mean(dim=-1).sum() / 2
        # KL(p ‖ q) + KL(q ‖ p) = Σ (p - q) (log p - log q), as one dot product, which stores no further such tensor
        divergence = torch.tensordot(first.exp() - second.exp(), first - second, dims=2) / 2
        total = (1 - label_smoothing) * negative + label_smoothing * uniform + alpha / 2 * divergence
        return Loss(total, negative.detach(), len(targets))

    def with_outputs(self, tokens: Tensor) -> Head:
        """A head that predicts only the tokens (M,), in this order; it shares all parameters.

        UserError: this head cannot be restricted.
        """
        raise UserError(
            f"search.shortlist: {type(self).__name__} cannot be restricted to a part of the vocabulary; leave it out"
        )


class SoftmaxHead(Head):
    """p(y_i) = softmax(W t_i + b), with the features t_i (M, R)."""

    def __init__(self, projection: nn.Linear) -> None:
        super().__init__()
        self.projection = projection

    def forward(self, read: Read, memory: Any) -> Tensor:
        logits: Tensor = self.projection(read.features)
        return logits

    def with_outputs(self, tokens: Tensor) -> SoftmaxHead:
        return with_parts(self, {**self._modules, "projection": SelectedOutputs(self.projection, tokens)})


class HeadConfig(Tagged):
    """The configuration of a head; every kind has a subclass with its own options and `build`."""

    kind: str = "softmax"

    def completed(self, text: Any) -> HeadConfig:
        """The configuration, completed by the options under `text`. ValueError: they do not suit the head."""
        return self

    @abstractmethod
    def build(self, projection: nn.Linear, inputs_size: int) -> Head:
        """An untrained head.

        Args:
            projection: From features (R) to the vocabulary (V); it may share its weight with the target embeddings.
            inputs_size: The width of all `Read.inputs` together; of a model that has none, that of the features.
        """


class SoftmaxHeadConfig(HeadConfig):
    """`{kind: softmax}`."""

    kind: Literal["softmax"] = "softmax"

    def build(self, projection: nn.Linear, inputs_size: int) -> SoftmaxHead:
        return SoftmaxHead(projection)


class SelectedOutputs(nn.Module):
    """The outputs `rows` (M,) of a layer, in this order."""

    def __init__(self, layer: nn.Module, rows: Tensor) -> None:
        super().__init__()
        self.layer = layer
        self.rows = rows

    def forward(self, input: Tensor) -> Tensor:
        outputs: Tensor = self.layer(input)
        return outputs[..., self.rows]


class GivenLogits(Head):
    """The features are the logits: for a model that computes probabilities in its own way."""

    def forward(self, read: Read, memory: Any) -> Tensor:
        return read.features
