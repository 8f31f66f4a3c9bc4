"""The Transformer satisfies the interface's laws with every context, position and encoder, and equals torch's own."""

import math

import numpy as np
import pytest
import torch
from confirmed_searches import assert_forced_decoding_confirms_searches
from torch import nn

from seq2seq_attn.config import Config
from seq2seq_attn.corpora.source import Tokens
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.config import ModelConfig
from seq2seq_attn.models.ensemble import Ensemble
from seq2seq_attn.models.transformer.layers import FeedForward
from seq2seq_attn.ops import fuse
from seq2seq_attn.strict import merge, parse

WORDS, SIZE = 17, 8
DRAW = torch.Generator().manual_seed(3)
SOURCE = Tokens(torch.randint(4, WORDS, (3, 6), generator=DRAW), torch.tensor([6, 4, 2]))
TARGET = Tokens(torch.randint(4, WORDS, (3, 5), generator=DRAW), torch.tensor([5, 3, 4]))

CONTEXTS = [
    {},
    {"scorer": "additive"},
    {"scorer": "cosine", "normalizer": "sparsemax"},
    {"kind": "mean"},
    {"kind": "fixed"},
    {"scorer": {"name": "location_aware", "kernel_width": 3}},
    {"scorer": "linguistic_coverage"},
    {"normalizer": {"name": "monotonic", "noise": 0}},
    {"normalizer": {"name": "monotonic", "noise": 0}, "chunk": {"size": 2}},
    {"scorer": "general", "window": {"name": "local_m", "half_width": 1}},
]
LAYERS = [
    {},
    {"norm": "post", "position": "learned", "activation": "gelu"},
    {"position": "rotary", "activation": "swiglu", "layers": 1},
    {"position": "relative_bias", "heads": 4},
    {"position": None, "scorer": "additive"},
]
ENCODERS = [
    {"kind": "transformer"},
    {"kind": "recurrent", "hidden_size": 3},
    {"kind": "stacked", "encoders": [{"hidden_size": 4}, {"kind": "transformer", "layers": 1, "heads": 2}]},
]
LEARNED = {"kind": "transformer", "position": {"name": "learned", "max_positions": 200}}
ARMS = [
    *({"context": context} for context in CONTEXTS),
    *({"encoder": layers, "decoder": layers} for layers in LAYERS[1:]),
    *({"encoder": encoder} for encoder in ENCODERS[1:]),
    {"kind": "recurrent", "encoder": {"kind": "transformer", "heads": 2}, "decoder": {"hidden_size": 11}},
    {"kind": "recurrent", "encoder": ENCODERS[2], "decoder": {"kind": "luong", "hidden_size": 6}},
]


def make(joint=False, **changes):
    torch.manual_seed(7)
    values = {"kind": "transformer", "embedding_size": SIZE, **changes}
    small = {"layers": 2, "heads": 2, "feed_forward_size": 12}
    if values["kind"] == "transformer":
        values["decoder"] = small | values.get("decoder", {})
        values["context"] = {"heads": 2} | values.get("context", {})
    if values.get("encoder", {}).get("kind", values["kind"]) == "transformer":
        values["encoder"] = small | values.get("encoder", {})
    return ModelConfig.model_validate(values).build(WORDS, WORDS, joint).double().eval()


def steps_of(model, inputs, memory):
    state, steps = model.start(memory), []
    for tokens in inputs.unbind(1):
        steps.append(model.step(tokens, state, memory))
        state = steps[-1].state
    return torch.stack([step.logits for step in steps], dim=1), torch.stack([step.weights for step in steps], dim=1)


@pytest.mark.parametrize("arm", ARMS, ids=str)
def test_steps_and_features_equal_teacher_forcing(arm):
    model = make(**arm)
    memory, inputs = model.encode(SOURCE), model.decoder_inputs(TARGET)
    decoded = model.decode(inputs, memory)
    logits, weights = steps_of(model, inputs, memory)
    torch.testing.assert_close(logits, model.head.projection(decoded.features), atol=1e-6, rtol=0)
    torch.testing.assert_close(weights, decoded.weights, atol=1e-6, rtol=0)
    torch.testing.assert_close(model.decode(inputs, memory).features, decoded.features, atol=1e-6, rtol=0)
    if "monotonic" not in str(arm):  # whose weights need not sum to 1
        assert weights.sum(dim=-1).flatten().tolist() == pytest.approx([float(model.attends)] * 15)
    assert (weights[1, :, 4:] == 0).all()


