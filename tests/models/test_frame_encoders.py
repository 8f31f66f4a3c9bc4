"""Encoders of frames, against torch's own layers on one recording at a time, and the laws that all of them obey."""

import numpy as np
import pytest
import torch
from torch import nn

from seq2seq_attn.corpora.source import Frames
from seq2seq_attn.models.embedding import DropoutConfig
from seq2seq_attn.models.encoder import EncoderConfig
from seq2seq_attn.models.encoders.spec_augment import SpecAugment, SpecAugmentConfig

FEATURES, SIZE = 6, 8
LENGTHS = [9, 1, 4, 12]
DROPOUT = DropoutConfig(embedding=0.0, state=0.0)
NETWORK = {"kind": "recurrent", "hidden_size": 5}
KINDS = {
    "linear": ({"kind": "linear"}, 1),
    "linear, joined": ({"kind": "linear", "join": 3}, 3),
    "linear, Transformer": ({"kind": "linear", "network": {"kind": "transformer", "layers": 1, "heads": 2}}, 1),
    "convolutional": ({"kind": "convolutional", "channels": 3}, 4),
    "convolutional over time": ({"kind": "convolutional", "channels": 3, "dimensions": 1, "layers": 1}, 2),
    "pyramidal": ({"kind": "pyramidal"}, 4),
}


def encoder_of(values, dropout=DROPOUT):
    config = EncoderConfig.model_validate({"network": NETWORK} | values)
    torch.manual_seed(3)
    return config.build(FEATURES, config.build_embedding(FEATURES, SIZE, dropout), dropout).double()


@pytest.fixture
def source():
    lengths = torch.tensor(LENGTHS)
    return Frames(torch.randn(4, 12, FEATURES, dtype=torch.double), lengths)


