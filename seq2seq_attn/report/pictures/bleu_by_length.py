"""BLEU against source length (Bahdanau et al., 2015, Figure 2)."""

from __future__ import annotations

from matplotlib.figure import Figure

from seq2seq_attn.report.pictures.style import drawing, legend_below, line_styles
from seq2seq_attn.results.results import Results


def bleu_by_length(results: Results) -> Figure:
    """A line an arm over the length bands; its fall is what the arm loses on long sentences."""
    bands = results.arms[0].bleu_by_length
    styles = line_styles([arm.name for arm in results.arms])
    with drawing([results.experiment, *styles]):
        figure = Figure(figsize=(7, 4.8), layout="constrained")
        axes = figure.add_subplot()
        for arm in results.arms:
            scores = [band.bleu for band in arm.bleu_by_length]
            axes.plot(range(len(bands)), scores, label=arm.name, linewidth=2, markersize=7, **styles[arm.name])
        axes.set_xticks(range(len(bands)), [f"{band.label}\n({band.sentences})" for band in bands])
        axes.set_xlabel("source length in words (number of test sentences)")
        axes.set_ylabel("BLEU, mean over seeds")
        axes.set_ylim(bottom=0)
        axes.grid(visible=False, axis="x")
        axes.set_title(f"{results.experiment}: how well each arm translates longer and longer sentences")
        legend_below(figure, axes)
    return figure
