"""Corrections to the OpenAPI document that FastAPI generates."""

from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from app.api import errors
from app.api.transport.msgpack import document_msgpack

BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


def operation_id(route: APIRoute) -> str:
    """Return the operation id of a route, such as `memory_get`. Links and generated clients use it."""
    return f"{route.tags[0]}_{route.name}"


def refine_openapi(app: FastAPI) -> None:
    """Correct the document of `app`: add the Problem schema, write whole bounds as integers, remove null parameters.

    No response model names the Problem schema, so FastAPI leaves it out.
    """
    original = app.openapi

    def refined_openapi() -> dict[str, Any]:
        document = original()
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        if "Problem" not in schemas:
            problem = errors.Problem.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas.update(problem.pop("$defs", {}))
            schemas["Problem"] = problem
            _use_integer_bounds(document)
            document_msgpack(document)
            for methods in document["paths"].values():
                for operation in methods.values():
                    for parameter in operation.get("parameters", ()):
                        _drop_null_choice(parameter["schema"])
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
