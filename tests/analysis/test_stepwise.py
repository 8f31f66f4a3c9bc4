"""Decoding step by step, and what interventions change: against search, forced decoding and `intervene`."""

import sys

import numpy as np
import pytest
import torch

from seq2seq_attn.analysis.interventions import intervene
from seq2seq_attn.analysis.scoring import score_references
from seq2seq_attn.analysis.step_interventions import Intervention, normalizers_for
from seq2seq_attn.analysis.stepwise import (
    continuations,
    decode_steps,
    decoded,
    source_item,
    source_tokens,
)
from seq2seq_attn.analysis.value_plane import value_plane
from seq2seq_attn.attention import Normalizer
from seq2seq_attn.attention.contexts.counterfactual import uniform
from seq2seq_attn.attention.normalizer import _normalizers
from seq2seq_attn.config import Config
from seq2seq_attn.corpora.codec import Codec
from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.corpora.source import pad
from seq2seq_attn.corpora.tokenizers import Word
from seq2seq_attn.corpora.vocabulary import EOS, Vocabulary
from seq2seq_attn.errors import UserError
from seq2seq_attn.runs.building import build_translator
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.strict import merge, parse

SOURCE, OTHER = "a b c d", "d a"
SIZES = {"embedding_size": 6, "encoder": {"hidden_size": 5}, "decoder": {"hidden_size": 11}}
MODELS = {
    "additive": SIZES | {"context": {"scorer": {"name": "additive", "hidden_size": 7}}},
    "luong": SIZES | {"decoder": {"kind": "luong", "hidden_size": 10}, "context": {"scorer": "general"}},
    "unfed": SIZES
    | {"decoder": {"kind": "luong", "hidden_size": 10, "input_feeding": False}, "context": {"scorer": "general"}},
    "heads": {
        "kind": "transformer",
        "embedding_size": 8,
        "encoder": {"layers": 1, "heads": 2, "feed_forward_size": 12},
        "decoder": {"layers": 2, "heads": 4, "feed_forward_size": 12},
    },
    "sigmoid": SIZES
    | {
        "decoder": {"kind": "luong", "hidden_size": 10},
        "context": {"scorer": "general", "normalizer": "sigmoid"},
    },
    "local": SIZES | {"context": {"scorer": "general", "window": {"name": "local_p", "half_width": 1}}},
    "monotonic": SIZES | {"context": {"scorer": "general", "normalizer": "monotonic"}},
    "mean": SIZES | {"context": {"kind": "mean"}},
    "distracted": SIZES | {"context": {"kind": "fixed"}},
}


@pytest.fixture(scope="module", params=["additive", "luong", "heads"])
def model(request):
    return untrained(request.param)


def untrained(name, change=None, **context):
    pairs = {"source": "unused", "target": "unused"}
    model = MODELS[name] | {"context": MODELS[name].get("context", {}) | context}
    values = {"data": {"train": pairs, "validation": pairs}, "text": {"tokenizer": "word"}, "model": model}
    config = Config.model_validate(merge(values, change or {}))
    codecs = [Codec(Word(), Vocabulary(letters)) for letters in ("abcd", "vwxyz")]
    with torch.random.fork_rng():
        torch.manual_seed(3)
        translator = build_translator(config, *codecs).eval()
        with torch.no_grad():
            for parameter in translator.parameters():
                parameter.mul_(3.0)  # far from uniform predictions
            translator.head.projection.bias[EOS] -= 4.0  # and of several words
    return TrainedModel(config, *codecs, translator)


def options(model, **changes):
    return model.config.search.model_copy(update={"max_length": 9} | changes)


def run(model, source=SOURCE, target=None, *interventions, prefix=(), **search):
    changes = [Intervention.model_validate(each) for each in interventions]
    steps = decode_steps(
        model,
        source,
        target,
        prefix=prefix,
        interventions=changes,
        options=options(model, **({"beam_size": 1} | search)),
    )
    return decoded(model, source, steps)


