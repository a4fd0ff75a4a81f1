"""The request of every method and the reading of its response. Pure functions, shared by both clients.

Errors are those of `mnema_client.errors`, and `ValueError` for arguments that cannot be written as a request.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeVar, Unpack
from urllib.parse import quote
from uuid import UUID

import httpx
from mnema_wire.bases import Page
from mnema_wire.health import Health, Readiness
from mnema_wire.jobs import Job, JobCounts, JobDetail, PausedKind, Pauses
from mnema_wire.memory import (
    Changes,
    Corrected,
    Correction,
    Forgetting,
    Forgotten,
    HistoryEntry,
    Memory,
    NewMemory,
    NewTurn,
    Receipt,
    Supersession,
    Turn,
    Written,
)
from mnema_wire.recall import Answer, Count, Counts, Question, ThreadDelta
from mnema_wire.turn_trace import TurnTrace
from pydantic import BaseModel, ValidationError

from mnema_client import requests
from mnema_client.errors import CannotBeSent
from mnema_client.requests import (
    ChangeFields,
    ListFields,
    MemoryFields,
    Moment,
    QuestionFields,
    TurnFields,
    encode_json,
    metadata_pairs,
    param_text,
)
from mnema_client.transport import Call

M = TypeVar("M", bound=BaseModel)
JSON = {"Content-Type": "application/json"}


def remember(
    text: str, *, trim: bool = False, idempotency_key: str | None = None, **fields: Unpack[MemoryFields]
) -> Call[Written]:
    """Write a memory; `mnema_wire.memory.NewMemory` explains each field.

    A semantic text that says the same as a stored memory of this user and category updates that memory. `trim`: shorten
    a too long text instead of refusing it. Give an `idempotency_key` to send the same write again later; retries within
    this call always have one.
    """
    body = build_body(NewMemory, text=text, **fields)
    return _write_call("/memory", Written, body, trim, idempotency_key)


def add_turn(
    content: str, *, trim: bool = False, idempotency_key: str | None = None, **fields: Unpack[TurnFields]
) -> Call[Turn]:
    """Store a turn of a conversation; `mnema_wire.memory.NewTurn` explains each field.

    The turn can be found at once. Background jobs extract facts from it.
    """
    body = build_body(NewTurn, content=content, **fields)
    return _write_call("/turns", Turn, body, trim, idempotency_key)


def query(query: str, **fields: Unpack[QuestionFields]) -> Call[Answer]:
    """Ask the memory for what an agent should know (`memory.query`); `mnema_wire.recall.Question` explains each field.

    Raise NotAllowed for a category or an agent that the key may not use.
    """
    content = json_body(Question, query=query, **fields)
    return Call("POST", "/memory/query", model_reader(Answer), content=content, headers=JSON)


def recall(question: str, *, user_id: str, agent: str | None = None, top_k: int | None = None) -> Call[Answer]:
    """Ask what is remembered of a user. `print` shows the answer as text for a prompt; `items` has its memories.

    `agent`: whose categories count. `query` has every other choice.
    """
    content = json_body(Question, agent=agent, query=question, filters={"user_id": user_id}, top_k=top_k)
    return Call("POST", "/memory/query", model_reader(Answer), content=content, headers=JSON)


def get(memory_id: UUID | str, *, as_of: Moment | None = None, valid_at: Moment | None = None) -> Call[Memory]:
    """Return one memory, in any state. With `as_of` or `valid_at`: as it was then; raise NotFound if it was not."""
    return get_call(_memory_path(memory_id), Memory, as_of=as_of, valid_at=valid_at)


def page(*, cursor: str | None = None, **fields: Unpack[ListFields]) -> Call[Page[Memory]]:
    """Return one page of memories, newest first unless `sort` and `order` say otherwise."""
    given: dict[str, Any] = {**fields}
    if (pairs := given.get("metadata")) is not None:
        given["metadata"] = metadata_pairs(pairs)
    given["where"] = where_text(given.get("where"))
    return get_call("/memory", Page[Memory], cursor=cursor, **given)


def edit(
    memory_id: UUID | str,
    *,
    version: int | None = None,
    trim: bool = False,
    idempotency_key: str | None = None,
    **fields: Unpack[ChangeFields],
) -> Call[Memory]:
    """Change the named fields. With `version`, raise VersionConflict if the memory changed since that version."""
    headers = idempotency_headers(idempotency_key, JSON)
    if version is not None:
        headers["If-Match"] = f'"{version}"'
    content = json_body(Changes, **fields)
    return Call("PATCH", _memory_path(memory_id), model_reader(Memory), _trim_params(trim), content, headers)


def delete(memory_id: UUID | str, *, version: int | None = None, idempotency_key: str | None = None) -> Call[Memory]:
    """Soft-delete a memory: no answer contains it. It can be restored until its `purge_at`. Idempotent.

    With `version`, raise VersionConflict if the memory changed since that version.
    """
    headers = idempotency_headers(idempotency_key)
    if version is not None:
        headers["If-Match"] = f'"{version}"'
    return Call("DELETE", _memory_path(memory_id), model_reader(Memory), headers=headers)


def purge(memory_id: UUID | str, *, idempotency_key: str | None = None) -> Call[None]:
    """Delete a memory for good, with its text in history and delta. Needs a key with scope admin."""
    return Call(
        "DELETE", _memory_path(memory_id), ignore_body, {"purge": "true"}, headers=idempotency_headers(idempotency_key)
    )


def retract(memory_id: UUID | str, *, version: int | None = None, idempotency_key: str | None = None) -> Call[Memory]:
    """Mark a memory as wrong: it was never true, and no answer contains it. `restore` undoes it. Idempotent.

    With `version`, raise VersionConflict if the memory changed since that version.
    """
    headers = _version_headers(version, idempotency_headers(idempotency_key))
    return Call("POST", f"{_memory_path(memory_id)}/retract", model_reader(Memory), headers=headers)


def supersede(
    memory_id: UUID | str,
    *,
    by: UUID | str | None = None,
    valid_to: Moment | None = None,
    version: int | None = None,
    idempotency_key: str | None = None,
) -> Call[Memory]:
    """End the span of a memory that was true: the memory `by` takes its place, or it is just over. `restore` undoes it.

    The span ends at `valid_to`, by default where the later memory begins, or now. With `version`, raise VersionConflict
    if the memory changed since that version.
    """
    headers = _version_headers(version, idempotency_headers(idempotency_key, JSON))
    content = json_body(Supersession, by=by, valid_to=valid_to)
    return Call("POST", f"{_memory_path(memory_id)}/supersede", model_reader(Memory), content=content, headers=headers)


def correct(
    memory_id: UUID | str,
    text: str,
    *,
    user_id: str,
    was: Literal["superseded", "wrong"],
    valid_from: Moment | None = None,
    idempotency_key: str | None = None,
) -> Call[Corrected]:
    """Write the right text as a new memory, and close (superseded) or retract (wrong) the stored one."""
    content = json_body(Correction, user_id=user_id, id=memory_id, text=text, was=was, valid_from=valid_from)
    headers = idempotency_headers(idempotency_key, JSON)
    return Call("POST", "/memory/correct", model_reader(Corrected), content=content, headers=headers)


def forget(
    *,
    user_id: str,
    id: UUID | str | None = None,
    description: str | None = None,
    confirm: Sequence[UUID | str] | None = None,
) -> Call[Forgotten]:
    """Return the memories that an id or a description means. With `confirm`, soft-delete those with these ids."""
    content = json_body(Forgetting, user_id=user_id, id=id, description=description, confirm=confirm)
    return Call("POST", "/memory/forget", model_reader(Forgotten), content=content, headers=JSON)


def _version_headers(version: int | None, headers: dict[str, str]) -> dict[str, str]:
    return headers if version is None else headers | {"If-Match": f'"{version}"'}


def restore(memory_id: UUID | str, *, idempotency_key: str | None = None) -> Call[Memory]:
    """Make a memory active again that is soft-deleted, superseded, retracted or expired."""
    return Call(
        "POST",
        f"{_memory_path(memory_id)}/restore",
        model_reader(Memory),
        headers=idempotency_headers(idempotency_key),
    )


def pin(memory_id: UUID | str, pinned: bool = True, *, idempotency_key: str | None = None) -> Call[Memory]:
    """Pin or unpin a memory. A pinned memory is never forgotten because of its age."""
    content = b'{"pinned": true}' if pinned else b'{"pinned": false}'
    headers = idempotency_headers(idempotency_key, JSON)
    return Call("POST", f"{_memory_path(memory_id)}/pin", model_reader(Memory), content=content, headers=headers)


def history(memory_id: UUID | str, *, limit: int | None = None, cursor: str | None = None) -> Call[Page[HistoryEntry]]:
    """Return one page of a memory's history, newest first. `limit`: entries a page, 1 to 200."""
    return get_call(f"{_memory_path(memory_id)}/history", Page[HistoryEntry], limit=limit, cursor=cursor)


