"""Descriptions of all fields and parameters in an OpenAPI document."""

from collections.abc import Iterator
from typing import Any, Final

from mnema_wire.fields import AN_IDENTIFIER

from app.api.schemas.descriptions import FIELDS

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
