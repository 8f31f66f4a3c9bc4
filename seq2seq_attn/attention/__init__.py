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

from seq2seq_attn.attention import normalizers, positions, registry, scorers, windows
from seq2seq_attn.attention.attention import Attention as Attention
from seq2seq_attn.attention.context import Context as Context
from seq2seq_attn.attention.context import attend as attend
from seq2seq_attn.attention.contexts.chunkwise import ChunkwiseAttention as ChunkwiseAttention
from seq2seq_attn.attention.contexts.chunkwise import ChunkwiseSource as ChunkwiseSource
from seq2seq_attn.attention.contexts.constant import ConstantContext as ConstantContext
from seq2seq_attn.attention.contexts.constant import FixedContext as FixedContext
from seq2seq_attn.attention.contexts.constant import MeanContext as MeanContext
from seq2seq_attn.attention.contexts.constant import NoContext as NoContext
from seq2seq_attn.attention.contexts.counterfactual import Change as Change
from seq2seq_attn.attention.contexts.counterfactual import Counterfactual as Counterfactual
from seq2seq_attn.attention.contexts.counterfactual import CounterfactualSource as CounterfactualSource
from seq2seq_attn.attention.contexts.counterfactual import RecomputedContext as RecomputedContext
from seq2seq_attn.attention.contexts.key_value import KeyValueAttention as KeyValueAttention
from seq2seq_attn.attention.contexts.multi_head import MultiHead as MultiHead
from seq2seq_attn.attention.contexts.multi_head import MultiHeadSource as MultiHeadSource
from seq2seq_attn.attention.contexts.multihead_attention import MultiheadAttention as MultiheadAttention
from seq2seq_attn.attention.contexts.observed import Observed as Observed
from seq2seq_attn.attention.contexts.self_attention import SelfAttention as SelfAttention
from seq2seq_attn.attention.normalizer import HistoryNormalizer as HistoryNormalizer
from seq2seq_attn.attention.normalizer import Normalizer as Normalizer
from seq2seq_attn.attention.normalizer import _normalizers
from seq2seq_attn.attention.normalizer import normalizer_class as normalizer_class
from seq2seq_attn.attention.normalizer import normalizer_classes as normalizer_classes
from seq2seq_attn.attention.normalizers.entmax15 import Entmax15 as Entmax15
from seq2seq_attn.attention.normalizers.gumbel import Gumbel as Gumbel
from seq2seq_attn.attention.normalizers.hard import Hard as Hard
from seq2seq_attn.attention.normalizers.monotonic import Monotonic as Monotonic
from seq2seq_attn.attention.normalizers.monotonic_softmax import MonotonicSoftmax as MonotonicSoftmax
from seq2seq_attn.attention.normalizers.normalized_sigmoid import NormalizedSigmoid as NormalizedSigmoid
from seq2seq_attn.attention.normalizers.shuffled import Shuffled as Shuffled
from seq2seq_attn.attention.normalizers.sigmoid import Sigmoid as Sigmoid
from seq2seq_attn.attention.normalizers.softmax import Softmax as Softmax
from seq2seq_attn.attention.normalizers.sparsemax import Sparsemax as Sparsemax
from seq2seq_attn.attention.position import Position as Position
from seq2seq_attn.attention.position import _positions
from seq2seq_attn.attention.position import position_class as position_class
from seq2seq_attn.attention.position import position_classes as position_classes
from seq2seq_attn.attention.positions.learned import Learned as Learned
from seq2seq_attn.attention.positions.relative_bias import RelativeBias as RelativeBias
from seq2seq_attn.attention.positions.rotary import Rotary as Rotary
from seq2seq_attn.attention.positions.sinusoidal import Sinusoidal as Sinusoidal
from seq2seq_attn.attention.registry import own_options as own_options
from seq2seq_attn.attention.scorer import HistoryScorer as HistoryScorer
from seq2seq_attn.attention.scorer import Scorer as Scorer
from seq2seq_attn.attention.scorer import ScorerFactory as ScorerFactory
from seq2seq_attn.attention.scorer import _scorers
from seq2seq_attn.attention.scorer import scorer_class as scorer_class
from seq2seq_attn.attention.scorer import scorer_classes as scorer_classes
from seq2seq_attn.attention.scorers.additive import Additive as Additive
from seq2seq_attn.attention.scorers.biaffine import Biaffine as Biaffine
from seq2seq_attn.attention.scorers.concat import Concat as Concat
from seq2seq_attn.attention.scorers.cosine import Cosine as Cosine
from seq2seq_attn.attention.scorers.coverage import LinguisticCoverage as LinguisticCoverage
from seq2seq_attn.attention.scorers.coverage import NeuralCoverage as NeuralCoverage
from seq2seq_attn.attention.scorers.dot import Dot as Dot
from seq2seq_attn.attention.scorers.general import General as General
from seq2seq_attn.attention.scorers.location import Location as Location
from seq2seq_attn.attention.scorers.location_aware import LocationAware as LocationAware
from seq2seq_attn.attention.scorers.mlp import MLP as MLP
from seq2seq_attn.attention.scorers.multiplicative import Multiplicative as Multiplicative
from seq2seq_attn.attention.scorers.negative_squared_distance import NegativeSquaredDistance as NegativeSquaredDistance
from seq2seq_attn.attention.scorers.normalized_additive import NormalizedAdditive as NormalizedAdditive
from seq2seq_attn.attention.scorers.relative import Relative as Relative
from seq2seq_attn.attention.scorers.scaled_dot import ScaledDot as ScaledDot
from seq2seq_attn.attention.source import AttentionSource as AttentionSource
from seq2seq_attn.attention.source import ConstantSource as ConstantSource
from seq2seq_attn.attention.source import History as History
from seq2seq_attn.attention.source import PreparedSource as PreparedSource
from seq2seq_attn.attention.source import each_tensor as each_tensor
from seq2seq_attn.attention.summary import LastState as LastState
from seq2seq_attn.attention.summary import LearnedPool as LearnedPool
from seq2seq_attn.attention.summary import MeanState as MeanState
from seq2seq_attn.attention.summary import Summary as Summary
from seq2seq_attn.attention.summary import summary_of as summary_of
from seq2seq_attn.attention.window import Window as Window
from seq2seq_attn.attention.window import _windows
from seq2seq_attn.attention.window import window_class as window_class
from seq2seq_attn.attention.window import window_classes as window_classes
from seq2seq_attn.attention.windows.local_m import LocalM as LocalM
from seq2seq_attn.attention.windows.local_p import LocalP as LocalP
from seq2seq_attn.attention.windows.random_token import RandomToken as RandomToken

# Classes in new files of these folders are exported automatically; type checkers know only those listed above. The
# files are imported last, so that they can import every name of this package.
for _folder in (scorers, normalizers, windows, positions):
    registry.import_folder(_folder.__name__, _folder.__path__)
globals().update({part.__name__: part for part in (*_scorers, *_normalizers, *_windows, *_positions)})
__all__ = sorted(
    name
    for name, value in globals().items()
    if name[0] != "_" and getattr(value, "__module__", "").startswith(f"{__name__}.")
)
