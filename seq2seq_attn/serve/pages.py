"""What describes the endpoints: their fields in OpenAPI, and a page for readers."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaValue

from seq2seq_attn.options import SearchRequest
from seq2seq_attn.serve.answers import ErrorAnswer
from seq2seq_attn.strict import Strict
from seq2seq_attn.strict.keys import DescribedSchema, comments


def body(record: type[Strict]) -> dict[str, Any]:
    """What an endpoint reads, in OpenAPI."""
    schema = _schema(record)
    for name in SearchRequest.model_fields:
        schema["properties"].get(name, {}).pop("default", None)  # that of the run
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def responses(answers: Any, meaning: str) -> dict[int | str, dict[str, Any]]:
    """What an endpoint answers, in OpenAPI: a type of `answers.py`, or a media type."""
    content = {answers: {"schema": {"type": "string"}}} if isinstance(answers, str) else _json(answers)
    return {
        200: {"description": meaning, "content": content},
        "default": {"description": "What is wrong, and what would be right.", "content": _json(ErrorAnswer)},
    }


def _json(kind: Any) -> dict[str, Any]:
    return {"application/json": {"schema": _schema(kind)}}


@cache  # the meanings of fields are read from the source files
def _schema(kind: Any) -> dict[str, Any]:
    """The JSON schema of a type; records within records are written out where they stand."""
    schema = TypeAdapter(kind).json_schema(ref_template="{model}", schema_generator=_RecordSchema)
    parts = schema.pop("$defs", {})

    def inlined(value: Any) -> Any:
        if isinstance(value, dict):
            if "$ref" in value:
                return inlined(parts[value["$ref"]]) | {key: each for key, each in value.items() if key != "$ref"}
            return {key: inlined(each) for key, each in value.items()}
        return [inlined(each) for each in value] if isinstance(value, list) else value

    found: dict[str, Any] = inlined(schema)
    return found


class _RecordSchema(DescribedSchema):
    """A NamedTuple is an object, as `plain` writes it."""

    def call_schema(self, schema: Any) -> JsonSchemaValue:
        return _described(super().call_schema(schema), schema["function"])

    def dataclass_schema(self, schema: Any) -> JsonSchemaValue:
        return _described(super().dataclass_schema(schema), schema["cls"])

    def arguments_schema(self, schema: Any) -> JsonSchemaValue:
        return self.kw_arguments_schema(schema["arguments_schema"], None)


def _described(schema: JsonSchemaValue, record: type) -> JsonSchemaValue:
    for name, meaning in comments(record).items():
        schema["properties"][name]["description"] = meaning
    return schema


def docs_page(openapi: dict[str, Any]) -> str:
    """The OpenAPI description as a page that needs no script and no network."""
    parts = ["<!doctype html><html lang=en><meta charset=utf-8><title>seq2seq_attn: endpoints</title>"]
    parts += ['<meta name=viewport content="width=device-width"><link rel=stylesheet href=/docs.css>']
    parts += ['<h1>Endpoints</h1><p>As <a href=/openapi.json>OpenAPI</a>; errors are {"error": "..."}.</p><nav><ul>']
    parts += [f'<li><a href="#{path}">{path}</a>' for path in openapi["paths"]] + ["</ul></nav>"]
    for path, methods in openapi["paths"].items():
        for method, about in methods.items():
            parts.append(f'<h2 id="{path}">{method.upper()} {path}</h2><p>{html.escape(about["description"])}</p>')
            parts += _table("request", about.get("requestBody", {}).get("content", {}), "default", "required")
            parts += _table("answer", about["responses"]["200"]["content"], "there", "always")
    return "\n".join(parts)


def _table(caption: str, content: dict[str, Any], column: str, required: str) -> list[str]:
    rows = list(_rows(content.get("application/json", {}).get("schema", {}), "", required))
    if not rows:
        return []
    head = f"<table><caption>{caption}</caption><tr><th>field<th>type<th>{column}<th>meaning</tr>"
    return [head, *(f"<tr>{''.join(f'<td>{html.escape(cell)}' for cell in row)}</tr>" for row in rows), "</table>"]


def _rows(schema: dict[str, Any], place: str, required: str) -> Iterator[tuple[str, str, str, str]]:
    """The fields of a record, and of those within it, as in `results[].text`: name, type, default and meaning."""
    for part in schema.get("anyOf", ()):
        yield from _rows(part, place, required)
    if schema.get("type") == "array" and isinstance(schema.get("items"), dict):
        yield from _rows(schema["items"], f"{place}[]", required)
    for name, field in schema.get("properties", {}).items():
        default = required if name in schema.get("required", ()) else json.dumps(field.get("default"))
        own = f"{place}.{name}".lstrip(".")
        yield own, _type(field), default, field["description"]
        yield from _rows(field, own, required)


def _type(field: dict[str, Any]) -> str:
    if "enum" in field or "const" in field:
        return " or ".join(map(json.dumps, field.get("enum", [field.get("const")])))
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(map(_type, field["anyOf"])))
    kind = str(field.get("type", "value"))
    return f"list of {_type(field['items'])}" if kind == "array" and "items" in field else kind
