"""RNN encoder-decoder translation with pluggable attention, and the ablation that shows what attention is for."""

__version__ = "0.1.0"
