"""The base class of configuration records, and the types of their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Any, ClassVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

Seed = Annotated[int, Field(ge=0, lt=2**32)]  # what every random generator takes
Size = Annotated[int, Field(ge=1, le=1_000_000)]  # of a layer: the product of two still fits into 64 bits
Layers = Annotated[int, Field(ge=1, le=256)]  # building thousands of modules takes minutes


class Strict(BaseModel):
    """Base of all configuration records: typed, immutable, and an unknown key is an error.

    Numbers are finite, and true and false are no numbers.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    alone: ClassVar[str | None] = None  # the key whose value may stand in place of the record, as a scorer's name does

    @model_validator(mode="before")
    @classmethod
    def _value_alone(cls, values: Any) -> Any:
        if cls.alone is None:
            return values
        is_list = get_origin(cls.model_fields[cls.alone].annotation) is tuple  # for which a text cannot stand
        kinds = (list, tuple) if is_list else (str, type, list, tuple)
        return {cls.alone: values} if isinstance(values, kinds) else values

    @field_validator("*", mode="before")
    @classmethod
    def _is_number(cls, value: Any, info: ValidationInfo) -> Any:
        return checked_number(value, cls.model_fields[str(info.field_name)].annotation)

    @classmethod
    def record_for(cls, values: Any) -> type[Strict]:
        """The class that validates these values; another than this one where their `kind` selects a subclass."""
        return cls


def checked_number(value: Any, annotation: Any) -> Any:
    """The value itself; ValueError for one that pydantic would convert to a number, or that no computation takes.

    These are true and false, which Python counts as 1 and 0, and whole numbers of more than 64 bits. Entries of lists
    are checked as well.
    """
    kinds = set(_members(annotation))
    if isinstance(value, bool) and kinds & {int, float} and bool not in kinds:
        raise ValueError("a number is wanted")
    if isinstance(value, int) and abs(value) >= 2**63:
        raise ValueError("a number below 2^63 is wanted")
    if isinstance(value, (list, tuple)):
        for each in value:
            checked_number(each, annotation)
    return value


def _members(annotation: Any) -> Iterator[type]:
    """The types that an annotation is made of: int and None of `int | None`, float of `tuple[float, float]`."""
    inner = get_args(annotation)
    if inner:
        return chain.from_iterable(map(_members, inner))
    return iter((annotation,) if isinstance(annotation, type) else ())
