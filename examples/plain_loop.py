"""Attention in a training loop of your own, which learns to normalize dates.

    python examples/plain_loop.py

The encoder reads "march 7, 1962" letter by letter, and the decoder writes "1962-03-07". Model and loop are plain
PyTorch; only two classes come from the library. At the end, the weights show which letters the decoder attended to at
each step.
"""

import argparse
import random
import time

import torch
import torch.nn.functional as F
from torch import nn

from seq2seq_attn.attention import Additive, Attention

MONTHS = ["january", "february", "march", "april", "may", "june"]
MONTHS += ["july", "august", "september", "october", "november", "december"]
LETTERS = "_^ ,-0123456789abcdefghijklmnopqrstuvwxyz"  # _ is padding, ^ the start symbol
SIZE = 64


def dates(count):
    """Yield random dates in one of three formats, each with its ISO 8601 form."""
    for _ in range(count):
        year, month, day = random.randint(1900, 2099), random.randint(1, 12), random.randint(1, 28)
        name = MONTHS[month - 1]
        formats = f"{day} {name} {year}", f"{name} {day}, {year}", f"{day} {name[:3]} {year}"
        yield random.choice(formats), f"{year}-{month:02}-{day:02}"


def numbers(texts):
    """Letter ids (B, longest), padded with 0."""
    rows = [torch.tensor([LETTERS.index(letter) for letter in text]) for text in texts]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)


class Model(nn.Module):
    """A bidirectional GRU encoder and a GRU decoder, connected by attention alone."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(len(LETTERS), SIZE)
        self.encoder = nn.GRU(SIZE, SIZE, batch_first=True, bidirectional=True)
        self.decoder = nn.GRU(SIZE, SIZE, batch_first=True)
        # Queries are decoder states of size 64; keys are encoder states of size 128, 64 for each direction.
        self.attention = Attention(Additive(query_size=SIZE, key_size=2 * SIZE, hidden_size=SIZE))
        self.output = nn.Linear(SIZE + 2 * SIZE, len(LETTERS))

    def read(self, source):
        states, _ = self.encoder(self.embedding(source))
        # Once per sentence. The mask is passed here only; padding never gets any weight.
        return self.attention.prepare(states, is_token=source != 0)

    def write(self, letters, source, state=None):
        queries, state = self.decoder(self.embedding(letters), state)
        # Any number of queries per call: the whole target in training, a single letter in a decoding step.
        contexts, weights = self.attention(queries, source)
        return self.output(torch.cat((queries, contexts), dim=-1)), weights, state


def train(model, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(1, steps + 1):
        sources, targets = zip(*dates(64), strict=True)
        target = numbers(targets)
        before = numbers(["^" + text[:-1] for text in targets])  # the input to the decoder: the target shifted by one
        logits, _, _ = model.write(before, model.read(numbers(sources)))
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 25 == 0:
            print(f"step {step:4}  loss {loss:.4f}")


@torch.no_grad()
def translate(model, texts):
    """Greedy decoding: the dates, and the weights (B, 10, S) of each letter."""
    source, state, weights = model.read(numbers(texts)), None, []
    letters = [numbers(["^"] * len(texts))]
    for _ in range(len("1962-03-07")):
        logits, read, state = model.write(letters[-1], source, state)
        letters.append(logits.argmax(dim=-1))
        weights.append(read)
    rows = torch.cat(letters[1:], dim=1).tolist()
    return ["".join(LETTERS[number] for number in row) for row in rows], torch.cat(weights, dim=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random.seed(options.seed)
    torch.set_num_threads(1)  # more threads would only wait for each other on tensors of this size
    torch.manual_seed(options.seed)

    model, began = Model(), time.perf_counter()
    train(model, options.steps)
    texts, answers = zip(*dates(1000), strict=True)
    written, _ = translate(model, texts)
    right = sum(one == other for one, other in zip(written, answers, strict=True)) / len(answers)
    print(f"\n{right:.1%} of 1,000 new dates correct, {time.perf_counter() - began:.0f} s\n")

    text = "march 7, 1962"
    (iso,), (weights,) = translate(model, [text])
    print("  " + " ".join(text))
    for letter, row in zip(iso, weights, strict=True):
        print(letter, " ".join(" ░▒▓█"[round(4 * weight)] for weight in row.tolist()))


if __name__ == "__main__":
    main()