@pytest.mark.parametrize("search", [{"beam_size": 1}, {"beam_size": 3}, {"seed": 5}])
def test_without_interventions_the_steps_are_those_of_the_search(model, search):
    wanted = type(model.config.search).model_validate(model.config.search.model_dump() | {"max_length": 9} | search)
    steps = decode_steps(model, SOURCE, options=wanted)
    found = decoded(model, SOURCE, steps)
    (best,) = model.search([SOURCE], wanted, with_weights=True)[0]
    assert found.text == model.target.decode(best.tokens)
    assert len(found.steps) == len(best.weights)
    assert found.log_probability == pytest.approx(best.log_probability, abs=1e-4)
    torch.testing.assert_close(torch.tensor([step.weights for step in found.steps]), best.weights, rtol=1e-4, atol=1e-5)


def test_steps_of_a_given_translation_are_those_of_forced_decoding(model):
    found = run(model, SOURCE, "x y z")
    (forced,) = model.force([SOURCE], ["x y z"])
    (heads,) = model.head_weights([SOURCE], ["x y z"])
    assert found.tokens == ["x", "y", "z", "</s>"]
    assert found.source == ("a", "b", "c", "d", "</s>")
    torch.testing.assert_close(torch.tensor([step.log_probability for step in found.steps]), forced.log_probabilities)
    for number, layer in enumerate(heads.cross):
        own = torch.tensor([step.layers[number].weights for step in found.steps]).transpose(0, 1)
        torch.testing.assert_close(own, layer, rtol=1e-4, atol=1e-6)


def test_weights_are_the_softmax_of_the_scores_and_contributions_their_products_with_the_values():
    model = untrained("luong")
    found = run(model, SOURCE, "x y")
    memory = model.translator.encode(decoder_source(model))
    norms = memory.source.prepared.values[0].norm(dim=1)
    for step in found.steps:
        (layer,) = step.layers
        weights = torch.tensor(layer.weights)
        torch.testing.assert_close(torch.softmax(torch.tensor(layer.scores), dim=1), weights)
        torch.testing.assert_close(torch.tensor(layer.contributions), weights * norms)


def decoder_source(model):
    return pad([model.source.encode(SOURCE)])


def test_the_likely_tokens_are_the_most_probable_ones(model):
    (first, *_) = run(model, SOURCE, "x").steps
    assert len(first.likely) == 9  # the whole vocabulary
    assert sum(probability for _, probability in first.likely) == pytest.approx(1)
    assert [p for _, p in first.likely] == sorted((p for _, p in first.likely), reverse=True)
    known = dict(first.likely)
    assert known["x"] == pytest.approx(torch.tensor(first.log_probability).exp().item())


@pytest.mark.parametrize("beam_size", [1, 3])
def test_after_a_prefix_of_its_own_a_search_goes_on_as_before(model, beam_size):
    whole = run(model, beam_size=1)
    again = run(model, prefix=whole.tokens[:3], beam_size=beam_size)
    assert again.tokens[:3] == whole.tokens[:3]
    if beam_size == 1:
        assert again.tokens == whole.tokens
        assert again.log_probability == pytest.approx(whole.log_probability)


def test_continuations_are_the_n_best_of_the_search(model):
    wanted = options(model, beam_size=3, n_best=3)
    found = continuations(model, SOURCE, options=wanted)
    best = model.search([SOURCE], wanted)[0]
    assert [each.text for each in found] == [model.target.decode(each.tokens) for each in best]
    assert len({tuple(each.tokens) for each in found}) > 1
    for name in ("log_probability", "score"):
        assert [getattr(each, name) for each in found] == pytest.approx(
            [getattr(each, name) for each in best], rel=1e-4
        )


@pytest.mark.parametrize("beam_size", [1, 3])
def test_continuations_that_are_no_numbers_are_refused(model, beam_size):
    overflow = [Intervention(replace="weights", weights=(1e308,) * (len(SOURCE.split()) + 1))]
    with pytest.raises(UserError, match="the predictions are no longer finite; give smaller weights"):
        continuations(model, SOURCE, interventions=overflow, options=options(model, beam_size=beam_size))


