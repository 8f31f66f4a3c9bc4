"""`MultiheadAttention` is torch's own with any scorer: signature, weights, masks, and a place in torch's layers."""

import copy
import inspect
import pickle

import pytest
import torch
from torch import nn

from seq2seq_attn.attention import Additive, General, LocationAware, MultiheadAttention, ScaledDot, Sparsemax

B, T, S, HEADS, SIZE = 2, 3, 4, 6, 30  # heads of 5, so that √d is no power of two
PADDING = torch.tensor([[False, False, False, False], [False, False, True, True]])
CAUSAL = torch.ones(T, S, dtype=torch.bool).triu(2)
PER_HEAD = torch.rand(B * HEADS, T, S, generator=torch.Generator().manual_seed(1)) < 0.4
PER_HEAD[..., 0] = False


def added(mask):
    return torch.zeros(mask.shape).masked_fill(mask, -torch.inf)


MASKS = {
    "nothing": {},
    "padding": {"key_padding_mask": PADDING},
    "padding, added": {"key_padding_mask": added(PADDING)},
    "causal": {"attn_mask": CAUSAL},
    "causal, a hint": {"attn_mask": CAUSAL, "is_causal": True, "key_padding_mask": PADDING},
    "causal and padding, added": {"attn_mask": added(CAUSAL), "key_padding_mask": added(PADDING)},
    "per head": {"attn_mask": PER_HEAD, "key_padding_mask": PADDING},
    "a bias per head": {"attn_mask": torch.linspace(-2, 2, B * HEADS * T * S).view(-1, T, S)},
}


def torchs(**options):
    torch.manual_seed(2)
    module = nn.MultiheadAttention(SIZE, HEADS, **options)
    for name, parameter in module.named_parameters():
        if "bias" in name:
            nn.init.normal_(parameter)
    return module


def inputs(module, batch_first=True):
    shapes = (T, SIZE), (S, module.kdim), (S, module.vdim)
    tensors = [torch.randn(B, *shape) for shape in shapes]
    return [each if batch_first else each.transpose(0, 1) for each in tensors]


def assert_same(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=0)


def test_dropout_may_be_changed_as_in_torchs_module():
    module = MultiheadAttention(SIZE, HEADS, dropout=0.25)
    assert module.dropout == copy.deepcopy(module).dropout == pickle.loads(pickle.dumps(module)).dropout == 0.25
    query, key, value = (torch.ones(1, T, SIZE) for _ in range(3))
    module.batch_first = True
    module.dropout = 0.0
    _, weights = module(query, key, value, average_attn_weights=False)
    assert (weights > 0).all()
    module.dropout = 0.9
    _, weights = module(query, key, value, average_attn_weights=False)
    assert (weights == 0).any()


@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS.keys())
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize(
    "sizes",
    [
        {}, {"kdim": 7, "vdim": 11}, {"bias": False}, {"add_bias_kv": True}, {"add_zero_attn": True},
        {"add_bias_kv": True, "add_zero_attn": True, "kdim": 7},
    ],
    ids=["equal", "other", "no bias", "one more position", "a position of zeros", "both"],
)  # fmt: skip
def test_results_equal_torchs_with_torchs_weights(masks, batch_first, sizes):
    theirs = torchs(batch_first=batch_first, **sizes)
    ours = MultiheadAttention.from_torch(theirs)
    given = inputs(theirs, batch_first)
    for wanted in ({}, {"average_attn_weights": False}, {"need_weights": False}):
        assert_same(ours(*given, **masks, **wanted), theirs(*given, **masks, **wanted))


@pytest.mark.parametrize("masks", [{}, {"key_padding_mask": PADDING[1], "attn_mask": PER_HEAD[:HEADS]}])
def test_unbatched_input_is_accepted(masks):
    theirs = torchs()
    given = [each[1] for each in inputs(theirs)]
    assert_same(MultiheadAttention.from_torch(theirs)(*given, **masks), theirs(*given, **masks))


def test_gradients_equal_torchs():
    theirs = torchs(batch_first=True)
    ours, given = MultiheadAttention.from_torch(theirs), inputs(theirs)
    for module in (ours, theirs):
        module(*given, key_padding_mask=PADDING)[0].square().sum().backward()
    expected = dict(theirs.named_parameters())
    assert expected.keys() == dict(ours.named_parameters()).keys()
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name].grad, atol=1e-5, rtol=1e-5, msg=name)


def test_state_dicts_load_both_ways_and_scorer_parameters_are_added():
    theirs, ours = torchs(), MultiheadAttention(SIZE, HEADS)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    more = MultiheadAttention.from_torch(theirs, scorer=Additive)
    names = set(more.state_dict()) - set(theirs.state_dict())
    assert names == {f"attention.scorer.{name}" for name in Additive(5, 5).state_dict()}
    with torch.no_grad():
        more.out_proj.bias.fill_(3.0)
    assert not (theirs.out_proj.bias == 3.0).any()  # a copy


def test_from_torch_keeps_mode_precision_and_frozen_parameters():
    theirs = torchs(dropout=0.25, bias=False).double().eval()
    theirs.out_proj.weight.requires_grad_(False)
    ours = MultiheadAttention.from_torch(theirs, scorer=General)
    assert {each.dtype for each in ours.parameters()} == {torch.float64}
    assert not ours.training
    assert not ours.attention.training
    assert ours.attention.dropout == 0.25
    assert {name for name, each in ours.named_parameters() if not each.requires_grad} == {"out_proj.weight"}


