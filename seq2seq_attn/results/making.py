"""What was asked, and how it can be asked again (making.json)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from seq2seq_attn.results.files import STRICT, load, save


@dataclass(frozen=True, config=STRICT)
class Making:
    """The question of an experiment, the command that answers it, and the complete configuration of each arm."""

    question: str
    command: str  # "" where Python code made the comparison
    configurations: Mapping[str, Mapping[str, Any]]  # by arm, those of its first seed

    def differences(self) -> dict[str, list[str]]:
        """Each key in which arms differ, with its value in every arm, in their order; "" where an arm has none."""
        flat = [dict(_flat(values)) for values in self.configurations.values()]
        keys = dict.fromkeys(key for values in flat for key in values)
        rows = {key: [values.get(key, "") for values in flat] for key in keys}
        return {key: row for key, row in rows.items() if len(set(row)) > 1}


def load_making(path: Path) -> Making:
    """UserError with the file and the key if it is malformed."""
    return load(_MAKING, path)


def save_making(making: Making, path: Path) -> None:
    """Write JSON, whole or not at all."""
    save(_MAKING, making, path)


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", "null" if value is None else str(value)


_MAKING = TypeAdapter(Making)