@pytest.mark.parametrize(
    "change",
    [
        {"replace": "mean", "step": 1},
        {"replace": "temperature", "temperature": 0.2},
        {"replace": "normalizer", "normalizer": {"name": "softmax", "temperature": 5.0}},
    ],
)
def test_continuations_begin_with_the_prefix_and_read_what_the_steps_read(model, change):
    mean = Intervention.model_validate(change)
    search = options(model, beam_size=3, n_best=2)
    found = continuations(model, SOURCE, prefix=["w", "x"], interventions=[mean], options=search)
    assert all(each.tokens[:2] == ["w", "x"] for each in found)
    steps = run(model, SOURCE, None, mean.model_dump(), prefix=["w", "x"], beam_size=3)
    assert found[0].tokens == steps.tokens
    rest = [step.log_probability for step in steps.steps[2:]]
    assert found[0].log_probability == pytest.approx(sum(rest), rel=1e-4)


def test_a_prefix_is_text_or_tokens_must_be_known_and_goes_with_no_given_translation(model):
    with pytest.raises(UserError, match="target and prefix"):
        run(model, SOURCE, "x y", prefix="x")
    assert run(model, prefix="x y").tokens == run(model, prefix=["x", "y"]).tokens
    for prefix in ("x q", ["</s>"]):
        with pytest.raises(UserError, match="is not in this model's vocabulary, or not allowed there"):
            run(model, prefix=prefix)


def test_a_source_is_text_or_tokens_and_must_be_known(model):
    assert run(model, SOURCE.split()) == run(model, SOURCE)
    assert run(model, ["a", "<unk>"]).steps == run(model, "a q").steps
    assert run(model, ["a", "<unk>"]).source == ("a", "<unk>", "</s>")
    most = model.config.data.max_length
    assert len(source_item(model, ["a"] * (most + 3))) == len(source_tokens(model, ["a"] * (most + 3))) == most + 1
    for tokens, message in (
        (["q"], "'q' is not in this model's vocabulary, .* <unk>"),
        (["a", "</s>"], "'</s>' is not in this model's vocabulary, or not allowed"),
        ([], "blank"),
        (" ", "blank"),
    ):
        with pytest.raises(UserError, match=message):
            run(model, tokens)
    with pytest.raises(UserError, match="blank"):
        run(model, SOURCE, " ")


def test_its_own_weights_given_back_change_nothing(model):
    before = run(model)
    step = before.steps[1]
    own = [
        {"replace": "weights", "step": 1, "layer": layer, "head": head, "weights": weights}
        for layer, reading in enumerate(step.layers)
        for head, weights in enumerate(reading.weights)
    ]
    after = run(model, SOURCE, None, *own)
    assert after.tokens == before.tokens
    assert after.log_probability == pytest.approx(before.log_probability, abs=1e-4)


def test_given_weights_are_read_at_their_step_alone():
    model = untrained("luong")
    row = [0.0, 0.0, 2.0, 0.0, 0.0]
    before, after = run(model, SOURCE, "x y z"), run(model, SOURCE, "x y z", weights_at(1, row))
    assert after.steps[0] == before.steps[0]
    assert after.steps[1].weights == row
    # H~ = tanh(W [C; H]) is the decoder's own equation: with input feeding, the next query changes as well.
    assert after.steps[1].likely != before.steps[1].likely
    assert after.steps[2].layers[0].scores != before.steps[2].layers[0].scores
    values = model.translator.encode(decoder_source(model)).source.prepared.values[0]
    torch.testing.assert_close(torch.tensor(after.steps[1].layers[0].contributions[0][2]), 2 * values[2].norm())


def weights_at(step, row):
    return {"replace": "weights", "step": step, "weights": row}


def test_the_mean_at_every_step_has_the_effect_that_faithfulness_measures(model):
    pairs = [(SOURCE, "x y z"), (OTHER, "w v")]
    ids = [(model.source.encode(source), model.target.encode(target)) for source, target in pairs]
    effect = intervene(model.translator, ids, {"uniform": uniform}).effects["uniform"]
    changed = [run(model, *pair, {"replace": "mean"}) for pair in pairs]
    same = [run(model, *pair) for pair in pairs]
    tokens = sum(len(each.steps) for each in same)
    difference = sum(a.log_probability - b.log_probability for a, b in zip(changed, same, strict=True)) / tokens
    assert difference == pytest.approx(effect.log_probability, abs=1e-5)
    for step in changed[0].steps:
        assert step.weights == pytest.approx([0.2] * 5)