def test_signatures_equal_torchs():
    theirs, ours = (inspect.signature(cls.forward).parameters for cls in (nn.MultiheadAttention, MultiheadAttention))
    assert [(name, each.default) for name, each in ours.items()] == [(name, p.default) for name, p in theirs.items()]
    theirs, ours = (inspect.signature(cls).parameters for cls in (nn.MultiheadAttention, MultiheadAttention))
    assert list(ours) == [*theirs, "scorer", "normalizer"]


def test_is_causal_alone_is_causal():
    module = MultiheadAttention(SIZE, HEADS, batch_first=True)
    x = torch.randn(B, S, SIZE)
    mask = torch.ones(S, S, dtype=torch.bool).triu(1)
    assert_same(module(x, x, x, is_causal=True), module(x, x, x, attn_mask=mask))
    more = MultiheadAttention(SIZE, HEADS, add_bias_kv=True, batch_first=True)
    assert_same(more(x, x, x, is_causal=True), more(x, x, x, attn_mask=mask))


def test_a_sentence_of_padding_alone_reads_the_positions_that_are_added():
    theirs = torchs(add_bias_kv=True, add_zero_attn=True, batch_first=True)
    padding = torch.tensor([[False] * S, [True] * S])
    ours, given = MultiheadAttention.from_torch(theirs), inputs(theirs)
    assert_same(ours(*given, key_padding_mask=padding), theirs(*given, key_padding_mask=padding))


SCORERS = {"scaled dot": {}, "additive": {"scorer": Additive}, "steps": {"scorer": LocationAware}}


@pytest.mark.parametrize("options", SCORERS.values(), ids=SCORERS.keys())
@pytest.mark.parametrize("norm_first", [True, False])
def test_it_works_in_torchs_layers_in_training_and_in_evaluation(options, norm_first):
    """In evaluation torch's encoder layer has a fast path that would compute scaled dots from the weights alone."""
    torch.manual_seed(3)
    layers = {"dropout": 0.0, "batch_first": True, "norm_first": norm_first}
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(SIZE, HEADS, 7, **layers), 2, enable_nested_tensor=False)
    decoder = nn.TransformerDecoderLayer(SIZE, HEADS, 7, **layers)
    source, target = torch.randn(B, S, SIZE), torch.randn(B, T, SIZE)

    def run():
        memory = encoder(source, src_key_padding_mask=PADDING)
        mask = nn.Transformer.generate_square_subsequent_mask(T)
        return memory[~PADDING], decoder(
            target, memory, tgt_mask=mask, memory_key_padding_mask=PADDING, tgt_is_causal=True
        )

    before = run()
    for layer in encoder.layers:
        layer.self_attn = MultiheadAttention.from_torch(layer.self_attn, **options)
    decoder.self_attn = MultiheadAttention.from_torch(decoder.self_attn, **options)
    decoder.multihead_attn = MultiheadAttention.from_torch(decoder.multihead_attn, **options)
    training = run()
    encoder.eval()
    decoder.eval()
    with torch.no_grad():
        evaluation = run()
    for found, trained, torchs_own in zip(evaluation, training, before, strict=True):
        torch.testing.assert_close(found, trained, atol=1e-5, rtol=1e-5)
        is_torchs = torch.allclose(found, torchs_own, atol=1e-5)
        assert is_torchs == (not options)


def test_nested_tensors_of_torchs_encoder_are_refused_with_the_way_out():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(SIZE, HEADS, 7, batch_first=True), 1).eval()
    encoder.layers[0].self_attn = MultiheadAttention.from_torch(encoder.layers[0].self_attn)
    with torch.no_grad(), pytest.raises(ValueError, match="got a nested one; create nn"):
        encoder(torch.randn(B, S, SIZE), src_key_padding_mask=PADDING)


def test_the_weights_returned_are_after_dropout_as_torchs_are():
    module = MultiheadAttention(SIZE, HEADS, dropout=0.5, batch_first=True)
    given = inputs(module)
    theirs = nn.MultiheadAttention(SIZE, HEADS, dropout=0.5, batch_first=True)
    for each in (module, theirs):
        _, weights = each(*given, average_attn_weights=False)
        assert 0.2 < (weights == 0).float().mean() < 0.8
        assert (each.eval()(*given, average_attn_weights=False)[1] > 0).all()


@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_a_copy_and_a_pickle_give_the_same(twin_of):
    module = MultiheadAttention(SIZE, HEADS, scorer=Additive, normalizer=Sparsemax(), batch_first=True)
    given = inputs(module)
    assert_same(twin_of(module)(*given), module(*given))


def test_bfloat16_and_autocast_are_nearly_the_same():
    module = MultiheadAttention(SIZE, HEADS, batch_first=True)
    given = inputs(module)
    expected, _ = module(*given)
    for need_weights in (True, False):
        with torch.autocast("cpu", torch.bfloat16):
            found = module(*given, attn_mask=torch.zeros(T, S), need_weights=need_weights)[0]
        torch.testing.assert_close(found.float(), expected, atol=0.03, rtol=0)
    halves = MultiheadAttention.from_torch(module.bfloat16())
    assert type(halves.attention.scorer) is ScaledDot
    torch.testing.assert_close(halves(*[each.bfloat16() for each in given])[0].float(), expected, atol=0.03, rtol=0)
