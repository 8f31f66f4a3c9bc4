"""The layers of a Transformer: residual connections, feed-forward networks, and the layers of encoder and decoder."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq_attn.attention import Context, History, PreparedSource, SelfAttention, each_tensor
from seq2seq_attn.models.seq2seq import read_source, start_reading

Activation = Literal["relu", "gelu", "swiglu"]
Norm = Literal["pre", "post"]


class Residual(nn.Module):
    """The connection around a sublayer f: norm(x + dropout(f(x))) with `post`, x + dropout(f(norm(x))) with `pre`.

    (Vaswani et al. 2017, sec. 5.4; Xiong et al. 2020, table 1.) f is called between `before` and `after`. If f does not
    depend on x, `pre` has nothing to normalize.
    """

    def __init__(self, size: int, norm: Norm, dropout: float = 0.0, *, depends_on_x: bool = True) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size) if depends_on_x or norm == "post" else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.is_pre = norm == "pre"

    def before(self, x: Tensor) -> Tensor:
        """The input of f."""
        normed: Tensor = self.norm(x) if self.is_pre else x
        return normed

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        """The output, from x and y = f(before(x))."""
        added: Tensor = x + self.dropout(y)
        normed: Tensor = added if self.is_pre else self.norm(added)
        return normed


class FeedForward(nn.Module):
    """W_2 dropout(a(W_1 x + b_1)) + b_2 at every position, a = relu (Vaswani et al. 2017, eq. 2) or gelu.

    swiglu: W_2 dropout(swish(W_1 x) * W_3 x), without biases (Shazeer 2020, eq. 6).
    """

    def __init__(self, size: int, hidden_size: int, activation: Activation, dropout: float = 0.0) -> None:
        super().__init__()
        is_gated = activation == "swiglu"
        self.activation = activation
        self.hidden_layer = nn.Linear(size, hidden_size, bias=not is_gated)
        self.gate_layer = nn.Linear(size, hidden_size, bias=False) if is_gated else None
        self.output_layer = nn.Linear(hidden_size, size, bias=not is_gated)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.hidden_layer(x)
        if self.gate_layer is not None:
            hidden = F.silu(hidden) * self.gate_layer(x)
        else:
            hidden = F.relu(hidden) if self.activation == "relu" else F.gelu(hidden)
        output: Tensor = self.output_layer(self.dropout(hidden))
        return output


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network, each with a residual connection."""

    def __init__(
        self, self_attention: SelfAttention, feed_forward: FeedForward, size: int, norm: Norm, dropout: float
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.feed_forward = feed_forward
        self.around_self_attention = Residual(size, norm, dropout)
        self.around_feed_forward = Residual(size, norm, dropout)

    def forward(self, x: Tensor, is_token: Tensor) -> Tensor:
        """The states (B, S, size) of the layer, from those of the layer below; the mask (B, S) is True on tokens."""
        around = self.around_self_attention
        contexts, _ = self.self_attention(around.before(x), is_token, need_weights=False)
        x = around.after(x, contexts)
        around = self.around_feed_forward
        return around.after(x, self.feed_forward(around.before(x)))


class LayerState(NamedTuple):
    """What a decoder layer carries from step to step, for N hypotheses."""

    cache: Any | None  # the source of its self-attention: keys and values of earlier steps; None before the first
    history: History  # of its context: tensors (N, ...), or nothing

    def select(self, rows: Tensor) -> LayerState:
        history = each_tensor(lambda tensor: tensor.index_select(0, rows), self.history)
        return LayerState(None if self.cache is None else self.cache.select(rows), history)


class DecoderLayer(nn.Module):
    """Causal self-attention, reading the source through any context, then the feed-forward network.

    Each has a residual connection. Queries are the states after self-attention. `project` maps the contexts to the
    width of the states; multi-head attention does that itself.
    """

    def __init__(
        self,
        self_attention: SelfAttention,
        context: Context,
        project: nn.Module,
        feed_forward: FeedForward,
        size: int,
        norm: Norm,
        dropout: float,
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.context = context
        self.project = project
        self.feed_forward = feed_forward
        self.around_self_attention = Residual(size, norm, dropout)
        self.around_context = Residual(size, norm, dropout, depends_on_x=context.reads_query)
        self.around_feed_forward = Residual(size, norm, dropout)

    def start(self, source: PreparedSource) -> LayerState:
        """The state before the first step, one hypothesis per sentence."""
        return LayerState(None, start_reading(self.context, source))

    def forward(self, x: Tensor, source: PreparedSource, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """All steps of known targets: states (B, T, size), and the weights of the context (B, T, S) or None."""
        contexts, _ = self.self_attention(self.around_self_attention.before(x), need_weights=False)
        x = self.around_self_attention.after(x, contexts)
        contexts, weights = self.context(self.around_context.before(x), source, need_weights=need_weights)
        return self._rest(x, contexts), weights

    def step(self, x: Tensor, state: LayerState, source: PreparedSource) -> tuple[Tensor, LayerState, Tensor]:
        """One step of N = B * K hypotheses: states (N, 1, size), the next state, and weights (N, S)."""
        contexts, cache = self.self_attention.step(self.around_self_attention.before(x), state.cache)
        x = self.around_self_attention.after(x, contexts)
        queries = self.around_context.before(x).squeeze(1)
        contexts, weights, history = read_source(self.context, queries, source, state.history)
        return self._rest(x, contexts[:, None]), LayerState(cache, history), weights

    def _rest(self, x: Tensor, contexts: Tensor) -> Tensor:
        x = self.around_context.after(x, self.project(contexts))
        around = self.around_feed_forward
        return around.after(x, self.feed_forward(around.before(x)))
