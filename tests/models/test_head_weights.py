"""The weights of every layer and head: what the model computes, without the mean."""

import pytest
import torch

from seq2seq_attn.attention import Observed
from seq2seq_attn.corpora.source import Tokens, pad
from seq2seq_attn.models.ensemble import Ensemble
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.models.transformer.config import TransformerConfig
from seq2seq_attn.search.forced import force, force_heads

DRAW = torch.Generator().manual_seed(3)
SOURCE = Tokens(torch.randint(4, 17, (3, 6), generator=DRAW), torch.tensor([6, 4, 2]))
TARGET = Tokens(torch.randint(4, 13, (3, 5), generator=DRAW), torch.tensor([5, 3, 4]))


def recurrent(context=None, **values):
    sizes = {"embedding_size": 7, "encoder": {"hidden_size": 4}, "decoder": {"hidden_size": 12}}
    return built(RecurrentConfig, sizes | values | {"context": context or {}})


def transformer(**values):
    sizes = {"embedding_size": 12, "encoder": {"layers": 2, "heads": 4}, "decoder": {"layers": 3, "heads": 6}}
    return built(TransformerConfig, {"context": {"heads": 2}, **sizes, **values})


def built(config, values):
    torch.manual_seed(7)
    return config.model_validate(values).build(17, 13, False).double().eval()


LUONG = {"kind": "luong", "hidden_size": 12}
SELF = {"kind": "transformer", "layers": 2, "heads": 3, "feed_forward_size": 5}
STACKED = {"kind": "stacked", "encoders": [SELF, SELF | {"layers": 1, "heads": 1}]}
ROTARY = {"layers": 2, "heads": 3, "norm": "post", "position": "rotary"}

# Each with the heads of the layers on the source, of the encoder's and of the decoder's self-attention.
MODELS = {
    "one head": (recurrent, [1], [], []),
    "heads": (lambda: recurrent({"scorer": "scaled_dot", "heads": 3}), [3], [], []),
    "values": (lambda: recurrent({"heads": 2, "separate_values": True}, decoder=LUONG), [2], [], []),
    "at once": (lambda: recurrent({"heads": 2}, decoder=LUONG | {"input_feeding": False}), [2], [], []),
    "history": (lambda: recurrent({"scorer": "linguistic_coverage", "heads": 3}), [3], [], []),
    "mean": (lambda: recurrent({"kind": "mean"}), [1], [], []),
    "stacked": (lambda: recurrent(encoder=STACKED, embedding_size=6), [1], [3, 3, 1], []),
    "transformer": (transformer, [2] * 3, [4] * 2, [6] * 3),
    "rotary": (lambda: transformer(decoder=ROTARY), [2] * 2, [4] * 2, [3] * 2),
    "over a GRU": (lambda: transformer(encoder={"kind": "recurrent", "hidden_size": 5}), [2] * 3, [], [6] * 3),
    "transformer, mean": (lambda: transformer(context={"kind": "mean"}), [1] * 3, [4] * 2, [6] * 3),
}


@pytest.fixture(params=MODELS, ids=str)
def case(request):
    make, *heads = MODELS[request.param]
    return make(), heads


def test_there_is_a_tensor_for_each_layer_with_its_heads(case):
    model, heads = case
    for layers, expected, sizes in zip(
        model.head_weights(SOURCE, TARGET)[:3], heads, [(5, 6), (6, 6), (5, 5)], strict=True
    ):
        assert [layer.shape for layer in layers] == [(3, each, *sizes) for each in expected]


def test_self_attention_between_other_positions_than_the_states_has_no_names_for_them():
    model = transformer()
    model.encoder.reads_as_states = False
    found, whole = model.head_weights(SOURCE, TARGET), transformer().head_weights(SOURCE, TARGET)
    assert found.encoder == ()
    assert [len(layers) for layers in (found.cross, found.decoder)] == [len(whole.cross), len(whole.decoder)]


def test_the_mean_over_layers_and_heads_are_the_weights_of_the_model(case):
    model, _ = case
    expected = model.decode(model.decoder_inputs(TARGET), model.encode(SOURCE)).weights
    cross = model.head_weights(SOURCE, TARGET).cross
    torch.testing.assert_close(torch.stack(cross).mean(dim=(0, 2)), expected)
    assert not any(isinstance(module, Observed) for module in model.modules())


