"""Records of several kinds, to which a user's own file can add one."""

from __future__ import annotations

import inspect
from abc import ABC
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar

from pydantic import ModelWrapValidatorHandler, field_serializer, field_validator, model_validator

from seq2seq_attn.attention import user_code
from seq2seq_attn.attention.registry import load_installed
from seq2seq_attn.errors import did_you_mean
from seq2seq_attn.strict.records import Strict


class Tagged(Strict, ABC):
    """A record of one of several kinds: its key `kind` selects the subclass, which adds the options of its kind.

    A direct subclass is the base of a discriminated union that stays open: it declares `kind: str` with the default
    kind, and every concrete subclass below it joins the union when it is defined, with its own
    `kind: Literal["name"] = "name"`. So a user's own module can add one. Validating the base returns an instance of
    the subclass. In another record, annotate such a field as `SerializeAsAny[Base]`, so that the options of the kind
    are written as well.

    A class may be defined again in its own module (a reloaded file, a notebook cell run twice); the same kind from
    another module is a TypeError. A kind may also be named by its file, as in `kind: my_file.py:MyConfig`; it is then
    written so, and does not conflict with another of the same name. One of an installed distribution is found by its
    entry point.
    """

    _kinds: ClassVar[dict[str, type[Tagged]]]

    kind: str

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if Tagged in cls.__bases__:
            cls._kinds = {}
        elif not inspect.isabstract(cls) and not user_code.is_named_by_path(cls.__module__):
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
            if kind not in cls._kinds:
                load_installed()
            return cls._kinds.get(kind)
        return user_code.class_at(*user_code.place_and_class(kind), cls)

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
            hint = did_you_mean(kind, cls._kinds, f"choose from {', '.join(cls.kinds())}")
            own = f"{hint} (load one of your own with --plugin FILE)"
            raise ValueError("; ".join(["there is no such kind", own, *load_installed()]))
        return kind

    @field_serializer("kind")
    def _location(self, kind: str) -> str:
        """The kind; of a class in a user's file, where it is."""
        file = user_code.file_of(type(self))
        return f"{file}:{type(self).__name__}" if file else kind
