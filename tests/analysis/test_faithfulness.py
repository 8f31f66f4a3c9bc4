"""Faithfulness of attention: each measure against an independent computation."""

import copy
import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.stats import kendalltau

from seq2seq_attn.analysis.faithfulness import (
    correlate,
    faithfulness,
    gradient_norms,
    leave_one_out,
    weight_changes,
    word_importance,
)
from seq2seq_attn.analysis.interventions import intervene
from seq2seq_attn.attention import MeanContext
from seq2seq_attn.attention.contexts import counterfactual as changes
from seq2seq_attn.corpora.codec import Codec
from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.corpora.source import pad
from seq2seq_attn.corpora.tokenizers import Word
from seq2seq_attn.corpora.vocabulary import EOS, Vocabulary
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.models.transformer.config import TransformerConfig
from seq2seq_attn.options import FaithfulnessOptions
from seq2seq_attn.runs.building import build_translator
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.search import force

PAIRS = [
    ([7, 5, 9, 4, EOS], [6, 4, 8, EOS]),
    ([4, EOS], [5, 7, EOS]),
    ([8, 6, 5, EOS], [4, 4, 6, 8, 7, EOS]),
]


# Each family, and a sentence in several batches or in one.
EACH_WAY = [("translator", 2), ("translator", 16), ("transformer", 2)]


@pytest.fixture
def translator():
    torch.manual_seed(3)
    config = {"embedding_size": 6, "encoder": {"hidden_size": 5}, "decoder": {"hidden_size": 11}}
    model = RecurrentConfig.model_validate(config).build(10, 9, False).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # the predictions of an untrained model hardly depend on the context
    return model


@pytest.fixture
def transformer():
    """Two layers that read the source with three heads each."""
    torch.manual_seed(3)
    layers = {"layers": 2, "heads": 2}
    config = {"embedding_size": 6, "encoder": layers, "decoder": layers, "context": {"heads": 3}}
    model = TransformerConfig.model_validate(config).build(10, 9, False).double().eval()
    with torch.no_grad():
        for context in model.contexts_that_read():
            for parameter in context.parameters():
                parameter.mul_(3)
    return model


@pytest.fixture(params=["translator", "transformer"])
def any_family(request):
    return request.getfixturevalue(request.param)


def distributions(translator):
    """The distributions p (T, V) of each pair, decoded alone."""
    with torch.no_grad():
        return [translator(pad([source]), pad([target]))[0].softmax(dim=-1).numpy() for source, target in PAIRS]


def test_unchanged_weights_have_no_effect(any_family):
    found = intervene(any_family, PAIRS, {"none": lambda weights, is_token: weights})
    forced = force(any_family, *(pad(side) for side in zip(*PAIRS, strict=True)))
    perplexity = math.exp(-sum(pair.total for pair in forced) / 13)
    assert found.tokens == 13
    assert found.perplexity == pytest.approx(perplexity, rel=1e-6)
    effect = found.effects["none"]
    assert effect == pytest.approx((0, found.perplexity, 0, 0, 0, 0), abs=1e-12)
    assert effect.changed == 0


def test_the_effect_of_uniform_weights_equals_that_of_a_mean_context(translator):
    mean = copy.deepcopy(translator)
    mean.decoder.context = MeanContext(10)
    check_uniform(translator, mean)


def test_the_effect_of_uniform_weights_in_every_layer_and_head_equals_that_of_equal_scores(transformer):
    unread = copy.deepcopy(transformer)
    for context in unread.contexts_that_read():
        torch.nn.init.zeros_(context.query_layer.weight)
        torch.nn.init.zeros_(context.query_layer.bias)
    check_uniform(transformer, unread)


def check_uniform(translator, uniform):
    """Compares the effect of uniform weights with the predictions of a model whose weights are uniform."""
    before, after = (np.concatenate(distributions(model)) for model in (translator, uniform))
    targets = np.concatenate([target for _, target in PAIRS])
    of_targets = [np.log(p[np.arange(13), targets]) for p in (before, after)]
    own = [pair.weights.numpy() for source, target in PAIRS for pair in force(translator, pad([source]), pad([target]))]
    effect = intervene(translator, PAIRS, {"uniform": changes.uniform}).effects["uniform"]
    assert effect.log_probability == pytest.approx((of_targets[1] - of_targets[0]).mean())
    assert effect.perplexity == pytest.approx(np.exp(-of_targets[1].mean()))
    assert effect.changed == pytest.approx((before.argmax(1) != after.argmax(1)).mean())
    assert effect.total_variation == pytest.approx(np.abs(before - after).sum(1).mean() / 2)
    assert effect.jensen_shannon == pytest.approx((jensenshannon(before, after, axis=1) ** 2).mean())
    moved = np.concatenate([np.abs(weights - 1 / weights.shape[1]).sum(1) / 2 for weights in own])
    assert effect.moved == pytest.approx(moved.mean(), rel=1e-6)
    assert 0 < effect.changed < 1


def test_a_model_whose_output_ignores_the_context_shows_no_effect(translator):
    with torch.no_grad():
        translator.decoder.from_context.map.weight.zero_()
        translator.readout.combine.weight[:, 11 : 11 + 10].zero_()  # of [H; C; E y]
    for effect in intervene(translator, PAIRS, weight_changes(seed=2)).effects.values():
        assert effect[:1] + effect[2:5] == pytest.approx((0, 0, 0, 0), abs=1e-12)
        assert effect.moved > 0