def test_nothing_is_read_under_weights_of_0(model):
    first, second, *_ = run(model, SOURCE, "x y", {"replace": "nothing", "step": 0}).steps
    assert first.weights == [0.0] * 5
    assert sum(second.weights) == pytest.approx(1)


@pytest.mark.parametrize("temperature", [0.3, 4.0])
def test_at_a_temperature_the_weights_are_the_softmax_of_the_divided_scores(model, temperature):
    change = {"replace": "temperature", "temperature": temperature, "step": 1}
    before, after = run(model, SOURCE, "x y z"), run(model, SOURCE, "x y z", change)
    assert after.steps[0] == before.steps[0]
    scores = torch.tensor(after.steps[1].layers[0].scores)
    torch.testing.assert_close(scores, torch.tensor(before.steps[1].layers[0].scores))  # those of the model itself
    for layer in after.steps[1].layers:
        closed_form = torch.softmax(torch.tensor(layer.scores) / temperature, dim=1)
        torch.testing.assert_close(torch.tensor(layer.weights), closed_form)
    assert after.steps[1].likely != before.steps[1].likely


def test_a_temperature_acts_through_the_normalizer_of_the_model():
    model = untrained("sigmoid")
    step = run(model, SOURCE, "x", {"replace": "temperature", "temperature": 2.5}).steps[1]
    (layer,) = step.layers
    torch.testing.assert_close(torch.tensor(layer.weights), torch.sigmoid(torch.tensor(layer.scores) / 2.5))
    memory = model.translator.encode(decoder_source(model))
    norms = memory.source.prepared.values[0].norm(dim=1)
    torch.testing.assert_close(torch.tensor(layer.contributions), torch.tensor(layer.weights) * norms)


def test_temperatures_multiply_each_in_its_layer_and_head():
    model = untrained("heads")
    changes = [
        {"replace": "temperature", "temperature": 3.0, "layer": 1},
        {"replace": "temperature", "temperature": 0.5, "layer": 1, "head": 2},
    ]
    first, second = run(model, SOURCE, "x", *changes).steps[0].layers
    for layer, divisors in ((first, [1, 1, 1, 1]), (second, [3.0, 3.0, 1.5, 3.0])):
        divided = torch.tensor(layer.scores) / torch.tensor(divisors)[:, None]
        torch.testing.assert_close(torch.tensor(layer.weights), torch.softmax(divided, dim=1))


@pytest.mark.parametrize("name", ["additive", "luong", "heads", "local", "monotonic"])
@pytest.mark.parametrize("normalizer", ["sparsemax", "sigmoid", {"name": "softmax", "temperature": 0.4}])
def test_a_normalizer_at_every_step_is_a_model_built_with_it(name, normalizer):
    model, built = untrained(name), untrained(name, normalizer=normalizer)
    parameters = zip(model.translator.parameters(), built.translator.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in parameters)
    change = {"replace": "normalizer", "normalizer": normalizer}
    for search in ({"beam_size": 1}, {"beam_size": 3}):
        changed, wanted = run(model, SOURCE, None, change, **search), run(built, SOURCE, None, **search)
        assert changed.tokens == wanted.tokens
        assert changed.log_probability == pytest.approx(wanted.log_probability, abs=1e-5)
        for step, other in zip(changed.steps, wanted.steps, strict=True):
            for layer, wanted_layer in zip(step.layers, other.layers, strict=True):
                for rows, wanted_rows in zip(layer, wanted_layer, strict=True):
                    torch.testing.assert_close(torch.tensor(rows), torch.tensor(wanted_rows), rtol=0, atol=1e-6)
    assert changed.steps[0].weights != pytest.approx(run(model).steps[0].weights, abs=1e-3)


