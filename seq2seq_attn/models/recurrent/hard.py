"""Hard attention: a step reads one position, and the likelihood is summed over all alignments, exactly.

Soft attention predicts from a sum of the values, p(y_i | Σ_j a_ij v_j); here the sum is over predictions,
Σ_j a_ij p(y_i | v_j). As no state depends on what an earlier step read, the steps of all alignments share their states,
and the sum over S^T alignments takes T sums over S positions. So the model is an autoregressive one, like any other to
training and search.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from seq2seq_attn.attention import Attention, Context, History, PreparedSource, Summary, each_tensor
from seq2seq_attn.attention.normalizer import log_weights
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.embedding import Embedding
from seq2seq_attn.models.encoder import Encoded, Encoder
from seq2seq_attn.models.head import GivenLogits, Head, Read
from seq2seq_attn.models.recurrent.cells import Cell
from seq2seq_attn.models.recurrent.decoders import Decoder, DecoderConfig, DecoderOutput, DecoderState
from seq2seq_attn.models.recurrent.seq2seq import DeepOutput, PlainOutput, RecurrentSeq2Seq
from seq2seq_attn.models.seq2seq import Decoded, Memory, Step, read_source


class HardDecoder(Decoder):
    """H_i = cell(E y_{i-1}, H_{i-1});  a_i = read(H_i);  H~_ij = tanh(W [v_j; H_i]) for every position j.

    The parameters are those of a `LuongDecoder` without input feeding, which has H~_i = tanh(W [Σ_j a_ij v_j; H_i]).
    """

    def __init__(self, cell: Cell, context: Context, embedding_size: int) -> None:
        super().__init__(cell, context)
        self.from_token = nn.Linear(embedding_size, cell.gate_size)
        self.from_value = nn.Linear(context.value_size, cell.hidden_size, bias=False)
        self.from_hidden = nn.Linear(cell.hidden_size, cell.hidden_size)

    def advance(
        self, input_gates: Tensor, state: DecoderState, source: PreparedSource
    ) -> tuple[DecoderState, DecoderOutput]:
        """H_i (N, hidden_size) and the weights a_i; the context vectors under them are not used."""
        hidden = self.cell(input_gates, state.hidden)
        context, weights, history = read_source(self.context, self.cell.output(hidden), source, state.history)
        return DecoderState(hidden, history), DecoderOutput(self.cell.output(hidden), context, weights)

    def at_each_position(self, hidden: Tensor, from_values: Tensor) -> Tensor:
        """H~_ij (B, T, S, hidden_size) of H_i (B, T, hidden_size), with `from_value` of v_j (B, S, hidden_size)."""
        return torch.tanh(self.from_hidden(hidden)[:, :, None] + from_values[:, None])


class HardSource(NamedTuple):
    """B encoded sources, as the decoder reads them."""

    prepared: PreparedSource  # by the context
    initial: Tensor  # (B, hidden_size): H_0
    from_values: Tensor  # (B, S, hidden_size): the part of H~_ij that the value of j contributes

    def select(self, rows: Tensor) -> HardSource:
        tensors = (tensor.index_select(0, rows) for tensor in self[1:])
        return HardSource(self.prepared.select(rows), *tensors)


class HardState(NamedTuple):
    """The input of the next step, for N hypotheses."""

    decoder: DecoderState
    emissions: Tensor  # (N, S, V): log p(y_i | position j was read), of the step before; 0 before the first step

    def select(self, rows: Tensor) -> HardState:
        return HardState(self.decoder.select(rows), self.emissions.index_select(0, rows))


class HardSeq2Seq(RecurrentSeq2Seq):
    """p(y_i | y_1 .. y_{i-1}, x) = Σ_j a_ij p(y_i | v_j, H_i)   (Wu, Shapiro & Cotterell 2018).

    a_ij is p(position i = j | y_1 .. y_{i-1}, x). Where it depends on the position before, as under `MonotonicSoftmax`,
    this is the forward algorithm (Wu & Cotterell 2019): the next step starts from p(position i = j | y_1 .. y_i, x) ∝
    a_ij p(y_i | v_j, H_i), since y_i is its input, and the product of the probabilities of all steps is the sum over
    all alignments. Row i of the weights is a_i, which has not seen y_i.

    `emission` predicts from one position. UserError: it reads more than the features of a prediction.
    """

    sums_values = False

    decoder: HardDecoder

    def __init__(
        self,
        encoder: Encoder,
        summary: Summary,
        target_embedding: Embedding,
        decoder: Decoder,
        readout: DeepOutput | PlainOutput,
        emission: Head,
        *,
        state_dropout: float = 0.0,
    ) -> None:
        super().__init__(
            encoder, summary, target_embedding, decoder, readout, GivenLogits(), state_dropout=state_dropout
        )
        if emission.needs_weights or type(emission).prepare is not Head.prepare:
            raise UserError(
                f"model.decoder.kind=hard needs a head that predicts from one position; {type(emission).__name__} "
                f"reads the source: set model.head.kind=softmax, or another decoder"
            )
        self.emission = emission

    def prepare(self, encoded: Encoded) -> Any:
        prepared: Any
        prepared, initial = super().prepare(encoded)
        return HardSource(prepared, initial, self.decoder.from_value(prepared.values))

    def start(self, memory: Memory) -> Any:
        sentences, positions = memory.is_state.shape
        words = self.target_embedding.table.num_embeddings
        return HardState(super().start(memory), memory.source.initial.new_zeros(sentences, positions, words))

    def step(self, tokens: Tensor, state: Any, memory: Memory) -> Step:
        source = memory.source.prepared
        embedded = self.target_embedding(tokens)
        before = state.decoder._replace(history=self._known(state, tokens, source))
        after, output = self.decoder.advance(self.decoder.input_gates(embedded), before, source)
        hidden, previous = _by_sentence(output.hidden, source), _by_sentence(embedded, source)
        emissions = self._emissions(hidden, previous, memory).flatten(0, 1)
        return Step(_summed(output.weights, emissions), HardState(after, emissions), output.weights)

    def decode(self, inputs: Tensor, memory: Memory, need_weights: bool = True) -> Decoded:
        embedded = self.target_embedding(inputs)
        state, source, context = self.start(memory).decoder, memory.source.prepared, self.decoder.context
        cell = self.decoder.cell
        gates = self.decoder.input_gates(embedded).transpose(0, 1)  # time first, as a cell reads them
        hidden = cell.output(cell.run(gates, state.hidden)).transpose(0, 1)
        emissions = self._emissions(hidden, embedded, memory)
        if not context.needs_history:
            _, weights = context(hidden, source)
            return Decoded(_summed(weights, emissions), weights)
        # Gathered once: in a gather per step, the gradient of each slice would be as large as all emissions.
        likelihoods = _of_token(emissions[:, :-1], inputs[:, 1:])
        history, rows = context.start(source), []
        for i, query in enumerate(torch.split(hidden, 1, dim=1)):
            if i > 0:
                history = context.condition(history, likelihoods[:, i - 1 : i])
            _, row, history = context(query, source, history)
            rows.append(row)
        weights = torch.cat(rows, dim=1)
        return Decoded(_summed(weights, emissions), weights)

    def _emissions(self, hidden: Tensor, embedded: Tensor, memory: Memory) -> Tensor:
        """log p(y_i | v_j, H_i) (B, T, S, V) of H_i (B, T, hidden_size) and E y_{i-1} (B, T, E)."""
        attentional = self.decoder.at_each_position(hidden, memory.source.from_values)
        values = memory.source.prepared.values[:, None].expand(*attentional.shape[:-1], -1)
        previous = embedded[:, :, None].expand(*attentional.shape[:-1], -1)
        features = self.readout(attentional, values, previous)
        return self.emission.log_probabilities(Read(features.flatten(0, 2))).view(*features.shape[:-1], -1)

    def _known(self, state: HardState, tokens: Tensor, source: PreparedSource) -> History:
        """The history after the step before, given its token (N,)."""
        history = each_tensor(lambda tensor: _by_sentence(tensor, source), state.decoder.history)
        likelihood = _by_sentence(_of_token(state.emissions, tokens), source)
        known = self.decoder.context.condition(history, likelihood)
        return each_tensor(lambda tensor: tensor.flatten(0, 1), known)


def _summed(weights: Tensor, emissions: Tensor) -> Tensor:
    """log Σ_j a_j p(y | j) (..., V) of weights (..., S) and log p(y | j) (..., S, V).

    If the weights do not sum to 1, as under a window with factors, these are the logits of Σ_j a_j p(y | j) / Σ_j a_j.
    """
    return torch.logsumexp(log_weights(weights)[..., None] + emissions, dim=-2)


def _of_token(emissions: Tensor, tokens: Tensor) -> Tensor:
    """log p(token | j) (..., S) for tokens (...)."""
    return emissions.gather(-1, tokens[..., None, None].expand(*emissions.shape[:-1], 1)).squeeze(-1)


def _by_sentence(tensor: Tensor, source: PreparedSource) -> Tensor:
    """(B, K, ...) of (B * K, ...)."""
    return tensor.view(source.sentences, -1, *tensor.shape[1:])


class HardConfig(DecoderConfig):
    """`{kind: hard}`: hard attention, summed over all alignments; under monotonic_softmax, over the monotonic ones."""

    kind: Literal["hard"] = "hard"
    readout: Literal["deep", "plain"] = "plain"  # for each position: tanh(W [H~_ij; v_j; y_{i-1}]), or H~_ij itself

    sums_values: ClassVar[bool] = False

    def build(self, make_cell: Callable[[], Cell], context: Context, embedding_size: int) -> HardDecoder:
        """UserError: the context is not attention with a probability for each position."""
        attention = context.reader()
        if not isinstance(attention, Attention) or context.heads > 1:
            raise UserError(
                "model.decoder.kind=hard sums over the positions of one attention; set model.context.kind=attention, "
                "model.context.heads=1 and no chunk, or another decoder"
            )
        if not attention.normalizer.sums_to_one:
            raise UserError(
                f"model.decoder.kind=hard needs weights that are probabilities of positions, and those of "
                f"{type(attention.normalizer).__name__} need not sum to 1; set model.context.normalizer=softmax, or "
                f"monotonic_softmax"
            )
        if attention.normalizer.needs_history and attention.window is not None and attention.window.has_factor:
            raise UserError(
                f"model.decoder.kind=hard sums over the alignments of {type(attention.normalizer).__name__}, whose "
                f"probabilities {type(attention.window).__name__} would multiply; set model.context.window=local_m, or "
                f"model.context.normalizer=softmax"
            )
        return HardDecoder(make_cell(), context, embedding_size)
