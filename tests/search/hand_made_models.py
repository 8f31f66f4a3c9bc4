"""Models small enough to be checked by hand or by enumeration."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from seq2seq_attn.corpora.source import Tokens
from seq2seq_attn.models.head import GivenLogits, Head, Read, SoftmaxHead
from seq2seq_attn.models.seq2seq import Decoded, Memory, Seq2Seq, Step

UNK, PAD, BOS, EOS = range(4)


class Stepwise(Seq2Seq):
    """Decodes a known target by its own steps; features are what the head predicts from."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, int]] = []  # of each step: rows of the memory, hypotheses
        self.projected: list[int] = []  # of each call of the head: positions that were projected

    def counted(self, head: Head) -> Head:
        head.register_forward_hook(lambda _, given, logits: self.projected.append(len(given[0].features)))
        return head

    def advance(self, tokens: Tensor, state: NamedTuple, memory: NamedTuple) -> tuple[Tensor, NamedTuple, Tensor]:
        """Features (N, R), the next state, weights (N, S)."""
        raise NotImplementedError

    def step(self, tokens, state, memory):
        assert torch.is_inference_mode_enabled()
        self.seen.append((len(memory.is_state), len(tokens)))
        features, state, weights = self.advance(tokens, state, memory)
        return Step(self.next_logits(Read(features), memory), state, weights)

    def decode(self, inputs, memory, need_weights=True):
        state, features, weights = self.start(memory), [], []
        for tokens in inputs.unbind(1):
            feature, state, weight = self.advance(tokens, state, memory)
            features.append(feature)
            weights.append(weight)
        return Decoded(torch.stack(features, dim=1), torch.stack(weights, dim=1))


class TableSource(NamedTuple):
    kind: Tensor  # (B,): which table, the source's first token

    def select(self, rows):
        return TableSource(self.kind[rows])


class TableState(NamedTuple):
    position: Tensor  # (N,)
    fingerprint: Tensor  # (N,): of every token that was read, in order

    def select(self, rows):
        return TableState(self.position[rows], self.fingerprint[rows])


class TableModel(Stepwise):
    """Logits looked up by (first source token, position, previous token); weights that name their prefix.

    `table` (kinds, positions, V, V); later positions are as the last one. The weight on column j is
    `fingerprint(kind, prefix) + j`.
    """

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = table
        self.head = self.counted(GivenLogits())

    def encode(self, source: Tokens) -> Memory:
        return Memory(TableSource(source.tokens[:, 0]), source.is_token)

    def start(self, memory):
        return TableState(torch.zeros_like(memory.source.kind), memory.source.kind)

    def advance(self, tokens, state, memory):
        copies = len(tokens) // len(memory.is_state)
        kind, is_token = (each.repeat_interleave(copies, dim=0) for each in (memory.source.kind, memory.is_state))
        fingerprint = (state.fingerprint * 31 + tokens) % 10007
        weights = (fingerprint[:, None] + torch.arange(is_token.shape[1])) * is_token
        position = state.position.clamp(max=self.table.shape[1] - 1)
        return (
            self.table[kind, position, tokens],
            TableState(state.position + 1, fingerprint),
            weights.double(),
        )

    def log_probabilities(self, kind: int, tokens: list[int]) -> list[float]:
        """log p of each token, one lookup at a time."""
        last = self.table.shape[1] - 1
        return [
            self.table[kind, min(position, last), previous].log_softmax(-1)[token].item()
            for position, (previous, token) in enumerate(zip([BOS, *tokens], tokens, strict=False))
        ]


def expected_weights(kind: int, tokens: list[int], rows: int, columns: int) -> Tensor:
    """The weights that TableModel returns while it predicts the first `rows` of `tokens </s>`."""
    prints, fingerprint = [], kind
    for token in [BOS, *tokens][:rows]:
        fingerprint = (fingerprint * 31 + token) % 10007
        prints.append(fingerprint)
    return (torch.tensor(prints)[:, None] + torch.arange(columns)).float()


def random_table(seed: int, kinds: int = 5, positions: int = 4, vocabulary: int = 9) -> TableModel:
    logits = torch.randn(kinds, positions, vocabulary, vocabulary, generator=torch.Generator().manual_seed(seed))
    return TableModel(2 * logits.double())


def certain_table(lengths: list[int], vocabulary: int = 8) -> TableModel:
    """Kind i translates to `lengths[i]` - 1 words and `</s>`, each with p > 0.98."""
    table = torch.zeros(len(lengths), max(lengths), vocabulary, vocabulary, dtype=torch.double)
    for kind, length in enumerate(lengths):
        table[kind, : length - 1, :, 4 + kind % (vocabulary - 4)] = 6.0
        table[kind, length - 1 :, :, EOS] = 6.0
    return TableModel(table)


class GruSource(NamedTuple):
    states: Tensor  # (B, S, H)

    def select(self, rows):
        return GruSource(self.states[rows])


class GruState(NamedTuple):
    hidden: Tensor  # (N, H)

    def select(self, rows):
        return GruState(self.hidden[rows])


class GruModel(Stepwise):
    """A random GRU encoder-decoder with dot-product attention, in double precision."""

    def __init__(self, seed: int, vocabulary: int = 11, size: int = 6) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.embedding = nn.Embedding(vocabulary, size)
            self.encoder = nn.GRUCell(size, size)
            self.decoder = nn.GRUCell(2 * size, size)
            self.head = self.counted(SoftmaxHead(nn.Linear(2 * size, vocabulary)))
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
        return Memory(GruSource(torch.stack(states, dim=1)), is_token)

    def start(self, memory):
        return GruState(memory.source.states.sum(dim=1).tanh())

    def advance(self, tokens, state, memory):
        states = memory.source.states
        queries = state.hidden.view(len(states), -1, state.hidden.shape[1])
        scores = (queries @ states.transpose(1, 2)).masked_fill(~memory.is_state[:, None], -torch.inf)
        weights = scores.softmax(dim=-1)
        context = (weights @ states).flatten(0, 1)
        hidden = self.decoder(torch.cat((self.embedding(tokens), context), dim=1), state.hidden)
        return torch.cat((hidden, context), dim=1), GruState(hidden), weights.flatten(0, 1)


SOURCES = [[4, 7, 6, EOS], [5, EOS], [10, 9, 8, 4, 5, 6, EOS], [EOS], [6, 6, 9, EOS], [7, 10, EOS]]