def delta(
    thread_id: str, *, since_rev: int | None = None, agent: str | None = None, user_id: str | None = None
) -> Call[ThreadDelta]:
    """Return the net changes in a thread since a revision, or since the agent's last header. Move no cursor.

    `user_id`: only this user's memories.
    """
    return get_call(
        f"/threads/{path_segment(thread_id)}/delta", ThreadDelta, since_rev=since_rev, agent=agent, user_id=user_id
    )


def export(
    user_id: str,
    *,
    as_of: Moment | None = None,
    valid_at: Moment | None = None,
    where: Mapping[str, Any] | str | None = None,
) -> Call[None]:
    """Yield all records of a user as they come; each has its `kind`. BrokenOff means that the export is incomplete.

    With `as_of`, `valid_at` or `where`: only the memories that match, as they were at that time.
    """
    params = query_params(as_of=as_of, valid_at=valid_at, where=where_text(where))
    return Call("GET", f"/users/{path_segment(user_id)}/export", ignore_body, params)


def erase(user_id: str) -> Call[Receipt]:
    """Erase a user for good. Needs a key with scope admin."""
    return Call("POST", f"/users/{path_segment(user_id)}/erase", model_reader(Receipt), repeatable=False)


def event_counts(
    by: Iterable[str] = ("op", "node"), *, since: Moment | None = None, until: Moment | None = None
) -> Call[list[Count]]:
    """Count events, grouped by any of node, op, status, category, user_id, thread_id and day (in UTC)."""
    params = query_params(by=",".join(by), since=since, until=until)
    read = model_reader(Counts)
    return Call("GET", "/events/counts", lambda response: read(response).counts, params)


