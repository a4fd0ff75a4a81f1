"""Bodies of /checkpoints and /saver."""

import base64
import binascii
import json
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, WithJsonSchema

from mnema_wire.bases import Answered, Request
from mnema_wire.checks import check_storable
from mnema_wire.fields import Identifier, Json, Limit, Whole

NAME_BYTES = 200
PLACE_BYTES = 1200
"""Maximum bytes of names, and of places in a graph. Both are parts of keys; PostgreSQL allows 2,704 bytes a key."""


def _decode_bytes(value: Any) -> Any:
    """Return the bytes of base64 text, the form in JSON. Return bytes, the form in MessagePack, unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        raise ValueError("not valid base64; bytes are base64 text in JSON") from None


def _max_bytes(most: int) -> AfterValidator:
    def check_bytes(value: str) -> str:
        check_storable(value)
        if len(value.encode()) > most:
            raise ValueError(f"at most {most} bytes")
        return value

    return AfterValidator(check_bytes)


def _check_run_id(metadata: dict[str, Any]) -> dict[str, Any]:
    """Refuse a `run_id` that is too long for the index of runs."""
    run = metadata.get("run_id")
    if len((run if isinstance(run, str) else json.dumps(run)).encode()) > PLACE_BYTES:
        raise ValueError(f"run_id: at most {PLACE_BYTES} bytes")
    return metadata


_NO_NUL = {"pattern": r"^[^\x00]*$"}
_BASE64: dict[str, Any] = {
    "type": "string",
    "pattern": "^([A-Za-z0-9+/]{4})*$",
    "description": "base64 text in JSON, bytes in MessagePack",
    "examples": ["gKCR"],
}
Blob = Annotated[bytes, BeforeValidator(_decode_bytes), Field(strict=True), WithJsonSchema(_BASE64)]
Name = Annotated[str, Field(min_length=1, max_length=NAME_BYTES, json_schema_extra=_NO_NUL), _max_bytes(NAME_BYTES)]
Place = Annotated[str, Field(max_length=PLACE_BYTES, json_schema_extra=_NO_NUL), _max_bytes(PLACE_BYTES)]
Namespace = Annotated[Place, Field(description="'' for the graph itself, else the path of a subgraph")]
Names = Annotated[list[Identifier], Field(max_length=1000)]
Idx = Annotated[int, Field(ge=-1000, le=2**31 - 1, strict=True), Whole]
Cursor = Annotated[str, Field(max_length=4000)]
MAX_PARTS = 20_000


class ValueIn(Request):
    """The value of a channel."""

    channel: Name
    version: Name
    type: Name = Field(examples=["msgpack"])
    data: Blob


class WriteIn(Request):
    """A value that a task wrote to a channel."""

    task_id: Name
    task_path: Place = ""
    idx: Idx = Field(
        description="position among the task's writes; for each negative idx (a special write) the last one is kept"
    )
    channel: Name
    type: Name = Field(examples=["msgpack"])
    data: Blob


class ThreadRequest(Request):
    """A thread of a user, and a namespace of it."""

    user_id: Identifier
    thread_id: Identifier
    ns: Namespace = ""


class CheckpointIn(ThreadRequest):
    """A checkpoint. It replaces a stored checkpoint with the same id."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "user_id": "maya",
                    "thread_id": "launch",
                    "checkpoint_id": "1f0c6f2e-8f4e-6b3a-8001-2f6f0c3b9a11",
                    "type": "msgpack",
                    "data": "gA==",
                    "metadata": {"source": "loop", "step": 1},
                    "versions": {"messages": "2"},
                    "values": [{"channel": "messages", "version": "2", "type": "msgpack", "data": "kA=="}],
                }
            ]
        },
    )
    checkpoint_id: Name = Field(description="ids of later checkpoints must sort after it")
    parent_id: Name | None = None
    type: Name = Field(description="encoding of `data`", examples=["msgpack"])
    data: Blob = Field(description="the checkpoint without the values of its channels")
    metadata: Annotated[Json, AfterValidator(_check_run_id)] = Field(
        default_factory=dict, description="fields that lists can filter by"
    )
    versions: dict[Name, Name] = Field(
        default_factory=dict, max_length=MAX_PARTS, description="the version of each channel"
    )
    values: list[ValueIn] = Field(
        default=[], max_length=MAX_PARTS, fail_fast=True, description="the values of the channels that changed"
    )


class WritesIn(ThreadRequest):
    """Writes of tasks since a checkpoint. A stored write stays as it is, unless its `idx` is negative."""

    checkpoint_id: Name
    writes: list[WriteIn] = Field(max_length=MAX_PARTS, fail_fast=True)


class WantedIn(ThreadRequest):
    """The request for one checkpoint."""

    checkpoint_id: Name | None = Field(default=None, description="absent: the newest checkpoint of the namespace")


class CheckpointListIn(Request):
    """Filters for checkpoints. An absent field does not filter."""

    user_id: Identifier | None = None
    thread_id: Identifier | None = None
    ns: Namespace | None = None
    checkpoint_id: Name | None = None
    before: Name | None = Field(default=None, description="only checkpoints with ids that sort before this id")
    metadata: Json | None = Field(default=None, description="keys and the values that they must have")
    limit: Limit = 50
    cursor: Annotated[str, Field(max_length=4000)] | None = Field(
        default=None, description="`next_cursor` of the previous page"
    )


class ThreadsIn(Request):
    """A user and some of the user's threads."""

    user_id: Identifier
    thread_ids: Names


class RunsIn(Request):
    """Runs, named by the `run_id` in the metadata of their checkpoints."""

    user_id: Identifier | None = Field(default=None, description="absent: the runs of any user")
    run_ids: Names


class CopyIn(Request):
    """A thread and the name of its copy."""

    user_id: Identifier
    source_thread_id: Identifier
    target_thread_id: Identifier


class CheckpointCountOut(Answered):
    """A number of threads or checkpoints."""

    count: int = Field(ge=0, description="deleted threads, or deleted or copied checkpoints")


class ValueOut(Answered):
    """The value of a channel."""

    channel: str
    type: str
    data: Annotated[str, WithJsonSchema(_BASE64)]


class WriteOut(ValueOut):
    """A pending write."""

    task_id: str
    task_path: str
    idx: int


class CheckpointOut(Answered):
    """A checkpoint with the values of its channels and its pending writes, in the order of their application."""

    user_id: str
    thread_id: str
    ns: str
    checkpoint_id: str
    parent_id: str | None
    type: str
    data: Annotated[str, WithJsonSchema(_BASE64)]
    values: list[ValueOut]
    writes: list[WriteOut]


class FoundCheckpointOut(Answered):
    """The checkpoint, or null if there is none."""

    checkpoint: CheckpointOut | None


class CheckpointPageOut(Answered):
    """A page of checkpoints, newest first. Pass `next_cursor` as `cursor` for the next page."""

    items: list[CheckpointOut]
    next_cursor: str | None


class StateOut(Answered):
    """The version and times of a stored state."""

    model_config = ConfigDict(from_attributes=True)
    user_id: str
    thread_id: str
    version: int = Field(description="also the ETag; send it as If-Match so that no change is lost")
    created_at: datetime
    updated_at: datetime