@pytest.mark.parametrize("arm", ARMS, ids=str)
def test_more_padding_and_a_permuted_batch_change_nothing(arm):
    model, order = make(**arm), torch.tensor([2, 0, 1])
    wide = Tokens(nn.functional.pad(SOURCE.tokens, (0, 3), value=9), SOURCE.lengths)
    other = Tokens(wide.tokens[order], wide.lengths[order])
    expected = model(SOURCE, TARGET)[order]
    found = model(other, Tokens(TARGET.tokens[order], TARGET.lengths[order]))
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("arm", [{}, {"context": {"scorer": "linguistic_coverage"}}, *ARMS[-4:]], ids=str)
def test_hypotheses_that_swap_rows_in_a_beam_predict_as_each_would_alone(arm):
    model = make(**arm)
    memory, rows = model.encode(SOURCE), torch.tensor([0, 0, 1, 1, 2, 2])
    prefixes = torch.randint(4, WORDS, (6, 4), generator=torch.Generator().manual_seed(1))
    state = model.start(memory).select(rows)
    for tokens in prefixes[:, :3].unbind(1):
        state = model.step(tokens, state, memory).state
    swapped = torch.tensor([1, 0, 2, 2, 5, 4])
    found = model.step(prefixes[swapped, 3], state.select(swapped), memory).logits
    alone = model.decode(prefixes[swapped], memory.select(rows))
    torch.testing.assert_close(found, model.head.projection(alone.features)[:, 3], atol=1e-6, rtol=0)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_with_copied_weights_it_is_torchs_transformer(norm, activation):
    layers = {"norm": norm, "activation": activation, "position": None}
    ours = make(encoder=layers, decoder=layers)
    theirs = nn.Transformer(
        SIZE, 2, 2, 2, 12, 0.0, activation, batch_first=True, norm_first=norm == "pre", dtype=torch.float64
    ).eval()  # fmt: skip
    if norm == "post":  # torch has a final normalization there as well, which the paper has not
        theirs.encoder.norm = theirs.decoder.norm = None
    copy_into(theirs, ours)
    expected = theirs(
        ours.encoder.embedding(SOURCE.tokens) * math.sqrt(SIZE),
        ours.target_embedding(ours.decoder_inputs(TARGET)) * math.sqrt(SIZE),
        tgt_mask=torch.ones(5, 5, dtype=torch.bool).triu(1),
        src_key_padding_mask=~SOURCE.is_token,
        memory_key_padding_mask=~SOURCE.is_token,
    )
    found = ours.decode(ours.decoder_inputs(TARGET), ours.encode(SOURCE)).features
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


def copy_into(theirs, ours):
    """Copies all weights of our layers into `nn.Transformer`."""
    with torch.no_grad():
        for stack, own in ((theirs.encoder, ours.encoder.network), (theirs.decoder, ours.decoder)):
            if stack.norm is not None:
                stack.norm.load_state_dict(own.final_norm.state_dict())
            for layer, mine in zip(stack.layers, own.layers, strict=True):
                pairs = [(layer.self_attn, mine.self_attention.attention, layer.norm1, mine.around_self_attention)]
                last = layer.norm2
                if stack is theirs.decoder:
                    pairs.append((layer.multihead_attn, mine.context, layer.norm2, mine.around_context))
                    last = layer.norm3
                for attention, heads, norm, around in pairs:
                    parts = heads.query_layer, heads.key_layer, heads.value_layer
                    attention.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
                    attention.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
                    attention.out_proj.load_state_dict(heads.output_layer.state_dict())
                    norm.load_state_dict(around.norm.state_dict())
                last.load_state_dict(mine.around_feed_forward.norm.state_dict())
                layer.linear1.load_state_dict(mine.feed_forward.hidden_layer.state_dict())
                layer.linear2.load_state_dict(mine.feed_forward.output_layer.state_dict())