@pytest.mark.parametrize("kind", KINDS)
def test_a_recording_in_a_batch_has_the_states_and_gradients_that_it_has_alone(kind, source):
    values, joined = KINDS[kind]
    encoder = encoder_of(values)
    spoilt = source._replace(frames=source.frames.masked_fill(~source.is_frame[:, :, None], torch.nan))
    found = encoder(spoilt)
    assert found.is_state.sum(dim=1).tolist() == [-(-length // joined) for length in LENGTHS]
    wanted = torch.randn_like(found.states)
    total = (found.states * wanted)[found.is_state].sum()
    together = torch.autograd.grad(total, list(encoder.parameters()))
    parts = [torch.zeros_like(each) for each in encoder.parameters()]
    for row, length in enumerate(LENGTHS):
        alone = encoder(source.select(torch.tensor([row])))
        assert alone.is_state.all()
        states = alone.states[0]
        torch.testing.assert_close(found.states[row, : len(states)], states)
        assert len(states) == -(-length // joined)
        own = torch.autograd.grad((states * wanted[row, : len(states)]).sum(), list(encoder.parameters()))
        parts = [part + each for part, each in zip(parts, own, strict=True)]
    for ours, sum_of_own in zip(together, parts, strict=True):
        torch.testing.assert_close(ours, sum_of_own)


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_a_batch_is_that_of_its_states(kind, source):
    encoder, order = encoder_of(KINDS[kind][0]), torch.tensor([2, 0, 3, 1])
    found, permuted = encoder(source), encoder(source.select(order))
    torch.testing.assert_close(permuted.is_state, found.is_state[order])
    torch.testing.assert_close(permuted.states[permuted.is_state], found.states[order][found.is_state[order]])


def test_a_pyramid_is_torch_s_layers_over_pairs(source):
    encoder = encoder_of({"kind": "pyramidal", "network": {"cell": "lstm", "hidden_size": 5}})
    layers = []
    for size, own in zip((FEATURES, 20, 20), encoder.networks, strict=True):
        layers.append(nn.LSTM(size, 5, batch_first=True, bidirectional=True).double())
        layers[-1].load_state_dict(own.layers[0].state_dict())
    for row, length in enumerate(LENGTHS):
        states = source.frames[row, :length]
        for level, layer in enumerate(layers):
            if level > 0:
                states = torch.cat([states, states.new_zeros(len(states) % 2, 10)]).reshape(-1, 20)
            states = layer(states[None])[0][0]
        torch.testing.assert_close(encoder(source).states[row, : len(states)], states)


@pytest.mark.parametrize("dimensions", [1, 2])
def test_convolutions_are_torch_s_over_one_recording(dimensions, source):
    encoder = encoder_of({"kind": "convolutional", "channels": 3, "dimensions": dimensions})
    first, second = encoder.embedding.layers
    for row, length in enumerate(LENGTHS):
        frames = source.frames[row : row + 1, :length]
        planes = frames[:, None] if dimensions == 2 else frames.transpose(1, 2)
        planes = second(first(planes).relu()).relu()
        vectors = planes.transpose(1, 2).flatten(2) if dimensions == 2 else planes.transpose(1, 2)
        wanted = encoder.network(encoder.embedding.projection(vectors), torch.tensor([vectors.shape[1]]))[0]
        torch.testing.assert_close(encoder(source).states[row, : len(wanted)], wanted)


def test_joined_frames_are_one_linear_map_of_all(source):
    encoder = encoder_of({"kind": "linear", "join": 3})
    weight, bias = (each.detach().numpy() for each in encoder.embedding.layer.parameters())
    vectors, lengths = encoder.embedding(source.frames, source.lengths)
    assert lengths.tolist() == [3, 1, 2, 4]
    frames = np.concatenate([source.frames[2, :4].numpy(), np.zeros((2, FEATURES))])
    wanted = [weight @ frames[k : k + 3].reshape(-1) + bias for k in (0, 3)]
    np.testing.assert_allclose(vectors[2, :2].detach().numpy(), wanted, atol=1e-12)


def test_a_limit_of_positions_is_one_of_states():
    position = {"name": "learned", "max_positions": 7}
    for kind, joined in {"linear": 1, "convolutional": 4, "pyramidal": 4}.items():
        network = {"kind": "transformer", "position": position}
        config = EncoderConfig.model_validate({"kind": kind, "network": network})
        assert config.max_positions == 7 * joined


def masked(config, rows=4000, lengths=(20,), features=11):
    """(rows, L, F): whether each value is masked."""
    module = SpecAugment(SpecAugmentConfig(**config))
    frames = torch.ones(rows, max(lengths), features)
    return module(frames, torch.tensor(lengths).repeat(rows // len(lengths))) == 0


def test_masks_are_those_of_the_paper():
    found = masked({"frequency_masks": 1, "frequency_width": 4, "time_masks": 0})
    bands = found.all(dim=1)
    assert torch.equal(found, bands[:, None].expand_as(found))
    widths = bands.sum(dim=1)
    shares = torch.bincount(widths, minlength=5) / len(widths)
    assert shares.tolist() == pytest.approx([1 / 5] * 5, abs=0.03)
    first = bands[widths == 4].int().argmax(dim=1)  # f_0 over 0 .. ν - f - 1
    assert (torch.bincount(first, minlength=11) / len(first)).tolist() == pytest.approx([1 / 7] * 7 + [0] * 4, abs=0.05)
    assert all(torch.diff(row.int()).clamp(min=0).sum() + row[0].int() <= 1 for row in bands[:50])

    found = masked({"frequency_masks": 0, "time_masks": 2, "time_width": 50, "time_share": 0.25}, lengths=(20, 8))
    frames = found.all(dim=2)
    assert frames[::2].sum(dim=1).max() == 10  # two masks of at most a quarter of 20 frames
    assert frames[1::2].sum(dim=1).max() == 4
    assert not frames[1::2, 8:].any()


def test_masks_are_drawn_in_training_alone_and_from_torch_s_generator(source):
    encoder = encoder_of({"kind": "linear", "spec_augment": {"time_width": 3, "frequency_width": 2}})
    plain = encoder_of({"kind": "linear"})
    torch.manual_seed(5)
    first, again = encoder(source).states, encoder(source).states
    torch.manual_seed(5)
    torch.testing.assert_close(encoder(source).states, first, rtol=0, atol=0)
    assert not torch.equal(first, again)
    torch.testing.assert_close(encoder.eval()(source).states, plain.eval()(source).states)
