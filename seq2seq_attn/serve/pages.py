"""What describes the endpoints: their fields in OpenAPI, and a page for readers."""

from __future__ import annotations

import html
import json
from functools import cache
from typing import Any

from seq2seq_attn.options import SearchRequest
from seq2seq_attn.strict import Strict
from seq2seq_attn.strict.keys import keys


@cache  # the meanings of fields are read from the source files
def schema(record: type[Strict]) -> dict[str, Any]:
    """The body of an endpoint in OpenAPI; records within records are written out where they stand."""
    schema = record.model_json_schema(ref_template="{model}")
    for key in keys("", record):
        field = schema["properties"][key.name]
        field["description"] = key.meaning
        if key.name in SearchRequest.model_fields:
            field.pop("default", None)  # that of the run
    parts = schema.pop("$defs", {})

    def inlined(value: Any) -> Any:
        if isinstance(value, dict):
            return (
                inlined(parts[value["$ref"]])
                if "$ref" in value
                else {key: inlined(each) for key, each in value.items()}
            )
        return [inlined(each) for each in value] if isinstance(value, list) else value

    return {"requestBody": {"required": True, "content": {"application/json": {"schema": inlined(schema)}}}}


def docs_page(openapi: dict[str, Any]) -> str:
    """The OpenAPI description as a page that needs no script and no network."""
    parts = ["<!doctype html><html lang=en><meta charset=utf-8><title>seq2seq_attn: endpoints</title>"]
    parts += ['<h1>Endpoints</h1><p>As <a href=/openapi.json>OpenAPI</a>; errors are {"error": "..."}.</p>']
    for path, methods in openapi["paths"].items():
        for method, about in methods.items():
            parts.append(f"<h2>{method.upper()} {path}</h2><p>{html.escape(about.get('description', ''))}</p>")
            content = about.get("requestBody", {}).get("content", {}).get("application/json", {})
            schema = content.get("schema", {})
            if not schema.get("properties"):
                continue
            parts.append("<table border=1><tr><th>field<th>type<th>default<th>meaning</tr>")
            for name, field in schema["properties"].items():
                default = "required" if name in schema.get("required", ()) else json.dumps(field.get("default"))
                cells = name, _type(field), default, field["description"]
                parts.append(f"<tr>{''.join(f'<td>{html.escape(cell)}' for cell in cells)}</tr>")
            parts.append("</table>")
    return "\n".join(parts)


def _type(field: dict[str, Any]) -> str:
    if "enum" in field or "const" in field:
        return " or ".join(map(json.dumps, field.get("enum", [field.get("const")])))
    if "anyOf" in field:
        return " or ".join(map(_type, field["anyOf"]))
    kind = str(field.get("type", "value"))
    return f"list of {_type(field['items'])}" if kind == "array" and "items" in field else kind
