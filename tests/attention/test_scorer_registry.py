"""Finding a scorer or normalizer by its name, listing its options, and rejecting invalid options."""

from abc import abstractmethod
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from seq2seq_attn.attention import (
    MLP,
    Additive,
    Attention,
    Cosine,
    Dot,
    Gumbel,
    Location,
    RandomToken,
    Rotary,
    ScaledDot,
    Scorer,
    Softmax,
    Sparsemax,
    normalizer_class,
    normalizer_classes,
    own_options,
    position_classes,
    scorer_class,
    scorer_classes,
    window_classes,
)
from seq2seq_attn.attention.registry import Registry, config_name


def test_scorers_and_normalizers_are_found_by_their_config_names():
    ours = {"additive", "concat", "cosine", "dot", "general", "location", "scaled_dot"}
    assert ours <= scorer_classes().keys()
    assert scorer_class("scaled_dot") is ScaledDot
    assert normalizer_class("softmax") is Softmax
    assert "softmax" in normalizer_classes()


def test_a_concrete_subclass_registers_itself_and_an_abstract_one_does_not(forget_parts):

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


def test_classes_that_torch_derives_are_no_parts():
    before = scorer_classes()
    attention = Attention(Additive(3, 3))
    nn.utils.parametrize.register_parametrization(attention.scorer, "v", nn.Identity())
    assert scorer_classes() == before


@pytest.mark.parametrize("classes", [scorer_classes, normalizer_classes, window_classes, position_classes])
def test_a_part_says_what_it_is(classes):
    for name, part in classes().items():
        assert config_name(part) == name
        assert part.equation
        assert part.source
        assert part.__doc__


def test_parts_print_their_arguments_as_the_layers_of_torch_do():
    class Offset(Dot, registered=False):
        def __init__(self, query_size, key_size, offset: float = 0.5, label: str = "far", scale: Tensor | None = None):
            super().__init__(query_size, key_size)
            self.offset, self.label, self.scale = offset, label, scale

    assert repr(Offset(4, 4, 2.0, scale=torch.ones(1))) == ("Offset(query_size=4, key_size=4, offset=2.0, label='far')")
    assert [repr(Softmax(0.5)), repr(Sparsemax())] == ["Softmax(temperature=0.5)", "Sparsemax()"]
    assert repr(Rotary(8, 2)) == "Rotary(size=8, heads=2, base=10000.0)"
    assert repr(RandomToken(4, seed=3)) == "RandomToken(query_size=4, seed=3)"
