"""Any scorer as the cross-attention of a Transformer: torch's own decoder layer, with one part exchanged.

    python examples/cross_attention.py

`nn.TransformerDecoderLayer` reads the encoder through its part `multihead_attn`. Here the library's attention takes
that place: first with torch's own equation, to see that nothing else changes, then with the score of the first
attention model, v · tanh(W q + U k + b), which torch does not have. The task is to write a word backwards.
"""

import argparse
import random
import string
import time

import torch
import torch.nn.functional as F
from torch import nn

from seq2seq_attn.attention import Additive, Attention, MultiHead, ScaledDot

LETTERS = "_^$" + string.ascii_lowercase  # _ is padding, ^ what the decoder starts from, $ the end
SIZE, HEADS, LONGEST = 64, 4, 10


class CrossAttention(nn.Module):
    """Called as `nn.MultiheadAttention` is, it reads with any context of the library."""

    def __init__(self, context):
        super().__init__()
        self.context = context

    def forward(self, query, key, value, key_padding_mask=None, attn_mask=None, **options):
        assert attn_mask is None, "cross-attention may read all of the source"
        # torch's mask is True on padding, the library's where a token is.
        is_token = None if key_padding_mask is None else ~key_padding_mask
        return self.context(query, self.context.prepare(key, value, is_token=is_token))


def several(scorer):
    """Heads with projections of their own, around a scorer of the size of one head."""
    one = Attention(scorer(query_size=SIZE // HEADS, key_size=SIZE // HEADS))
    return MultiHead(one, HEADS, query_size=SIZE, key_size=SIZE)


def decoder_layer():
    return nn.TransformerDecoderLayer(SIZE, HEADS, 2 * SIZE, dropout=0.0, batch_first=True, bias=False)


def exchange():
    """The largest difference in the layer's output, once its cross-attention is ours with torch's weights."""
    layer, target, memory = decoder_layer(), torch.randn(2, 5, SIZE), torch.randn(2, 7, SIZE)
    is_padding = torch.arange(7) >= torch.tensor([[7], [4]])
    before = layer(target, memory, memory_key_padding_mask=is_padding)

    torchs, ours = layer.multihead_attn, several(ScaledDot)
    projections = (ours.query_layer, ours.key_layer, ours.value_layer)
    for projection, weight in zip(projections, torchs.in_proj_weight.chunk(3), strict=True):
        projection.weight = nn.Parameter(weight)
    ours.output_layer.weight = torchs.out_proj.weight
    layer.multihead_attn = CrossAttention(ours)
    after = layer(target, memory, memory_key_padding_mask=is_padding)
    return (after - before).abs().max().item()


class Model(nn.Module):
    """One layer of a Transformer's encoder, and one of its decoder that reads it with additive attention."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(len(LETTERS), SIZE)
        self.position = nn.Embedding(LONGEST + 1, SIZE)
        self.encoder = nn.TransformerEncoderLayer(SIZE, HEADS, 2 * SIZE, dropout=0.0, batch_first=True)
        self.decoder = decoder_layer()
        self.decoder.multihead_attn = CrossAttention(several(Additive))
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
    """(B, longest) of letter numbers, padded with 0."""
    rows = [torch.tensor([LETTERS.index(letter) for letter in text]) for text in texts]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)


def train(model, steps):
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(1, steps + 1):
        sources = words(64)
        target = numbers([text[::-1] + "$" for text in sources])
        logits = model(numbers(sources), numbers(["^" + text[::-1] for text in sources]))
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=0)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % 50 == 0:
            print(f"step {step:4}  loss {loss:.4f}")


@torch.no_grad()
def backwards(model, texts):
    """What the model writes, letter after letter, up to `$`."""
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
    torch.set_num_threads(
        1
    )  # tensors this small gain nothing from more, and on a busy machine threads wait for each other
    random.seed(options.seed)
    torch.manual_seed(options.seed)

    print(f"scaled dot with torch's weights: outputs differ by {exchange():.0e} at most\n")

    print("additive attention, a decoder layer that torch does not have:")
    model, began = Model(), time.perf_counter()
    train(model, options.steps)
    model.eval()
    texts = words(1000)
    right = sum(text[::-1] == found for text, found in zip(texts, backwards(model, texts), strict=True)) / len(texts)
    print(f"\n{right:.1%} of 1,000 new words right, {time.perf_counter() - began:.0f} s\n")

    # torch's layer drops the weights, but a hook sees all that its part returns; they are the mean of the heads.
    seen = []
    model.decoder.multihead_attn.register_forward_hook(lambda part, given, returned: seen.append(returned[1]))
    text = "attention"
    found = backwards(model, [text])[0]
    print("  " + " ".join(text))
    for letter, row in zip(found, seen[-1][0].tolist(), strict=False):
        print(letter, " ".join(" ░▒▓█"[round(4 * weight)] for weight in row))


if __name__ == "__main__":
    main()