def test_a_normalizer_at_one_step_changes_its_row_alone():
    """Luong's decoder without input feeding: given the tokens, no query depends on an earlier context."""
    model = untrained("unfed", normalizer="entmax15")
    change = {"replace": "normalizer", "normalizer": "sigmoid", "step": 1}
    before, after = run(model, SOURCE, "x y z"), run(model, SOURCE, "x y z", change)
    assert [a == b for a, b in zip(before.steps, after.steps, strict=True)] == [True, False, True, True]
    (row,) = after.steps[1].layers[0].weights
    (scores,) = after.steps[1].layers[0].scores
    assert scores == before.steps[1].layers[0].scores[0]  # those of the model itself
    assert row == pytest.approx(torch.tensor(scores).sigmoid().tolist(), abs=1e-6)


def sparsemax(scores):
    """max(e - τ, 0), with τ found by bisection."""
    low, high = max(scores) - 1, max(scores)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(max(e - middle, 0) for e in scores) > 1 else (low, middle)
    return [max(e - low, 0) for e in scores]


def test_a_normalizer_holds_in_its_head_and_the_last_one_given_counts():
    model = untrained("heads")
    changes = [
        {"replace": "normalizer", "normalizer": "sigmoid", "layer": 0},
        {"replace": "normalizer", "normalizer": "sparsemax", "layer": 0, "head": 2},
    ]
    before, after = (run(model, SOURCE, "x", *each).steps[0].layers for each in ([], changes))
    assert after[0].scores == before[0].scores
    for head, (row, scores) in enumerate(zip(after[0].weights, after[0].scores, strict=True)):
        wanted = sparsemax(scores) if head == 2 else torch.tensor(scores).sigmoid().tolist()
        assert row == pytest.approx(wanted, abs=1e-6)
    torch.testing.assert_close(torch.tensor(after[1].weights), torch.tensor(after[1].scores).softmax(dim=1))


def test_a_temperature_divides_the_scores_before_another_normalizer(model):
    changes = [
        {"replace": "normalizer", "normalizer": "sparsemax"},
        {"replace": "temperature", "temperature": 2.5},
    ]
    for given in (changes, changes[::-1]):
        for layer in run(model, SOURCE, "x y", *given).steps[1].layers:
            for row, scores in zip(layer.weights, layer.scores, strict=True):
                assert row == pytest.approx(sparsemax([e / 2.5 for e in scores]), abs=1e-6)


def test_other_interventions_apply_to_the_weights_of_another_normalizer():
    normalizer, mean = {"replace": "normalizer", "normalizer": "sigmoid"}, {"replace": "mean"}
    model = untrained("luong")
    total = sum(run(model, SOURCE, "x", normalizer).steps[0].weights)
    assert total != pytest.approx(1, abs=1e-2)
    assert run(model, SOURCE, "x", mean, normalizer).steps[0].weights == pytest.approx([total / 5] * 5)


def test_noise_is_for_training():
    change = {"replace": "normalizer", "normalizer": "gumbel"}
    model = untrained("luong")
    assert run(model, SOURCE, None, change).tokens == run(model).tokens
    assert run(model, SOURCE, "x", change).steps[0].weights == pytest.approx(run(model, SOURCE, "x").steps[0].weights)


def test_another_normalizer_gives_padding_no_weight():
    """The longer sentence, whose context step 0 reads, pads the shorter one."""
    model = untrained("luong")
    sentence = {"replace": "sentence", "step": 0, "other": SOURCE}
    softmax = {"replace": "normalizer", "normalizer": {"name": "softmax", "temperature": 9.0}, "step": 1}
    step = run(model, OTHER, "x y", sentence, softmax).steps[1]
    assert sum(step.weights) == pytest.approx(1)


def test_a_normalizer_changes_no_other_sentence():
    model = untrained("luong")
    sentence = {"replace": "sentence", "step": 0, "other": OTHER}
    normalizer = {"replace": "normalizer", "normalizer": "hard", "step": 0}
    assert run(model, SOURCE, "x y", sentence, normalizer) == run(model, SOURCE, "x y", sentence)


def test_a_temperature_changes_no_other_sentence_and_nothing_where_it_is_1(model):
    sentence = {"replace": "sentence", "step": 0, "other": OTHER}
    for name, changes in (("temperature", [sentence]), ("one", [])):
        temperature = {"replace": "temperature", "step": 0, "temperature": 0.2 if name == "temperature" else 1.0}
        before, after = run(model, SOURCE, "x y", *changes), run(model, SOURCE, "x y", *changes, temperature)
        if len(model.translator.contexts_that_read()) == 1:  # or a second layer reads with what the first one computes
            assert after == before
        else:
            assert after.log_probability == pytest.approx(before.log_probability, abs=1e-4)