def jobs(
    *,
    state: requests.JobState | None = None,
    kind: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[Page[Job]]:
    """Return one page of background jobs, newest first. `state="dead"`: failed for good. Needs scope admin."""
    return get_call("/jobs", Page[Job], state=state, kind=kind, limit=limit, cursor=cursor)


def job(job_id: UUID | str) -> Call[JobDetail]:
    """Return one job and its report. Needs a key with scope admin."""
    return get_call(f"/jobs/{path_id(job_id)}", JobDetail)


def job_counts() -> Call[JobCounts]:
    """Count jobs by kind and state, and tell how late the oldest one is. Needs a key with scope admin."""
    return get_call("/jobs/counts", JobCounts)


def health() -> Call[Health]:
    """Tell whether the server process is alive."""
    return get_call("/health", Health)


def ready() -> Call[Readiness]:
    """Tell whether the server can serve requests, and what is wrong. Not being ready is a result, not an error."""
    return Call("GET", "/ready", model_reader(Readiness), accepted=frozenset({503}))


def get_call(path: str, answer: type[M], /, **params: Any) -> Call[M]:
    """Return a call that reads. A parameter that is None is not sent."""
    return Call("GET", path, model_reader(answer), query_params(**params))


def model_reader(model: type[M]) -> Callable[[httpx.Response], M]:
    """Return a function that reads a body as this model."""
    return lambda response: model.model_validate_json(response.content)


def ignore_body(response: httpx.Response) -> None:
    """Read nothing: the body is empty, or the caller reads it as a stream."""


def path_segment(name: str) -> str:
    """Return a caller's identifier as one part of a path. Slashes and dots in it are escaped.

    Raise CannotBeSent.
    """
    try:
        return quote(name, safe="").replace(".", "%2E")
    except UnicodeEncodeError as error:
        raise CannotBeSent(f"the identifier is not text that can be sent as UTF-8: {error}") from error


def path_id(value: UUID | str) -> str:
    """Return an id that Mnema gave as one part of a path. Raise CannotBeSent if it is no UUID."""
    try:
        return str(UUID(str(value)))
    except ValueError as error:
        raise CannotBeSent(f"{str(value)[:60]!r} is no id: ids of Mnema are UUIDs") from error


def build_body(model: type[M], /, **fields: Any) -> M:
    """Build a body from the fields that are not None. Raise CannotBeSent for what the body refuses."""
    return fill_body(model, {name: value for name, value in fields.items() if value is not None})


def fill_body(model: type[M], given: Mapping[str, Any]) -> M:
    """Build a body from the fields, also those that are None. Raise CannotBeSent for what the body refuses."""
    known = model.model_fields
    try:
        return model(**{(name in known and known[name].alias) or name: value for name, value in given.items()})
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, problem['loc'])) or 'body'}: {problem['msg']}" for problem in error.errors()]
        raise CannotBeSent(f"the body is refused: {'; '.join(problems)}") from error


