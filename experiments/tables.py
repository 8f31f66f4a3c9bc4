"""The tables of an experiment's page, from its results.json.

python experiments/tables.py experiments/ablation
"""

from __future__ import annotations

import argparse
from pathlib import Path

from seq2seq_attn.results.results import ArmResult, PairedComparison, Results, Spread


def arms_table(results: Results) -> str:
    """One row per arm; differences from the baseline in bold where the joint test distinguishes them from 0."""
    bands = [band.label for band in results.arms[0].bleu_by_length[:3]]
    header = ["arm", "parameters", "BLEU", "difference", *(f"{label} words" for label in bands)]
    header += ["perplexity", "entropy, bits", "tokens/s"]
    against = {pair.arm: pair for pair in results.comparisons}
    rows = [
        [
            arm.name,
            f"{arm.parameters:,}",
            f"{arm.bleu.mean:.1f} ± {arm.bleu.std:.1f}",
            _difference(against[arm.name]) if arm.name in against else "baseline",
            *(f"{band.bleu:.1f}" for band in arm.bleu_by_length[:3]),
            _mean(arm.perplexity),
            _mean(arm.attention_entropy),
            f"{arm.tokens_per_second:,.0f}",
        ]
        for arm in results.arms
    ]
    return _markdown(header, rows)


def contrasts_table(results: Results) -> str:
    """One row per planned contrast."""
    rows = [
        [
            f"*{pair.arm}* against *{pair.baseline}*",
            _difference(pair),
            _p(pair.joint.p_holm) if pair.joint else "",
            f"{pair.joint.detectable:.1f}" if pair.joint and pair.joint.detectable else "",
        ]
        for pair in results.contrasts
    ]
    return _markdown(["contrast", "difference", "p", "detectable"], rows)


def first_screen(results: Results, arms: list[str]) -> str:
    """BLEU of these arms in one row."""
    known: dict[str, ArmResult] = {arm.name: arm for arm in results.arms}
    return _markdown(["", *arms], [["BLEU", *(f"{known[arm].bleu.mean:.1f}" for arm in arms)]])


def _difference(pair: PairedComparison) -> str:
    low, high = pair.interval
    text = f"{pair.bleu_difference:+.1f} [{low:+.1f}, {high:+.1f}]"
    return f"**{text}**" if pair.joint and pair.joint.significant else text


def _mean(score: Spread | None) -> str:
    return "–" if score is None else f"{score.mean:.2f}"


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _markdown(header: list[str], rows: list[list[str]]) -> str:
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, rule, *rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The tables of an experiment's page, from its results.json.")
    parser.add_argument("experiment", type=Path, help="its folder, as in experiments/ablation")
    found = Results.load(parser.parse_args().experiment / "results" / "results.json")
    print(arms_table(found))
    if found.contrasts:
        print("", contrasts_table(found), sep="\n")
