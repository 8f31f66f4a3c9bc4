"""What does not fit is refused in one line that names the part, what it needs, what it got, and the way out."""

import json
import subprocess
import sys

import pytest

# A program of its own: while tests run, the shape checks of jaxtyping come first.
PROGRAM = """
import json, sys, torch
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
halves = KeyValueAttention(Attention(General(Q, 3)))


def read(context, query=query, keys=keys, **of_source):
    return context(query, context.prepare(keys, **of_source))


def ask(context, keys=keys, **options):
    return attend(context, query, keys, **options)


def torchs(module=like_torch, query=torch.randn(B, T, 6), keys=torch.randn(B, S, 6), values=None, **masks):
    return module(query, keys, keys if values is None else values, **masks)


class NoSizes(MeanContext):
    reads_query = True


class Centered(General, registered=False):
    can_extend = False

    def prepare(self, keys):
        return super().prepare(keys - keys.mean(dim=1, keepdim=True))


class Transposed(General, registered=False):
    def forward(self, query, prepared):
        return super().forward(query, prepared).transpose(1, 2)


def extend(context, more=keys):
    return context.extend(context.prepare(keys), more)


def message(expression):
    try:
        eval(expression)
    except (TypeError, ValueError) as error:
        return str(error)


print(json.dumps([message(each) for each in json.load(sys.stdin)]))
"""

FITS = [
    "read(attention, is_token=mask)",
    "read(heads, is_token=mask)",
    "read(chunks, is_token=mask)",
    "torchs(key_padding_mask=~mask, attn_mask=torch.zeros(2 * B, T, S))",
    "torchs(query=torch.randn(T, 6), keys=torch.randn(S, 6), key_padding_mask=torch.zeros(S))",
    "torchs(steps_first, torch.randn(T, B, 6), torch.randn(S, B, 6), key_padding_mask=~mask)",
]

