"""Finding a scorer or normalizer by its name, listing its options, and rejecting invalid options."""

from abc import abstractmethod
from collections.abc import Sequence

import pytest
from torch import nn

from seq2seq_attn.attention import (
    MLP,
    Additive,
    Attention,
    Concat,
    Cosine,
    Dot,
    Gumbel,
    LearnedPool,
    Location,
    MeanContext,
    NegativeSquaredDistance,
    NormalizedAdditive,
    ScaledDot,
    Scorer,
    Softmax,
    normalizer_class,
    normalizer_classes,
    own_options,
    scorer,
    scorer_class,
    scorer_classes,
)
from seq2seq_attn.attention.registry import Registry, config_name


def test_scorers_and_normalizers_are_found_by_their_config_names():
    ours = {"additive", "concat", "cosine", "dot", "general", "location", "scaled_dot"}
    assert ours <= scorer_classes().keys()
    assert scorer_class("scaled_dot") is ScaledDot
    assert normalizer_class("softmax") is Softmax
    assert "softmax" in normalizer_classes()


def test_an_error_for_a_typo_suggests_the_closest_name():
    with pytest.raises(ValueError, match="no scorer 'aditive'; did you mean 'additive'"):
        scorer_class("aditive")
    with pytest.raises(ValueError, match="no normalizer 'soft_max'; did you mean 'softmax'"):
        normalizer_class("soft_max")


def test_an_error_for_an_unknown_name_lists_all_names():
    with pytest.raises(ValueError, match=r"no scorer 'xyz'; choose from additive, biaffine, .*, scaled_dot"):
        scorer_class("xyz")


def test_a_concrete_subclass_registers_itself_and_an_abstract_one_does_not(monkeypatch):
    monkeypatch.setattr(scorer._scorers, "_classes", scorer_classes())

    class HalfDone(Scorer):
        @abstractmethod
        def scale(self): ...

    class AllDone(HalfDone):
        def scale(self): ...

        def prepare(self, keys): ...

        def forward(self, query, prepared): ...

    assert scorer_class("all_done") is AllDone
    assert "half_done" not in scorer_classes()


def test_two_modules_cannot_give_one_name_and_one_module_can_give_it_again():
    registry = Registry("scorer", object)
    registry.add(type("MyScorer", (), {"__module__": "one"}))
    again = type("MyScorer", (), {"__module__": "one"})
    registry.add(again)
    assert registry.find("my_scorer") is again
    with pytest.raises(ValueError, match=r"'my_scorer' exists twice: one.MyScorer and two.MyScorer; rename"):
        registry.add(type("MyScorer", (), {"__module__": "two"}))


@pytest.mark.parametrize(
    ("class_name", "name"),
    [("Dot", "dot"), ("ScaledDot", "scaled_dot"), ("LocalM", "local_m"), ("MLP", "mlp")],
)
def test_a_config_name_is_the_class_name_in_snake_case(class_name, name):
    assert config_name(type(class_name, (), {})) == name


def test_own_options_are_those_that_the_model_does_not_give():
    assert own_options(Dot) == {}
    hidden_size = own_options(Additive)["hidden_size"]
    assert (hidden_size.annotation, hidden_size.default) == (int | None, None)
    temperature = own_options(Cosine)["temperature"]
    assert (temperature.annotation, temperature.default) == (float, 0.1)
    assert list(own_options(Location)) == ["max_length"]
    assert own_options(MLP)["hidden_sizes"].annotation == Sequence[int] | None
    assert {name: option.default for name, option in own_options(Gumbel).items()} == {"temperature": 1.0, "hard": False}


@pytest.mark.parametrize("cls", [Dot, ScaledDot, Cosine, NegativeSquaredDistance])
def test_sizes_that_cannot_fit_say_the_way_out(cls):
    message = f"{cls.__name__} needs query_size == key_size, got 512 and 1024; use General"
    with pytest.raises(ValueError, match=message):
        cls(512, 1024)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dot(0, 0), "Dot needs query_size > 0, got 0"),
        (lambda: Additive(5, -7), "Additive needs key_size > 0, got -7"),
        (lambda: Additive(5, 7, hidden_size=0), "Additive needs hidden_size > 0, got 0"),
        (lambda: Concat(5, 7, hidden_size=-1), "Concat needs hidden_size > 0, got -1"),
        (lambda: Cosine(5, 5, temperature=0.0), "Cosine needs temperature > 0, got 0.0"),
        (lambda: Cosine(5, 5, temperature=float("nan")), "Cosine needs temperature > 0, got nan"),
        (lambda: NegativeSquaredDistance(5, 5, temperature=-2.0), "SquaredDistance needs temperature > 0, got -2"),
        (lambda: NormalizedAdditive(5, 7, hidden_size=0), "Additive needs hidden_size > 0, got 0"),
        (lambda: MLP(5, 7, hidden_sizes=[3, 0]), "MLP needs hidden_sizes > 0, got 0"),
        (lambda: MLP(5, 7, hidden_sizes=[]), r"MLP needs at least one hidden size, got \[\]; use Biaffine"),
        (lambda: Softmax(temperature=0.0), "Softmax needs temperature > 0, got 0.0"),
        (lambda: Gumbel(temperature=0.0), "Gumbel needs temperature > 0, got 0.0"),
        (lambda: Location(5, 7, max_length=0), "Location needs max_length > 0, got 0"),
        (lambda: MeanContext(0), "MeanContext needs value_size > 0, got 0"),
        (lambda: LearnedPool(0), "LearnedPool needs size > 0, got 0"),
    ],
)
def test_an_option_out_of_range_is_named_with_its_value(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_classes_that_torch_derives_are_no_parts():
    before = scorer_classes()
    attention = Attention(Additive(3, 3))
    nn.utils.parametrize.register_parametrization(attention.scorer, "v", nn.Identity())
    assert scorer_classes() == before
