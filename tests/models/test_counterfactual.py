"""Decoding with changed attention weights, with any decoder and attention, changes nothing else in a model."""

import copy

import pytest
import torch

from seq2seq_attn.attention import Counterfactual, MeanContext
from seq2seq_attn.attention.contexts import counterfactual as changes
from seq2seq_attn.corpora.source import Tokens
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.models.transformer.config import TransformerConfig

DRAW = torch.Generator().manual_seed(3)
SOURCE = Tokens(torch.randint(4, 17, (3, 6), generator=DRAW), torch.tensor([6, 4, 2]))
TARGET = Tokens(torch.randint(4, 13, (3, 5), generator=DRAW), torch.tensor([5, 3, 4]))

DECODERS = [
    {"kind": "bahdanau"},
    {"kind": "luong", "input_feeding": True},
    {"kind": "luong", "input_feeding": False},
    {"kind": "conditional"},
]
CONTEXTS = [
    {},  # the additive scorer, which has a fused form together with a decoder
    {"scorer": "scaled_dot", "heads": 2, "separate_values": True},
    {"scorer": "linguistic_coverage"},
    {"normalizer": "hard", "window": "local_p"},
    {"normalizer": "monotonic", "chunk": {"size": 2, "scorer": "location_aware"}, "heads": 3},
    {"kind": "mean"},
]


def make(decoder=DECODERS[0], context=CONTEXTS[0]):
    torch.manual_seed(7)
    values = {"embedding_size": 7, "encoder": {"hidden_size": 4}, "decoder": {"hidden_size": 12, **decoder}}
    return RecurrentConfig.model_validate(values | {"context": context}).build(17, 13, False).double().eval()


def same(weights, is_token):
    return weights


def decoded(model, copies=1):
    """Logits (copies, B, T, V) and weights (copies, B, T, S) of repeated batches."""
    memory = model.encode(SOURCE).select(torch.arange(3).repeat(copies))
    found = model.decode(model.decoder_inputs(TARGET).repeat(copies, 1), memory)
    return [part.unflatten(0, (copies, 3)) for part in (model.head.projection(found.features), found.weights)]


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("context", CONTEXTS)
def test_unchanged_weights_reproduce_the_model(decoder, context):
    model = make(decoder, context)
    logits, weights = decoded(model)
    for ours, expected in zip(decoded(model.with_changed_weights([same, same]), 3), (logits, weights), strict=True):
        torch.testing.assert_close(ours, expected.expand_as(ours))


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("context", [{}, {"scorer": "general"}, {"scorer": "linguistic_coverage"}])
def test_uniform_weights_equal_the_mean_context(decoder, context):
    model = make(decoder, context)
    mean = copy.deepcopy(model)
    mean.decoder.context = MeanContext(model.decoder.context.value_size)
    logits, weights = decoded(model.with_changed_weights([changes.uniform]), 2)
    expected = decoded(mean)
    torch.testing.assert_close(logits[1:], expected[0])
    torch.testing.assert_close(weights[1:], expected[1])
    assert not torch.allclose(logits[0], logits[1])


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("context", CONTEXTS[:-1])
def test_each_copy_has_its_own_change_and_changes_see_the_model_s_weights(decoder, context):
    model = make(decoder, context)
    _, own = decoded(model)
    last = torch.arange(6) == (SOURCE.lengths - 1)[:, None]  # of each sentence
    seen = []

    def on_the_last(weights, is_token):
        seen.append(weights.unflatten(1, (context.get("heads", 1), -1)).mean(dim=1))
        return last[:, None].expand_as(weights).double()

    _, weights = decoded(model.with_changed_weights([same, on_the_last]), 3)
    torch.testing.assert_close(weights[:2], own.expand(2, -1, -1, -1))
    assert torch.equal(weights[2], last[:, None].expand(3, 5, 6).double())
    torch.testing.assert_close(torch.cat(seen, dim=1), own[0])


def transformer():
    torch.manual_seed(7)
    layers = {"layers": 2, "heads": 4}
    values = {"embedding_size": 12, "encoder": layers, "decoder": layers, "context": {"heads": 2}}
    return TransformerConfig.model_validate(values).build(17, 13, False).double().eval()


def test_a_transformer_with_unchanged_or_uniform_weights_in_every_layer():
    model = transformer()
    unread = copy.deepcopy(model)
    for context in unread.contexts_that_read():  # all scores are 0, so that softmax is uniform
        torch.nn.init.zeros_(context.query_layer.weight)
        torch.nn.init.zeros_(context.query_layer.bias)
    found = decoded(model.with_changed_weights([same, changes.uniform]), 3)
    for ours, own, uniform in zip(found, decoded(model), decoded(unread), strict=True):
        torch.testing.assert_close(ours, torch.cat((own, own, uniform)))
    assert not torch.allclose(found[0][0], found[0][2])


def test_a_head_is_read_with_the_weights_of_the_same_head_of_another_sentence():
    model = transformer()
    twice = [Tokens(side.tokens.repeat(2, 1), side.lengths.repeat(2)) for side in (SOURCE, TARGET)]
    found = model.with_changed_weights([changes.of_another_sentence]).head_weights(*twice)
    for own, layer in zip(model.head_weights(SOURCE, TARGET).cross, found.cross, strict=True):
        torch.testing.assert_close(layer[:3], own)
        for sentence, length in enumerate(SOURCE.lengths):
            expected = own[sentence - 1].clone()  # of three sentences, half a batch away
            expected[..., length:] = 0
            torch.testing.assert_close(layer[3 + sentence], expected / expected.sum(dim=-1, keepdim=True))


def test_an_erased_token_has_weight_zero():
    logits, weights = decoded(make().with_changed_weights([changes.without_the_most_read]), 2)
    highest = weights[0].argmax(dim=-1, keepdim=True)
    assert (weights[1].gather(-1, highest) == 0).all()
    torch.testing.assert_close(weights[1].sum(dim=-1), torch.ones(3, 5).double())
    assert not torch.allclose(logits[0], logits[1])


def test_the_original_model_is_unchanged_and_shares_its_parameters():
    model = make(context=CONTEXTS[1])
    changed = model.with_changed_weights([changes.uniform])
    assert not any(isinstance(module, Counterfactual) for module in model.modules())
    ours = {id(parameter) for parameter in model.parameters()}
    assert {id(parameter) for parameter in changed.parameters()} == ours
