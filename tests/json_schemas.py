"""What a JSON Schema has against a document."""

from __future__ import annotations

import json
from typing import Any

from clusterplan.instances.documents import (
    DOCUMENTS,
)
from clusterplan.solvers.common.result import Result

INFINITE = float("inf")


def breaches(schema: dict[str, Any], value: Any, root: dict[str, Any], path: str = "") -> list[str]:
    """Return where a value breaks a JSON Schema; knows the keywords that the schemas here use."""
    if "$ref" in schema:
        return breaches(root["$defs"][schema["$ref"].rsplit("/", 1)[1]], value, root, path)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            tried = [breaches(option, value, root, path) for option in schema[key]]
            if [] not in tried:
                return min(tried, key=len)
    sort = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    kind = sort.get(type(value), "null")
    if "type" in schema and schema["type"] != kind and (schema["type"], kind) != ("number", "integer"):
        return [f"{path}: is {kind}, not {schema['type']}"]
    found = []
    if "const" in schema and value != schema["const"]:
        found.append(f"{path}: is not {schema['const']}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{path}: is not one of {schema['enum']}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, above = schema.get("minimum", -INFINITE), schema.get("exclusiveMinimum", -INFINITE)
        if not (low <= value <= schema.get("maximum", INFINITE) and value > above):
            found.append(f"{path}: out of range")
    if isinstance(value, list):
        first = schema.get("prefixItems", [])
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            found.append(f"{path}: number of items")
        for index, item in enumerate(value):
            inner = first[index] if index < len(first) else schema.get("items", {})
            found += breaches(inner, item, root, f"{path}[{index}]")
    if isinstance(value, dict):
        found += [f"{path}: {key} is missing" for key in schema.get("required", ()) if key not in value]
        known, other = schema.get("properties", {}), schema.get("additionalProperties", True)
        for key, item in value.items():
            if key in known:
                found += breaches(known[key], item, root, f"{path}.{key}")
            elif other is False:
                found.append(f"{path}: {key} is not allowed")
            elif isinstance(other, dict):
                found += breaches(other, item, root, f"{path}.{key}")
    return found


def accepted(kind: str, document: Any) -> list[str]:
    """Return what the JSON Schema of the kind has against a document, as JSON has it."""
    schema = (Result if kind == "result" else DOCUMENTS[kind]).model_json_schema()
    return breaches(schema, json.loads(json.dumps(document)), schema)
