"""YAML and JSON: plain values alone, and an error with its line for anything else."""

import json
from math import inf, nan

import pytest

from seq2seq_attn.files.plain import MAX_CHARACTERS, NotPlainError, YamlSyntaxError, parse_json, parse_yaml, to_json

LAUGHS = "a: &a [" + ", ".join(["lol"] * 9) + "]\n"
for one, next_one in zip("abcdefgh", "bcdefghi", strict=True):
    LAUGHS += f"{next_one}: &{next_one} [" + ", ".join([f"*{one}"] * 9) + "]\n"


def test_what_a_configuration_needs_is_read():
    text = "a: &x {b: [1, -2.5, 1e-3], c: text}\nd: *x\ne: {<<: *x, c: [yes, null, '5']}\n2001-01-01: 2001-99-99\n"
    assert parse_yaml(text) == {
        "a": {"b": [1, -2.5, "1e-3"], "c": "text"},
        "d": {"b": [1, -2.5, "1e-3"], "c": "text"},
        "e": {"b": [1, -2.5, "1e-3"], "c": [True, None, "5"]},
        "2001-01-01": "2001-99-99",
    }
    assert parse_yaml("") is None


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a: 1\nb: " + "[" * 20000, 2, "levels of nesting"),
        ("\n".join(" " * depth + "a:" for depth in range(200)), 40, "levels of nesting"),
        ("- " * 5000, 1, "levels of nesting"),
        (LAUGHS, 5, "expand to more than 50,000 values"),
        ("a: 1\nb: &b [*b]", 2, "a reference to itself"),
        ("a: &a {<<: *a}", 1, "a reference to itself"),
        ("a: 1\nb: 2\na: 3", 3, "the key 'a' occurs twice"),
        ("a: {b: 1, b: 2}", 1, "the key 'b' occurs twice"),
        ("null: 1", 1, "the key 'null' is not text but null; quote it"),
        ("a:\n  1.5: 1", 2, "the key '1.5' is not text but a number"),
        ("true: 1", 1, "the key 'true' is not text but true or false"),
        ("[1, 2]: 1", 1, "the key is not text but a list"),
        ("a: !!int x", 1, "the tag 'tag:yaml.org,2002:int'"),
        ("a: !!python/object/apply:os.system [true]", 1, "the tag"),
        ("a: " + "9" * 5000, 1, "a number of 5,000 digits"),
        ("a: 0x" + "f" * 5000, 1, "a number of 5,002 digits"),
        ('a: "\\0"', 1, "a NUL"),
        ('a: "\\ud800"', 1, "half a surrogate pair"),
        ("a: =", 1, "constructor"),
        ("a" * (MAX_CHARACTERS + 1), None, "at most 50,000"),
    ],
)
def test_what_surprises_is_refused_with_its_line(text, line, reason):
    with pytest.raises(NotPlainError, match=reason) as refused:
        parse_yaml(text)
    assert refused.value.line == line
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("text", ["a: b: c", "[1", "a: *b", "\x07", "%YAML 9\n"])
def test_what_is_not_yaml_is_told_apart(text):
    with pytest.raises(YamlSyntaxError):
        parse_yaml(text)


def test_json_of_any_number_and_text_is_json():
    text = to_json({"a": [inf, (nan, 1.5)], "b": -inf, "c": "\u2028ä\u2029"})
    assert text == '{"a": [null, [null, 1.5]], "b": null, "c": "\\u2028ä\\u2029"}'
    assert json.loads(text)["c"] == "\u2028ä\u2029"


@pytest.mark.parametrize("content", [b"", b"[" * 100_000, b'{"a":' * 100_000, b"\xff", b"{} x", b"9" * 5000])
def test_what_is_not_json_is_a_value_error(content):
    with pytest.raises(ValueError):  # noqa: PT011 - a RecursionError is none
        parse_json(content)
