"""Any scorer as the cross-attention of a Transformer: torch's decoder layer with one module replaced.

    python examples/cross_attention.py

`nn.TransformerDecoderLayer` attends to the encoder with its module `multihead_attn`. This example replaces that module
by `MultiheadAttention`: first with torch's equation and weights, to show that the output stays the same, then with the
additive score v · tanh(W q + U k + b), which torch does not have. The task is to reverse words.
"""

import argparse
import random
import string
import time

import torch
import torch.nn.functional as F
from torch import nn

from seq2seq_attn.attention import Additive, MultiheadAttention

LETTERS = "_^$" + string.ascii_lowercase  # _ is padding, ^ the start symbol, $ the end symbol
SIZE, HEADS, LONGEST = 64, 4, 10


def decoder_layer():
    return nn.TransformerDecoderLayer(SIZE, HEADS, 2 * SIZE, dropout=0.0, batch_first=True)


def replacement_error():
    """The largest difference in the layer's output after its cross-attention is replaced, with the same weights."""
    layer, target, memory = decoder_layer(), torch.randn(2, 5, SIZE), torch.randn(2, 7, SIZE)
    is_padding = torch.arange(7) >= torch.tensor([[7], [4]])
    before = layer(target, memory, memory_key_padding_mask=is_padding)
    layer.multihead_attn = MultiheadAttention.from_torch(layer.multihead_attn)
    after = layer(target, memory, memory_key_padding_mask=is_padding)
    return (after - before).abs().max().item()


class Model(nn.Module):
    """A Transformer with one encoder layer and one decoder layer, which attends with the additive score."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(len(LETTERS), SIZE)
        self.position = nn.Embedding(LONGEST + 1, SIZE)
        self.encoder = nn.TransformerEncoderLayer(SIZE, HEADS, 2 * SIZE, dropout=0.0, batch_first=True)
        self.decoder = decoder_layer()
        self.decoder.multihead_attn = MultiheadAttention(SIZE, HEADS, batch_first=True, scorer=Additive)
        self.output = nn.Linear(SIZE, len(LETTERS))

    def embed(self, letters):
        return self.embedding(letters) + self.position.weight[: letters.shape[1]]

    def forward(self, source, before):
        is_padding = source == 0
        memory = self.encoder(self.embed(source), src_key_padding_mask=is_padding)
        mask = nn.Transformer.generate_square_subsequent_mask(before.shape[1])
        return self.output(self.decoder(self.embed(before), memory, mask, memory_key_padding_mask=is_padding))


def words(count):
    return ["".join(random.choices(string.ascii_lowercase, k=random.randint(1, LONGEST))) for _ in range(count)]


def numbers(texts):
    """Letter ids (B, longest), padded with 0."""
    rows = [torch.tensor([LETTERS.index(letter) for letter in text]) for text in texts]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)


def train(model, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(1, steps + 1):
        sources = words(64)
        target = numbers([text[::-1] + "$" for text in sources])
        logits = model(numbers(sources), numbers(["^" + text[::-1] for text in sources]))
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step:4}  loss {loss:.4f}")


@torch.no_grad()
def reverse(model, texts):
    """Greedy decoding, up to `$`."""
    source, written = numbers(texts), numbers(["^"] * len(texts))
    for _ in range(LONGEST + 1):
        following = model(source, written)[:, -1:].argmax(dim=-1)
        written = torch.cat((written, following), dim=1)
    return ["".join(LETTERS[number] for number in row[1:]).partition("$")[0] for row in written.tolist()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random.seed(options.seed)
    torch.set_num_threads(1)  # more threads would only wait for each other on tensors of this size
    torch.manual_seed(options.seed)

    print(f"scaled dot product with torch's weights: outputs differ by at most {replacement_error():.0e}\n")

    print("additive score, which torch does not have:")
    model, began = Model(), time.perf_counter()
    train(model, options.steps)
    model.eval()
    texts = words(1000)
    right = sum(text[::-1] == found for text, found in zip(texts, reverse(model, texts), strict=True)) / len(texts)
    print(f"\n{right:.1%} of 1,000 new words correct, {time.perf_counter() - began:.0f} s\n")

    # torch's layer requests no weights. One hook requests them (the mean over heads), another one keeps them.
    returned, attention = [], model.decoder.multihead_attn
    attention.register_forward_pre_hook(
        lambda module, inputs, options: (inputs, options | {"need_weights": True}), with_kwargs=True
    )
    attention.register_forward_hook(lambda module, inputs, outputs: returned.append(outputs[1]))
    text = "attention"
    found = reverse(model, [text])[0]
    print("  " + " ".join(text))
    for letter, row in zip(found, returned[-1][0].tolist(), strict=False):
        print(letter, " ".join(" ░▒▓█"[round(4 * weight)] for weight in row))


if __name__ == "__main__":
    main()
