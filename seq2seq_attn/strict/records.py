"""The base classes of configuration records, and the types of their numbers."""

from __future__ import annotations

import difflib
import inspect
from abc import ABC
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Annotated, Any, ClassVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_validator,
)

Seed = Annotated[int, Field(ge=0, lt=2**32)]  # what every random generator takes
Size = Annotated[int, Field(ge=1, le=1_000_000)]  # of a layer: the product of two still fits into 64 bits
Layers = Annotated[int, Field(ge=1, le=256)]  # building thousands of modules takes minutes


class Strict(BaseModel):
    """Base of all configuration records: typed, immutable, and an unknown key is an error.

    Numbers are finite, and true and false are no numbers.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

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


class Tagged(Strict, ABC):
    """A record of one of several kinds: its key `kind` selects the subclass, which adds the options of its kind.

    A direct subclass is the base of a discriminated union that stays open: it declares `kind: str` with the default
    kind, and every concrete subclass below it joins the union when it is defined, with its own
    `kind: Literal["name"] = "name"`. So a user's own module can add one. Validating the base returns an instance of
    the subclass. In another record, annotate such a field as `SerializeAsAny[Base]`, so that the options of the kind
    are written as well.

    A class may be defined again in its own module (a reloaded file, a notebook cell run twice); the same kind from
    another module is a TypeError. A kind may also be named by its file, as in `kind: my_file.py:MyConfig`; it is then
    written so, and does not conflict with another of the same name.
    """

    user_code: ClassVar[Any] = None  # `attention/user_code.py`, a room above this one; `config.py` sets it
    _kinds: ClassVar[dict[str, type[Tagged]]]

    kind: str

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if Tagged in cls.__bases__:
            cls._kinds = {}
        elif not inspect.isabstract(cls) and not (cls.user_code and cls.user_code.is_named_by_path(cls.__module__)):
            cls.enter()

    @classmethod
    def enter(cls) -> None:
        """Lets configurations name the kind. TypeError: another module has one of this name."""
        kind = cls.model_fields["kind"].default
        known = cls._kinds.get(kind)
        if known is not None and known.__module__ != cls.__module__:
            raise TypeError(
                f"kind={kind!r} exists twice: {known.__module__}.{known.__name__} and "
                f"{cls.__module__}.{cls.__name__}; give one of them another kind"
            )
        cls._kinds[kind] = cls

    @classmethod
    def kinds(cls) -> dict[str, type[Tagged]]:
        """The concrete records by kind, in alphabetical order; a copy."""
        return dict(sorted(cls._kinds.items()))

    @classmethod
    def record_for(cls, values: Any) -> type[Tagged]:
        default = cls.model_fields["kind"].default
        kind = values.get("kind", default) if isinstance(values, Mapping) else default
        with suppress(ValueError):
            record = cls._find(kind) if isinstance(kind, str) else None
            return record if record is not None and issubclass(record, cls) else cls
        return cls

    @classmethod
    def _find(cls, kind: str) -> type[Tagged] | None:
        """The record of this kind, None if there is none. ValueError: a file has no such class."""
        if ".py:" not in kind:
            return cls._kinds.get(kind)
        found: type[Tagged] = cls.user_code.class_at(*cls.user_code.place_and_class(kind), cls)
        return found

    @model_validator(mode="wrap")
    @classmethod
    def _validate_by_kind(cls, values: Any, handler: ModelWrapValidatorHandler[Tagged]) -> Tagged:
        if not isinstance(values, Mapping):
            return handler(values)
        record = cls.record_for(values)
        if record is not cls:
            return record.model_validate({**values, "kind": record.model_fields["kind"].default})
        for key in values:
            others = [kind for kind, record in cls.kinds().items() if key in record.model_fields]
            if others and key not in cls.model_fields and Tagged not in cls.__bases__:
                own = cls.model_fields["kind"].default
                raise ValueError(f"{key} is an option of kind={' and '.join(others)}, not of kind={own}; leave it out")
        return handler(values)

    @field_validator("kind")
    @classmethod
    def _is_known(cls, kind: str) -> str:
        if cls._find(kind) is None and cls.model_fields["kind"].default != kind:
            near = difflib.get_close_matches(kind, cls._kinds, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(cls.kinds())}"
            raise ValueError(f"there is no such kind; {hint} (load one of your own with --plugin FILE)")
        return kind

    @field_serializer("kind")
    def _location(self, kind: str) -> str:
        """The kind; of a class in a user's file, where it is."""
        file = self.user_code and self.user_code.file_of(type(self))
        return f"{file}:{type(self).__name__}" if file else kind
