"""Shapes and masks that do not fit are refused in one line that says how they would."""

import json
import subprocess
import sys

import pytest

# A program of its own: while tests run, the shape checks of jaxtyping come first.
PROGRAM = """
import json, torch
from seq2seq_attn.attention import *

B, T, S, Q, K = 2, 3, 4, 5, 7
query, keys = torch.randn(B, T, Q), torch.randn(B, S, K)
mask = torch.ones(B, S, dtype=torch.bool)
attention = Attention(Additive(Q, K))
heads = MultiHead(Attention(Dot(3, 3)), 2, Q, K)
located = MultiHead(Attention(Dot(3, 3)), 2, Q, K, position=RelativeBias(6, 2))
like_torch = MultiheadAttention(6, 2, batch_first=True)
steps_first = MultiheadAttention(6, 2)
chunks = ChunkwiseAttention(Attention(General(Q, K), Monotonic()), General(Q, K))
mean = MeanContext(K)


def read(context, query=query, keys=keys, **of_source):
    return lambda: context(query, context.prepare(keys, **of_source))


def ask(context, keys=keys, is_token=None, **options):
    return lambda: attend(context, query, keys, is_token=is_token, **options)


def torchs(module=like_torch, query=torch.randn(B, T, 6), keys=torch.randn(B, S, 6), values=None, **masks):
    return lambda: module(query, keys, keys if values is None else values, **masks)


CASES = {
    "fits, torch's masks": torchs(key_padding_mask=~mask, attn_mask=torch.zeros(2 * B, T, S)),
    "fits, one sentence": torchs(query=torch.randn(T, 6), keys=torch.randn(S, 6), key_padding_mask=torch.zeros(S)),
    "fits, steps first": torchs(steps_first, torch.randn(T, B, 6), torch.randn(S, B, 6), key_padding_mask=~mask),
    "torch's mask, transposed": torchs(key_padding_mask=~mask.t()),
    "torch's mask of integers": torchs(key_padding_mask=mask.long()),
    "torch's mask of everything": torchs(key_padding_mask=mask),
    "torch's mask per sentence": torchs(attn_mask=torch.zeros(B, T, S)),
    "torch's keys, of other sentences": torchs(steps_first, torch.randn(T, B, 6), torch.randn(S, 3, 6)),
    "torch's keys, of one sentence": torchs(keys=torch.randn(S, 6)),
    "torch's query, narrow": torchs(query=torch.randn(B, T, 5)),
    "torch's values, fewer": torchs(values=torch.randn(B, 3, 6)),
    "fits": read(attention, is_token=mask),
    "fits, heads": read(heads, is_token=mask),
    "fits, chunks": read(chunks, is_token=mask),
    "long mask": read(attention, is_token=mask.long()),
    "float mask": read(attention, is_token=mask.float()),
    "mask of other sizes": read(attention, is_token=mask[:, 1:]),
    "mask of a mean": read(mean, is_token=mask.long()),
    "mask of heads": read(heads, is_token=mask.long()),
    "query of two dimensions": read(attention, query[:, 0]),
    "query of two dimensions, heads": read(heads, query[:, 0]),
    "query of two dimensions, chunks": read(chunks, query[:, 0]),
    "query of two dimensions, mean": read(mean, query[:, 0]),
    "query of another size": read(attention, query[..., 1:]),
    "query of other sentences": read(attention, query[:1]),
    "query of other sentences, heads": read(heads, query[:1]),
    "keys of two dimensions": read(attention, keys=keys[0]),
    "keys of another size": read(attention, keys=keys[..., 1:]),
    "keys of another size, heads": read(heads, keys=keys[..., 1:]),
    "fewer values": read(attention, values=keys[:, 1:]),
    "narrow values, heads": read(heads, values=keys[..., 1:]),
    "no positions": read(attention, keys=keys[:, :0]),
    "mask per query as is_token": read(attention, is_token=mask[:, None].expand(B, T, S)),
    "float may_read": ask(attention, may_read=torch.zeros(T, S)),
    "may_read of other queries": ask(attention, may_read=torch.ones(T + 1, S, dtype=torch.bool)),
    "bool bias": ask(attention, bias=torch.ones(T, S, dtype=torch.bool)),
    "bool bias, heads with a position": ask(located, bias=torch.ones(T, S, dtype=torch.bool)),
    "bias of other positions": ask(heads, bias=torch.zeros(T, S + 1)),
    "bias of other heads": ask(heads, bias=torch.zeros(B, 3, T, S)),
    "nothing left": ask(attention, may_read=torch.eye(S, dtype=torch.bool)[:T], is_token=mask & (torch.arange(S) != 1)),
    "nothing left by the bias": ask(attention, bias=torch.tensor([0.0, -torch.inf, 0.0])[:, None]),
    "padding on the left": ask(attention, keys=keys[:, :T], causal=True, is_token=torch.arange(T).expand(B, T) > 0),
    "more causal queries than positions": ask(attention, keys=keys[:, :2], causal=True),
    "not prepared": lambda: attention(query, keys),
    "not prepared, heads": lambda: heads(query, keys),
    "not prepared, mean": lambda: mean(query, keys),
    "a class": lambda: Attention(Additive),
    "a name": lambda: Attention(Dot(3, 3), "sparsemax"),
    "the name of a scorer": lambda: Attention("Additive"),
    "an unknown name": lambda: Attention(Dot(3, 3), "sparsemux"),
    "the class of a normalizer": lambda: Attention(Dot(3, 3), Sparsemax),
    "a normalizer as a scorer": lambda: Attention(Softmax()),
    "a window as a class": lambda: Attention(Dot(3, 3), window=LocalM),
    "a scorer as attention": lambda: MultiHead(Dot(3, 3), 2, Q, K),
    "self-attention of a scorer": lambda: SelfAttention(ScaledDot(3, 3)),
    "a summary as a class": lambda: FixedContext(MeanState, K),
    "a class of positions": lambda: MultiHead(Attention(Dot(3, 3)), 2, Q, K, position=Rotary),
    "tensors": lambda: Attention(query, keys),
    "chunks of a class": lambda: ChunkwiseAttention(Attention(General(Q, K)), General),
    "torch's, with an instance": lambda: MultiheadAttention(6, 2, scorer=Additive(3, 3)),
    "torch's, with a name": lambda: MultiheadAttention(6, 2, scorer="additive"),
    "relative, with an instance": lambda: Relative(Q, K, General(Q, K)),
    "causal hypotheses": lambda: attention(query, attention.prepare(keys), ((), (), ()), causal=True),
}


def message(case):
    try:
        case()
    except (TypeError, ValueError) as error:
        return str(error)


print(json.dumps({name: message(case) for name, case in CASES.items()}))
"""


