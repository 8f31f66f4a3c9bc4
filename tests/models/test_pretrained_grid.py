"""Features of a pretrained network as states, with a stand-in for timm, whose builds of torch need not be installed."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import nn

from seq2seq_attn.corpora.source import Pixels
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.config import ModelConfig, weights_from_a_file
from seq2seq_attn.models.encoder import EncoderConfig
from seq2seq_attn.strict import parse

WIDTHS = [9, 5, 9, 4]


class Backbone(nn.Module):
    """Two of the feature maps that timm's models return, with batch norm and a filter that sees beyond the edges."""

    def __init__(self, channels, levels, pretrained):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Conv2d(size, 7, 5, stride=2, padding=2), nn.BatchNorm2d(7), nn.ReLU())
            for size in (channels, 7)
        )
        self.levels, self.pretrained = levels, pretrained
        self.feature_info = SimpleNamespace(channels=lambda: [7])

    def forward(self, images):
        maps = []
        for layer in self.layers:
            images = layer(images)
            maps.append(images)
        return [maps[level] for level in self.levels]


@pytest.fixture(autouse=True)
def timm(monkeypatch):
    def create_model(name, *, pretrained, features_only, out_indices, in_chans):
        assert features_only
        if name != "tiny":
            raise RuntimeError(f"Unknown model ({name})")
        return Backbone(in_chans, out_indices, pretrained)

    module = ModuleType("timm")
    module.create_model = create_model
    monkeypatch.setitem(sys.modules, "timm", module)


def encoder(**options):
    torch.manual_seed(5)
    config = parse(EncoderConfig, {"kind": "pretrained_grid", "model": "tiny"} | options)
    return config.build((8, 3), None, parse(ModelConfig, {}).dropout).double()


@pytest.fixture(scope="module")
def images():
    generator = torch.Generator().manual_seed(4)
    frames = torch.randn(4, 9, 8, 3, generator=generator, dtype=torch.float64)
    return Pixels(frames, torch.tensor(WIDTHS))


@pytest.mark.parametrize(("level", "rows", "columns"), [(-1, 2, [3, 2, 3, 1]), (0, 4, [5, 3, 5, 2])])
def test_padding_and_other_images_never_change_a_state(images, level, rows, columns):
    grid = encoder(level=level).train()
    states, is_state = grid(images)
    assert grid.rows(images) == rows
    assert is_state.sum(dim=1).tolist() == [rows * each for each in columns]
    for row in range(len(WIDTHS)):
        alone = images.select(torch.tensor([row]))
        own = grid(alone)
        torch.testing.assert_close(states[row, is_state[row]], own.states[0], rtol=0, atol=1e-12)
        cells = grid.backbone(alone.frames.permute(0, 3, 2, 1))[0][0]
        torch.testing.assert_close(own.states[0], cells.flatten(1).T)  # row by row
    assert grid.backbone.layers[0][1].num_batches_tracked == 0


def test_the_features_are_trained_unless_they_are_frozen(images):
    grid = encoder()
    grid(images).states.square().sum().backward()
    assert all(each.grad is not None and each.grad.any() for each in grid.parameters() if each.dim() > 1)


def test_pretrained_weights_are_read_once_and_not_where_a_run_has_its_own():
    assert encoder().backbone.pretrained
    with weights_from_a_file():
        assert not encoder().backbone.pretrained


def test_a_model_that_timm_does_not_have_and_a_missing_timm_are_named(monkeypatch):
    with pytest.raises(UserError, match=r"model\.encoder\.model=huge: .*Unknown model"):
        encoder(model="huge")
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(UserError, match="pip install timm"):
        encoder()
