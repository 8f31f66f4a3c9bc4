"""The kernels of a Transformer compute what its layers do, and only where they may."""

import itertools

import pytest
import torch

from seq2seq_attn.corpora.source import pad
from seq2seq_attn.models.transformer.config import TransformerConfig
from seq2seq_attn.models.transformer.layers import FeedForward
from seq2seq_attn.ops import fuse, native, reference
from seq2seq_attn.ops.transformer import InferenceDecoder, InferenceEncoder
from seq2seq_attn.search import SearchOptions, beam_search, greedy_search
from seq2seq_attn.search.batched import autocast

SOURCE = pad([[4, 9, 6, 3], [5, 3], [10, 8, 4, 7, 12, 3], [6, 6, 3]])
LAYERS = [
    {"norm": "pre", "activation": "relu"},
    {"norm": "post", "activation": "gelu", "position": "learned"},
    {"norm": "pre", "activation": "swiglu", "position": None},
]

pytestmark = [
    pytest.mark.usefixtures("fused"),
    pytest.mark.skipif(not native.has_kernels(torch.empty(0)), reason="no compiler here"),
]


def make(layers=LAYERS[0], size=40, **changes):
    """Sizes of which none is a multiple of a panel or a vector register."""
    torch.manual_seed(5)
    small = {"layers": 3, "heads": 4, "feed_forward_size": 35, **layers}
    values = {"kind": "transformer", "embedding_size": size, "encoder": small, "decoder": small} | changes
    model = TransformerConfig.model_validate(values).build(17, 149, False)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:  # norms and biases that are not what they are initialized to
            parameter.data += 0.3 * torch.randn_like(parameter)
        elif "embedding" not in name:
            parameter.data *= 2
    return model.eval()


def is_prepared(model):
    return isinstance(model.encoder.network, InferenceEncoder), isinstance(model.decoder, InferenceDecoder)