def test_swiglu_as_its_equation_says():
    torch.manual_seed(1)
    network, x = FeedForward(3, 4, "swiglu").double(), torch.randn(2, 3, dtype=torch.float64)
    first, gate, second = (
        layer.weight.detach().numpy() for layer in (network.hidden_layer, network.gate_layer, network.output_layer)
    )
    hidden = x.numpy() @ first.T
    expected = (hidden / (1 + np.exp(-hidden)) * (x.numpy() @ gate.T)) @ second.T
    np.testing.assert_allclose(network(x).detach(), expected, rtol=1e-12)
    assert all(layer.bias is None for layer in (network.hidden_layer, network.gate_layer, network.output_layer))


def test_the_base_model_of_the_paper_has_65_million_parameters():
    layers = {"layers": 6, "heads": 8, "feed_forward_size": 2048, "norm": "post"}
    values = {"kind": "transformer", "embedding_size": 512, "encoder": layers, "decoder": layers}
    config = ModelConfig.model_validate({**values, "context": {"heads": 8}, "tie_embeddings": "all"})
    vocabulary = 37_000  # Vaswani et al. 2017, sec. 5.1
    with torch.device("meta"):
        model = config.build(vocabulary, vocabulary, joint=True)
    attention, network, norm = 4 * (512 * 512 + 512), 2 * 512 * 2048 + 2048 + 512, 2 * 512
    expected = (
        vocabulary * 512 + vocabulary + 6 * (attention + network + 2 * norm) + 6 * (2 * attention + network + 3 * norm)
    )
    assert sum(parameter.numel() for parameter in model.parameters()) == expected
    assert expected / 65e6 == pytest.approx(1, abs=0.03)  # table 3 rounds


def test_the_defaults_are_tiny():
    config = ModelConfig.model_validate({"kind": "transformer"})
    assert (config.embedding_size, config.context.heads, config.context.scorer.name) == (128, 4, "scaled_dot")
    for part in (config.encoder, config.decoder):
        assert (part.layers, part.heads, part.feed_forward_size) == (4, 4, 256)
    assert ModelConfig.model_validate({"kind": "transformer", "context": {"scorer": "dot"}}).context.heads == 4
    again = ModelConfig.model_validate(config.model_dump(mode="json"))
    assert again == config


