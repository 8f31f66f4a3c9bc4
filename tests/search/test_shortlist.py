"""A search with a shortlist equals one in which all other tokens have probability 0."""

from itertools import chain

import pytest
import torch
from hand_made_models import SOURCES, GruModel
from torch import nn

from seq2seq_attn.corpora.source import pad
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.ops import fuse
from seq2seq_attn.ops.int8 import has_int8
from seq2seq_attn.search import SearchOptions, search
from seq2seq_attn.search.batched import autocast, quantized_for
from seq2seq_attn.search.shortlist import Shortlist

EVERYTHING = Shortlist(torch.arange(17)[:, None].expand(17, 3), torch.arange(149))
SOME = Shortlist(
    torch.randint(4, 149, (17, 5), generator=torch.Generator().manual_seed(1)), torch.tensor([31, 12, 140])
)
PRECISIONS = [
    "fp32",
    "bf16",
    pytest.param("int8", marks=pytest.mark.skipif(not has_int8(), reason="no int8 products on this machine")),
]


def make():
    torch.manual_seed(5)
    values = {"embedding_size": 13, "encoder": {"hidden_size": 9}, "decoder": {"hidden_size": 19}}
    model = RecurrentConfig.model_validate(values).build(17, 149, False)
    for parameter in model.parameters():
        parameter.data.mul_(3)
    return model.eval()


def prepared(options):
    with autocast(options, "cpu"):
        return fuse(quantized_for(options, make()), constant=True)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_shortlist_of_all_tokens_changes_nothing(beam_size, precision):
    options = SearchOptions(
        beam_size=beam_size, n_best=min(3, beam_size), precision=precision, max_length=6, batch_size=4
    )
    for model in (make(), prepared(options)):
        expected = search(model, SOURCES, options, with_weights=True)
        found = search(model, SOURCES, options, shortlist=EVERYTHING, with_weights=True)
        for ours, theirs in zip(chain(*found), chain(*expected), strict=True):
            assert ours[:3] == theirs[:3]
            assert torch.equal(ours.weights, theirs.weights)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_search_that_may_be_ended_finds_the_same(beam_size):
    """As that of a server, which asks before every step whether anybody waits."""
    options = SearchOptions(beam_size=beam_size, max_length=6, batch_size=4)
    found = search(make(), SOURCES, options, shortlist=SOME, at_step=lambda: None)
    assert found == search(make(), SOURCES, options, shortlist=SOME)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_tokens_outside_the_shortlist_have_probability_0(beam_size):
    options = SearchOptions(beam_size=beam_size, n_best=min(3, beam_size), max_length=6, batch_size=4)
    model, without = make(), make()
    found = search(model, SOURCES, options, shortlist=SOME)
    used = set()
    for first in range(0, len(SOURCES), 4):
        in_order = sorted(range(len(SOURCES)), key=lambda index: -len(SOURCES[index]))[first : first + 4]
        listed = SOME.tokens(pad([SOURCES[index] for index in in_order]))
        without.head.projection.bias = nn.Parameter(torch.full((149,), -torch.inf))
        without.head.projection.bias.data[listed] = model.head.projection.bias.data[listed]
        expected = search(without, [SOURCES[index] for index in in_order], options)
        for index, theirs in zip(in_order, expected, strict=True):
            assert [each.tokens for each in found[index]] == [each.tokens for each in theirs]
            for our, their in zip(found[index], theirs, strict=True):
                assert our.log_probability == pytest.approx(their.log_probability, rel=1e-5)
                assert set(our.tokens) <= set(listed.tolist())
                used |= set(our.tokens)
    assert len(used) > 3


def test_a_shortlist_contains_translations_of_source_tokens_frequent_tokens_and_special_tokens():
    shortlist = Shortlist(torch.tensor([[0], [90], [90], [3], [44], [21], [90], [30]]), torch.tensor([21, 50]))
    assert shortlist.tokens(pad([[5, 4, 3], [7, 3]])).tolist() == [0, 1, 2, 3, 21, 30, 44, 50]  # 1 is padding


def test_any_translator_can_be_searched_with_a_shortlist():
    translator = GruModel(1)
    listed = Shortlist(torch.full((11, 1), 7), torch.tensor([5]))
    found = search(translator, SOURCES, SearchOptions(beam_size=3, n_best=2), shortlist=listed)
    words = {token for best in found for each in best for token in each.tokens}
    assert words == {0, 5, 7}
    assert translator.head.projection.out_features == 11
