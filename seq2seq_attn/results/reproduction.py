"""How an experiment is reproduced: making.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from seq2seq_attn.files.json_files import STRICT
from seq2seq_attn.files.nested import flat
from seq2seq_attn.results.records import RecordFile


@dataclass(frozen=True, config=STRICT)
class Reproduction:
    """The question of an experiment, the command that reproduces it, and the complete configuration of each arm."""

    question: str
    command: str  # "" if the comparison was started from Python
    configurations: Mapping[str, Mapping[str, Any]]  # by arm, that of its first seed

    def differences(self) -> dict[str, list[str]]:
        """Each key in which the arms differ, with its value in every arm, in order; "" for an arm without the key."""
        return differing_keys(self.configurations.values())


def differing_keys(configurations: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Each `key.path` in which configurations differ, with its value in each; "" in one without the key."""
    shown = [{k: "null" if v is None else str(v) for k, v in flat(values).items()} for values in configurations]
    keys = dict.fromkeys(key for values in shown for key in values)
    rows = {key: [values.get(key, "") for values in shown] for key in keys}
    return {key: row for key, row in rows.items() if len(set(row)) > 1}


REPRODUCTION = RecordFile("making.json", TypeAdapter(Reproduction))
