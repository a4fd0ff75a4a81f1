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
    body = given(requests.NewMemory, text=text, **fields)
    return _write("/memory", models.Written, body, trim, idempotency_key)


def add_turn(
    content: str, *, trim: bool = False, idempotency_key: str | None = None, **fields: Unpack[TurnFields]
) -> Call[models.Turn]:
    """Store what somebody said; `requests.NewTurn` says what each field is.

    It can be found at once; whatever else it is good for is left to background jobs.
    """
    body = given(requests.NewTurn, content=content, **fields)
    return _write("/turns", models.Turn, body, trim, idempotency_key)


def query(query: str, **fields: Unpack[QuestionFields]) -> Call[models.Answer]:
    """`memory.query`: what an agent should know for a question; `requests.Question` says what each field is.

    Raises NotAllowed for a category or an agent that is not allowed.
    """
    body = given(requests.Question, query=query, **fields)
    return Call("POST", "/memory/query", reader(models.Answer), content=body.body(), headers=JSON)


def get(memory_id: UUID | str) -> Call[models.Memory]:
    """One memory, in whatever state."""
    return Call("GET", _memory(memory_id), reader(models.Memory))


def page(*, cursor: str | None = None, **fields: Unpack[ListFields]) -> Call[models.Page[models.Memory]]:
    """One page of memories, newest first."""
    params = _params(cursor=cursor, **fields)
    return Call("GET", "/memory", reader(models.Page[models.Memory]), params)


def edit(
    memory_id: UUID | str,
    *,
    version: int | None = None,
    trim: bool = False,
    idempotency_key: str | None = None,
    **fields: Unpack[ChangeFields],
) -> Call[models.Memory]:
    """Change the named fields. With `version`, only if nobody changed the memory since: VersionConflict otherwise."""
    headers = _keyed(idempotency_key, JSON)
    if version is not None:
        headers["If-Match"] = f'"{version}"'
    content = given(requests.Changes, **fields).body()
    return Call("PATCH", _memory(memory_id), reader(models.Memory), _trim(trim), content, headers)


def delete(memory_id: UUID | str, *, idempotency_key: str | None = None) -> Call[models.Memory]:
    """Take a memory out of every answer; it can be restored until its `purge_at`. Twice does what once does."""
    return Call("DELETE", _memory(memory_id), reader(models.Memory), headers=_keyed(idempotency_key))


def purge(memory_id: UUID | str, *, idempotency_key: str | None = None) -> Call[None]:
    """Remove a memory for good, its text in history and delta included; needs a key with scope admin."""
    return Call("DELETE", _memory(memory_id), nothing, {"purge": "true"}, headers=_keyed(idempotency_key))


def restore(memory_id: UUID | str, *, idempotency_key: str | None = None) -> Call[models.Memory]:
    """Bring a soft-deleted or superseded memory back."""
    return Call("POST", f"{_memory(memory_id)}/restore", reader(models.Memory), headers=_keyed(idempotency_key))


def pin(memory_id: UUID | str, pinned: bool = True, *, idempotency_key: str | None = None) -> Call[models.Memory]:
    """Pin or unpin; a pinned memory is never forgotten by age."""
    content, headers = b'{"pinned": true}' if pinned else b'{"pinned": false}', _keyed(idempotency_key, JSON)
    return Call("POST", f"{_memory(memory_id)}/pin", reader(models.Memory), content=content, headers=headers)


def history(
    memory_id: UUID | str, *, limit: int | None = None, cursor: str | None = None
) -> Call[models.Page[models.HistoryEntry]]:
    """One page of what ever happened to a memory, newest first; `limit`: of one page, 1 to 200."""
    params = _params(limit=limit, cursor=cursor)
    return Call("GET", f"{_memory(memory_id)}/history", reader(models.Page[models.HistoryEntry]), params)