def json_body(model: type[BaseModel], /, **fields: Any) -> bytes:
    """Return the fields that are not None as the JSON of a body. Raise CannotBeSent."""
    return requests.encode_body(build_body(model, **fields))


def _memory_path(memory_id: UUID | str) -> str:
    return f"/memory/{path_id(memory_id)}"


def _write_call(path: str, model: type[M], body: BaseModel, trim: bool, key: str | None) -> Call[M]:
    return Call(
        "POST",
        path,
        model_reader(model),
        _trim_params(trim),
        requests.encode_body(body),
        idempotency_headers(key, JSON),
    )


def idempotency_headers(key: str | None, headers: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Return `headers` with the Idempotency-Key, a new one if `key` is None."""
    return {**headers, "Idempotency-Key": key or uuid.uuid4().hex}


def query_params(**values: Any) -> dict[str, str | list[str]]:
    """Return the values that are not None as texts of a query string; a list is repeated."""
    return {name: _param_texts(value) for name, value in values.items() if value is not None}


def where_text(where: Mapping[str, Any] | str | None) -> str | None:
    """Return the conditions of `where` as JSON text; a text as it is."""
    return encode_json(where).decode() if isinstance(where, Mapping) else where


def _param_texts(value: Any) -> str | list[str]:
    return [param_text(one) for one in value] if isinstance(value, list | tuple | set) else param_text(value)


def _trim_params(trim: bool) -> Mapping[str, str]:
    return {"trim": "true"} if trim else {}


def pause_jobs(kind: str) -> Call[Pauses]:
    """Pause a kind of job, or all with `*`: running jobs finish, due jobs wait. Return the paused kinds."""
    return Call("POST", "/jobs/pause", model_reader(Pauses), content=json_body(PausedKind, kind=kind), headers=JSON)


def resume_jobs(kind: str) -> Call[Pauses]:
    """End the pause of a kind; `*` ends every pause. Return the kinds that are still paused."""
    return Call("POST", "/jobs/resume", model_reader(Pauses), content=json_body(PausedKind, kind=kind), headers=JSON)


def replay_job(job_id: UUID | str) -> Call[JobDetail]:
    """Run a dead or done job again; return it. Raise Conflict for a job that is queued or running."""
    return Call("POST", f"/jobs/{path_id(job_id)}/replay", model_reader(JobDetail), repeatable=False)


def turn_trace(turn_id: UUID | str) -> Call[TurnTrace]:
    """Explain what the background work made of a turn; `turn_id` is the id that `add_turn` returned."""
    return get_call(f"/turns/{path_id(turn_id)}/trace", TurnTrace)