def test_the_context_of_a_sentence_is_its_own_where_both_are_the_same(model):
    before = run(model)
    after = run(model, SOURCE, None, {"replace": "sentence", "other": SOURCE})
    assert after.tokens == before.tokens
    assert after.log_probability == pytest.approx(before.log_probability, abs=1e-4)
    assert {step.weights for step in after.steps} == {None}


def test_the_context_of_another_sentence_is_the_one_that_it_reads_itself():
    """In Luong's decoder without input feeding, H~_1 = tanh(W [C; H]) depends on nothing else of this step."""
    model = untrained("luong")
    changed = run(model, SOURCE, "x y", {"replace": "sentence", "step": 0, "other": OTHER})
    translator = model.translator
    found = []
    for line in (SOURCE, OTHER):
        memory = translator.encode(pad([model.source.encode(line)]))
        states = {}
        handle = translator.decoder.context.register_forward_hook(
            lambda _m, _i, out, s=states: s.update(context=out[0])
        )
        translator.step(torch.tensor([translator.start_token]), translator.start(memory), memory)
        handle.remove()
        found.append((memory, states["context"]))
    (memory, _), (_, theirs) = found

    def replace(_module, _inputs, output):
        return (theirs, *output[1:])

    handle = translator.decoder.context.register_forward_hook(replace)
    step = translator.step(torch.tensor([translator.start_token]), translator.start(memory), memory)
    handle.remove()
    expected = step.logits.log_softmax(dim=1)[0, model.target.vocabulary["x"]]
    assert changed.steps[0].log_probability == pytest.approx(float(expected.detach()), abs=1e-5)
    assert changed.steps[0] != run(model, SOURCE, "x y").steps[0]


def test_one_head_changes_alone():
    model = untrained("heads")
    before = run(model, SOURCE, "x").steps[0]
    after = run(model, SOURCE, "x", {"replace": "mean", "layer": 0, "head": 1, "step": 0}).steps[0]
    assert after.layers[0].weights[0] == before.layers[0].weights[0]
    assert after.layers[0].weights[1] == pytest.approx([0.2] * 5)
    assert after.layers[1].weights != before.layers[1].weights  # it reads what the first layer computes


def test_the_model_itself_is_not_changed(model):
    before = run(model)
    hard = {"replace": "normalizer", "normalizer": "hard"}
    run(model, SOURCE, None, {"replace": "nothing"}, {"replace": "sentence", "other": OTHER, "step": 2}, hard)
    assert run(model) == before
    assert not any(module._forward_hooks for module in model.translator.modules())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"replace": "mean", "layer": 7}, "layer 7: this model reads the source in layers 0 to"),
        ({"replace": "mean", "head": 7}, "head 7: this model has heads 0 to"),
        (weights_at(0, [1.0]), "1 weights for 5 source tokens"),
        ({"replace": "sentence", "other": " "}, "blank"),
        ({"replace": "temperature", "temperature": 2.0, "head": 4}, "head 4: this model has heads 0 to"),
    ],
)
def test_what_does_not_fit_is_refused(model, wrong, message):
    with pytest.raises(UserError, match=message):
        run(model, SOURCE, None, wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"replace": "weights"},
        {"replace": "mean", "weights": [1.0]},
        {"replace": "sentence"},
        {"replace": "sentence", "other": "a", "head": 0},
        weights_at(0, [-1.0]),
        weights_at(0, [float("nan")]),
        {"replace": "temperature"},
        {"replace": "mean", "temperature": 2.0},
        {"replace": "normalizer"},
        {"replace": "mean", "normalizer": "sparsemax"},
        *({"replace": "temperature", "temperature": each} for each in (0.0, -1.0, float("nan"), float("inf"))),
    ],
)
def test_a_contradictory_intervention_is_refused(wrong):
    with pytest.raises(ValueError, match=r"replace=|finite|temperature"):
        Intervention.model_validate(wrong)


