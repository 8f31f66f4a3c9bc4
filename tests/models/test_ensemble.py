"""An ensemble averages probabilities, and is a translator like any other."""

from math import log

import pytest
import torch
from torch import nn

from seq2seq_attn.corpora.source import pad
from seq2seq_attn.corpora.vocabulary import EOS
from seq2seq_attn.models.ensemble import Ensemble
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.ops import fuse
from seq2seq_attn.ops.int8 import has_int8
from seq2seq_attn.search import SearchOptions, force, search
from seq2seq_attn.search.batched import autocast, quantized_for
from seq2seq_attn.search.shortlist import Shortlist

SOURCES = [[4, 7, 6, EOS], [5, EOS], [10, 9, 8, 4, 5, 6, EOS], [EOS], [6, 6, 9, EOS], [7, 10, EOS]]
TARGETS = [[4, EOS], [5, 6, 4, 20, EOS], [EOS], [7, 7, EOS], [8, EOS], [4, 5, 6, 7, 8, EOS]]
GREEDY = SearchOptions(beam_size=1, max_length=6)
BEAM = SearchOptions(beam_size=4, n_best=3, max_length=6, batch_size=4)
INT8 = pytest.param("int8", marks=pytest.mark.skipif(not has_int8(), reason="no int8 products on this machine"))


def make(seed, kind="bahdanau", context="attention", size=19):
    torch.manual_seed(seed)
    values = {
        "embedding_size": size - 6,
        "encoder": {"hidden_size": 9},
        "decoder": {"kind": kind, "hidden_size": size},
        "context": {"kind": context},
    }
    model = RecurrentConfig.model_validate(values).build(17, 29, False)
    for parameter in model.parameters():
        parameter.data.mul_(3)  # so that predictions are far from uniform
    return model.eval()


