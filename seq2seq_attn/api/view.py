"""`s2s.view`: reads the attention weights and labels of any model, and refuses what cannot be them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, overload

import numpy as np
from numpy.typing import NDArray

from seq2seq_attn.analysis.other_models import as_array, is_generated, of_output
from seq2seq_attn.api.attention_view import AttentionView, AttentionViews
from seq2seq_attn.errors import UserError, shown
from seq2seq_attn.evaluation.alignment import Gold, GoldCorpus, Links, parse_links, read_gold
from seq2seq_attn.evaluation.attention_weights import Words

Join = Literal["▁", "@@", "##", "Ġ"]
Labels = list[str] | tuple[str, ...]

SPECIAL = ("</s>", "<s>", "<pad>", "<eos>", "<bos>", "[SEP]", "[CLS]", "[PAD]")
PADDING = ("<pad>", "[PAD]")
_TOLERANCE = 0.02  # of the sum of a row: bfloat16 has 8 bits


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
