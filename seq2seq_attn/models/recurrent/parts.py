"""Scorers, normalisers and windows as a configuration names them."""

from __future__ import annotations

import difflib
from abc import abstractmethod
from collections.abc import Callable
from inspect import Parameter
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BeforeValidator, PydanticUserError, TypeAdapter, ValidationError, model_validator
from torch import nn

from seq2seq_attn import attention
from seq2seq_attn.attention import own_options
from seq2seq_attn.attention.registry import config_name
from seq2seq_attn.explain import wanted
from seq2seq_attn.strict import Strict

Part = TypeVar("Part")


def _name(part: Any) -> Any:
    return config_name(part) if isinstance(part, type) else part


PartName = Annotated[str, BeforeValidator(_name)]  # Python code may give the class itself


def find_part(find: Callable[[str], type[Part]], name: str) -> type[Part]:
    """The class of that name; the error for an unknown name also mentions --plugin."""
    try:
        return find(name)
    except ValueError as error:
        raise (error if ":" in name else ValueError(f"{error}, or loaded with --plugin FILE")) from None


class PartConfig(Strict, extra="allow"):
    """A part's name, and beside it the part's own options: `{name: additive, hidden_size: 512}` or `additive`.

    The name alone, laid over another part, replaces it with all its options; `{name: general}` keeps them.
    """

    key: ClassVar[str]  # where a configuration has it, for messages

    name: PartName

    @property
    @abstractmethod
    def part(self) -> type[nn.Module]:
        """The class of that name; ValueError if there is none."""

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, (str, type)) else value

    @model_validator(mode="after")
    def _options_are_its_own(self) -> PartConfig:
        self.options.update(self._checked())
        return self

    @property
    def options(self) -> dict[str, Any]:
        return self.model_extra or {}

    def _checked(self) -> dict[str, Any]:
        """The options as the part's constructor declares them, by name and type: YAML reads 1e-3 as text."""
        part, own = self.part, own_options(self.part)
        checked = {}
        for name, value in self.options.items():
            if name not in own:
                raise ValueError(f"{part.__name__} has no option {name!r}; {self._way_out(name, list(own))}")
            try:
                checked[name] = TypeAdapter(_wanted_type(own[name])).validate_python(value)
            except ValidationError as error:
                raise ValueError(f"{part.__name__}: {name} = {value!r}: {wanted(error.errors())}") from None
        return checked

    def _way_out(self, name: str, own: list[str]) -> str:
        near = difflib.get_close_matches(name, own, n=1)
        if near:
            return f"did you mean {near[0]!r}?"
        replace = f"{self.key}={self.name} replaces another {self.key.split('.')[-1]} together with its options"
        return f"it has: {', '.join(own) or 'none'} ({replace})"


class ScorerConfig(PartConfig):
    """`{name: additive, hidden_size: 512}`; a scorer around another has that one as an option of its own."""

    key = "model.context.scorer"

    name: PartName = "additive"

    @property
    def part(self) -> type[attention.Scorer]:
        return find_part(attention.scorer_class, self.name)

    def __call__(self, query_size: int, key_size: int) -> attention.Scorer:
        """The scorer for these sizes: it is called where a scorer is to be made within another part."""
        return self.part(query_size, key_size, **self.options)


class NormaliserConfig(PartConfig):
    """`{name: softmax, temperature: 0.5}`."""

    key = "model.context.normaliser"

    name: PartName = "softmax"

    @property
    def part(self) -> type[attention.Normaliser]:
        return find_part(attention.normaliser_class, self.name)

    def __call__(self) -> attention.Normaliser:
        return self.part(**self.options)


class WindowConfig(PartConfig):
    """`{name: local_p, half_width: 5}`."""

    key = "model.context.window"

    @property
    def part(self) -> type[attention.Window]:
        return find_part(attention.window_class, self.name)

    def __call__(self, query_size: int) -> attention.Window:
        return self.part(query_size, **self.options)


def _wanted_type(option: Parameter) -> Any:
    if option.annotation is Parameter.empty:
        return Any
    if option.annotation is attention.ScorerFactory:
        return ScorerConfig
    try:
        TypeAdapter(option.annotation)
    except PydanticUserError:  # a class that pydantic cannot check
        return Any
    return option.annotation
