"""What every method sends and how it reads the answer; pure, and the same for both clients.

Errors are those of `mnema.errors`; besides them `ValueError` for what cannot be written as a request at all.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from types import MappingProxyType
from typing import Any, TypeVar, Unpack
from urllib.parse import quote
from uuid import UUID

import httpx
from pydantic import BaseModel

from mnema import models, requests
from mnema.errors import CannotBeSent
from mnema.requests import ChangeFields, ListFields, MemoryFields, Moment, QuestionFields, TurnFields
from mnema.transport import Call

M = TypeVar("M", bound=BaseModel)
JSON = {"Content-Type": "application/json"}


def remember(
    text: str, *, trim: bool = False, idempotency_key: str | None = None, **fields: Unpack[MemoryFields]
) -> Call[models.Written]:
    """Write a memory; `requests.NewMemory` says what each field is.

    A semantic text that says what a stored one of the same user and category says updates that one. `trim`: shorten a
    too long text instead of refusing it. Give an `idempotency_key` to be able to send it again later: what is sent
    again within this call has one in any case.
    """
    body = build_body(requests.NewMemory, text=text, **fields)
    return _write_call("/memory", models.Written, body, trim, idempotency_key)


def add_turn(
    content: str, *, trim: bool = False, idempotency_key: str | None = None, **fields: Unpack[TurnFields]
) -> Call[models.Turn]:
    """Store what somebody said; `requests.NewTurn` says what each field is.

    It can be found at once; whatever else it is good for is left to background jobs.
    """
    body = build_body(requests.NewTurn, content=content, **fields)
    return _write_call("/turns", models.Turn, body, trim, idempotency_key)


def query(query: str, **fields: Unpack[QuestionFields]) -> Call[models.Answer]:
    """`memory.query`: what an agent should know for a question; `requests.Question` says what each field is.

    Raises NotAllowed for a category or an agent that is not allowed.
    """
    body = build_body(requests.Question, query=query, **fields)
    return Call("POST", "/memory/query", model_reader(models.Answer), content=body.body(), headers=JSON)


def get(memory_id: UUID | str) -> Call[models.Memory]:
    """One memory, in whatever state."""
    return Call("GET", _memory_path(memory_id), model_reader(models.Memory))


def page(*, cursor: str | None = None, **fields: Unpack[ListFields]) -> Call[models.Page[models.Memory]]:
    """One page of memories, newest first."""
    params = _query_params(cursor=cursor, **fields)
    return Call("GET", "/memory", model_reader(models.Page[models.Memory]), params)


def edit(
    memory_id: UUID | str,
    *,
    version: int | None = None,
    trim: bool = False,
    idempotency_key: str | None = None,
    **fields: Unpack[ChangeFields],
) -> Call[models.Memory]:
    """Change the named fields. With `version`, only if nobody changed the memory since: VersionConflict otherwise."""
    headers = _idempotency_headers(idempotency_key, JSON)
    if version is not None:
        headers["If-Match"] = f'"{version}"'
    content = build_body(requests.Changes, **fields).body()
    return Call("PATCH", _memory_path(memory_id), model_reader(models.Memory), _trim_params(trim), content, headers)


def delete(memory_id: UUID | str, *, idempotency_key: str | None = None) -> Call[models.Memory]:
    """Take a memory out of every answer; it can be restored until its `purge_at`. Twice does what once does."""
    return Call(
        "DELETE", _memory_path(memory_id), model_reader(models.Memory), headers=_idempotency_headers(idempotency_key)
    )


def purge(memory_id: UUID | str, *, idempotency_key: str | None = None) -> Call[None]:
    """Remove a memory for good, its text in history and delta included; needs a key with scope admin."""
    return Call(
        "DELETE", _memory_path(memory_id), ignore_body, {"purge": "true"}, headers=_idempotency_headers(idempotency_key)
    )


def restore(memory_id: UUID | str, *, idempotency_key: str | None = None) -> Call[models.Memory]:
    """Bring a soft-deleted or superseded memory back."""
    return Call(
        "POST",
        f"{_memory_path(memory_id)}/restore",
        model_reader(models.Memory),
        headers=_idempotency_headers(idempotency_key),
    )


def pin(memory_id: UUID | str, pinned: bool = True, *, idempotency_key: str | None = None) -> Call[models.Memory]:
    """Pin or unpin; a pinned memory is never forgotten by age."""
    content, headers = (
        b'{"pinned": true}' if pinned else b'{"pinned": false}',
        _idempotency_headers(idempotency_key, JSON),
    )
    return Call("POST", f"{_memory_path(memory_id)}/pin", model_reader(models.Memory), content=content, headers=headers)


def history(
    memory_id: UUID | str, *, limit: int | None = None, cursor: str | None = None
) -> Call[models.Page[models.HistoryEntry]]:
    """One page of what ever happened to a memory, newest first; `limit`: of one page, 1 to 200."""
    params = _query_params(limit=limit, cursor=cursor)
    return Call("GET", f"{_memory_path(memory_id)}/history", model_reader(models.Page[models.HistoryEntry]), params)


def delta(
    thread_id: str, *, since_rev: int | None = None, agent: str | None = None, user_id: str | None = None
) -> Call[models.ThreadDelta]:
    """What changed in a thread since a revision, or since the agent was last shown; looking moves no cursor.

    `user_id`: of this user's memories only.
    """
    params = _query_params(since_rev=since_rev, agent=agent, user_id=user_id)
    return Call("GET", f"/threads/{path_segment(thread_id)}/delta", model_reader(models.ThreadDelta), params)


def export(user_id: str) -> Call[None]:
    """Everything held of a user, record by record as it comes; each has its `kind`. BrokenOff: it is incomplete."""
    return Call("GET", f"/users/{path_segment(user_id)}/export", ignore_body)


def erase(user_id: str) -> Call[models.Receipt]:
    """Erase a person for good; needs a key with scope admin."""
    return Call("POST", f"/users/{path_segment(user_id)}/erase", model_reader(models.Receipt), repeatable=False)


def event_counts(
    by: Iterable[str] = ("op", "node"), *, since: Moment | None = None, until: Moment | None = None
) -> Call[list[models.Count]]:
    """How often what happened, by any of node, op, status, category, user_id and thread_id."""
    params = _query_params(by=",".join(by), since=since, until=until)
    read = model_reader(models.Counts)
    return Call("GET", "/events/counts", lambda response: read(response).counts, params)


def jobs(
    *,
    state: requests.JobState | None = None,
    kind: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[models.Page[models.Job]]:
    """One page of background jobs, newest first; needs a key with scope admin. `state="dead"`: failed for good."""
    params = _query_params(state=state, kind=kind, limit=limit, cursor=cursor)
    return Call("GET", "/jobs", model_reader(models.Page[models.Job]), params)


def job(job_id: UUID | str) -> Call[models.JobDetail]:
    """One job and its report; needs a key with scope admin."""
    return Call("GET", f"/jobs/{path_segment(str(job_id))}", model_reader(models.JobDetail))


def job_counts() -> Call[models.JobCounts]:
    """How many jobs there are by kind and state, and how far behind they are; needs a key with scope admin."""
    return Call("GET", "/jobs/counts", model_reader(models.JobCounts))


def health() -> Call[models.Health]:
    """Whether the process lives."""
    return Call("GET", "/health", model_reader(models.Health))


def ready() -> Call[models.Readiness]:
    """Whether requests can be served, and what is wrong; a server that is not ready is an answer, not an error."""
    return Call("GET", "/ready", model_reader(models.Readiness), accepted=frozenset({503}))


def model_reader(model: type[M]) -> Callable[[httpx.Response], M]:
    """Reads a body as this model."""
    return lambda response: model.model_validate_json(response.content)


def ignore_body(response: httpx.Response) -> None:
    """There is nothing to read, or it is read as it comes."""


def path_segment(name: str) -> str:
    """A caller's identifier as one part of a path: nothing in it may be taken for a slash or a step up.

    Raises CannotBeSent.
    """
    try:
        return quote(name, safe="").replace(".", "%2E")
    except UnicodeEncodeError as error:
        raise CannotBeSent(f"it is no text that can be sent: {error}") from error


def build_body(model: type[M], **fields: Any) -> M:
    """A body of what is not None."""
    return model(**{name: value for name, value in fields.items() if value is not None})


def _memory_path(memory_id: UUID | str) -> str:
    return f"/memory/{path_segment(str(memory_id))}"


def _write_call(path: str, model: type[M], body: requests.Sent, trim: bool, key: str | None) -> Call[M]:
    return Call("POST", path, model_reader(model), _trim_params(trim), body.body(), _idempotency_headers(key, JSON))


def _idempotency_headers(key: str | None, headers: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    return {**headers, "Idempotency-Key": key or uuid.uuid4().hex}


def _query_params(**values: Any) -> dict[str, str]:
    return {name: _param_text(value) for name, value in values.items() if value is not None}


def _param_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else str(value)


def _trim_params(trim: bool) -> Mapping[str, str]:
    return {"trim": "true"} if trim else {}
