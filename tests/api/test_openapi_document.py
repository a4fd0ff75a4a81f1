"""Properties of the whole OpenAPI document that readers and generated clients rely on."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from mnema_wire.fields import AN_IDENTIFIER

from app.api.error_examples import CONFLICTS, MISSING, PROJECTS
from app.api.errors import MEDIA_TYPE
from app.api.main import create_app
from app.api.openapi import PARAMETERS, parameters, schema_fields
from app.api.schemas.descriptions import FIELDS
from app.domain.errors import MnemaError

LEAST_TEXT = 5
"""Characters that a description has at least."""


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return create_app().openapi()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def problems(document: dict[str, Any]) -> Iterator[tuple[str, int, dict[str, Any], dict[str, Any]]]:
    """Yield each declared error: the operation, the status, the content of the response, the operation's entry."""
    for method, path, operation in operations(document):
        for status, response in operation["responses"].items():
            if status.isdigit() and int(status) >= 400 and path != "/ready":  # /ready answers its checks also as 503
                yield f"{method} {path}", int(status), response.get("content", {}), operation


def statuses() -> dict[str, set[int]]:
    """Return the statuses of each code that Mnema's errors have."""
    found: dict[str, set[int]] = {"malformed_body": {400}}
    classes = [MnemaError]
    for kind in classes:
        classes += kind.__subclasses__()
        found.setdefault(kind.code, set()).add(kind.status)
    return found


@pytest.mark.long
def test_every_field_and_parameter_is_described(document: dict[str, Any]) -> None:
    fields = {f"{schema}.{name}": field for schema, name, field in schema_fields(document)}
    described = fields | {f"{p['in']} {p['name']}": p for p in parameters(document)}
    texts = {name: part.get("description", "") for name, part in described.items()}
    assert len(fields) > 700
    assert [name for name, text in texts.items() if len(text) < LEAST_TEXT or text == AN_IDENTIFIER] == []


@pytest.mark.long
def test_every_shared_description_describes_something(document: dict[str, Any]) -> None:
    fields = {(schema, name) for schema, name, _ in schema_fields(document)}
    named = {parameter["name"].lower() for parameter in parameters(document)}
    known = {f"{schema}.{name}" for schema, name in fields} | {name for _, name in fields} | named
    assert FIELDS.keys() <= known
    assert PARAMETERS.keys() <= named


@pytest.mark.long
def test_a_body_has_no_defaults_that_a_generated_client_would_send(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    bodies = {
        f"{method} {path}": schemas[content["schema"]["$ref"].rpartition("/")[2]]
        for method, path, operation in operations(document)
        for content in operation.get("requestBody", {"content": {}})["content"].values()
        if "$ref" in content["schema"]
    }
    assert {"post /memory", "patch /memory/{memory_id}"} <= bodies.keys()
    fields = {(name, field): part for name, body in bodies.items() for field, part in body["properties"].items()}
    assert [name for name, part in fields.items() if "default" in part] == []
    assert fields["post /memory", "type"]["description"] == 'type of the memory; by default "semantic"'
    changes = {name: part for (name, _), part in fields.items() if name.startswith("patch ")}
    assert [name for name, part in changes.items() if "by default" in part.get("description", "")] == []


@pytest.mark.long
def test_schemas_have_names_without_the_path_of_a_module(document: dict[str, Any]) -> None:
    assert [name for name in document["components"]["schemas"] if not re.fullmatch("[A-Z][A-Za-z0-9]*", name)] == []


def test_every_error_has_an_example_of_its_own_status(document: dict[str, Any]) -> None:
    known, found = statuses(), 0
    for operation, status, content, _ in problems(document):
        examples = content[MEDIA_TYPE]["examples"]
        assert examples, (operation, status)
        for name, example in examples.items():
            problem = example["value"]
            assert problem["status"] == status, operation
            assert problem["code"] == name, operation
            assert status in known[name] | ({422} if name == "invalid_request" else set()), (operation, name)
            found += 1
    assert found > 500


@pytest.mark.long
def test_an_example_of_invalid_input_is_about_the_operation(document: dict[str, Any]) -> None:
    for operation, status, content, entry in problems(document):
        if status == 422:
            (example,) = content[MEDIA_TYPE]["examples"].values()
            place, name = example["value"]["errors"][0]["loc"]
            taken = {parameter["name"] for parameter in entry.get("parameters", ())}
            assert (place == "body") == ("Field required" in example["value"]["detail"]), operation
            assert name not in taken, operation


def test_every_error_of_a_table_is_the_example_of_an_operation(document: dict[str, Any]) -> None:
    declared = {(entry["operationId"], entry["tags"][0], status) for _, status, _, entry in problems(document)}
    assert CONFLICTS.keys() <= {operation for operation, _, status in declared if status == 409}
    assert MISSING.keys() <= {tag for _, tag, status in declared if status == 404}
    assert set(PROJECTS) <= document["paths"].keys()


@pytest.mark.parametrize(("operation", "code"), [("jobs_replay", "invalid_state"), ("memory_patch", "duplicate_text")])
def test_a_conflict_is_that_of_the_route(document: dict[str, Any], operation: str, code: str) -> None:
    (entry,) = (entry for _, _, entry in operations(document) if entry["operationId"] == operation)
    assert list(entry["responses"]["409"]["content"][MEDIA_TYPE]["examples"]) == [code]


def test_fixed_lists_are_enums(document: dict[str, Any]) -> None:
    """`profile` and the `field` of a proposal are no fixed lists: a tenant configures more."""
    (usage,) = (p for p in document["paths"]["/usage"]["get"]["parameters"] if p["name"] == "by")
    assert usage["schema"]["enum"] == ["day", "user"]