def test_gradients_are_the_same_with_and_without_fused_operations():
    gradients = []
    for model in (make(), fuse(make().float())):
        model(SOURCE, TARGET).square().sum().backward()
        gradients.append({name: parameter.grad.double() for name, parameter in model.named_parameters()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradient, gradients[1][name], atol=1e-4, rtol=1e-4, msg=name)


@pytest.mark.parametrize("arm", [*ARMS[:5], *ARMS[9:]], ids=str)
def test_every_parameter_gets_a_gradient(arm):
    model = make(**arm)
    model(SOURCE, TARGET).square().sum().backward()
    # The bias of the keys adds the same to all scores of a query, which softmax ignores: it is exactly 0, or rounding.
    without = [
        name for name, parameter in model.named_parameters()
        if parameter.grad is None or (parameter.grad.abs().max() == 0 and "key_layer.bias" not in name)
    ]  # fmt: skip
    assert without == []


def test_each_dropout_has_an_effect_in_training_only():
    plain = make()(SOURCE, TARGET)
    for change in (
        {"dropout": {"embedding": 0.5}},
        {"dropout": {"word": 0.5}},
        {"dropout": {"state": 0.5}},
        {"dropout": {"readout": 0.5}},
        {"decoder": {"attention_dropout": 0.5}},
        {"encoder": {"feed_forward_dropout": 0.5}},
        {"encoder": {"layer_drop": 0.5}},
    ):
        model = make(**change)
        torch.testing.assert_close(model(SOURCE, TARGET), plain)
        model.train()
        assert any((model(SOURCE, TARGET) - plain).abs().max() > 1e-3 for _ in range(5)), change


def test_layer_drop_skips_each_layer_as_often_as_it_says_and_never_all():
    encoder = make(encoder={"layers": 3, "layer_drop": 0.4}).encoder.network
    assert encoder.kept() == [0, 1, 2]
    torch.manual_seed(5)
    drawn = [encoder.train().kept() for _ in range(2000)]
    assert all(drawn)
    # A layer is kept with probability 0.6; the last one also where all three would be skipped (0.4^3 = 0.064).
    shares = [sum(layer in kept for kept in drawn) / len(drawn) for layer in range(3)]
    assert shares == pytest.approx([0.6, 0.6, 0.664], abs=0.04)


def test_searches_find_what_forced_decoding_confirms():
    assert_forced_decoding_confirms_searches(make(), SOURCE, max_length=6)


def test_an_ensemble_may_have_members_of_both_families():
    members = [make(), make(kind="recurrent", encoder={"hidden_size": 3}, decoder={"hidden_size": 5})]
    expected = sum(member(SOURCE, TARGET).softmax(dim=-1) for member in members) / 2
    torch.testing.assert_close(Ensemble(members)(SOURCE, TARGET).exp(), expected, atol=1e-6, rtol=0)


def test_prepared_for_inference_it_predicts_the_same():
    model = make(embedding_size=64, encoder={"heads": 2}, decoder={"heads": 2}).float()
    with torch.no_grad():
        prepared = fuse(model, constant=True)
        memory, inputs = prepared.encode(SOURCE), model.decoder_inputs(TARGET)
        expected = model(SOURCE, TARGET)
        torch.testing.assert_close(steps_of(prepared, inputs, memory)[0], expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"decoder": {"heads": 3}}, "model.decoder.position: Sinusoidal needs heads that divide the size 8, got 3"),
        ({"encoder": {"heads": 3, "position": None}}, "model.encoder.heads=3 does not divide model.embedding_size=8"),
        ({"context": {"heads": 3}}, "model.context.heads=3 does not divide model.embedding_size=8"),
        ({"context": {"kind": "none"}}, "model.context.kind=none leaves a Transformer without the source"),
        ({"context": {"separate_values": True}}, "separate_values and frozen_scorer are not for a Transformer"),
        ({"decoder": {"scorer": "linguistic_coverage"}}, "model.decoder: SelfAttention needs to read all positions"),
        ({"embedding_size": 7, "encoder": {"heads": 1}, "decoder": {"heads": 1}}, "Sinusoidal needs an even size"),
        ({"tie_embeddings": "all"}, "model.tie_embeddings=all needs one vocabulary for both languages"),
    ],
)
def test_what_does_not_fit_is_refused_before_training(change, message):
    with pytest.raises(UserError) as error:
        make(**change)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


OF_DECODER = {"decoder": {"position": LEARNED["position"]}}
STACKED = {"kind": "stacked", "encoders": [{}, LEARNED]}
LONG = {"max_training_length": 230}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": OF_DECODER}, "the decoder has 200 positions, but search.max_length allows sentences of 256 tokens"),
        ({"data": {"max_length": 300}, "model": OF_DECODER}, "data.max_length allows sentences of 301 tokens"),
        ({"data": LONG, "model": {"encoder": LEARNED}}, "the encoder has 200 positions, but data.max_training_length"),
        ({"data": LONG, "model": {"kind": "recurrent", "encoder": LEARNED}}, "the encoder has 200 positions"),
        ({"data": LONG, "model": {"encoder": STACKED}}, "set max_positions of its positions to 231 or more"),
    ],
)
def test_sentences_longer_than_learned_positions_are_refused_before_training(change, message):
    files = {"source": "a", "target": "b"}
    values = {"data": {"train": files, "validation": files}, "model": {"kind": "transformer"}}
    with pytest.raises(UserError) as error:
        parse(Config, merge(values, change))
    assert message in str(error.value)
    fitting = {"max_length": 199, "max_training_length": 199}
    parse(Config, merge(values, merge(change, {"search": {"max_length": 200}, "data": fitting})))


@pytest.mark.parametrize("encoder", [LEARNED, STACKED])
def test_the_length_of_a_search_does_not_limit_the_positions_of_the_encoder(encoder):
    files = {"source": "a", "target": "b"}
    data, model = {"train": files, "validation": files}, {"kind": "transformer", "encoder": encoder}
    config = parse(Config, {"data": data, "model": model, "search": {"max_length": 250}})
    assert config.model.max_positions == (200, None)


def test_dropout_of_weights_is_in_attention_to_the_source_and_to_itself():
    for layer in make(decoder={"attention_dropout": 0.5}).decoder.layers:
        assert (layer.context.attention.dropout, layer.self_attention.attention.attention.dropout) == (0.5, 0.5)
