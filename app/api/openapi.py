"""Corrections to the OpenAPI document that FastAPI generates."""

import json
from collections.abc import Iterator
from typing import Any, Final

from fastapi import FastAPI
from fastapi.routing import APIRoute
from mnema_wire.changes import ChangeEvent, ChangesEnd
from mnema_wire.fields import AN_IDENTIFIER

from app.api import errors
from app.api.error_examples import add_error_examples
from app.api.schemas.descriptions import FIELDS
from app.api.transport.msgpack import document_msgpack

UNNAMED = (errors.Problem, ChangeEvent, ChangesEnd)
"""Models that no route names as its response: the errors, and the parts of the stream of changes."""
BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
PARAMETERS: Final[dict[str, str]] = {
    "idempotency-key": "a name of the caller for this request: a retry with the same key changes nothing more",
    "limit": "highest number of entries on the page",
    "pinned": "true: only pinned memories; false: only memories that are not pinned",
    "sort": "the field that decides the order",
    "order": "desc: highest or newest first; asc: lowest or oldest first",
    "updated_after": "only entries changed then or later; a date without a time is midnight UTC",
    "updated_before": "only entries changed earlier; a date without a time is midnight UTC",
    "language": "only memories in this language, a code of ISO 639 such as de; und: undetermined",
    "expires_after": "only memories that expire then or later; a date without a time is midnight UTC",
    "expires_before": "only memories that expire earlier; a date without a time is midnight UTC",
    "created_after": "only entries created then or later; a date without a time is midnight UTC",
    "created_before": "only entries created earlier; a date without a time is midnight UTC",
    "since": "only entries from then on; a date without a time is midnight UTC",
    "until": "only entries before then; a date without a time is midnight UTC",
    "by": "day: one row a day; user: one row a user",
    "state": "only entries in this state",
    "status": "only entries with this status",
    "kind": "only entries of this kind",
    "node": "only operations of this part of Mnema",
    "tag": "only entries with this tag",
    "role": "only what this role said, such as user or assistant",
    "agent": "name of the agent that asks",
    "job_id": "id of the job",
    "patch_id": "id of the proposal",
    "index_job_id": "id of the index job",
}
"""Descriptions of parameters by name in lower case. Other parameters have the description of the field of that name."""


def describe_fields(document: dict[str, Any]) -> None:
    """Describe every field and parameter of `document` that has no description of its own.

    A name that no table has stays without a description; the tests find it.
    """
    for schema, name, field in schema_fields(document):
        _describe(field, FIELDS.get(f"{schema}.{name}") or FIELDS.get(name))
    for parameter in parameters(document):
        name = parameter["name"].lower()
        schema = parameter["schema"]
        shared = PARAMETERS.get(name) or FIELDS.get(name)
        if (own := schema.get("description", AN_IDENTIFIER)) != AN_IDENTIFIER:
            parameter.setdefault("description", own)
        _describe(parameter, shared)


def _describe(part: dict[str, Any], text: str | None) -> None:
    """Describe `part` with `text` unless it has a description that is more than AN_IDENTIFIER."""
    if text is not None and part.get("description", AN_IDENTIFIER) == AN_IDENTIFIER:
        part["description"] = text


def schema_fields(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield each field of the named schemas: the name of the schema, the name of the field, its schema."""
    for schema, written in document["components"]["schemas"].items():
        for name, field in written.get("properties", {}).items():
            yield schema, name, field


def parameters(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each parameter of each operation."""
    for methods in document["paths"].values():
        for operation in methods.values():
            yield from operation.get("parameters", ())


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
