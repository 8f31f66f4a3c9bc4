"""All parts of attention, from the registries, so that new parts are tested automatically."""

from functools import partial

from seq2seq_attn.attention import (
    Attention,
    ChunkwiseAttention,
    Cosine,
    General,
    Gumbel,
    LocationAware,
    Monotonic,
    MultiHead,
    ScaledDot,
    Softmax,
    normalizer_classes,
    scorer_classes,
    window_classes,
)

QUERY, KEY = 5, 7

# By name, what makes one. An option that changes how a part works has an entry of its own.
SCORERS = {
    name: partial(cls, KEY if cls.needs_equal_sizes else QUERY, KEY) for name, cls in scorer_classes().items()
} | {"cosine, learned": partial(Cosine, KEY, KEY, learned=True)}
NORMALIZERS = normalizer_classes() | {
    "softmax, cold": partial(Softmax, temperature=0.25),
    "gumbel, hard": partial(Gumbel, hard=True),
}
WINDOWS = {name: partial(cls, QUERY) for name, cls in window_classes().items()}


def attention(scorer=partial(General, QUERY, KEY), normalizer=Softmax, window=lambda: None):  # noqa: B008
    return Attention(scorer(), normalizer(), window())


def chunkwise(query_size, key_size):
    place = Attention(General(query_size, key_size), Monotonic())
    return ChunkwiseAttention(place, LocationAware(query_size, key_size), chunk_size=2)


ATTENTIONS = (
    {name: partial(attention, make) for name, make in SCORERS.items()}
    | {f"general, {name}": partial(attention, normalizer=make) for name, make in NORMALIZERS.items()}
    | {f"general, {name}": partial(attention, window=make) for name, make in WINDOWS.items()}
)
AROUND_ATTENTION = {
    "multi-head": lambda: MultiHead(Attention(ScaledDot(3, 3)), 2, QUERY, KEY),
    "multi-head, chunkwise": lambda: MultiHead(chunkwise(3, 4), 2, QUERY, KEY),
}
