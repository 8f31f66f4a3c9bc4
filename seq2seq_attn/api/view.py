"""Views of the attention weights of any model: text, pictures, pages, links, and measures of every head."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seq2seq_attn.analysis.attention_files import (
    BLANK,
    NO_WEIGHTS,
    TargetAttention,
    TokenAttention,
    attention_file,
)
from seq2seq_attn.analysis.other_models import as_array, is_generated, of_output
from seq2seq_attn.api.answers import Alignments, PairLinks
from seq2seq_attn.api.heads import HeadTable
from seq2seq_attn.api.tables import Answers
from seq2seq_attn.corpora.display import Display
from seq2seq_attn.errors import UserError, shown
from seq2seq_attn.evaluation.alignment import Gold, GoldCorpus, Links, parse_links, read_gold
from seq2seq_attn.evaluation.attention_weights import (
    CrossAttention,
    Words,
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

Join = Literal["▁", "@@", "##", "Ġ"]
Labels = list[str] | tuple[str, ...]

SPECIAL = ("</s>", "<s>", "<pad>", "<eos>", "<bos>", "[SEP]", "[CLS]", "[PAD]")
PADDING = ("<pad>", "[PAD]")
COPIES = 16  # of a source, from which one word each is left out, in one call
SHOWN = 10  # pairs in a notebook
_TOLERANCE = 0.02  # of the sum of a row: bfloat16 has 8 bits

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


@overload
def view(
    weights: Any,
    source: Labels,
    target: Labels,
    *,
    join: Join | None = None,
    special: Iterable[str] = SPECIAL,
    gold: str | Links | Gold | None = None,
    normalized: bool = True,
) -> AttentionView: ...
@overload
def view(
    weights: Any,
    source: Sequence[Labels],
    target: Sequence[Labels],
    *,
    join: Join | None = None,
    special: Iterable[str] = SPECIAL,
    gold: Path | GoldCorpus | Sequence[str | Links | Gold] | None = None,
    normalized: bool = True,
) -> AttentionViews: ...
def view(
    weights: Any,
    source: Any,
    target: Any,
    *,
    join: Join | None = None,
    special: Iterable[str] = SPECIAL,
    gold: Any = None,
    normalized: bool = True,
) -> AttentionView | AttentionViews:
    """Shows the cross-attention of any model: in a notebook, as a page, picture or file, as links and by measures.

    Args:
        weights: Row i was used to predict target label i: an array or tensor (T, S), (heads, T, S) or (layers, heads,
            T, S), or a list with one per layer. Or the output of a model of Hugging Face, from `generate` (with
            `output_attentions=True, return_dict_in_generate=True`; in beam search, `output_scores=True` as well) or
            from a call with `labels` and `output_attentions=True`. Or what `s2s.read_attention` returns.
        source: The labels of the source, one for each column. Lists of labels, one per pair, give `AttentionViews`;
            weights are then an output, or a list of arrays. Padding at their ends is left out with its weights, which
            must be 0.
        target: The labels of the target, one for each row, or lists of them. Those of a generated sequence may include
            the token that it started from, which no step predicted.
        join: How pieces of words are marked: by `▁` or `Ġ` at the start of a word, by `@@` at the end of a piece that
            the next one continues, or by `##` at the start of one that continues. By default, each label is a word.
        special: Labels that belong to no word, such as `</s>`, or a tokenizer's `all_special_tokens`.
        gold: Gold links between words in Pharaoh format, `0-0 1p2`, or as pairs; for several pairs a list of them, or
            the path of a file.
        normalized: Whether rows must sum to 1, as after a softmax.

    Returns:
        A `AttentionView`, or `AttentionViews` of several pairs.

    Raises:
        UserError: Sizes differ, a row does not sum to 1, a weight is negative or not a number, or a gold link is
            outside of its pair.
    """
    if join is not None and join not in get_args(Join):
        raise UserError(f"join {join!r}: choose from {', '.join(get_args(Join))}")
    for name, labels in (("source", source), ("target", target)):
        if isinstance(labels, str):
            raise UserError(f"{name} is one string; give its labels, as with {name}.split()")
        if len(labels) == 0:
            raise UserError(f"{name} has no labels; give one for each {'column' if name == 'source' else 'row'}")
    several, marks = not isinstance(source[0], str), tuple(special)
    if not several:
        source, target, gold = [source], [target], None if gold is None else [gold]
    pairs = _pairs(weights, several, list(source), list(target))
    links = _gold(gold, len(pairs))
    views = AttentionViews(
        _view(f"pair {number}: " if several else "", *each, join, marks, known, normalized)
        for number, (each, known) in enumerate(zip(pairs, links, strict=True))
    )
    return views if several else views[0]


_Pair = tuple[Sequence[NDArray[Any]], Labels, Labels, bool]  # whether rows and columns beyond the labels are padding


def _pairs(weights: Any, several: bool, sources: list[Labels], targets: list[Labels]) -> list[_Pair]:
    """The layers of each pair with its labels."""
    is_output = hasattr(weights, "cross_attentions")
    found: list[Any] = list(of_output(weights)) if is_output else list(weights) if several else [weights]
    if len(found) != len(targets) or len(targets) % len(sources):
        raise UserError(
            f"weights of {len(found)} pairs for {len(sources)} sources and {len(targets)} targets; give one source and "
            f"one target for each, or several targets in a row for each source"
        )
    sources = [each for each in sources for _ in range(len(targets) // len(sources))]
    layers = [_layers(each) for each in found]
    if is_output:
        sizes = tuple(max(each[0].shape[axis] for each in layers) for axis in (-2, -1))
        if is_generated(weights) and max(map(len, targets)) == sizes[0] + 1:
            targets = [each[1:] for each in targets]
        longest = tuple(max(map(len, labels)) for labels in (targets, sources))
        if longest != sizes:
            raise UserError(
                f"the output has weights of {sizes[0]} target and {sizes[1]} source positions, but the longest labels "
                f"are {longest[0]} and {longest[1]}; give all labels of a sentence, </s> included"
            )
        if is_generated(weights):  # what follows the last step of a beam is padding, by whatever token
            targets = [labels[: each[0].shape[-2]] for labels, each in zip(targets, layers, strict=True)]
    return [(*each, is_output and several) for each in zip(layers, sources, targets, strict=True)]


def _layers(weights: Any) -> list[NDArray[Any]]:
    """An array (H, T, S) for each layer."""
    if isinstance(weights, (list, tuple)) and len(weights) and hasattr(weights[0], "shape"):
        each = [as_array(layer) for layer in weights]
        if each[0].ndim == 1:  # rows
            each = [np.stack(each)]
        return [layer if layer.ndim == 3 else layer[None] for layer in each]
    try:
        array = as_array(weights)
    except (TypeError, ValueError):
        raise UserError(f"weights: {shown(weights)} is not an array of numbers (layers, heads, T, S)") from None
    if array.ndim == 4:
        return list(array)
    return [array if array.ndim == 3 else array[None]]


def _view(
    place: str,
    layers: Sequence[NDArray[Any]],
    source: Labels,
    target: Labels,
    is_padded: bool,
    join: Join | None,
    special: tuple[str, ...],
    gold: Gold | None,
    normalized: bool,
) -> AttentionView:
    sides = {}
    for axis, name, labels in ((1, "target", target), (2, "source", source)):
        for label in labels:
            if not isinstance(label, str):
                raise UserError(
                    f"{place}{name} label {shown(label)} is not a string; as of tokenizer.convert_ids_to_tokens"
                )
        sides[name] = _unpadded(labels, is_target=name == "target")
        for number, layer in enumerate(layers):
            size = layer.shape[axis] if layer.ndim == 3 else -1
            if size != len(labels) and not (is_padded and size >= len(sides[name])):
                raise UserError(
                    f"{place}layer {number} has weights of shape {layer.shape}, but there are {len(target)} target and "
                    f"{len(source)} source labels; the last two sizes are those, (heads, T, S)"
                )
    rows = [layer[:, sides["target"]] for layer in layers]
    kept = tuple(layer[..., sides["source"]] for layer in rows)
    for number, (layer, own) in enumerate(zip(rows, kept, strict=True)):
        _refuse_no_weights(f"{place}layer {number}", layer, own, normalized)
    texts = tuple(source[j] for j in sides["source"]), tuple(target[i] for i in sides["target"])
    words = [_words(labels, join, special) for labels in texts]
    sizes = [len(each.texts) for each in words]
    for i, j in sorted(gold.possible) if gold else ():
        if i >= sizes[0] or j >= sizes[1]:
            raise UserError(
                f"{place}gold link {i}-{j}, but the pair has {sizes[0]} source and {sizes[1]} target words, counted "
                f"from 0: {shown(' '.join(words[0].texts))}; join says how pieces are joined"
            )
    return AttentionView(texts[0], texts[1], kept, words[0], words[1], gold)


def _unpadded(labels: Labels, is_target: bool) -> list[int]:
    """The places without padding at the ends; a target may start with its token."""
    places = list(range(len(labels)))
    while places and labels[places[-1]] in PADDING:
        places.pop()
    while places and not is_target and labels[places[0]] in PADDING:
        places.pop(0)
    return places


def _refuse_no_weights(place: str, rows: NDArray[Any], weights: NDArray[Any], normalized: bool) -> None:
    """UserError if these are not attention weights; `rows` are the same with the columns of padding."""
    if not np.isfinite(rows).all() or (rows < -1e-6).any():
        head, row, column = (int(each) for each in np.argwhere(~(rows >= -1e-6) | ~np.isfinite(rows))[0])
        raise UserError(
            f"{place}, head {head}, row {row}, column {column} is {rows[head, row, column]}; weights are numbers from "
            f"0, taken after the softmax; the softmax of a row that may read nothing is NaN"
        )
    sums = weights.sum(axis=-1, dtype=np.float64)
    lost = rows.sum(axis=-1, dtype=np.float64) - sums
    if (lost > 1e-4).any():
        head, row = (int(each) for each in np.argwhere(lost > 1e-4)[0])
        raise UserError(
            f"{place}, head {head}, row {row} has {lost[head, row]:.3f} of its weight on padding; give the model the "
            f"mask of its source"
        )
    if normalized and (np.abs(sums - 1) > _TOLERANCE).any():
        head, row = (int(each) for each in np.argwhere(np.abs(sums - 1) > _TOLERANCE)[0])
        raise UserError(
            f"{place}, head {head}, row {row} sums to {sums[head, row]:.3f}; weights sum to 1 after the softmax and "
            f"before dropout (model.eval()); for others, say normalized=False"
        )


def _words(labels: Sequence[str], join: Join | None, special: tuple[str, ...]) -> Words:
    """The words that the labels are joined to."""
    texts: list[str] = []
    of: list[int | None] = []
    is_open = False  # whether the next label may continue the last word
    for label in labels:
        if label in special:
            of.append(None)
            is_open = False
            continue
        continues = {None: False, "##": label.startswith("##"), "@@": True}.get(join, not label.startswith(str(join)))
        if not (is_open and continues):
            texts.append("")
        texts[-1] += label.removesuffix("@@") if join == "@@" else label.removeprefix(join or "")
        of.append(len(texts) - 1)
        is_open = label.endswith("@@") if join == "@@" else True
    if join == "Ġ":
        texts = [_of_bytes(text) for text in texts]
    filled = [word for word, text in enumerate(texts) if text.strip()]  # a `▁` on its own is no word
    numbers = {word: number for number, word in enumerate(filled)}
    return Words(
        tuple(texts[word] for word in filled), tuple(None if each is None else numbers.get(each) for each in of)
    )


def _of_bytes(text: str) -> str:
    """The text of a byte-level BPE, which writes the bytes that are no visible character as those from 256 on."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in visible]
    table = {chr(byte): byte for byte in visible} | {chr(256 + place): byte for place, byte in enumerate(others)}
    if any(character not in table for character in text):
        return text
    return bytes(table[character] for character in text).decode("utf-8", "replace")


def _gold(gold: Any, count: int) -> Iterator[Gold | None]:
    if gold is None:
        yield from [None] * count
        return
    if isinstance(gold, (str, Path)):
        gold = read_gold(Path(gold), count)
    if isinstance(gold, GoldCorpus):
        gold = [Gold(frozenset(sure), frozenset(sure | possible)) for sure, possible in zip(*gold, strict=True)]
    if len(gold) != count:
        raise UserError(f"gold links of {len(gold)} pairs for {count}; each needs its own")
    for number, each in enumerate(gold):
        if isinstance(each, str):
            yield parse_links(each, f"gold links of pair {number}")
        elif isinstance(each, Gold):
            yield each
        else:
            links = frozenset((int(i), int(j)) for i, j in each)
            yield Gold(links, links)