def test_a_model_without_weights_has_steps_but_takes_no_interventions():
    model = untrained("distracted")
    steps = run(model, SOURCE, "x y").steps
    assert [(step.weights, step.layers) for step in steps] == [(None, [])] * 3
    with pytest.raises(UserError, match="does not attend"):
        run(model, SOURCE, "x y", {"replace": "mean"})


@pytest.mark.parametrize(("name", "value"), [("temperature", 2.0), ("normalizer", "sparsemax")])
def test_weights_without_scores_have_no_temperature_and_no_normalizer(name, value):
    with pytest.raises(UserError, match=f"replace={name} needs weights from one scorer"):
        run(untrained("mean"), SOURCE, "x y", {"replace": name, name: value})


class Scaled(Normalizer, registered=False):
    """A normalizer with an option that has no default."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def normalize(self, scores):
        return (self.factor * scores).softmax(dim=-1)


class Learned(Normalizer, registered=False):
    """A normalizer with a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = torch.nn.Parameter(torch.ones(()))

    def normalize(self, scores):
        return (self.factor * scores).softmax(dim=-1)


@pytest.fixture
def catalog(monkeypatch):
    """With the two normalizers above."""
    monkeypatch.setattr(_normalizers, "_classes", _normalizers.classes())
    for part in (Scaled, Learned):
        _normalizers.add(part)


@pytest.mark.parametrize(
    ("normalizer", "message"),
    [
        ("spasemax", r"no normalizer 'spasemax' in the catalog; did you mean 'sparsemax'\?"),
        ("monotonic", "monotonic needs the weights of earlier steps; choose from entmax15, gumbel, hard, .*sparsemax$"),
        ("shuffled", "shuffled needs the weights of earlier steps"),
        ({"name": "softmax", "temprature": 2}, "Softmax has no option 'temprature'; did you mean 'temperature'"),
        ({"name": "sparsemax", "alpha": 2}, "Sparsemax has no option 'alpha'; it has: none$"),
        ({"name": "softmax", "temperature": 0}, "Softmax needs temperature > 0, got 0"),
        ("scaled", "scaled needs options: give a mapping with the keys name, factor"),
        ("learned", "learned has parameters, which the model has not learned"),
        (5, "normalizer = 5"),
    ],
)
@pytest.mark.usefixtures("catalog")
def test_a_normalizer_that_cannot_replace_another_is_refused_in_one_line(normalizer, message):
    with pytest.raises(UserError, match=message) as refusal:
        parse(Intervention, {"replace": "normalizer", "normalizer": normalizer})
    assert "\n" not in str(refusal.value)


@pytest.mark.usefixtures("catalog")
def test_a_normalizer_without_defaults_takes_its_options():
    given = {"replace": "normalizer", "normalizer": {"name": "scaled", "factor": 3}}
    layer = run(untrained("luong"), SOURCE, "x", given).steps[0].layers[0]
    torch.testing.assert_close(torch.tensor(layer.weights), (3 * torch.tensor(layer.scores)).softmax(dim=1))


def test_a_file_or_module_is_not_imported_for_a_normalizer(tmp_path):
    (tmp_path / "own.py").write_text("raise SystemExit('this file was executed')")
    for name in (f"{tmp_path}/own.py:Own", "antigravity:Own"):
        with pytest.raises(UserError, match="in the catalog; choose from"):
            parse(Intervention, {"replace": "normalizer", "normalizer": name})
    assert "antigravity" not in sys.modules


@pytest.mark.usefixtures("catalog")
def test_the_choices_are_the_names_that_are_accepted():
    stateless = ["entmax15", "gumbel", "hard", "sigmoid", "softmax", "sparsemax"]
    assert set(stateless) <= set(normalizers_for(untrained("luong")))
    assert not {"monotonic", "shuffled", "scaled", "learned"} & set(normalizers_for(untrained("luong")))
    for name in normalizers_for(untrained("heads")):
        Intervention(replace="normalizer", normalizer=name)
    assert [normalizers_for(untrained(name)) for name in ("mean", "distracted")] == [[], []]


