"""The trace of a beam search agrees with the search and with forced decoding."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from seq2seq_attn.analysis.beam_trace import example_lines, trace_pair
from seq2seq_attn.comparison.experiment import read_experiment
from seq2seq_attn.config import Config
from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.corpora.source import pad
from seq2seq_attn.ops.int8 import has_int8
from seq2seq_attn.results.examples import EXAMPLES, Example
from seq2seq_attn.runs.building import build_translator
from seq2seq_attn.runs.corpora import learn_front_ends, read_pairs
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.search.batched import search
from seq2seq_attn.strict import override, parse

PAIR = "a d e b", "b e d a"

needs_int8 = pytest.mark.skipif(not has_int8(), reason="no exact product of bytes here")


@pytest.fixture
def model(experiment_file):
    """An untrained model of the toy experiment with a changed configuration."""

    def model(*changes):
        config = read_experiment(experiment_file).runs[2].config
        values = override(config.model_dump(mode="json"), ["search.min_length=4"])
        config = parse(Config, override(values, changes))
        source, target = learn_front_ends(config, read_pairs(config.data.train))
        torch.manual_seed(5)
        translator = build_translator(config, source, target)
        with torch.no_grad():  # sharper than an untrained model, so that the beam prunes hypotheses
            translator.head.projection.weight.mul_(8)
        return TrainedModel(config, source, target, translator.eval())

    return model


def found_by(model):
    options = model.config.search.model_copy(update={"beam_size": 4, "n_best": 4})
    return search(model.translator, [model.source.encode(PAIR[0])], options, with_weights=True)[0]


@pytest.mark.parametrize(
    "change",
    [
        "model.decoder.kind=bahdanau",
        "model.decoder.kind=luong",
        "model.decoder.kind=conditional",
        pytest.param("search.precision=int8", marks=needs_int8),
    ],
)
def test_traced_hypotheses_equal_those_of_the_search(model, change):
    trained = model(change)
    reading, hypotheses = trace_pair(trained, "attention", *PAIR), found_by(trained)
    assert len(reading.hypotheses) == len(hypotheses) > 1
    for found, hypothesis in zip(reading.hypotheses, hypotheses, strict=True):
        steps = [reading.beam[place] for place in reading.path(found)]
        tokens = trained.target.vocabulary.lookup_tokens(hypothesis.tokens)
        assert [step.token for step in steps][: len(tokens)] == tokens
        assert (found.log_probability, found.score) == (hypothesis.log_probability, hypothesis.score)
        assert sum(step.log_probability for step in steps) == pytest.approx(hypothesis.log_probability, abs=2e-3)
        np.testing.assert_allclose([step.weights for step in steps], hypothesis.weights, atol=1e-4)


def test_a_source_is_cut_as_in_a_search(model):
    trained = model("data.max_length=3")
    reading = trace_pair(trained, "attention", *PAIR)
    assert reading.source == ("a", "d", "e", "</s>")
    assert len(reading.source_words) == 3
    assert {len(step.weights) for step in reading.beam if step.weights} == {4}
    options = trained.config.search.model_copy(update={"beam_size": 4, "n_best": 4})
    (found,) = trained.search([PAIR[0]], options)
    assert [each.score for each in reading.hypotheses] == pytest.approx([each.score for each in found], rel=1e-5)


def test_the_tree_contains_all_extended_steps_and_only_tokens_of_abandoned_ones(model):
    reading = trace_pair(model(), "attention", *PAIR)
    on_a_path = {place for found in reading.hypotheses for place in reading.path(found)}
    abandoned = set(range(len(reading.beam))) - on_a_path
    assert abandoned
    assert all(reading.beam[place].weights is None for place in abandoned)
    firsts = [step.token for step in reading.beam if step.parent is None]
    assert len(set(firsts)) == len(firsts) >= 4
    following = [(step.parent, step.token) for step in reading.beam]
    assert len(set(following)) == len(following)


def test_the_trace_of_the_reference_equals_forced_decoding(model):
    trained = model()
    reading, (forced,) = trace_pair(trained, "attention", *PAIR), trained.force(*([line] for line in PAIR))
    assert [step.token for step in reading.reference] == ["b", "e", "d", "a", "</s>"]
    np.testing.assert_allclose([s.log_probability for s in reading.reference], forced.log_probabilities, atol=1e-4)
    np.testing.assert_allclose([step.weights for step in reading.reference], forced.weights, atol=1e-4)


def test_softmax_of_the_traced_scores_gives_the_weights(model):
    reading = trace_pair(model("model.context.scorer=general"), "attention", *PAIR)
    for step in (*reading.reference, *(reading.beam[place] for place in reading.path(reading.hypotheses[0]))):
        exponentials = np.exp(step.scores)
        np.testing.assert_allclose(exponentials / exponentials.sum(), step.weights, atol=1e-3)


def test_the_norms_are_those_of_the_attended_values(model):
    trained = model()
    memory = trained.translator.encode(pad([trained.source.encode(PAIR[0])]))
    lengths = [math.sqrt(sum(number**2 for number in state)) for state in memory.source.prepared.values[0].tolist()]
    assert trace_pair(trained, "attention", *PAIR).norms == pytest.approx(lengths, abs=1e-3)


@pytest.mark.parametrize(
    ("change", "reads"),
    [("kind=fixed", False), ("kind=none", False), ("kind=mean", True), ("heads=2", True)],
)
def test_a_context_without_scores_has_none_in_the_trace(model, change, reads):
    reading = trace_pair(model(f"model.context.{change}"), "arm", *PAIR)
    assert reading.norms is None
    assert all(step.scores is None for step in reading.reference)
    assert [step.weights is not None for step in reading.reference] == [reads] * 5


def test_tracing_does_not_change_the_model(model):
    trained = model()
    before = found_by(trained)
    trace_pair(trained, "attention", *PAIR)
    assert not trained.translator.decoder.context.scorer._forward_hooks
    assert [(h.tokens, h.score) for h in found_by(trained)] == [(h.tokens, h.score) for h in before]


def test_a_truncated_translation_has_no_end_token(model):
    trained = model("search.max_length=2", "search.min_length=2")
    reading = trace_pair(trained, "attention", *PAIR)
    assert {len(reading.path(found)) for found in reading.hypotheses} == {2}


def test_saved_examples_load_unchanged(model, tmp_path):
    shown = (Example(3, *PAIR, ((3, 0), (0, 3)), (trace_pair(model(), "attention", *PAIR),)),)
    EXAMPLES.save(shown, tmp_path)
    assert EXAMPLES.load(tmp_path) == shown


def test_examples_have_text_on_both_sides():
    """A pair with a blank side has no attention, so the first of these could not be shown."""
    pairs = ParallelCorpus(["a b c d e f g h", "a b c", "", "a b c d e f"], ["", "x y", "z", "v w"])
    assert example_lines(SimpleNamespace(pairs=pairs, source_lengths=[8, 3, 0, 6])) == [3]


def test_examples_of_other_sources_are_a_short_a_middling_and_a_long_one():
    pairs = ParallelCorpus([*"abcdefghij", "", "k"], [*"abcdefghij", "l", "m"], "recordings")
    lengths = [90, 20, 80, 30, 70, 40, 60, 50, 100, 10, 0, 110]  # of 11 filled pairs, by rank 1, 5 and 9
    assert example_lines(SimpleNamespace(pairs=pairs, source_lengths=lengths), is_text=False) == [1, 6, 8]
    alike = SimpleNamespace(pairs=pairs, source_lengths=[48] * 12)
    assert example_lines(alike, is_text=False) == [1, 5, 9]