def test_rows_sum_to_1_padding_has_0_and_no_step_sees_a_later_one(case):
    model, _ = case
    cross, encoder, decoder, is_state = model.head_weights(SOURCE, TARGET)
    assert torch.equal(is_state, SOURCE.is_token)
    padding = ~SOURCE.is_token[:, None, None]
    for weights in (*cross, *encoder, *decoder):
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:-1], dtype=torch.double))
    for weights in (*cross, *encoder):
        assert (weights.masked_select(padding) == 0).all()
    for weights in decoder:
        assert (weights.triu(1) == 0).all()
        assert (weights.tril() > 0).any()


def test_a_model_that_does_not_read_single_words_has_one_head_without_weights():
    for model in (recurrent({"kind": "fixed"}), transformer(context={"kind": "fixed"})):
        (weights,) = model.head_weights(SOURCE, TARGET).cross
        assert torch.equal(weights, torch.zeros(3, 1, 5, 6, dtype=torch.double))


def test_a_translator_without_contexts_has_one_head_with_the_weights_of_decode():
    model = Ensemble([recurrent(), transformer()])
    (weights,) = model.head_weights(SOURCE, TARGET).cross
    torch.testing.assert_close(weights[:, 0], model.decode(model.decoder_inputs(TARGET), model.encode(SOURCE)).weights)


def test_the_heads_of_a_recurrent_decoder_are_those_of_its_steps():
    model = recurrent({"scorer": "scaled_dot", "heads": 3}, decoder={"kind": "bahdanau", "hidden_size": 12})
    memory, inputs = model.encode(SOURCE), model.decoder_inputs(TARGET)
    state, expected = model.start(memory), []
    for tokens in inputs.unbind(1):
        expected.append(model.decoder.context.head_weights(state.hidden[:, None], memory.source.prepared))
        state = model.step(tokens, state, memory).state
    torch.testing.assert_close(model.head_weights(SOURCE, TARGET).cross[0], torch.cat(expected, dim=2))


def by_hand(heads, query, keys, may_read):
    """softmax(q W_Q^T (k W_K^T)^T / √d) of each head, with loops over sentences and heads."""
    q, k = heads.query_layer(query), heads.key_layer(keys)
    d, rows = q.shape[-1] // heads.heads, []
    for sentence in range(len(q)):
        for head in range(heads.heads):
            columns = slice(head * d, (head + 1) * d)
            scores = q[sentence, :, columns] @ k[sentence, :, columns].T / d**0.5
            rows.append(scores.masked_fill(~may_read[sentence], -torch.inf).softmax(dim=-1))
    return torch.stack(rows).unflatten(0, (len(q), heads.heads))


def test_the_heads_of_a_transformer_are_the_softmax_of_their_projections_layer_by_layer():
    model = transformer()
    found = model.head_weights(SOURCE, TARGET)
    is_token, earlier = SOURCE.is_token[:, None], torch.ones(3, 5, 5, dtype=torch.bool).tril()

    x = model.encoder.network.below(model.encoder.embedding(SOURCE.tokens))
    for layer, weights in zip(model.encoder.network.layers, found.encoder, strict=True):
        normed = layer.around_self_attention.norm(x)
        torch.testing.assert_close(weights, by_hand(layer.self_attention.attention, normed, normed, is_token))
        x = layer(x, SOURCE.is_token)
    states = model.encoder.network.final_norm(x)

    x = model.decoder.below(model.target_embedding(model.decoder_inputs(TARGET)))
    for layer, weights, own in zip(model.decoder.layers, found.cross, found.decoder, strict=True):
        normed = layer.around_self_attention.norm(x)
        torch.testing.assert_close(own, by_hand(layer.self_attention.attention, normed, normed, earlier))
        query = layer.around_context.norm(x + layer.self_attention(normed)[0])
        torch.testing.assert_close(weights, by_hand(layer.context, query, states, is_token))
        x, _ = layer(x, layer.context.prepare(states, is_token=SOURCE.is_token), False)


def test_forced_decoding_cuts_the_padding_off_each_pair():
    model = transformer()
    pairs = zip(force_heads(model, SOURCE, TARGET), force(model, SOURCE, TARGET), strict=True)
    for row, (found, forced) in enumerate(pairs):
        alone = [pad([side.tokens[row, : side.lengths[row]].tolist()]) for side in (SOURCE, TARGET)]
        for layers, expected in zip(found[:3], model.head_weights(*alone)[:3], strict=True):
            for weights, layer in zip(layers, expected, strict=True):
                torch.testing.assert_close(weights, layer[0].float())
        torch.testing.assert_close(torch.stack(found.cross).mean(dim=(0, 1)), forced.weights)
