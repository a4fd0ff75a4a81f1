"""Corrections to the OpenAPI document that FastAPI generates."""

import json
from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from mnema_wire.changes import ChangeEvent, ChangesEnd

from app.api import errors
from app.api.error_examples import add_error_examples
from app.api.field_descriptions import describe_fields, parameters
from app.api.transport.msgpack import document_msgpack

UNNAMED = (errors.Problem, ChangeEvent, ChangesEnd)
"""Models that no route names as its response: the errors, and the parts of the stream of changes."""
BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


def operation_id(route: APIRoute) -> str:
    """Return the operation id of a route, such as `memory_get`. Links and generated clients use it."""
    return f"{route.tags[0]}_{route.name}"


def refine_openapi(app: FastAPI) -> None:
    """Correct the document of `app`: add the schemas that FastAPI leaves out, write whole bounds as integers.

    Remove null parameters, describe every field and parameter, and give every error status an example.
    """
    original = app.openapi

    def refined_openapi() -> dict[str, Any]:
        document = original()
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        if "Problem" not in schemas:
            for model in UNNAMED:
                schema = model.model_json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
                schemas.update({**schema.pop("$defs", {}), **schemas, model.__name__: schema})
            _use_integer_bounds(document)
            document_msgpack(document)
            for parameter in parameters(document):
                _drop_null_choice(parameter["schema"])
            describe_fields(document)
            _tell_defaults(document)
            add_error_examples(document)
        return document

    app.openapi = refined_openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend the document


def _use_integer_bounds(part: Any) -> None:
    """Write whole bounds as integers. FastAPI makes them floats, and a float cannot hold 2**62 exactly plus one."""
    if isinstance(part, dict):
        for name in BOUNDS:
            if isinstance(part.get(name), float) and part[name].is_integer():
                part[name] = int(part[name])
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _use_integer_bounds(inner)


def _drop_null_choice(schema: dict[str, Any]) -> None:
    """Remove the null choice: a query string or a header cannot carry null; callers omit an optional parameter."""
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) == 1:
        del schema["anyOf"]
        schema.update(choices[0] | schema)


def _tell_defaults(document: dict[str, Any]) -> None:
    """Move the defaults of request bodies into the descriptions.

    openapi-typescript makes a field with a default required, and openapi-python-client sends the default.
    """
    schemas = document["components"]["schemas"]
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    sent = _schemas_below([operation.get("requestBody") for operation in operations], schemas)
    answered = _schemas_below([operation["responses"] for operation in operations], schemas)
    for name in sent - answered:
        for field in schemas[name].get("properties", {}).values():
            if "default" in field:
                default = json.dumps(field.pop("default"))
                field["description"] = "; ".join(filter(None, (field.get("description"), f"by default {default}")))


def _schemas_below(part: Any, schemas: dict[str, Any]) -> set[str]:
    """Return the names of the schemas that `part` refers to, also through other schemas."""
    found: set[str] = set()
    waiting = list(_references(part))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _references(schemas[name])
    return found


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(reference := part.get("$ref"), str):
            yield reference.rpartition("/")[2]
        part = list(part.values())
    if isinstance(part, list):
        for inner in part:
            yield from _references(inner)
