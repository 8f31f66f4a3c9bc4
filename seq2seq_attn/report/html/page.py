"""The page, put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from seq2seq_attn.report.columns import columns
from seq2seq_attn.report.conclusion import conclusion
from seq2seq_attn.report.html.charts import bleu_by_length, breakdown_chart, learning_curves
from seq2seq_attn.report.html.readings import as_data, from_examples, from_maps
from seq2seq_attn.report.table import SIGNED, notes, seeds
from seq2seq_attn.report.where_tables import EXPLAINED, LENGTH, where_tables
from seq2seq_attn.results.examples import Example
from seq2seq_attn.results.making import Making
from seq2seq_attn.results.observations import AttentionMap, Curve
from seq2seq_attn.results.results import Results
from seq2seq_attn.results.sentences import SHOWN, Sentences


class Contents(NamedTuple):
    """What a results folder holds; None: it is from before that was written."""

    results: Results
    curves: Mapping[str, Sequence[Curve]]
    maps: Sequence[AttentionMap]
    examples: Sequence[Example] | None
    sentences: Sentences | None
    making: Making | None


def page(contents: Contents) -> str:
    """The report as HTML that needs nothing beside it."""
    results = contents.results
    shown = columns(results)
    tables = list(where_tables(results))
    looks = from_maps(contents.maps) if contents.examples is None else from_examples(contents.examples)
    return _ENVIRONMENT.get_template("page.html").render(
        results=results,
        styles={arm.name: style for style, arm in enumerate(results.arms)},
        conclusion=conclusion(results),
        columns=shown,
        notes=notes(results, shown),
        length_chart=bleu_by_length(results),
        length_tables=[table for table in tables if table.name == LENGTH],
        where=[
            (table, table.breakdown and breakdown_chart(results, table.breakdown))
            for table in tables
            if table.name != LENGTH
        ],
        explained=EXPLAINED,
        curve_charts=learning_curves(results, contents.curves),
        has_curves=any(contents.curves.values()),
        has_bands=any(band.bleu_low is not None for arm in results.arms for band in arm.bleu_by_length),
        looks=looks,
        data={"examples": as_data(looks), "best": max(results.arms, key=lambda arm: arm.bleu.mean).name},
        has_gold=any(reading.gold for sentence in looks for reading in sentence.readings),
        has_beams=contents.examples is not None,
        sentences=contents.sentences,
        ends=SHOWN,
        making=contents.making,
        seeds=seeds(results.arms),
        signed=SIGNED,
    )


def _as_yaml(values: Mapping[str, object]) -> str:
    return yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True)


def _minus(number: str) -> str:
    return number.replace("-", "\N{MINUS SIGN}")


def _chance(probability: float) -> str:
    return "<0.01" if probability < 0.005 else f"{probability:.2f}"


_ENVIRONMENT = Environment(
    loader=PackageLoader("seq2seq_attn.report", "html"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters |= {"yaml": _as_yaml, "minus": _minus, "chance": _chance}
_ENVIRONMENT.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
