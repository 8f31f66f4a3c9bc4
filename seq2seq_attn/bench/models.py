"""The models that are measured: one size, four ways for the decoder to see the source."""

from __future__ import annotations

from typing import Any

import torch

from seq2seq_attn.bench.job import Job
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.models.translator import Translator


def _model(**differs: Any) -> RecurrentConfig:
    """Embeddings 256, GRU 256 a direction, decoder 512, dropout 0.3: the sizes that the peers are measured with."""
    dropout = {"embedding": 0.3, "state": 0.3, "readout": 0.3}
    return RecurrentConfig.model_validate({"dropout": dropout} | differs)


MODELS: dict[str, RecurrentConfig] = {
    "additive": _model(context={"scorer": "additive"}),  # H_{i-1}: Bahdanau et al. 2015
    "general": _model(context={"scorer": "general"}, decoder={"kind": "luong", "input_feeding": False}),
    "general-feed": _model(context={"scorer": "general"}, decoder={"kind": "luong", "input_feeding": True}),
    "distracted": _model(context={"kind": "fixed"}),
}


def build(job: Job, vocabulary: int) -> Translator:
    """The job's model, untrained: its weights change no time."""
    torch.manual_seed(1)
    return MODELS[job.model].build(vocabulary, vocabulary, joint=False)
