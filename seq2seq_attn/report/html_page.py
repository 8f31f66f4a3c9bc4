"""The report as one HTML file: no network; usable without JavaScript, in print, by keyboard and on a phone.

The templates, the style sheet and the script are in `html/`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from seq2seq_attn.report.breakdown_tables import EXPLAINED, LENGTH, breakdown_tables
from seq2seq_attn.report.columns import columns, signed
from seq2seq_attn.report.conclusion import conclusion
from seq2seq_attn.report.html_attention import as_data, views_of_examples, views_of_maps
from seq2seq_attn.report.html_charts import breakdown_chart, learning_curve_charts, length_chart
from seq2seq_attn.report.table import notes, seeds
from seq2seq_attn.results.observations import (
    SHOWN,
    AttentionMap,
    ContrastiveSentences,
    Curve,
    Example,
    Reproduction,
)
from seq2seq_attn.results.results import Results


class Contents(NamedTuple):
    """The contents of a results folder; None for files that older results do not have."""

    results: Results
    curves: Mapping[str, Sequence[Curve]]
    maps: Sequence[AttentionMap]
    examples: Sequence[Example] | None
    sentences: ContrastiveSentences | None
    reproduction: Reproduction | None


def html_page(contents: Contents) -> str:
    """The report as a self-contained HTML file."""
    results = contents.results
    shown = columns(results)
    tables = list(breakdown_tables(results))
    attention = views_of_maps(contents.maps) if contents.examples is None else views_of_examples(contents.examples)
    return _ENVIRONMENT.get_template("page.html").render(
        results=results,
        styles={arm.name: style for style, arm in enumerate(results.arms)},
        conclusion=conclusion(results),
        columns=shown,
        notes=notes(results, shown),
        length_chart=length_chart(results),
        length_tables=[table for table in tables if table.name == LENGTH],
        breakdowns=[
            (table, table.breakdown and breakdown_chart(results, table.breakdown))
            for table in tables
            if table.name != LENGTH
        ],
        explained=EXPLAINED,
        curve_charts=learning_curve_charts(results, contents.curves),
        has_curves=any(contents.curves.values()),
        has_bands=any(band.bleu_low is not None for arm in results.arms for band in arm.bleu_by_length),
        attention=attention,
        data={"examples": as_data(attention), "best": max(results.arms, key=lambda arm: arm.bleu.mean).name},
        has_gold=any(view.gold for sentence in attention for view in sentence.views),
        has_beams=contents.examples is not None,
        sentences=contents.sentences,
        ends=SHOWN,
        reproduction=contents.reproduction,
        seeds=seeds(results.arms),
        signed=signed,
    )


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
_ENVIRONMENT.filters |= {"yaml": _as_yaml, "minus": _minus, "probability": _probability}
_ENVIRONMENT.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
