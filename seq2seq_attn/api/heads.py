"""The attention of every layer and head: measures as a table, and weights as pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from seq2seq_attn.api.tables import Answers
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.attention_weights import HeadMeasures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from seq2seq_attn.api.attention_view import AttentionView

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


class HeadTable(Answers[HeadMeasures]):
    """Measures of every head: for each layer its heads and their mean; last, the mean over the layers."""

    @property
    def best(self) -> BestHead | None:
        """The head with the lowest alignment error rate, the first of equals; None without gold links."""
        rates = [
            (each.agreement.error_rate, each.layer, each.head)
            for each in self
            if each.layer is not None and each.head is not None and each.agreement is not None
        ]
        return BestHead(*min(rates)[1:], min(rates)[0], len(rates)) if rates else None

    def to_records(self) -> list[dict[str, Any]]:
        """One dictionary per head or mean, where `layer` or `head` is None; entropy is in bits."""
        return [
            {"layer": each.layer, "head": each.head}
            | (each.agreement.rates if each.agreement else {})
            | {"entropy": each.entropy}
            | ({} if each.correlation is None else {"correlation": each.correlation})
            for each in self
        ]

    def __repr__(self) -> str:
        """Error rates by layer and head, and the best head; without gold links, entropies."""
        name = "AER" if self.best else "entropy"
        values = {
            (each.layer, each.head): each.agreement.error_rate if each.agreement else each.entropy for each in self
        }
        columns = [*sorted({head for _, head in values if head is not None}), None]
        rows = list(dict.fromkeys(layer for layer, _ in values))
        lines = [[name, *(_label("head", head) for head in columns)]]
        for layer in rows:
            found = (values.get((layer, head)) for head in columns)
            lines.append([_label("layer", layer), *("" if value is None else f"{value:.3f}" for value in found)])
        table = (f"{first:<9}{''.join(f'{cell:>9}' for cell in cells)}" for first, *cells in lines)
        return "\n".join([*table, *([str(self.best)] if self.best else [])])


def _label(kind: str, number: int | None) -> str:
    return "mean" if number is None else f"{kind} {number}"


class AttentionMaps(NamedTuple):
    """The attention weights of every layer and head of a model while it predicts a translation."""

    cross: AttentionView  # on the source
    encoder: AttentionView | None  # self-attention of the source; None if the encoder is recurrent
    decoder: AttentionView | None  # self-attention of the target: row i predicted token i, column j is input j

    def plot(self, part: Part = "cross") -> Figure:
        """A grid of heat maps, one row per layer and one column per head, as a `matplotlib.figure.Figure`.

        Args:
            part: The attention on the source (`cross`), or the self-attention of `encoder` or `decoder`.

        Raises:
            UserError: The model has no such part.
        """
        if part not in self._fields:
            raise UserError(f"part {part!r}: choose from {', '.join(self._fields)}")
        found: AttentionView | None = getattr(self, part)
        if found is None:
            raise UserError(f"this model has no self-attention in its {part}; its attention on the source is: cross")
        return found.plot()
