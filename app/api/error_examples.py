"""Examples of the problem documents in the OpenAPI document: one for each error status of each operation."""

from collections.abc import Mapping
from typing import Any, Final

from app.api.errors import (
    MEDIA_TYPE,
    BodyTimeout,
    chat_members,
    problem_document,
    validation_problem,
)
from app.domain.errors import (
    BodyTooLarge,
    ConflictingName,
    CursorOfOtherDatabase,
    DuplicateText,
    FactMemory,
    IdempotencyMismatch,
    MnemaError,
    NotFound,
    QuestionNotAsked,
    RateLimited,
    RootUnavailable,
    ScopeRequired,
    TooManyPatches,
    TooManyReactions,
    Unauthenticated,
    UnknownProject,
    UnsupportedMediaType,
    VersionConflict,
    WrongState,
)
from app.domain.memory.batches import UnexpectedCount
from app.domain.outages import DatabaseUnavailable, NoChatModel, UpstreamTimeout, UpstreamUnreachable
from app.domain.sources.errors import SourceExists, SourceRemoved, WrongSourceKind
from app.domain.tenancy.rules import CategoryInUse

REQUEST_ID: Final = "01a1fc04bdad75028255"
_USUAL: Final[tuple[MnemaError, ...]] = (
    Unauthenticated(),
    ScopeRequired(),
    NotFound(),
    BodyTimeout(),
    IdempotencyMismatch(),
    CursorOfOtherDatabase(),
    VersionConflict(),
    BodyTooLarge(),
    UnsupportedMediaType(),
    RateLimited(retry_after=12),
    UpstreamUnreachable(),
    DatabaseUnavailable(),
    UpstreamTimeout(),
)
USUAL: Final[Mapping[int, MnemaError]] = {error.status: error for error in _USUAL}
"""The usual error of each status."""
_REACTIONS = TooManyReactions()
_MODEL = NoChatModel()
_RULES = CategoryInUse("the new rules lack: tasks", counts={"tasks": 3})
_SAVER = WrongState("the thread holds a state that was put whole; delete it first")
_DECIDED = WrongState("the proposal is approved")
_MEMORY = WrongState("the memory is soft-deleted")
CONFLICTS: Final[Mapping[str, MnemaError]] = {
    "batches_change": UnexpectedCount("3 memories match; expected 2", matched=3),
    "memory_patch": DuplicateText(),
    "memory_delete": _MEMORY,
    "memory_retract": WrongState("the memory is expired"),
    "memory_supersede": WrongState("the memory is expired"),
    "memory_correct": WrongState("the memory is expired"),
    "memory_forget": FactMemory(),
    "memory_restore": WrongState("the memory is active"),
    "memory_pin": _MEMORY,
    "turn_memory_give_feedback": _REACTIONS,
    "turn_memory_give_feedback_by_text": _REACTIONS,
    "turn_memory_reconcile": _MODEL,
    "turn_memory_summarize": _MODEL,
    "sources_add": SourceExists(),
    "sources_patch": SourceRemoved(),
    "sources_sync": SourceRemoved(),
    "sources_tree": RootUnavailable(),
    "sources_upload_file": WrongSourceKind(),
    "sources_delete_file": WrongSourceKind(),
    "consent_propose": TooManyPatches(),
    "consent_approve": _DECIDED,
    "consent_reject": _DECIDED,
    "consent_ask": QuestionNotAsked(),
    "checkpoints_put": WrongState("a checkpoint saver keeps this thread"),
    "saver_put": _SAVER,
    "saver_writes": _SAVER,
    "saver_copy": _SAVER,
    "jobs_replay": WrongState("the job is queued; only a dead, done or deferred job can be replayed"),
    "operator_create_tenant": ConflictingName("a tenant named 'acme' exists"),
    "tenant_config_put": _RULES,
    "tenant_config_rollback": _RULES,
}
"""The usual conflict (409) of an operation. Other operations refuse a used Idempotency-Key."""
MISSING: Final[Mapping[str, MnemaError]] = {
    "batches": NotFound("no such batch"),
    "checkpoints": NotFound("no state is stored for this thread"),
    "consent": NotFound("no such proposal of this user"),
    "facts": NotFound("no such fact"),
    "jobs": NotFound("no such job"),
    "operator": NotFound("no such tenant"),
    "overview": NotFound("this key is not stored any more"),
    "receipts": NotFound("no such answer"),
    "sources": NotFound("no such source"),
    "tenant_config": NotFound("the rules have no version 7"),
    "turn_memory": NotFound("no such turn of this user"),
    "users": NotFound("nothing is stored for user 'maya'"),
}
"""The missing thing (404) of the operations with a tag. Elsewhere it is a memory."""
PROJECTS: Final = ("/facts/store", "/facts/get", "/index-chat-message")


def add_error_examples(document: dict[str, Any]) -> None:
    """Give each problem response of each operation of `document` an example with the status and code of the route."""
    for path, methods in document["paths"].items():
        for operation in methods.values():
            for status, response in operation["responses"].items():
                media = response.get("content", {}).get(MEDIA_TYPE)
                if media is not None:
                    example = _example(int(status), path, operation, document)
                    media["examples"] = {example["code"]: {"summary": example["title"], "value": example}}


def _example(status: int, path: str, operation: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    if status == 400:
        entry = {"type": "json_invalid", "loc": ("body", 17), "msg": "JSON decode error"}
        problem = validation_problem(REQUEST_ID, [entry])
    elif status == 422:
        problem = validation_problem(REQUEST_ID, [_invalid_value(operation, document)])
    else:
        error = _usual_error(status, path, operation)
        problem = problem_document(REQUEST_ID, status, error.code, error.detail, **error.extra)
    return problem | chat_members({"path": path}, status, problem["code"], problem["detail"])


def _usual_error(status: int, path: str, operation: dict[str, Any]) -> MnemaError:
    if status == 409:
        return CONFLICTS.get(operation["operationId"], USUAL[status])
    if status == 404:
        return UnknownProject() if path in PROJECTS else MISSING.get(operation["tags"][0], USUAL[status])
    return USUAL[status]


def _invalid_value(operation: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """Return a problem that this operation can have: a field that the body needs, or an unknown parameter."""
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    body = document["components"]["schemas"].get(schema.get("$ref", "").rpartition("/")[2], {})
    if needed := body.get("required"):
        return {"type": "missing", "loc": ("body", needed[0]), "msg": "Field required"}
    names = [parameter["name"] for parameter in operation.get("parameters", ()) if parameter["in"] == "query"]
    hint = f"did you mean {names[0]!r}?" if names else "this route takes: none"
    wrong = f"{names[0]}s" if names else "verbose"
    return {"type": "unknown_parameter", "loc": ("query", wrong), "msg": f"unknown parameter; {hint}"}
