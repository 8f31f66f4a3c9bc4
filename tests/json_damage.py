"""Every value of a JSON record replaced by another type, a huge number or deep nesting, or left out."""

import copy
import json
import random

from seq2seq_attn.errors import UserError

REPLACEMENTS = [
    "null", "true", '"x"', "-1", "0", "2.5", "1e308", "-1e99", "1e999", "NaN", "1" + "0" * 30, "9223372036854775807",
    "[]", "{}", "[0]", '{"x": 1}', "[" * 30 + "]" * 30, "[" * 3000 + "]" * 3000, '{"a":' * 3000 + "1" + "}" * 3000,
]  # fmt: skip
HOLE = "\0"


def refusal(use, about):
    """The message of the UserError that `use` raises, or "" if it raises none; no other exception is allowed."""
    try:
        use()
    except UserError as error:
        return str(error)
    except Exception as error:
        raise AssertionError(f"{about}: {error!r}") from error
    return ""


def _places(value, place=()):
    yield place
    if isinstance(value, dict):
        for key in value:
            yield from _places(value[key], (*place, key))
    elif isinstance(value, list):
        for index in sorted({0, len(value) - 1} if value else ()):
            yield from _places(value[index], (*place, index))


def damaged(value, count, seed):
    """The texts of `count` damaged copies of a value, drawn from all of them, each with a name for it."""
    cases = [(place, each) for place in _places(value) for each in (*REPLACEMENTS, None)]
    for place, replacement in random.Random(seed).sample(cases, min(count, len(cases))):
        whole = [copy.deepcopy(value)]
        inner, key = whole, 0
        for each in place:
            inner, key = inner[key], each
        if replacement is None:
            del inner[key]
        else:
            inner[key] = HOLE
        text = json.dumps(whole[0]) if whole else ""
        yield f"{place} = {replacement and replacement[:30]}", text.replace(json.dumps(HOLE), replacement or "")
