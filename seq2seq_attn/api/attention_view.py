"""The attention of any model on one pair or several: as text, pictures, pages and links, and measured head by head."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seq2seq_attn.analysis.attention_files import (
    BLANK,
    NO_WEIGHTS,
    TargetAttention,
    TokenAttention,
    attention_file,
)
from seq2seq_attn.analysis.other_models import as_array
from seq2seq_attn.api.answers import Alignments, PairLinks
from seq2seq_attn.api.heads import HeadTable
from seq2seq_attn.api.tables import Answers
from seq2seq_attn.corpora.display import Display
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import GoldCorpus
from seq2seq_attn.evaluation.attention_weights import (
    CrossAttention,
    attention_entropy,
    links_of,
    measure_heads,
)
from seq2seq_attn.options import AlignmentRow, AlignOptions, LinkOptions, takes
from seq2seq_attn.strict import parse

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from seq2seq_attn.results.seen import SeenSource
    from seq2seq_attn.runs.model import TrainedModel

COPIES = 16  # of a source, from which one word each is left out, in one call
SHOWN = 10  # pairs in a notebook

TITLE = "Attention of each target label (row) over the source"


@dataclass(frozen=True, eq=False, repr=False)
class AttentionView(CrossAttention):
    """The attention weights between the labels of a source and of a target, by layer and head, of any model.

    `layers[l][h]` is (T, S), `weights` the mean over all heads. Layers and heads count from 0.

    >>> found = s2s.view([[0.9, 0.1], [0.25, 0.75]], ["Tom", "runs"], ["汤姆", "跑"])
    >>> print(found)
          Tom  runs
    汤姆  .90   .10
      跑  .25   .75
    >>> sorted(found.links), round(found.entropy, 3)
    ([(0, 0), (1, 1)], 0.64)
    """

    title: str = TITLE
    display: Display | None = field(default=None, repr=False)  # of a source that is not text
    grid: int = field(default=1, repr=False)  # rows of its states

    @property
    def entropy(self) -> float | None:
        """The mean entropy of the rows of `weights` in bits: 0 if each attends to one label, log2(S) if uniformly."""
        return attention_entropy([self.weights])

    def heads(self, **options: Any) -> HeadTable:
        """Measures every layer and head on this pair, as `AttentionViews.heads`."""
        return AttentionViews([self]).heads(**options)

    def leave_one_out(self, predict: Callable[[NDArray[np.bool_]], ArrayLike]) -> NDArray[np.float64]:
        """How much each source word matters to each target word: |log p(y_i | X) - log p(y_i | X without x_j)|.

        A head whose weights rank the source words as these numbers do reads what the model depends on
        (`AttentionViews.heads`).

        Args:
            predict: Given masks (N, S), True on the labels of the source that the model may read, returns log p (N, T)
                of the target labels, as with an attention mask. It is called with all labels, and without those of one
                word each.

        Returns:
            The differences (target words, source words).

        Raises:
            UserError: `predict` returns another shape.
        """
        between = self.words()
        of = self.source_words.of if self.source_words else tuple(range(len(self.source)))
        kept = np.array([[word is None or word != left for word in of] for left in (-1, *range(len(between.source)))])
        found = []
        for first in range(0, len(kept), COPIES):
            masks = kept[first : first + COPIES]
            logs = as_array(predict(masks))
            if logs.shape != (len(masks), len(self.target)):
                raise UserError(
                    f"predict: log-probabilities of shape {logs.shape} for {len(masks)} masks and {len(self.target)} "
                    f"target labels; return one row per mask"
                )
            found.append(logs)
        logs = np.concatenate(found).astype(np.float64)
        of_target = self.target_words.of if self.target_words else tuple(range(len(self.target)))
        totals = np.zeros((len(logs), len(between.target)))
        for label, word in enumerate(of_target):
            if word is not None:
                totals[:, word] += logs[:, label]
        difference: NDArray[np.float64] = np.abs(totals[1:] - totals[0]).T
        return difference

    def plot(self) -> Figure:
        """Heat maps as a `matplotlib.figure.Figure`: one row per layer and one column per head; gold links outlined.

        `view.head(2, 1).plot()` draws one head, `view.mean().plot()` the mean of all. A source of sounds or frames is
        drawn above the weights, along the same axis of time; one of images once for each target token, clear where the
        step read it and in fog elsewhere.
        """
        from seq2seq_attn.report.heat_maps import heads_figure, seen_figure

        if self.display is not None:
            picture, seconds = self.display.picture, self.display.seconds
            title = self.title if self.grid == 1 else self.title.replace(" (row)", "")
            return seen_figure(self.layers, picture, seconds, self.grid, self.target, title)
        return heads_figure(self.layers, self.source, self.target, self.title, self.gold_cells)

    @property
    def seen(self) -> tuple[SeenSource | None, int]:
        """What a page shows of a source that is not text, and the rows of its states."""
        if self.display is None:
            return None, self.grid
        from seq2seq_attn.results.seen import SeenSource

        return SeenSource.of(self.display, len(self.source) // self.grid), self.grid

    def words(self, row: AlignmentRow = "predicted") -> AttentionView:
        """The weights between words, as by `CrossAttention.words`; those of a source without text are its positions."""
        return replace(super().words(row), display=None, grid=1)

    def mean(self) -> AttentionView:
        """The mean over all layers and heads alone."""
        return replace(self, layers=(self.weights[None],))

    def save(self, path: Path | str) -> Path:
        """Writes a page (.html), a picture (.png, .svg) or the mean weights for other programs (.jsonl, .npz).

        The page is one file that needs no network: it shows any two heads side by side, step by step, between pieces or
        words, and measures of every head.

        Args:
            path: The file; its extension selects the format.

        Returns:
            The path.

        Raises:
            UserError: The extension is another, the weights are too many for a page, or the file cannot be written.
        """
        path = Path(path)
        if path.suffix not in (".png", ".svg"):
            return AttentionViews([self]).save(path)
        from seq2seq_attn.files.writing import write_bytes
        from seq2seq_attn.report.figures import render

        write_bytes(path, render(self.plot(), path.suffix[1:]))
        return path

    def to_records(self) -> list[dict[str, Any]]:
        """One dictionary per weight of the mean."""
        return [
            {"target": target, "source": source, "weight": float(weight)}
            for target, row in zip(self.target, self.weights, strict=True)
            for source, weight in zip(self.source, row, strict=True)
        ]

    def __repr__(self) -> str:
        from rich.cells import cell_len

        def right(text: str, width: int) -> str:
            return " " * (width - cell_len(text)) + text

        first = max(map(cell_len, self.target))
        widths = [max(3, cell_len(word)) for word in self.source]
        lines = [right("", first), *(right(word, first) for word in self.target)]
        cells = [self.source, *([f"{weight:.2f}".removeprefix("0") for weight in row] for row in self.weights)]
        return "\n".join(
            f"{line}  {'  '.join(map(right, row, widths))}" for line, row in zip(lines, cells, strict=True)
        )

    def _repr_html_(self) -> str:
        """A matrix whose rows are stepped through by mouse or arrow keys, with a choice of heads; or else a picture.

        A source that is not text is drawn as by `plot`.
        """
        if self.display is not None:
            from seq2seq_attn.report.html_page import picture_html

            return picture_html(self.plot(), self.display.sound)
        from seq2seq_attn.report.html_page import matrix_html

        return matrix_html(self)


def view_of(sentence: TokenAttention) -> AttentionView:
    """The weights with which the best translation of a sentence was predicted.

    UserError: the sentence is blank, or the model has no weights.
    """
    if not sentence.translations:
        raise UserError(BLANK)
    best = sentence.translations[0]
    return attending(AttentionView(tuple(sentence.source), tuple(best.tokens), (best.weights[None],)))


def forced_view(model: TrainedModel, source: str, target: str, layers: Sequence[Any]) -> AttentionView:
    """The weights with which a model predicts a target. A token that is unknown, on either side, is `WORD (<unk>)`."""
    from seq2seq_attn.analysis.word_alignment import token_attention

    view = AttentionView(**vars(token_attention(model, source, target, layers)))
    return replace(view, display=model.display(source, is_cut=False), grid=model.rows(source))


def attending(found: AttentionView) -> AttentionView:
    """The same. UserError: all of its weights are 0, as those of a model without attention."""
    if not any(layer.any() for layer in found.layers):
        raise UserError(NO_WEIGHTS)
    return found


class AttentionViews(Answers[AttentionView]):
    """The attention of a model on several pairs, as `s2s.view` returns it for lists of labels."""

    @property
    def gold(self) -> GoldCorpus | None:
        """The gold links of all pairs; None if a pair has none."""
        found = [each.gold for each in self if each.gold is not None]
        if not found or len(found) < len(self):
            return None
        return GoldCorpus([each.sure for each in found], [each.possible for each in found])

    @takes(AlignOptions)
    def align(self, **options: Any) -> Alignments:
        """Links between the words of each pair, as `Model.align` makes them.

        `views.align(layer=5, head=2).agreement(views.gold)` has the alignment error rate of one head.

        Args:
            **options: Fields of `seq2seq_attn.options.AlignOptions`.

        Raises:
            UserError: There is no such layer or head.
        """
        chosen = parse(AlignOptions, options)
        found = []
        for each in self:
            one = each if chosen.layer is None else each.head(chosen.layer, chosen.head)
            words = one.words(chosen.row)
            links = links_of(words.weights, chosen.threshold)
            found.append(PairLinks(_as_line(words.source), _as_line(words.target), links, words.source))
        return Alignments(found)

    @takes(LinkOptions)
    def heads(self, *, importance: Sequence[NDArray[Any]] | None = None, **options: Any) -> HeadTable:
        """Measures every layer and head: entropy and, with gold links, precision, recall and alignment error rate.

        Args:
            importance: For each pair another measure of how important the source words are (target words, source
                words), such as `AttentionView.leave_one_out`; adds the mean of Kendall's τ-b between its rows and the
                weights.
            **options: Fields of `seq2seq_attn.options.LinkOptions`.

        Raises:
            UserError: There are no gold links, or a measure of importance has another shape.
        """
        chosen, gold = parse(LinkOptions, options), self.gold
        if gold is not None and not any(gold.possible):
            raise UserError("nothing to score: the gold alignment has no link; check that it is the right one")
        words = [each.words(chosen.row) for each in self]
        for number, (each, measured) in enumerate(zip(words, importance or (), strict=bool(importance))):
            if np.shape(measured) != (size := (len(each.target), len(each.source))):
                raise UserError(
                    f"importance, pair {number}: shape {np.shape(measured)}, but the pair has {size[0]} target words "
                    f"and {size[1]} source words"
                )
        return HeadTable(measure_heads(words, gold, importance, threshold=chosen.threshold))

    def save(self, path: Path | str) -> Path:
        """Writes a page of all pairs (.html), or their mean weights for other programs (.jsonl, .npz).

        Args:
            path: The file; its extension selects the format (docs/alignment.md).

        Returns:
            The path.

        Raises:
            UserError: The extension is another, the weights are too many for a page, or the file cannot be written.
        """
        path = Path(path)
        if path.suffix == ".html":
            from seq2seq_attn.files.writing import write_bytes
            from seq2seq_attn.report.html_page import attention_page

            write_bytes(path, attention_page(self, self.heads(), [each.seen for each in self]).encode())
            return path
        if path.suffix not in (".jsonl", ".npz"):
            raise UserError(
                f"{path}: views are written to a file that ends in .html, .jsonl or .npz, one pair also to .png or .svg"
            )
        with attention_file(path) as write:
            for each in self:
                found = TargetAttention([*each.target], 0.0, each.weights.astype(np.float32))
                write(TokenAttention([*each.source], [found]))
        return path

    def to_records(self) -> list[dict[str, Any]]:
        """One dictionary per weight of the mean, with the number of its pair."""
        return [{"pair": number} | record for number, each in enumerate(self) for record in each.to_records()]

    def _repr_html_(self) -> str:
        more = f"<p>{len(self) - SHOWN:,} more pairs: save('attention.html')</p>" if len(self) > SHOWN else ""
        return "".join(each._repr_html_() for each in self[:SHOWN]) + more


def _as_line(words: Iterable[str]) -> str:
    """The words as a line that splits into them; white space within a word is shown."""
    return " ".join(re.sub(r"\s+", "␣", word) or "␣" for word in words)
