"""Figures of an experiment: `bleu_by_length`, `curves`, `attention`; `style` and `fonts` are what they share.

They are plain `matplotlib.figure.Figure` objects; pyplot and the global settings are not touched.
"""