@pytest.fixture(scope="module")
def messages():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "name", ["fits", "fits, heads", "fits, chunks", "fits, torch's masks", "fits, one sentence", "fits, steps first"]
)
def test_what_fits_is_read(messages, name):
    assert messages[name] is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "long mask",
            "Attention needs is_token as a bool tensor, True on tokens, got torch.int64; give mask.b",
        ),
        (
            "float mask",
            "give mask.bool() for a mask with 1 on tokens, mask == 0 for one with 1 or -inf on padding",
        ),
        ("mask of other sizes", "Attention needs is_token of shape (2, 4) for these keys, got (2, 3)"),
        ("mask of a mean", "MeanContext needs is_token as a bool tensor"),
        ("mask of heads", "MultiHead needs is_token as a bool tensor"),
        ("query of two dimensions", "got (2, 5); for one query per sentence give query[:, None]"),
        ("query of two dimensions, heads", "MultiHead needs queries (sentences, queries, query_size), got (2, 5)"),
        (
            "query of two dimensions, chunks",
            "ChunkwiseAttention needs queries (sentences, queries, query_size), got",
        ),
        ("query of two dimensions, mean", "MeanContext needs queries (sentences, queries, query_size), got (2, 5)"),
        ("query of another size", "Attention has query_size 5, got queries (2, 3, 4)"),
        ("query of other sentences", "Attention needs queries for the 2 sentences of the source, got (1, 3, 5)"),
        ("query of other sentences, heads", "MultiHead needs queries for the 2 sentences of the source, got (1, 3, 5)"),
        (
            "keys of two dimensions",
            "Attention needs keys (sentences, positions, key_size), got (4, 7); for one",
        ),
        ("keys of another size", "Attention has key_size 7, got keys (2, 4, 6)"),
        ("keys of another size, heads", "MultiHead has key_size 7, got keys (2, 4, 6)"),
        ("fewer values", "Attention needs a value for every key (2, 4, 7), got values (2, 3, 7)"),
        ("narrow values, heads", "MultiHead has value_size 7, got values of size 6; give it value_size=6"),
        ("no positions", "the source has no positions"),
        ("mask per query as is_token", "got (2, 3, 4); give a mask per query as may_read"),
        ("float may_read", "Attention needs may_read as a bool tensor, True where a query may read, got torch.float32"),
        (
            "may_read of other queries",
            "may_read that broadcasts to (sentences, queries, positions) = (2, 3, 4), got (4, 4)",
        ),
        ("bool bias", "Attention needs a floating-point bias, got torch.bool; a bool mask is given as may_read"),
        ("bool bias, heads with a position", "MultiHead needs a floating-point bias, got torch.bool; a bool mask"),
        ("bias of other positions", "needs a bias that broadcasts to (sentences, queries, positions) = (4, 3, 4), got"),
        ("bias of other heads", "MultiHead needs a bias (sentences, queries, positions) or (sentences, heads, queries"),
        ("nothing left", "Attention: query 1 of row 0 may read no position, one of 2 such"),
        ("nothing left by the bias", "Attention: query 1 of row 0 may read no position, one of 1 such"),
        ("padding on the left", "(causal queries on padding have none if padding is on the left)"),
        ("more causal queries than positions", "3 causal queries need at least as many positions, since they are"),
        ("torch's mask, transposed", "MultiheadAttention needs key_padding_mask (2, 4), got (4, 2)"),
        (
            "torch's mask of integers",
            "key_padding_mask as a bool tensor, True where a position is not read, or a float",
        ),
        ("torch's mask of everything", "no token in row(s) [0, 1] of the source"),
        ("torch's mask per sentence", "MultiheadAttention needs attn_mask (3, 4) or (4, 3, 4), got (2, 3, 4)"),
        ("torch's keys, of other sentences", "MultiheadAttention needs key (4, 2, 6), got (4, 3, 6)"),
        ("torch's keys, of one sentence", "of 3 dimensions, or all of 2, got (2, 3, 6), (4, 6), (4, 6)"),
        ("torch's query, narrow", "MultiheadAttention needs query (2, 3, 6), got (2, 3, 5)"),
        ("torch's values, fewer", "MultiheadAttention needs value (2, 4, 6), got (2, 3, 6)"),
        ("not prepared", "Attention reads what its prepare returned, got a tensor; call source = attention.prepare("),
        ("not prepared, heads", "MultiHead reads what its prepare returned, got a tensor"),
        ("not prepared, mean", "MeanContext reads what its prepare returned, got a tensor"),
        (
            "a class",
            "Attention needs scorer to be an instance of Scorer, got the class Additive; give an instance: "
            "Additive(query_size=..., key_size=...)",
        ),
        (
            "a name",
            "Attention needs normalizer to be an instance of Normalizer, got the text 'sparsemax'; give an instance: "
            "Sparsemax()",
        ),
        ("the name of a scorer", "got the text 'Additive'; give an instance: Additive(query_size=..., key_size=...)"),
        ("an unknown name", "got the text 'sparsemux'; give an instance of a class derived from Normalizer"),
        ("the class of a normalizer", "got the class Sparsemax; give an instance: Sparsemax()"),
        ("a normalizer as a scorer", "got an instance of Softmax; give an instance of a class derived from Scorer"),
        ("a window as a class", "needs window to be an instance of Window, got the class LocalM; give an instance: L"),
        ("a scorer as attention", "MultiHead needs attention to be an instance of Context, got an instance of Dot"),
        (
            "self-attention of a scorer",
            "SelfAttention needs attention to be an instance of Context, got an instance of",
        ),
        (
            "a summary as a class",
            "FixedContext needs summary to be an instance of Summary, got the class MeanState; give",
        ),
        ("a class of positions", "got the class Rotary; give an instance: Rotary(size=..., heads=...)"),
        ("tensors", "got an instance of Tensor; give an instance of a class derived from Scorer"),
        ("chunks of a class", "got the class General; give an instance: General(query_size=..., key_size=...)"),
        (
            "torch's, with an instance",
            "MultiheadAttention creates its scorer, for queries of size 3 and keys of size 3; give the class, as in "
            "scorer=Additive or scorer=partial(Additive, hidden_size=64), got an instance of Additive",
        ),
        (
            "torch's, with a name",
            "give the class, as in scorer=Additive or scorer=partial(Additive, hidden_size=64), go",
        ),
        ("relative, with an instance", "Relative creates its scorer, for queries of size 5 and keys of size 7"),
        ("causal hypotheses", "queries with a history are hypotheses of one step and cannot be causal"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_shape_and_the_way_out(messages, name, words):
    assert words in messages[name]
    assert "\n" not in messages[name]
