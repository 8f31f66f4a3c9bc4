"""The report as one HTML file: it needs no network and works without JavaScript, in print, by keyboard and on a phone.

The templates and the style sheet are in `html/`. The charts are SVG drawings whose coordinates `html_charts` computes.
The script and the styles of the parts that this page shares with the server's are in `page/`, built from the sources
in `serve/frontend/`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

import seq2seq_attn
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.attention_weights import CrossAttention, HeadMeasures
from seq2seq_attn.report.charts import breakdown_chart, learning_curve_charts, length_chart, score_chart
from seq2seq_attn.report.columns import columns, head_columns, signature_header
from seq2seq_attn.report.conclusion import conclusion, evidence, introduction, limits, summary
from seq2seq_attn.report.figures import render
from seq2seq_attn.report.font_choice import SUBSET, embeddable
from seq2seq_attn.report.html_attention import (
    MEAN,
    SentenceView,
    as_data,
    glosses_of,
    packed,
    view_of_attention,
    views_of_examples,
    views_of_maps,
)
from seq2seq_attn.report.html_charts import drawing
from seq2seq_attn.report.table import breakdown_tables, explained, notes, seeds
from seq2seq_attn.results.attention import AttentionMap, CorpusAttention, CorpusPair
from seq2seq_attn.results.curves import Curve
from seq2seq_attn.results.examples import SHOWN, ContrastiveSentences, Example
from seq2seq_attn.results.reproduction import Reproduction
from seq2seq_attn.results.results import Results
from seq2seq_attn.results.seen import SeenSource

MOST_IN_NOTEBOOK = 200_000  # weights of a pair, of all heads: a megabyte
MOST_ON_PAGE = 5_000_000  # weights of all pairs and heads: about 10 MB, compressed


class Contents(NamedTuple):
    """The contents of a results folder, of which a published one may have results.json alone."""

    results: Results
    curves: Mapping[str, Sequence[Curve]]
    maps: Sequence[AttentionMap]
    corpus: CorpusAttention | None
    examples: Sequence[Example] | None
    sentences: ContrastiveSentences | None
    reproduction: Reproduction | None


def html_page(contents: Contents) -> str:
    """The report as a self-contained HTML file."""
    results, corpus = contents.results, contents.corpus
    shown = columns(results)
    tables = list(breakdown_tables(results))
    attention = views_of_maps(contents.maps) if contents.examples is None else views_of_examples(contents.examples)
    words = glosses_of(attention, corpus)
    styles = {arm.name: style for style, arm in enumerate(results.arms)}
    return _page(
        "page.html",
        title=results.experiment,
        version=results.version,
        results=results,
        styles=styles,
        summary=[introduction(results), *summary(results)],
        evidence=evidence(results),
        conclusion=[each for each in conclusion(results) if each not in limits(results)],
        limits=limits(results),
        columns=shown,
        notes=notes(results, shown),
        score_chart=drawing(score_chart(results)),
        length_chart=drawing(length_chart(results)),
        length_tables=[table for table in tables if table.breakdown is results.by_length],
        breakdowns=[
            (table, table.breakdown and drawing(breakdown_chart(results, table.breakdown)))
            for table in tables
            if table.breakdown is not results.by_length
        ],
        explained=explained(results),
        curve_charts=[drawing(each) for each in learning_curve_charts(results, contents.curves)],
        has_curves=any(contents.curves.values()),
        attention=attention,
        printed=None,
        corpus=corpus,
        glosses=words,
        data={"best": results.best.name, "styles": styles, "glosses": words},
        packed=packed(as_data(attention, corpus)),
        has_beams=contents.examples is not None,
        sentences=contents.sentences,
        ends=SHOWN,
        reproduction=contents.reproduction,
        seeds=seeds(results.arms),
        signature_header=signature_header,
        font=_font(attention, corpus),
    )


def attention_page(
    pairs: Sequence[CrossAttention],
    measures: Sequence[HeadMeasures],
    seen: Sequence[tuple[SeenSource | None, int]] | None = None,
) -> str:
    """The attention of a model on these pairs, every head of it, as a self-contained HTML file.

    `seen` has, for each pair, what its source looks like unless it is text, and how many rows its states are.

    UserError: there are more weights than a browser holds.
    """
    count = sum(layer.size for pair in pairs for layer in pair.layers)
    if count > MOST_ON_PAGE:
        raise UserError(
            f"{count:,} weights are too many for a page, which holds {MOST_ON_PAGE:,}; save fewer pairs, or the mean "
            f"of their heads"
        )
    shown_as = seen or [(None, 1)] * len(pairs)
    sentences = [view_of_attention(pair, *each) for pair, each in zip(pairs, shown_as, strict=True)]
    shown = head_columns(measures)
    layers = pairs[0].layers
    heads = sorted({len(layer) for layer in layers})
    facts = [
        f"{len(pairs):,} sentence pair{'s' * (len(pairs) > 1)}",
        f"{len(layers)} layer{'s' * (len(layers) > 1)} of {' to '.join(map(str, {heads[0]: 0, heads[-1]: 0}))} "
        f"head{'s' * (heads[-1] > 1)}",
    ]
    return _page(
        "views.html",
        title="Attention",
        version=seq2seq_attn.__version__,
        facts=", ".join(facts),
        attention=sentences,
        printed=1,
        styles={},
        glosses={},
        columns=shown,
        notes=[column.meaning for column in shown if column.meaning],
        data={"best": MEAN, "styles": {}, "glosses": {}},
        packed=packed(as_data(sentences, None)),
        font=_font(sentences, None),
    )


def matrix_html(pair: CrossAttention) -> str:
    """The weights of a pair for a notebook, as by `steps_html`, with a choice of heads if these are not too many."""
    count = sum(layer.size for layer in pair.layers)
    layers = [] if count > MOST_IN_NOTEBOOK else [layer.swapaxes(0, 1).tolist() for layer in pair.layers]
    steps = [
        {
            "token": token,
            "weights": row.tolist(),
            "layers": [{"weights": layer[place]} for layer in layers] if count > row.size * len(pair.target) else [],
            "likely": [],
        }
        for place, (token, row) in enumerate(zip(pair.target, pair.weights, strict=True))
    ]
    return steps_html(pair.source, steps, pair.gold_cells, digits=3)


def picture_html(figure: Figure, sound: bytes | None) -> str:
    """A figure for a notebook, with the sound that it is of, a WAV file."""
    html = f'<img alt="" src="data:image/png;base64,{_base64(render(figure, "png"))}" style="max-width:100%">'
    return html if sound is None else f'{html}<audio controls src="data:audio/wav;base64,{_base64(sound)}"></audio>'


def _page(template: str, **contents: Any) -> str:
    """A page with the script and the styles that all pages share."""
    return _ENVIRONMENT.get_template(template).render(
        **contents,
        script=_built("report.js"),
        shared_style=_built("report.css"),
        licenses=_built("licenses.md"),
    )


def steps_html(
    source: Sequence[str],
    steps: Sequence[Mapping[str, object]],
    gold: Sequence[tuple[int, int]] = (),
    digits: int = 5,
) -> str:
    """A matrix for a notebook: one row for each step of decoding, which shows what was read and what could follow.

    A step has `token`, `weights` or None, `layers` and `likely` as in `analysis/stepwise.py`, of which all but the
    weights may be missing. The cells of `gold`, (column, row), are outlined. Without scripts, as on a page of a
    repository, the matrix does not move.
    """
    short = json.loads(json.dumps(steps), parse_float=lambda number: round(float(number), digits))
    return _ENVIRONMENT.get_template("steps.html").render(source=source, steps=short, gold=set(gold))


def _built(name: str) -> str:
    return (Path(__file__).parent / "page" / name).read_text(encoding="utf-8")


def _font(sentences: Sequence[SentenceView], corpus: CorpusAttention | None) -> str:
    """The package's Chinese font in base64 if the sentences need it and it has all their characters; "" otherwise."""
    pairs: Sequence[SentenceView | CorpusPair] = [*sentences, *(corpus.pairs if corpus else ())]
    texts = [text for pair in pairs for text in (pair.source, pair.reference)]
    return _base64(SUBSET.read_bytes()) if embeddable(texts) else ""


def _as_yaml(values: Mapping[str, object]) -> str:
    return yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True)


def _minus(number: str) -> str:
    return number.replace("-", "\N{MINUS SIGN}")


def _probability(probability: float) -> str:
    return "<0.01" if probability < 0.005 else f"{probability:.2f}"


_ENVIRONMENT = Environment(
    loader=PackageLoader("seq2seq_attn.report", "html"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


_ENVIRONMENT.filters |= {"yaml": _as_yaml, "minus": _minus, "probability": _probability}
_ENVIRONMENT.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