def test_batching_does_not_change_deterministic_interventions(translator, monkeypatch):
    of_rows = {"uniform": changes.uniform, "most": changes.without_the_most_read}
    pairs = PAIRS * 2
    whole = intervene(translator, pairs, of_rows)
    monkeypatch.setattr("seq2seq_attn.analysis.interventions.BATCH", 3)
    parts = intervene(translator, pairs, of_rows)
    for name in of_rows:
        assert parts.effects[name] == pytest.approx(whole.effects[name])


@pytest.mark.parametrize(("any_family", "copies"), EACH_WAY, indirect=["any_family"])
def test_gradient_norms_equal_finite_differences(any_family, monkeypatch, copies):
    translator = any_family
    monkeypatch.setattr("seq2seq_attn.analysis.faithfulness.COPIES", copies)
    source, target = PAIRS[0]
    sources, targets = pad([source]), pad([target])
    embedded = translator.encoder.embedding(sources.tokens).detach()

    def log_probabilities(moved):
        memory = translator.encode_embedded(moved, sources)
        logits = translator.head.projection(translator.decode(translator.decoder_inputs(targets), memory).features)
        return logits[0].log_softmax(dim=-1)[torch.arange(len(target)), targets.tokens[0]]

    step, slopes = 1e-6, torch.zeros(len(target), *embedded.shape[1:], dtype=torch.double)
    with torch.no_grad():
        for j, e in np.ndindex(*embedded.shape[1:]):
            ahead, behind = embedded.clone(), embedded.clone()
            ahead[0, j, e] += step
            behind[0, j, e] -= step
            slopes[:, j, e] = (log_probabilities(ahead) - log_probabilities(behind)) / (2 * step)
    found = gradient_norms(translator, source, target)
    torch.testing.assert_close(found, slopes.norm(dim=-1), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("any_family", "copies"), EACH_WAY, indirect=["any_family"])
def test_leave_one_out_compares_with_the_sentence_without_the_word(any_family, monkeypatch, copies):
    translator = any_family
    monkeypatch.setattr("seq2seq_attn.analysis.faithfulness.COPIES", copies)
    source, target = PAIRS[0]
    (whole,) = force(translator, pad([source]), pad([target]))
    found = leave_one_out(translator, source, target)
    for left_out in range(4):
        rest = [token for place, token in enumerate(source) if place != left_out]
        (without,) = force(translator, pad([rest]), pad([target]))
        expected = (without.log_probabilities - whole.log_probabilities).abs()
        torch.testing.assert_close(found[:, left_out].float(), expected, rtol=1e-4, atol=1e-6)


def test_each_measure_stands_under_its_name(translator):
    source, target = PAIRS[0]
    (forced,) = force(translator, pad([source]), pad([target]))
    found = word_importance(translator, source, target)
    np.testing.assert_allclose(found["weights"], forced.weights[:, :4])
    np.testing.assert_allclose(found["gradient"], gradient_norms(translator, source, target)[:, :4])
    np.testing.assert_allclose(found["leave_one_out"], leave_one_out(translator, source, target))
    for (one, other), tau in correlate(translator, PAIRS[:1]).items():
        rows = zip(found[one], found[other], strict=True)
        assert tau.mean == pytest.approx(np.mean([kendalltau(*pair).statistic for pair in rows]))


def test_a_sentence_of_one_word_has_no_rank_correlation(translator):
    found = word_importance(translator, *PAIRS[2])
    assert {name: values.shape for name, values in found.items()} == dict.fromkeys(found, (6, 3))
    correlations = correlate(translator, PAIRS)
    assert [tau.rows for tau in correlations.values()] == [4 + 6] * 3


@pytest.fixture
def trained(grid):
    """An untrained model with words of one letter."""

    def make(arm):
        codec = Codec(Word(), Vocabulary.build([list("abcde")]))
        config = grid.runs[arm].config
        torch.manual_seed(5)
        return TrainedModel(config, codec, codec, build_translator(config, codec, codec).eval())

    return make


def test_the_seed_determines_all_figures(trained):
    model = trained(2)
    pairs = ParallelCorpus(["a b c", "", "d e", "e a"], ["c b a", "a", "e d", "a e"], "letters")
    found = [faithfulness(model, pairs, FaithfulnessOptions(sentences=2, seed=seed)) for seed in (1, 1, 2)]
    assert found[0] == found[1] != found[2]
    assert found[0].interventions.tokens == 4 + 3 + 3  # a pair with an empty side is skipped
    assert found[0].sentences == 2
    assert found[0].interventions.effects["uniform"] == found[2].interventions.effects["uniform"]


def test_a_model_without_weights_or_a_single_pair_is_refused(trained):
    pairs = ParallelCorpus(["a b", "c"], ["b a", ""], "letters")
    with pytest.raises(UserError, match=r"^model\.context\.kind: this model does not attend"):
        faithfulness(trained(0), pairs, FaithfulnessOptions())
    with pytest.raises(UserError, match=r"^letters: 1 pairs with text on both sides; at least two are needed$"):
        faithfulness(trained(2), pairs, FaithfulnessOptions())
