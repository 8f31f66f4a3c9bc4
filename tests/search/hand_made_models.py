"""Translators small enough to be checked by hand or by enumeration."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from seq2seq_attn.corpora.source import Tokens
from seq2seq_attn.models.seq2seq import Decoded, Seq2Seq, Step

UNK, PAD, BOS, EOS = range(4)


class Stepwise(Seq2Seq):
    """Decodes a known target by its own steps; `features` is what `step` projects."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, int]] = []  # of each step: rows of the memory, hypotheses
        self.projected: list[int] = []  # of each call: positions that were projected

    def advance(self, tokens: Tensor, state: NamedTuple, memory: NamedTuple) -> tuple[Tensor, NamedTuple, Tensor]:
        """Features (N, R), the next state, weights (N, S)."""
        raise NotImplementedError

    def step(self, tokens, state, memory):
        assert torch.is_inference_mode_enabled()
        self.seen.append((len(memory[0]), len(tokens)))
        features, state, weights = self.advance(tokens, state, memory)
        return Step(self.project(features), state, weights)

    def decode(self, inputs, memory):
        state, features, weights = self.start(memory), [], []
        for tokens in inputs.unbind(1):
            feature, state, weight = self.advance(tokens, state, memory)
            features.append(feature)
            weights.append(weight)
        return Decoded(torch.stack(features, dim=1), torch.stack(weights, dim=1))


class TableMemory(NamedTuple):
    kind: Tensor  # (B,): which table, the source's first token
    is_token: Tensor  # (B, S)

    def select(self, rows):
        return TableMemory(self.kind[rows], self.is_token[rows])


class TableState(NamedTuple):
    position: Tensor  # (N,)
    fingerprint: Tensor  # (N,): of every token that was read, in order

    def select(self, rows):
        return TableState(self.position[rows], self.fingerprint[rows])


class TableTranslator(Stepwise):
    """Logits looked up by (first source token, position, previous token); weights that name their prefix.

    `table` (kinds, positions, V, V); later positions are as the last one. The weight on column j is
    `fingerprint(kind, prefix) + j`.
    """

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = table

    def encode(self, source: Tokens) -> TableMemory:
        return TableMemory(source.tokens[:, 0], source.is_token)

    def start(self, memory):
        return TableState(torch.zeros_like(memory.kind), memory.kind)

    def advance(self, tokens, state, memory):
        copies = len(tokens) // len(memory.kind)
        kind, is_token = (
            memory.kind.repeat_interleave(copies),
            memory.is_token.repeat_interleave(copies, dim=0),
        )
        fingerprint = (state.fingerprint * 31 + tokens) % 10007
        weights = (fingerprint[:, None] + torch.arange(is_token.shape[1])) * is_token
        position = state.position.clamp(max=self.table.shape[1] - 1)
        return (
            self.table[kind, position, tokens],
            TableState(state.position + 1, fingerprint),
            weights.double(),
        )

    def project(self, features):
        self.projected.append(features[..., 0].numel())
        return features

    def log_probabilities(self, kind: int, tokens: list[int]) -> list[float]:
        """log p of each token, one lookup at a time."""
        last = self.table.shape[1] - 1
        return [
            self.table[kind, min(position, last), previous].log_softmax(-1)[token].item()
            for position, (previous, token) in enumerate(zip([BOS, *tokens], tokens, strict=False))
        ]


def expected_weights(kind: int, tokens: list[int], rows: int, columns: int) -> Tensor:
    """The weights that TableTranslator returns while it predicts the first `rows` of `tokens </s>`."""
    prints, fingerprint = [], kind
    for token in [BOS, *tokens][:rows]:
        fingerprint = (fingerprint * 31 + token) % 10007
        prints.append(fingerprint)
    return (torch.tensor(prints)[:, None] + torch.arange(columns)).float()


def random_table(seed: int, kinds: int = 5, positions: int = 4, vocabulary: int = 9) -> TableTranslator:
    logits = torch.randn(kinds, positions, vocabulary, vocabulary, generator=torch.Generator().manual_seed(seed))
    return TableTranslator(2 * logits.double())


def certain_table(lengths: list[int], vocabulary: int = 8) -> TableTranslator:
    """Kind i translates to `lengths[i]` - 1 words and `</s>`, each with p > 0.98."""
    table = torch.zeros(len(lengths), max(lengths), vocabulary, vocabulary, dtype=torch.double)
    for kind, length in enumerate(lengths):
        table[kind, : length - 1, :, 4 + kind % (vocabulary - 4)] = 6.0
        table[kind, length - 1 :, :, EOS] = 6.0
    return TableTranslator(table)


class GruMemory(NamedTuple):
    states: Tensor  # (B, S, H)
    is_token: Tensor  # (B, S)

    def select(self, rows):
        return GruMemory(self.states[rows], self.is_token[rows])


class GruState(NamedTuple):
    hidden: Tensor  # (N, H)

    def select(self, rows):
        return GruState(self.hidden[rows])


class GruTranslator(Stepwise):
    """A random GRU encoder-decoder with dot-product attention, in double precision."""

    def __init__(self, seed: int, vocabulary: int = 11, size: int = 6) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.embedding = nn.Embedding(vocabulary, size)
            self.encoder = nn.GRUCell(size, size)
            self.decoder = nn.GRUCell(2 * size, size)
            self.output = nn.Linear(2 * size, vocabulary)
            for parameter in self.parameters():
                nn.init.normal_(parameter)
        self.dropout = nn.Dropout(0.5)
        self.double().eval()

    def encode(self, source):
        is_token, states = source.is_token, []
        hidden = self.embedding.weight.new_zeros(len(source.tokens), self.encoder.hidden_size)
        for position, tokens in enumerate(source.tokens.unbind(1)):
            hidden = self.encoder(self.dropout(self.embedding(tokens)), hidden) * is_token[:, position, None]
            states.append(hidden)
        return GruMemory(torch.stack(states, dim=1), is_token)

    def start(self, memory):
        return GruState(memory.states.sum(dim=1).tanh())

    def advance(self, tokens, state, memory):
        queries = state.hidden.view(len(memory.states), -1, state.hidden.shape[1])
        scores = (queries @ memory.states.transpose(1, 2)).masked_fill(~memory.is_token[:, None], -torch.inf)
        weights = scores.softmax(dim=-1)
        context = (weights @ memory.states).flatten(0, 1)
        hidden = self.decoder(torch.cat((self.embedding(tokens), context), dim=1), state.hidden)
        return torch.cat((hidden, context), dim=1), GruState(hidden), weights.flatten(0, 1)

    def project(self, features):
        self.projected.append(features[..., 0].numel())
        return super().project(features)


SOURCES = [[4, 7, 6, EOS], [5, EOS], [10, 9, 8, 4, 5, 6, EOS], [EOS], [6, 6, 9, EOS], [7, 10, EOS]]
