"""The tables of an experiment's page, from its results.json.

python experiments/tables.py experiments/ablation
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from seq2seq_attn.report.table import MOST_COLUMNS, markdown_table
from seq2seq_attn.results.differences import PairedComparison, p_text
from seq2seq_attn.results.results import ArmResult, Results, Spread

FOLDED = "parameters", "entropy, bits", "perplexity"  # where the table would be wider

STILL_IMPROVING = "↑ still improving when it stopped, in at least one training run"


def arms_table(results: Results) -> str:
    """One row per arm; differences from the baseline in bold where the joint test distinguishes them from 0.

    Scores by length in the bands with enough sentences; alignment error rate and entropy if an arm has them. Arms of
    which a training run was still improving when it stopped are marked, and the mark is explained below the table. Of
    more than `MOST_COLUMNS` columns, some are in a table of their own, which is folded.
    """
    against = {pair.arm: pair for pair in results.comparisons}
    bands = [index for index, band in enumerate(results.by_length.arms[results.arms[0].name]) if band and not band.few]
    metric = results.main
    columns: dict[str, Callable[[ArmResult], str]] = {
        "arm": lambda arm: arm.name,
        "parameters": lambda arm: f"{arm.parameters:,}",
        metric.label: lambda arm: (
            f"{metric.text(results.score(arm).mean)} ± {metric.text(results.score(arm).std)}"
            f"{' ↑' if arm.unconverged else ''}"
        ),
        "difference": lambda arm: _difference(against[arm.name]) if arm.name in against else "baseline",
        **{_label(results, index): partial(_in_band, results, index) for index in bands},
        "AER": lambda arm: f"{arm.scores['aer'].mean:.3f}" if "aer" in arm.scores else "–",
        "entropy, bits": lambda arm: _mean(arm.scores.get("attention_entropy")),
        "perplexity": lambda arm: _mean(arm.scores.get("perplexity")),
    }
    cells = {header: [cell(arm) for arm in results.arms] for header, cell in columns.items()}
    shown = {header: column for header, column in cells.items() if set(column) != {"–"}}
    folded = [header for header in FOLDED if header in shown and len(shown) > MOST_COLUMNS]
    parts = [_of_columns({header: column for header, column in shown.items() if header not in folded})]
    if any(arm.unconverged for arm in results.arms):
        parts.append(STILL_IMPROVING)
    if folded:
        more = _of_columns({header: shown[header] for header in ("arm", *folded)})
        named = ", ".join(header.partition(",")[0] for header in folded).capitalize()
        parts.append(f"<details>\n<summary>{named}</summary>\n\n{more}\n\n</details>")
    return "\n\n".join(parts)


def contrasts_table(results: Results) -> str:
    """One row per planned contrast."""
    rows = [
        [
            f"*{pair.arm}* against *{pair.baseline}*",
            _difference(pair),
            p_text(pair.joint.p_holm) if pair.joint else "",
            f"{pair.joint.detectable:.1f}" if pair.joint and pair.joint.detectable else "",
        ]
        for pair in results.contrasts
    ]
    return markdown_table(["contrast", "difference", "p", "detectable"], rows)


def _label(results: Results, index: int) -> str:
    label = results.by_length.groups[index]
    return label if index else f"{label} {results.unit}"


def _in_band(results: Results, index: int, arm: ArmResult) -> str:
    band = results.by_length.arms[arm.name][index]
    return "–" if band is None else results.main.text(band.main.value)


def _difference(pair: PairedComparison) -> str:
    low, high = pair.interval
    text = f"{pair.difference:+.1f} [{low:+.1f}, {high:+.1f}]"
    return f"**{text}**" if pair.joint and pair.joint.significant else text


def _mean(score: Spread | None) -> str:
    return "–" if score is None else f"{score.mean:.2f}"


def _of_columns(columns: Mapping[str, Sequence[str]]) -> str:
    return markdown_table(list(columns), zip(*columns.values(), strict=True))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The tables of an experiment's page, from its results.json.")
    parser.add_argument("experiment", type=Path, help="its folder, as in experiments/ablation")
    found = Results.load(parser.parse_args().experiment / "results" / "results.json")
    print(arms_table(found))
    if found.contrasts:
        print("", contrasts_table(found), sep="\n")