def assert_same(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        assert [each.tokens for each in ours] == [each.tokens for each in theirs]
        for our, their in zip(ours, theirs, strict=True):
            assert our.log_probability == pytest.approx(their.log_probability, abs=1e-4)
            torch.testing.assert_close(our.weights, their.weights, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("options", [GREEDY, BEAM], ids=["greedy", "beam"])
@pytest.mark.parametrize("copies", [1, 3])
def test_an_ensemble_of_copies_of_a_model_equals_the_model(options, copies):
    model = make(1)
    ensemble = Ensemble([model] * copies)
    expected = search(model, SOURCES, options, with_weights=True)
    assert_same(search(ensemble, SOURCES, options, with_weights=True), expected)
    assert_same(search(fuse(ensemble, constant=True), SOURCES, options, with_weights=True), expected)


@pytest.mark.parametrize("options", [GREEDY, BEAM], ids=["greedy", "beam"])
def test_the_order_of_the_members_changes_nothing(options):
    one, other, third = make(1), make(2, "luong", size=23), make(3, "conditional")
    assert_same(
        search(Ensemble([third, one, other]), SOURCES, options, with_weights=True),
        search(Ensemble([one, other, third]), SOURCES, options, with_weights=True),
    )


class Constant(nn.Linear):
    """Logits ln p whatever the features."""

    def __init__(self, features, probabilities):
        super().__init__(features, len(probabilities))
        self.weight.data.zero_()
        self.bias.data.copy_(torch.tensor(probabilities).log())


def predicting(probabilities, **options):
    model = make(1, **options)
    model.head.projection = Constant(model.head.projection.in_features, probabilities)
    return model


def test_probabilities_are_averaged_and_not_their_logarithms():
    one = predicting([0.05, 0, 0, 0.1, 0.8, 0.05])
    other = predicting([0.05, 0, 0, 0.5, 0.1, 0.35], kind="luong", size=23)
    ensemble = Ensemble([one, other])
    (forced,) = force(ensemble, pad([[4, EOS]]), pad([[4, 5, 0, EOS]]))
    expected = [log(0.45), log(0.2), log(0.05), log(0.3)]  # geometric means: 0.28, 0.13, 0.05, 0.22
    assert forced.log_probabilities.tolist() == pytest.approx(expected, rel=1e-5)
    ((greedy,),) = search(ensemble, [[4, EOS]], SearchOptions(beam_size=1, max_length=2))
    assert (greedy.tokens, greedy.log_probability) == ([4, 4], pytest.approx(2 * log(0.45), rel=1e-5))


def test_the_weights_are_the_mean_of_the_members_and_0_if_one_has_none():
    one, other, none = make(1), make(2), make(3, context="none")
    single = [force(model, pad(SOURCES), pad(TARGETS)) for model in (one, other)]
    both = force(Ensemble([one, other]), pad(SOURCES), pad(TARGETS))
    with_none = force(Ensemble([one, none]), pad(SOURCES), pad(TARGETS))
    for ours, first, second, missing in zip(both, *single, with_none, strict=True):
        torch.testing.assert_close(ours.weights, (first.weights + second.weights) / 2)
        assert not missing.weights.any()


def test_scores_of_a_search_are_the_averaged_probabilities_of_forced_decoding():
    members = [make(1), make(2, "luong", size=23), make(3, context="fixed")]
    found = search(Ensemble(members), SOURCES, BEAM, with_weights=True)
    sources = [source for source, best in zip(SOURCES, found, strict=True) for _ in best]
    hypotheses = [each for best in found for each in best]
    targets = [[*each.tokens, EOS] for each in hypotheses]
    ours, *theirs = (force(model, pad(sources), pad(targets)) for model in (Ensemble(members), *members))
    for hypothesis, forced, single in zip(hypotheses, ours, zip(*theirs, strict=True), strict=True):
        mean = torch.stack([each.log_probabilities.exp() for each in single]).mean(dim=0)
        torch.testing.assert_close(forced.log_probabilities, mean.log(), atol=1e-5, rtol=1e-5)
        if len(hypothesis.tokens) < BEAM.max_length:  # finished
            assert hypothesis.log_probability == pytest.approx(forced.total, abs=1e-4)


def test_members_are_prepared_for_inference_as_single_models_are():
    prepared = fuse(Ensemble([make(1), make(2)]), constant=True)
    alone = fuse(make(1), constant=True)
    for member in prepared.members:
        assert [type(part) for part in member.modules()] == [type(part) for part in alone.modules()]


@pytest.mark.parametrize("precision", ["bf16", INT8])
def test_members_compute_in_the_precision_of_the_search(precision):
    ensemble, options = Ensemble([make(1), make(2)]), SearchOptions(beam_size=1, max_length=1, precision=precision)
    with autocast(options, "cpu"):
        prepared = fuse(quantized_for(options, ensemble), constant=True)
    exact = search(ensemble, SOURCES, options.model_copy(update={"precision": "fp32"}))
    near = search(prepared, SOURCES, options)
    differences = [
        abs(ours.log_probability - theirs.log_probability) for (ours,), (theirs,) in zip(near, exact, strict=True)
    ]
    assert 0 < max(differences) < 0.1


@pytest.mark.parametrize("options", [GREEDY, BEAM], ids=["greedy", "beam"])
def test_a_shortlist_of_all_tokens_changes_nothing(options):
    everything = Shortlist(torch.arange(17)[:, None], torch.arange(29))
    ensemble = Ensemble([make(1), make(2, "luong", size=23)])
    expected = search(ensemble, SOURCES, options, with_weights=True)
    assert_same(search(ensemble, SOURCES, options, shortlist=everything, with_weights=True), expected)


def test_with_a_shortlist_each_member_is_normalized_over_it():
    one = predicting([0.05, 0, 0, 0.1, 0.6, 0.25])
    other = predicting([0.05, 0, 0, 0.5, 0.1, 0.35])
    other.head.projection.register_forward_hook(lambda *_: None)  # changed by a user: it computes all logits
    listed = Shortlist(torch.full((17, 1), 4), torch.tensor([], dtype=torch.long))
    ((found,),) = search(Ensemble([one, other]), [[4, EOS]], SearchOptions(beam_size=1, max_length=1), shortlist=listed)
    assert found.tokens == [4]
    assert found.log_probability == pytest.approx(log((0.6 / 0.75 + 0.1 / 0.65) / 2), rel=1e-5)
