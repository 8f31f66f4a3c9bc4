"""Images as cells of a grid: the equation, their order and places, and that padding changes no state."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from seq2seq_attn.corpora.source import Pixels
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.config import ModelConfig
from seq2seq_attn.models.encoder import EncoderConfig
from seq2seq_attn.strict import parse

HEIGHT, WIDTHS, CHANNELS = 13, [20, 7, 1], 3
STRIDES = [[2, 2], [3, 1], [2, 3]]


def config(**options):
    return {"kind": "convolutional_grid", "channels": [5, 6, 8], "strides": STRIDES} | options


def encoder(**options):
    torch.manual_seed(3)
    values = parse(EncoderConfig, config(**options))
    return values.build((HEIGHT, CHANNELS), None, parse(ModelConfig, {}).dropout).double().eval()


@pytest.fixture(scope="module")
def images():
    """Images whose padding is noise."""
    generator = torch.Generator().manual_seed(4)
    pixels = torch.randn(len(WIDTHS), max(WIDTHS), HEIGHT, CHANNELS, generator=generator, dtype=torch.float64)
    return Pixels(pixels, torch.tensor(WIDTHS))


def alone(images, row):
    return images.select(torch.tensor([row]))


@pytest.mark.parametrize(
    "network",
    [None, {"kind": "recurrent", "hidden_size": 4}, {"kind": "transformer", "layers": 1, "heads": 2}],
    ids=["cells", "recurrent", "transformer"],
)
def test_padding_never_changes_a_state(images, network):
    grid = encoder(network=network)
    states, is_state = grid(images)
    assert grid.rows(images) == 2  # 13, 7, 3, 2
    assert grid.reads_as_states == (network is None)
    assert is_state.sum(dim=1).tolist() == [2 * 4, 2 * 2, 2 * 1]  # columns: 20, 10, 10, 4; 7, 4, 4, 2; 1
    assert not (is_state[:, 1:] & ~is_state[:, :-1]).any()  # padding comes last, for what counts positions
    for row in range(len(WIDTHS)):
        own = grid(alone(images, row))
        assert own.is_state.all()
        torch.testing.assert_close(states[row, is_state[row]], own.states[0], rtol=0, atol=1e-12)


def test_cells_are_those_of_plain_convolutions_with_sinusoids_of_their_places(images):
    grid = encoder()
    x = alone(images, 0).frames.permute(0, 3, 1, 2)  # (1, channels, width, height)
    for layer, (down, across) in zip(grid.layers, STRIDES, strict=True):
        x = functional.conv2d(x, layer.convolution.weight, padding=1)[:, :, ::across, ::down]
        mean, variance = x.mean(dim=1, keepdim=True), x.var(dim=1, keepdim=True, correction=0)
        scale, shift = (each[None, :, None, None] for each in (layer.norm.weight, layer.norm.bias))
        x = ((x - mean) / (variance + layer.norm.eps).sqrt() * scale + shift).clamp_min(0)
    states = grid(alone(images, 0)).states[0]
    for k, state in enumerate(states):
        row, column = divmod(k, 4)
        places = [wave(place / 10000 ** (2 * i / 4)) for place in (row, column) for i in (0, 1) for wave in WAVES]
        np.testing.assert_allclose(state.detach(), x[0, :, column, row].detach() + torch.tensor(places), atol=1e-9)


WAVES = np.sin, np.cos


def test_a_transformer_reads_the_cells_as_they_are_not_scaled_as_embeddings_are(images):
    transformer = {"kind": "transformer", "layers": 1, "heads": 2}
    grid, cells = encoder(network=transformer), encoder()
    cells.load_state_dict(grid.state_dict(), strict=False)
    plain = cells(alone(images, 0)).states.unflatten(1, (2, 4)).transpose(1, 2).flatten(1, 2)  # column by column
    network = parse(EncoderConfig, transformer).network(8, dropout=0.0, is_first=False).double()
    network.load_state_dict(grid.network.state_dict())
    expected = network(plain, torch.tensor([8])).unflatten(1, (4, 2)).transpose(1, 2).flatten(1, 2)
    torch.testing.assert_close(grid(alone(images, 0)).states, expected)


def test_without_a_network_a_cell_sees_its_surroundings_alone(images):
    grid = encoder()
    changed = images.frames.clone()
    changed[0, 11:] += 1  # columns of pixels; cells are at 0, 6, 12 and 18, and see five more on either side
    before, after = (grid(Pixels(frames, images.lengths)).states[0] for frames in (images.frames, changed))
    moved = (before - after).abs().amax(dim=1).unflatten(0, (2, -1)) > 0
    assert moved.any(dim=0).tolist() == [False, True, True, True]


def test_a_model_of_a_grid_steps_as_in_teacher_forcing_and_learns_all_its_parameters(images):
    values = {"embedding_size": 10, "decoder": {"hidden_size": 8}, "summary": "mean", "encoder": config()}
    model = parse(ModelConfig, values).build((HEIGHT, CHANNELS), 12, joint=False).double().eval()
    memory = model.encode(images)
    inputs = torch.tensor([[1, 5, 6], [1, 7, 4], [1, 5, 5]])
    decoded = model.decode(inputs, memory)
    state = model.start(memory)
    for step, tokens in enumerate(inputs.unbind(dim=1)):
        found = model.step(tokens, state, memory)
        torch.testing.assert_close(found.weights, decoded.weights[:, step])
        state = found.state
    decoded.features.square().sum().backward()
    unused = [name for name, each in model.encoder.named_parameters() if each.grad is None or not each.grad.any()]
    assert not unused


@pytest.mark.parametrize(
    "options",
    [
        {"channels": [4, 6]},
        {"channels": []},
        {"strides": [[2, 2]]},
        {"strides": [[0, 2]] * 3},
        {"strides": [[4, 2]] * 3},
        {"network": config()},
    ],
)
def test_options_that_do_not_fit_are_refused(options):
    with pytest.raises(UserError, match=next(iter(options))):
        parse(EncoderConfig, config(**options))