REFUSED = {
    # Shapes
    "read(attention, query[:, 0])": "Attention needs queries (sentences, queries, query_size), got (2, 5); for one q",
    "read(heads, query[:, 0])": "MultiHead needs queries (sentences, queries, query_size), got (2, 5)",
    "read(chunks, query[:, 0])": "ChunkwiseAttention needs queries (sentences, queries, query_size), got (2, 5)",
    "read(mean, query[:, 0])": "MeanContext needs queries (sentences, queries, query_size), got (2, 5)",
    "read(attention, query[..., 1:])": "Attention needs queries of query_size 5, got (2, 3, 4)",
    "read(attention, query[:1])": "Attention needs queries for the 2 sentences of the source, got (1, 3, 5)",
    "read(heads, query[:1])": "MultiHead needs queries for the 2 sentences of the source, got (1, 3, 5)",
    "read(attention, keys=keys[0])": "Attention needs keys (sentences, positions, key_size), got (4, 7); for one sen",
    "read(attention, keys=keys[..., 1:])": "Attention needs keys of key_size 7, got (2, 4, 6)",
    "read(heads, keys=keys[..., 1:])": "MultiHead needs keys of key_size 7, got (2, 4, 6)",
    "read(attention, values=keys[:, 1:])": "Attention needs a value for every key (2, 4, 7), got (2, 3, 7)",
    "attention.prepare(keys, mask)": "got (2, 4); give a mask by its name, is_token=mask",
    "read(heads, values=keys[..., 1:])": "MultiHead needs values of value_size 7, got 6; give it value_size=6",
    "read(attention, keys=keys[:, :0])": "got (2, 0, 7); keep at least `</s>` in every sentence",
    "read(attention, is_token=mask & False)": "no token in row(s) [0, 1] of the source; keep at least `</s>` in every",
    "read(heads, is_token=mask & torch.tensor([[True], [False]]))": "no token in row(s) [1] of the source",
    "read(halves)": "KeyValueAttention needs states of a size divisible by 2, to halve each direction, got 7",
    "halves.prepare(keys[..., 1:], keys)": "KeyValueAttention takes no values: it takes them from the keys",
    "attention(query, keys)": "Attention reads what its prepare returned, got a tensor; call source = attention.prepar",
    "heads(query, keys)": "MultiHead reads what its prepare returned, got a tensor",
    "mean(query, keys)": "MeanContext reads what its prepare returned, got a tensor",
    "LastState(directions=2)(keys, mask)": "LastState(directions=2) needs an even state size, got 7",
    "extend(attention, keys[:1])": "Attention needs keys for the 2 sentences of the source, got (1, 4, 7)",
    "extend(Attention(Centered(Q, K)))": "Centered cannot append to a source: its state depends on all positions; prep",
    "extend(Attention(Relative(Q, K, LocationAware)))": "Relative cannot append to a source: its state depends on all",
    "extend(mean)": "MeanContext cannot append to a source; prepare the longer source at once",
    "SelfAttention(Attention(Centered(K, K)), causal=True)": "Centered cannot append to a source: its state depends",
    "read(Attention(Transposed(Q, K)))": "Transposed needs to return scores (sentences, queries, positions) = (2, 3",
    # Masks
    "read(attention, is_token=mask.long())": "Attention needs is_token as a bool tensor, True on tokens, got torch.i",
    "read(attention, is_token=mask.float())": "give mask.bool() for a mask with 1 on tokens, mask == 0 for one with 1",
    "read(attention, is_token=mask[:, 1:])": "Attention needs is_token of shape (2, 4) for these keys, got (2, 3)",
    "read(mean, is_token=mask.long())": "MeanContext needs is_token as a bool tensor",
    "read(heads, is_token=mask.long())": "MultiHead needs is_token as a bool tensor",
    "read(attention, is_token=mask[:, None].expand(B, T, S))": "got (2, 3, 4); give a mask per query as may_read",
    "ask(attention, may_read=torch.zeros(T, S))": "Attention needs may_read as a bool tensor, True where a query may",
    "ask(attention, may_read=torch.ones(T + 1, S) > 0)": "broadcasts to (sentences, queries, positions) = (2, 3, 4), g",
    "ask(attention, bias=torch.ones(T, S) > 0)": "Attention needs a floating-point bias, got torch.bool; a bool mask",
    "ask(located, bias=torch.ones(T, S) > 0)": "MultiHead needs a floating-point bias, got torch.bool; a bool mask is",
    "ask(heads, bias=torch.zeros(T, S + 1))": "MultiHead needs a bias that broadcasts to (sentences, queries, position",
    "ask(heads, bias=torch.zeros(B, 3, T, S))": "(sentences, heads, queries, positions) = (2, 2, 3, 4), got (2, 3, 3",
    "ask(attention, may_read=torch.eye(S)[:T] > 0, is_token=mask & (torch.arange(S) != 1))": "query 1 of row 0 may",
    "ask(attention, bias=torch.tensor([0.0, -torch.inf, 0.0])[:, None])": "query 1 of row 0 may read no position, one",
    "ask(attention, keys[:, :T], causal=True, is_token=torch.arange(T).expand(B, T) > 0)": "padding is on the left)",
    "ask(attention, keys[:, :2], causal=True)": "Attention needs as many positions as its 3 causal queries, which are",
    "attention(query, attention.prepare(keys), ((), (), ()), causal=True)": "queries with a history are hypotheses of",
    "ask(mean, causal=True)": "MeanContext takes no causal: every query gets the same context",
    "ask(mean, bias=torch.zeros(T, S))": "MeanContext takes no bias: every query gets the same context",
    "ask(FixedContext(MeanState(), K), may_read=mask[:, None])": "FixedContext takes no may_read: every query gets",
    "ask(chunks, bias=torch.zeros(T, S))": "ChunkwiseAttention takes no bias: it has two scorers, and a bias belongs",
    "ask(Counterfactual(Attention(General(Q, K)), []), causal=True)": "Counterfactual takes no causal: its changes",
    # What is no tensor
    "read(attention, is_token=mask.numpy())": "Attention needs is_token as a tensor, got an instance of numpy.ndarray;",
    "read(mean, keys=keys.tolist())": "MeanContext needs keys as a tensor, got an instance of list; give torch.as_ten",
    "read(attention, query.numpy())": "Attention needs query as a tensor, got an instance of numpy.ndarray; give torch",
    "ask(attention, may_read=[[True] * S] * T)": "Attention needs may_read as a tensor, got an instance of list; give",
    "ask(heads, bias=0.5)": "MultiHead needs bias as a tensor, got an instance of float; give torch.as_tensor(bias)",
    # In place of torch's module
    "torchs(key_padding_mask=~mask.t())": "MultiheadAttention needs key_padding_mask (2, 4), got (4, 2)",
    "torchs(key_padding_mask=mask.long())": "key_padding_mask as a bool tensor, True where a position is not read, or",
    "torchs(key_padding_mask=mask)": "no token in row(s) [0, 1] of the source",
    "torchs(attn_mask=torch.zeros(B, T, S))": "MultiheadAttention needs attn_mask (3, 4) or (4, 3, 4), got (2, 3, 4)",
    "torchs(attn_mask=torch.tensor([[False], [True], [False]]).expand(T, S))": "query 1 of row 0 may read no position",
    "torchs(steps_first, torch.randn(T, B, 6), torch.randn(S, 3, 6))": "needs key (4, 2, 6), got (4, 3, 6)",
    "torchs(keys=torch.randn(S, 6))": "of 3 dimensions, or all of 2, got (2, 3, 6), (4, 6), (4, 6)",
    "torchs(query=torch.randn(B, T, 5))": "MultiheadAttention needs query (2, 3, 6), got (2, 3, 5)",
    "torchs(values=torch.randn(B, 3, 6))": "MultiheadAttention needs value (2, 4, 6), got (2, 3, 6)",
    "like_torch(*[torch.nested.nested_tensor([torch.ones(2, 6)])] * 3)": "got a nested one; create nn.TransformerEnc",
    # Parts
    "Attention(Additive)": "Attention needs scorer to be an instance of Scorer, got the class Additive; give an insta",
    "Attention(Dot(3, 3), 'sparsemax')": "to be an instance of Normalizer, got the text 'sparsemax'; give an instance",
    "Attention(Dot(3, 3), Sparsemax)": "got the class Sparsemax; give an instance: Sparsemax()",
    "Attention(Softmax())": "got an instance of Softmax; give an instance of a class derived from Scorer",
    "Attention(Dot(3, 3), window=LocalM)": "needs window to be an instance of Window, got the class LocalM; give an in",
    "Attention(Dot(3, 3), torch.nn.Softmax(-1))": "got an instance of torch.nn.modules.activation.Softmax; give an i",
    "Attention(query, keys)": "got an instance of torch.Tensor; give an instance of a class derived from Scorer",
    "MultiHead(Dot(3, 3), 2, Q, K)": "MultiHead needs attention to be an instance of Context, got an instance of Dot",
    "SelfAttention(ScaledDot(3, 3))": "SelfAttention needs attention to be an instance of Context, got an instance of",
    "FixedContext(MeanState, K)": "FixedContext needs summary to be an instance of Summary, got the class MeanState; g",
    "MultiHead(Attention(Dot(3, 3)), 2, Q, K, position=Rotary)": "the class Rotary; give an instance: Rotary(size=...,",
    "ChunkwiseAttention(Attention(General(Q, K)), General)": "the class General; give an instance: General(query_size=",
    "MultiheadAttention(6, 2, scorer=Additive(3, 3))": "MultiheadAttention creates its scorer, for queries of size 3",
    "MultiheadAttention(6, 2, scorer='additive')": "scorer=partial(Additive, hidden_size=64), got 'additive'",
    "Relative(Q, K, General(Q, K))": "Relative creates its scorer, for queries of size 5 and keys of size 7; give the",
    "SelfAttention(FixedContext(MeanState(), K))": "SelfAttention needs a context that reads with a query, got FixedCo",
    "SelfAttention(Attention(General(3, 4)))": "SelfAttention needs query_size == key_size in Attention, as both are o",
    "SelfAttention(Attention(LinguisticCoverage(4, 4)))": "to read all positions at once, got Attention, which depends",
    "SelfAttention(Attention(Dot(4, 4), Monotonic()))": "to read all positions at once, got Attention, which depends",
    "SelfAttention(Attention(Dot(4, 4), window=LocalM(4)))": "to read all positions at once, got Attention, which dep",
    "SelfAttention(NoSizes(K))": "needs the sizes of queries and keys, got NoSizes without them; set query_size",
    "ChunkwiseAttention(Attention(General(Q, K)), Dot(K, K))": "the same query_size and key_size, got ((5, 7), (7, 7))",
    "MultiHead(Attention(Dot(4, 4)), 2, 8, 8, position=Sinusoidal(8))": "needs a position that acts within attention,",
    "MultiHead(chunks, 2, Q, K, position=Rotary(8, 2))": "MultiHead needs Attention to take a position, got Chunkwise",
    # Sizes and options
    "Dot(512, 1024)": "Dot needs query_size == key_size, got 512 and 1024; use General",
    "ScaledDot(512, 1024)": "ScaledDot needs query_size == key_size, got 512 and 1024; use General",
    "Cosine(512, 1024)": "Cosine needs query_size == key_size, got 512 and 1024; use General",
    "Relative(5, 7, Cosine)": "Cosine needs query_size == key_size, got 5 and 7; use General",
    "Dot(0, 0)": "Dot needs query_size > 0, got 0",
    "Additive(5, -7)": "Additive needs key_size > 0, got -7",
    "Additive(5, 7, hidden_size=0)": "Additive needs hidden_size > 0, got 0",
    "Concat(5, 7, hidden_size=-1)": "Concat needs hidden_size > 0, got -1",
    "Cosine(5, 5, temperature=float('nan'))": "Cosine needs temperature > 0, got nan",
    "NegativeSquaredDistance(5, 5, temperature=-2.0)": "NegativeSquaredDistance needs temperature > 0, got -2",
    "NormalizedAdditive(5, 7, hidden_size=0)": "Additive needs hidden_size > 0, got 0",
    "MLP(5, 7, hidden_sizes=[3, 0])": "MLP needs hidden_sizes > 0, got 0",
    "MLP(5, 7, hidden_sizes=[])": "MLP needs at least one hidden size, got []; use Biaffine",
    "Location(5, 7, max_length=0)": "Location needs max_length > 0, got 0",
    "LocationAware(5, 7, kernel_width=4)": "LocationAware needs an odd kernel_width, got 4",
    "LocationAware(5, 7, filters=0)": "LocationAware needs filters > 0, got 0",
    "LinguisticCoverage(5, 7, max_fertility=-1.0)": "LinguisticCoverage needs max_fertility > 0, got -1.0",
    "NeuralCoverage(5, 7, coverage_size=0)": "NeuralCoverage needs coverage_size > 0, got 0",
    "Relative(5, 7, max_distance=0)": "Relative needs max_distance > 0, got 0",
    "Softmax(temperature=0.0)": "Softmax needs temperature > 0, got 0.0",
    "Gumbel(temperature=0.0)": "Gumbel needs temperature > 0, got 0.0",
    "Monotonic(noise=-0.5)": "Monotonic needs noise >= 0, got -0.5",
    "LocalP(5, half_width=0)": "LocalP needs half_width > 0, got 0",
    "LocalM(5, half_width=-1)": "LocalM needs half_width >= 0, got -1",
    "MeanContext(0)": "MeanContext needs value_size > 0, got 0",
    "LearnedPool(0)": "LearnedPool needs size > 0, got 0",
    "LastState(directions=3)": "LastState needs directions = 1 or 2, got 3",
    "KeyValueAttention(attention, directions=3)": "KeyValueAttention needs directions = 1 or 2, got 3",
    "ChunkwiseAttention(Attention(General(Q, K)), General(Q, K), 0)": "ChunkwiseAttention needs chunk_size > 0, got 0",
    "MultiHead(attention, 0, Q, K)": "MultiHead needs heads > 0, got 0",
    "MultiHead(attention, 2, Q, K, value_size=0)": "MultiHead needs value_size > 0, got 0",
    "Attention(Dot(3, 3), dropout=1.0)": "Attention needs 0 <= dropout < 1, got 1.0",
    "RelativeBias(8, 3)": "RelativeBias needs heads that divide the size 8, got 3",
    "Sinusoidal(5)": "Sinusoidal needs an even size, for pairs of sine and cosine, got 5",
    "Rotary(6, 2)": "Rotary needs heads of an even size, for pairs to rotate, got 6 / 2",
    "Learned(8, 2, max_positions=0)": "Learned needs max_positions > 0, got 0",
    "Learned(8, 2, max_positions=5).add(torch.zeros(1, 2, 8), start=4)": "5 positions, but the sequence has 6; raise m",
    # Names
    "scorer_class('aditive')": "there is no scorer 'aditive'; did you mean 'additive'?",
    "normalizer_class('soft_max')": "there is no normalizer 'soft_max'; did you mean 'softmax'?",
    "position_class('rotery')": "there is no position 'rotery'; did you mean 'rotary'?",
    "scorer_class('xyz')": "there is no scorer 'xyz'; choose from additive, biaffine, ",
}


@pytest.fixture(scope="module")
def messages():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([*FITS, *REFUSED]), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(zip([*FITS, *REFUSED], json.loads(done.stdout), strict=True))


def test_what_fits_is_read(messages):
    assert [messages[each] for each in FITS] == [None] * len(FITS)


@pytest.mark.parametrize("expression", REFUSED)
def test_what_does_not_fit_is_refused_with_the_way_out(messages, expression):
    message = messages[expression]
    assert message is not None
    assert REFUSED[expression] in message
    assert "\n" not in message
