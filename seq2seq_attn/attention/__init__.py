"""Attention for encoder-decoder models. It can be used on its own: torch is its only dependency.

>>> import torch
>>> states = torch.tensor([[[0.0, 1, 1], [5, 0, 1], [1, 1, 0], [0, 5, 1]]])  # (B=1, S=4, H=3)
>>> attention = Attention(Dot(query_size=3, key_size=3))
>>> source = attention.prepare(states, is_token=torch.tensor([[True, True, True, True]]))  # once per sentence
>>> context, weights = attention(torch.tensor([[[10.0, 5, 10]]]), source)  # every step: scores 15, 60, 15, 35
>>> context.round().tolist(), weights.round().tolist()
([[[5.0, 0.0, 1.0]]], [[[0.0, 1.0, 0.0, 0.0]]])

Dimensions: B sentences, S source positions, T queries. A `Scorer` compares queries with keys, a `Normalizer` turns
scores into weights, a `Window` restricts the positions that may be read, a `Context` computes what a decoder reads from
the source, and a `Summary` maps a sentence to one vector.
"""

from seq2seq_attn.attention import normalizers, positions, scorers, windows
from seq2seq_attn.attention.attention import Attention
from seq2seq_attn.attention.context import Context, attend
from seq2seq_attn.attention.contexts.chunkwise import ChunkwiseAttention, ChunkwiseSource
from seq2seq_attn.attention.contexts.constant import ConstantContext, FixedContext, MeanContext, NoContext
from seq2seq_attn.attention.contexts.counterfactual import (
    Change,
    Counterfactual,
    CounterfactualSource,
    RecomputedContext,
)
from seq2seq_attn.attention.contexts.key_value import KeyValueAttention
from seq2seq_attn.attention.contexts.multi_head import MultiHead, MultiheadAttention, MultiHeadSource
from seq2seq_attn.attention.contexts.observed import Observed
from seq2seq_attn.attention.contexts.self_attention import SelfAttention
from seq2seq_attn.attention.history import History, each_tensor
from seq2seq_attn.attention.normalizer import (
    HistoryNormalizer,
    Normalizer,
    _normalizers,
    normalizer_class,
    normalizer_classes,
)
from seq2seq_attn.attention.normalizers.entmax15 import Entmax15
from seq2seq_attn.attention.normalizers.gumbel import Gumbel
from seq2seq_attn.attention.normalizers.hard import Hard
from seq2seq_attn.attention.normalizers.monotonic import Monotonic
from seq2seq_attn.attention.normalizers.shuffled import Shuffled
from seq2seq_attn.attention.normalizers.sigmoid import Sigmoid
from seq2seq_attn.attention.normalizers.softmax import Softmax
from seq2seq_attn.attention.normalizers.sparsemax import Sparsemax
from seq2seq_attn.attention.position import Position, _positions, position_class, position_classes
from seq2seq_attn.attention.positions.learned import Learned
from seq2seq_attn.attention.positions.relative_bias import RelativeBias
from seq2seq_attn.attention.positions.rotary import Rotary
from seq2seq_attn.attention.positions.sinusoidal import Sinusoidal
from seq2seq_attn.attention.registry import import_folder, own_options
from seq2seq_attn.attention.scorer import HistoryScorer, Scorer, ScorerFactory, _scorers, scorer_class, scorer_classes
from seq2seq_attn.attention.scorers.additive import Additive
from seq2seq_attn.attention.scorers.biaffine import Biaffine
from seq2seq_attn.attention.scorers.concat import Concat
from seq2seq_attn.attention.scorers.cosine import Cosine
from seq2seq_attn.attention.scorers.coverage import LinguisticCoverage, NeuralCoverage
from seq2seq_attn.attention.scorers.dot import Dot
from seq2seq_attn.attention.scorers.general import General
from seq2seq_attn.attention.scorers.location import Location
from seq2seq_attn.attention.scorers.location_aware import LocationAware
from seq2seq_attn.attention.scorers.mlp import MLP
from seq2seq_attn.attention.scorers.multiplicative import Multiplicative
from seq2seq_attn.attention.scorers.negative_squared_distance import NegativeSquaredDistance
from seq2seq_attn.attention.scorers.normalized_additive import NormalizedAdditive
from seq2seq_attn.attention.scorers.relative import Relative
from seq2seq_attn.attention.scorers.scaled_dot import ScaledDot
from seq2seq_attn.attention.source import ConstantSource, PreparedSource, Source
from seq2seq_attn.attention.summary import LastState, LearnedPool, MeanState, Summary, summary_of
from seq2seq_attn.attention.window import Window, _windows, window_class, window_classes
from seq2seq_attn.attention.windows.local_m import LocalM
from seq2seq_attn.attention.windows.local_p import LocalP
from seq2seq_attn.attention.windows.random_token import RandomToken

__all__ = [
    "MLP",
    "Additive",
    "Attention",
    "Biaffine",
    "Change",
    "ChunkwiseAttention",
    "ChunkwiseSource",
    "Concat",
    "ConstantContext",
    "ConstantSource",
    "Context",
    "Cosine",
    "Counterfactual",
    "CounterfactualSource",
    "Dot",
    "Entmax15",
    "FixedContext",
    "General",
    "Gumbel",
    "Hard",
    "History",
    "HistoryNormalizer",
    "HistoryScorer",
    "KeyValueAttention",
    "LastState",
    "Learned",
    "LearnedPool",
    "LinguisticCoverage",
    "LocalM",
    "LocalP",
    "Location",
    "LocationAware",
    "MeanContext",
    "MeanState",
    "Monotonic",
    "MultiHead",
    "MultiHeadSource",
    "MultiheadAttention",
    "Multiplicative",
    "NegativeSquaredDistance",
    "NeuralCoverage",
    "NoContext",
    "NormalizedAdditive",
    "Normalizer",
    "Observed",
    "Position",
    "PreparedSource",
    "RandomToken",
    "RecomputedContext",
    "Relative",
    "RelativeBias",
    "Rotary",
    "ScaledDot",
    "Scorer",
    "ScorerFactory",
    "SelfAttention",
    "Shuffled",
    "Sigmoid",
    "Sinusoidal",
    "Softmax",
    "Source",
    "Sparsemax",
    "Summary",
    "Window",
    "attend",
    "each_tensor",
    "normalizer_class",
    "normalizer_classes",
    "own_options",
    "position_class",
    "position_classes",
    "scorer_class",
    "scorer_classes",
    "summary_of",
    "window_class",
    "window_classes",
]

# Classes in new files of these folders are exported automatically; type checkers know only those listed above. The
# files are imported last, so that they can import every name of this package.
for _folder in (scorers, normalizers, windows, positions):
    import_folder(_folder.__name__, _folder.__path__)
globals().update({part.__name__: part for part in (*_scorers, *_normalizers, *_windows, *_positions)})