def assert_same_hypotheses(found, expected, rel=1e-5):
    for ours, theirs in zip(itertools.chain(*found), itertools.chain(*expected), strict=True):
        assert ours.tokens == theirs.tokens
        assert ours.log_probability == pytest.approx(theirs.log_probability, rel=rel)
        torch.testing.assert_close(ours.weights, theirs.weights, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layers", LAYERS, ids=str)
def test_searches_by_kernel_equal_those_of_the_layers(layers):
    model = make(layers)
    prepared = fuse(model, constant=True)
    assert is_prepared(prepared) == (True, True)
    for search, options in (
        (greedy_search, SearchOptions(beam_size=1, max_length=9)),
        (beam_search, SearchOptions(beam_size=4, n_best=3, max_length=9)),
    ):
        expected = search(model, SOURCE, options, with_weights=True)
        assert_same_hypotheses(search(prepared, SOURCE, options, with_weights=True), expected)


@pytest.mark.parametrize("size", [64, 132])
def test_blocks_of_many_rows_are_computed_like_single_ones(size):
    """More hypotheses than a block has, of sentences that do not fill one."""
    model = make(size=size)
    source = pad([[4 + (i * j) % 13 for j in range(1, 3 + i % 9)] + [3] for i in range(75)])
    options = SearchOptions(beam_size=3, n_best=2, max_length=4)
    with torch.inference_mode():
        together = beam_search(fuse(model, constant=True), source, options, with_weights=True)
    assert_same_hypotheses(together, beam_search(model, source, options, with_weights=True))


def test_states_that_are_no_tokens_may_stand_anywhere_in_a_source():
    model = make()
    decoder = fuse(model, constant=True).decoder
    assert isinstance(decoder, InferenceDecoder)
    states, embedded = torch.randn(2, 5, 40), torch.randn(2, 3, 40)
    is_token = torch.tensor([[False, True, True, False, True], [True, False, True, True, True]])
    with torch.inference_mode():
        found, weights = decoder(embedded, decoder.prepare(states, is_token))
        expected, plain = model.decoder(embedded, model.decoder.prepare(states, is_token))
        again, swapped = decoder(
            embedded[[1, 0]], [each.select(torch.tensor([1, 0])) for each in decoder.prepare(states, is_token)]
        )
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(weights, plain)
    torch.testing.assert_close((again, swapped), (expected[[1, 0]], plain[[1, 0]]))


def test_the_encoder_computes_the_states_of_tokens_and_no_others():
    model = make()
    with torch.inference_mode():
        states = model.encoder(SOURCE).states
        prepared = fuse(model, constant=True).encoder
        found = prepared(SOURCE).states
        is_token = SOURCE.is_token
        torch.testing.assert_close(found[is_token], states[is_token], rtol=1e-4, atol=1e-5)
        assert torch.equal(found[~is_token], prepared.network.final_norm(torch.zeros(40)).expand_as(found[~is_token]))


def test_states_are_immutable_and_can_be_continued_in_several_ways():
    model = make()
    prepared = fuse(model, constant=True)
    tokens = torch.tensor([5, 9, 7, 4])
    with torch.inference_mode():
        memories = [each.encode(SOURCE) for each in (model, prepared)]

        def logits(words, rows):
            """Of both models, after these words and a selection of hypotheses."""
            found = []
            for each, memory in zip((model, prepared), memories, strict=True):
                first = each.step(tokens, each.start(memory), memory)
                after = [each.step(tokens + word, first.state, memory) for word in words]
                chosen = after[0].state.select(rows)
                found.append([step.logits for step in after] + [each.step(tokens, chosen, memory).logits])
            return found

        expected, found = logits([1, 2, 1], torch.tensor([2, 0, 0, 3]))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        assert torch.equal(found[0], found[2])  # the second continuation has changed nothing


def test_steps_equal_teacher_forcing():
    model = fuse(make(), constant=True)
    target = pad([[9, 5, 3], [7, 3], [8, 3], [11, 4, 3]])
    with torch.inference_mode():
        inputs, memory = model.decoder_inputs(target), model.encode(SOURCE)
        decoded, state = model.decode(inputs, memory), model.start(memory)
        for i, tokens in enumerate(inputs.unbind(1)):
            step = model.step(tokens, state, memory)
            state = step.state
            torch.testing.assert_close(model.head.projection(decoded.features[:, i]), step.logits)
            torch.testing.assert_close(decoded.weights[:, i], step.weights)


def test_under_autocast_results_are_closer_to_those_in_float32_than_autocast_s_own():
    model, options = make(), SearchOptions(precision="bf16")
    with torch.inference_mode():
        with autocast(options, "cpu"):
            prepared = fuse(model, constant=True)
            found, rounded = (each.encode(SOURCE) for each in (prepared, model))
            found, rounded = (
                each.step(torch.full((4,), 5), each.start(memory), memory).logits.float()
                for each, memory in ((prepared, found), (model, rounded))
            )
        memory = model.encode(SOURCE)
        exact = model.step(torch.full((4,), 5), model.start(memory), memory).logits
    assert (found - exact).abs().mean() < (rounded - exact).abs().mean() < 0.1


class OwnFeedForward(FeedForward):
    def forward(self, x):
        return 2 * super().forward(x)


def with_own_feed_forward(model):
    for stack in (model.encoder.network, model.decoder):
        stack.layers[1].feed_forward.__class__ = OwnFeedForward


def with_a_hook(model):
    for stack in (model.encoder.network, model.decoder):
        stack.layers[2].feed_forward.register_forward_hook(lambda module, inputs, output: output + 1)


@pytest.mark.parametrize(
    ("changes", "prepared"),
    [
        ({"layers": {"position": "rotary"}}, (False, False)),
        ({"layers": {"position": "relative_bias"}}, (False, False)),
        ({"layers": {"scorer": "additive"}}, (False, False)),
        ({"context": {"window": {"name": "local_m", "half_width": 1}}}, (True, False)),
        ({"layers": {"normalizer": {"name": "softmax", "temperature": 2.0}}}, (False, False)),
        ({"context": {"scorer": "general"}}, (True, False)),
        ({"context": {"heads": 2}}, (True, False)),
        ({"context": {"kind": "mean"}}, (True, False)),
        ({"encoder": {"kind": "recurrent", "hidden_size": 20}}, (False, True)),
        ({"encoder": {"kind": "recurrent", "hidden_size": 3}}, (False, False)),
        (with_own_feed_forward, (False, False)),
        (with_a_hook, (False, False)),
    ],
    ids=lambda given: getattr(given, "__name__", str(given)),
)
def test_other_parts_run_as_they_are(changes, prepared):
    model = make(**({} if callable(changes) else changes))
    if callable(changes):
        changes(model)
    options = SearchOptions(beam_size=2, n_best=2, max_length=5)
    found = fuse(model, constant=True)
    assert is_prepared(found) == prepared
    expected = beam_search(model, SOURCE, options, with_weights=True)
    assert_same_hypotheses(beam_search(found, SOURCE, options, with_weights=True), expected)


def test_reference_implementations_and_double_precision_prepare_nothing():
    assert is_prepared(fuse(make().double(), constant=True)) == (False, False)
    with reference():
        assert is_prepared(fuse(make(), constant=True)) == (False, False)


def test_lengths_of_any_integer_dtype_are_read_and_others_refused():
    model = fuse(make(), constant=True)
    with torch.inference_mode():
        (expected,) = model.encode(SOURCE).source.prepared
        (found,) = model.encode(SOURCE._replace(lengths=SOURCE.lengths.int())).source.prepared
        assert torch.equal(found.projected, expected.projected)
        for lengths in ([4], [4, 2, 60, 3], [4, 0, 6, 3]):
            with pytest.raises(ValueError, match="4"):
                model.encode(SOURCE._replace(lengths=torch.tensor(lengths)))


def test_tokens_of_other_hypotheses_are_refused():
    model = fuse(make(), constant=True)
    with torch.inference_mode():
        memory = model.encode(SOURCE)
        for count in (3, 8, 300):
            with pytest.raises(ValueError, match=str(count)):
                model.step(torch.full((count,), 2), model.start(memory), memory)