def delta(
    thread_id: str, *, since_rev: int | None = None, agent: str | None = None, user_id: str | None = None
) -> Call[models.ThreadDelta]:
    """What changed in a thread since a revision, or since the agent was last shown; looking moves no cursor.

    `user_id`: of this user's memories only.
    """
    params = _params(since_rev=since_rev, agent=agent, user_id=user_id)
    return Call("GET", f"/threads/{segment(thread_id)}/delta", reader(models.ThreadDelta), params)


def export(user_id: str) -> Call[None]:
    """Everything held of a user, record by record as it comes; each has its `kind`. BrokenOff: it is incomplete."""
    return Call("GET", f"/users/{segment(user_id)}/export", nothing)


def erase(user_id: str) -> Call[models.Receipt]:
    """Erase a person for good; needs a key with scope admin."""
    return Call("POST", f"/users/{segment(user_id)}/erase", reader(models.Receipt), repeatable=False)


def event_counts(
    by: Iterable[str] = ("op", "node"), *, since: Moment | None = None, until: Moment | None = None
) -> Call[list[models.Count]]:
    """How often what happened, by any of node, op, status, category, user_id and thread_id."""
    params = _params(by=",".join(by), since=since, until=until)
    read = reader(models.Counts)
    return Call("GET", "/events/counts", lambda response: read(response).counts, params)


def jobs(
    *,
    state: requests.JobState | None = None,
    kind: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[models.Page[models.Job]]:
    """One page of background jobs, newest first; needs a key with scope admin. `state="dead"`: failed for good."""
    params = _params(state=state, kind=kind, limit=limit, cursor=cursor)
    return Call("GET", "/jobs", reader(models.Page[models.Job]), params)


def job(job_id: UUID | str) -> Call[models.JobDetail]:
    """One job and its report; needs a key with scope admin."""
    return Call("GET", f"/jobs/{segment(str(job_id))}", reader(models.JobDetail))


def job_counts() -> Call[models.JobCounts]:
    """How many jobs there are by kind and state, and how far behind they are; needs a key with scope admin."""
    return Call("GET", "/jobs/counts", reader(models.JobCounts))


def health() -> Call[models.Health]:
    """Whether the process lives."""
    return Call("GET", "/health", reader(models.Health))


def ready() -> Call[models.Readiness]:
    """Whether requests can be served, and what is wrong; a server that is not ready is an answer, not an error."""
    return Call("GET", "/ready", reader(models.Readiness), accepted=frozenset({503}))


def reader(model: type[M]) -> Callable[[httpx.Response], M]:
    """Reads a body as this model."""
    return lambda response: model.model_validate_json(response.content)


def nothing(response: httpx.Response) -> None:
    """There is nothing to read, or it is read as it comes."""


def segment(name: str) -> str:
    """A caller's identifier as one part of a path: nothing in it may be taken for a slash or a step up.

    Raises CannotBeSent.
    """
    try:
        return quote(name, safe="").replace(".", "%2E")
    except UnicodeEncodeError as error:
        raise CannotBeSent(f"it is no text that can be sent: {error}") from error


def given(model: type[M], **fields: Any) -> M:
    """A body of what is not None."""
    return model(**{name: value for name, value in fields.items() if value is not None})


def _memory(memory_id: UUID | str) -> str:
    return f"/memory/{segment(str(memory_id))}"


def _write(path: str, model: type[M], body: requests.Sent, trim: bool, key: str | None) -> Call[M]:
    return Call("POST", path, reader(model), _trim(trim), body.body(), _keyed(key, JSON))


def _keyed(key: str | None, headers: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    return {**headers, "Idempotency-Key": key or uuid.uuid4().hex}


def _params(**values: Any) -> dict[str, str]:
    return {name: _param(value) for name, value in values.items() if value is not None}


def _param(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else str(value)


def _trim(trim: bool) -> Mapping[str, str]:
    return {"trim": "true"} if trim else {}
