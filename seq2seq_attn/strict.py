"""The bases of every configuration record: typed, immutable, and an unknown key is an error.

`config.py` turns what a record refuses into one line with the nearest name (`explain.py`).
"""

from __future__ import annotations

import difflib
import inspect
from abc import ABC
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, field_validator, model_validator


class Strict(BaseModel):
    """A configuration record."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def record_for(cls, values: Any) -> type[Strict]:
        """The class that validates these values; another than this one where their `kind` selects a subclass."""
        return cls


class Tagged(Strict, ABC):
    """A record of one of several kinds: its key `kind` selects the subclass, which adds the options of its kind.

    A direct subclass is the base of a discriminated union that stays open: it declares `kind: str` with the default
    kind, and every concrete subclass below it joins the union when it is defined, with its own
    `kind: Literal["name"] = "name"`. So a user's own module can add one. Validating the base returns an instance of
    the subclass. In another record, annotate such a field as `SerializeAsAny[Base]`, so that the options of the kind
    are written as well.

    A class may be defined again in its own module (a reloaded file, a notebook cell run twice); the same kind from
    another module is a TypeError.
    """

    obsolete: ClassVar[Mapping[str, Any]] = {}  # keys that earlier versions wrote for every kind: ignored at this value
    _kinds: ClassVar[dict[str, type[Tagged]]]

    kind: str

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if Tagged in cls.__bases__:
            cls._kinds = {}
        elif not inspect.isabstract(cls):
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
        record = cls._kinds.get(kind) if isinstance(kind, str) else None
        return record if record is not None and issubclass(record, cls) else cls

    @model_validator(mode="wrap")
    @classmethod
    def _validate_by_kind(cls, values: Any, handler: ModelWrapValidatorHandler[Tagged]) -> Tagged:
        if not isinstance(values, Mapping):
            return handler(values)
        record = cls.record_for(values)
        if record is not cls:
            return record.model_validate(values)
        return handler({key: value for key, value in values.items() if not cls._is_ignored(key, value)})

    @classmethod
    def _is_ignored(cls, key: Any, value: Any) -> bool:
        """Whether to drop this key; ValueError if it is an option of another kind."""
        if key in cls.model_fields or Tagged in cls.__bases__:
            return False
        if key in cls.obsolete and cls.obsolete[key] == value:
            return True
        others = [kind for kind, record in cls.kinds().items() if key in record.model_fields]
        if others:
            own = cls.model_fields["kind"].default
            raise ValueError(f"{key} is an option of kind={' and '.join(others)}, not of kind={own}; leave it out")
        return False

    @field_validator("kind")
    @classmethod
    def _is_known(cls, kind: str) -> str:
        if kind not in cls._kinds:
            near = difflib.get_close_matches(kind, cls._kinds, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(cls.kinds())}"
            raise ValueError(f"there is no such kind; {hint} (load one of your own with --plugin FILE)")
        return kind