def test_what_does_not_fit_into_a_table_of_positions_is_refused_in_one_line():
    table = {"position": {"name": "learned", "max_positions": 9}}
    lengths = {"data": {"max_length": 8}, "search": {"max_length": 9}}
    model = untrained("heads", lengths | {"model": {"encoder": table, "decoder": table}})
    source, target = " ".join("abcdabcda"), " ".join("vwxyzvwxy")  # 9 tokens, for which `</s>` would be the tenth
    short = [source[:-2], target[:-2]]
    for side, pair in (("source", (source, short[1])), ("target", (short[0], target))):
        message = f"line 2 of the {side}: 9 tokens, and this model reads 8 at most"
        lines = [short[0], pair[0]], [short[1], pair[1]]
        with pytest.raises(UserError, match=rf"^{message}"):
            model.limits.require_short(*lines)
        with pytest.raises(UserError, match=rf"^the test set, {message}"):
            score_references(model, ParallelCorpus(*lines, "the test set"))
    with pytest.raises(UserError, match=r"^this target: 10 tokens, and this model has 9 positions"):
        run(model, SOURCE, target)
    for search in (run, lambda *_, **given: continuations(model, SOURCE, **given)):
        with pytest.raises(UserError, match=r"^this prefix and what follows it: 10 tokens"):
            search(model, prefix=target)
    with pytest.raises(UserError, match=r"^max_length: 12 tokens, and this model has 9 positions"):
        model.search([SOURCE], options(model, max_length=12))
    model.limits.require_short([short[0]], [short[1]])
    assert len(run(model, SOURCE, short[1]).steps) == 9


def test_a_table_of_positions_limits_its_own_side():
    table = {"position": {"name": "learned", "max_positions": 9}}
    model = untrained("heads", {"data": {"max_length": 8}, "search": {"max_length": 9}, "model": {"encoder": table}})
    scores, _ = score_references(model, ParallelCorpus([SOURCE], [" ".join("v" * 12)]))
    assert scores["perplexity"] > 1


def test_the_plane_of_the_values_is_that_of_their_two_largest_principal_components():
    """Against the eigenvectors of the covariance of the encoder's states, which are the values of this model."""
    model = untrained("additive")
    with torch.inference_mode():
        states = (
            model.fused.encoder_states(model.source.collate([source_item(model, SOURCE)])).states[0].double().numpy()
        )
    variances, components = np.linalg.eigh(np.cov(states.T, bias=True))
    found = value_plane(model, SOURCE)
    assert found.source == source_tokens(model, SOURCE)
    assert found.share == pytest.approx(variances[-2:].sum() / variances.sum())
    assert np.abs(found.points) == pytest.approx(np.abs(states @ components[:, :-3:-1]), abs=1e-5)
    for axis in np.transpose(found.points):
        assert max(axis, key=abs) > 0
    weights = np.array(next(decode_steps(model, SOURCE)).weights)
    context = np.abs(weights @ states @ components[:, :-3:-1])
    assert np.abs(weights @ found.points) == pytest.approx(context, abs=1e-5)


def test_two_values_lie_in_their_plane_and_others_are_never_farther_from_zero_than_they_are(model):
    step = next(decode_steps(model, SOURCE))
    for number, layer in enumerate(step.layers):
        for head, (weights, contributions) in enumerate(zip(layer.weights, layer.contributions, strict=True)):
            found = value_plane(model, SOURCE, number, head)
            assert 0 < found.share <= 1 + 1e-9
            in_the_plane = np.linalg.norm(found.points, axis=1) * weights
            assert (in_the_plane <= np.array(contributions) + 1e-5).all()
    assert value_plane(model, "a").share == pytest.approx(1)


@pytest.mark.parametrize(
    ("name", "place", "message"),
    [
        ("additive", {"layer": 1}, "layer 1: this model reads the source in layers 0 to 0"),
        ("heads", {"layer": 1, "head": 4}, "head 4: this model has heads 0 to 3"),
        ("distracted", {}, "does not attend to single source words"),
    ],
)
def test_a_plane_of_values_that_a_model_does_not_read_is_refused(name, place, message):
    with pytest.raises(UserError, match=message):
        value_plane(untrained(name), SOURCE, **place)
