"""The attention of every layer and head: alignment error rates as a table, and weights as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from numpy.typing import NDArray

from seq2seq_attn.analysis.word_alignment import HeadAgreement
from seq2seq_attn.api.tables import Answers
from seq2seq_attn.corpora.vocabulary import BOS, SPECIALS
from seq2seq_attn.errors import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Part = Literal["cross", "encoder", "decoder"]


class BestHead(NamedTuple):
    """The head with the lowest alignment error rate; an optimistic one, as head and rate come from the same pairs."""

    layer: int
    head: int
    error_rate: float
    chosen_from: int  # heads

    def __str__(self) -> str:
        found = f"best head: layer {self.layer}, head {self.head}, AER {self.error_rate:.3f}"
        if self.chosen_from == 1:
            return found
        return f"{found}; the best of {self.chosen_from} on these very pairs is optimistic, so choose a head on others"


class HeadAgreements(Answers[HeadAgreement]):
    """The result of `Model.align_heads`: for each layer its heads and their mean; last, the mean over the layers."""

    @property
    def best(self) -> BestHead:
        """The head with the lowest alignment error rate, the first of equals."""
        rates = [
            (each.agreement.error_rate, each.layer, each.head)
            for each in self
            if each.layer is not None and each.head is not None
        ]
        rate, layer, head = min(rates)
        return BestHead(layer, head, rate, len(rates))

    def to_records(self) -> list[dict[str, Any]]:
        """One dictionary per head or mean, where `layer` or `head` is None."""
        return [{"layer": each.layer, "head": each.head, **each.agreement.rates} for each in self]

    def __repr__(self) -> str:
        """Error rates by layer and head, and the best head."""
        rates = {(each.layer, each.head): f"{each.agreement.error_rate:.3f}" for each in self}
        columns = [*sorted({head for _, head in rates if head is not None}), None]
        rows = list(dict.fromkeys(layer for layer, _ in rates))
        lines = [["AER", *(_label("head", head) for head in columns)]]
        lines += [[_label("layer", layer), *(rates.get((layer, head), "") for head in columns)] for layer in rows]
        table = (f"{first:<9}{''.join(f'{cell:>9}' for cell in cells)}" for first, *cells in lines)
        return "\n".join([*table, str(self.best)])


def _label(kind: str, number: int | None) -> str:
    return "mean" if number is None else f"{kind} {number}"


@dataclass(frozen=True, eq=False)
class AttentionMaps:
    """The attention weights of every layer and head between the tokens of a sentence and its translation.

    `cross[layer][head]` is (T, S), and likewise for the other two; layers and heads count from 0.
    """

    source: tuple[str, ...]  # S tokens, `</s>` last
    target: tuple[str, ...]  # T tokens, `</s>` last
    cross: tuple[NDArray[Any], ...] = field(repr=False)  # (H, T, S) of each layer: row i predicted target token i
    encoder: tuple[NDArray[Any], ...] = field(repr=False)  # (H, S, S); no layer if the encoder is recurrent
    decoder: tuple[NDArray[Any], ...] = field(repr=False)  # (H, T, T): row i predicted token i, column j is input j

    def plot(self, part: Part = "cross") -> Figure:
        """A grid of heat maps, one row per layer and one column per head, as a `matplotlib.figure.Figure`.

        Args:
            part: The attention on the source (`cross`), or the self-attention of `encoder` or `decoder`.

        Raises:
            UserError: The model has no such part.
        """
        from seq2seq_attn.report.heat_maps import heads_figure

        inputs = (SPECIALS[BOS], *self.target[:-1])
        parts: dict[Part, tuple[Sequence[NDArray[Any]], tuple[str, ...], tuple[str, ...], str]] = {
            "cross": (self.cross, self.source, self.target, "Attention of each target token (row) over the source"),
            "encoder": (self.encoder, self.source, self.source, "Self-attention of each source token (row)"),
            "decoder": (self.decoder, inputs, self.target, "Self-attention as each target token (row) is predicted"),
        }
        if part not in parts:
            raise UserError(f"part {part!r}: choose from {', '.join(parts)}")
        layers, columns, rows, title = parts[part]
        if not layers:
            raise UserError(f"this model has no self-attention in its {part}; its attention on the source is: cross")
        return heads_figure(layers, columns, rows, title)
