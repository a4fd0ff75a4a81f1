"""Bodies of /checkpoints and of /saver, by which a checkpoint saver stores what a graph knows."""

import base64
import binascii
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from app.api.schemas.fields import Identifier, Json, Limit, Request, Whole
from app.domain.agent_state.checkpoints import ChannelValue, ChannelWrite, Checkpoint, CheckpointFilter, Thread
from app.domain.errors import InvalidInput
from app.domain.ids import check_storable

NAME_BYTES, PLACE_BYTES = 200, 1200
"""Names and places in a graph are parts of keys, and a key of PostgreSQL has at most 2,704 bytes."""


def _decode_bytes(value: Any) -> Any:
    """Base64 in JSON; MessagePack has bytes."""
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        raise ValueError("bytes are base64 in JSON") from None


def _max_bytes(most: int) -> AfterValidator:
    def check_bytes(value: str) -> str:
        try:
            check_storable(value)
        except InvalidInput as error:
            raise ValueError(error.detail) from error
        if len(value.encode()) > most:
            raise ValueError(f"at most {most} bytes")
        return value

    return AfterValidator(check_bytes)


def _check_run_id(metadata: dict[str, Any]) -> dict[str, Any]:
    """Runs are looked up in an index, whose entries have a size."""
    run = metadata.get("run_id")
    if len((run if isinstance(run, str) else json.dumps(run)).encode()) > PLACE_BYTES:
        raise ValueError(f"run_id: at most {PLACE_BYTES} bytes")
    return metadata


_NO_NUL = {"pattern": r"^[^\x00]*$"}
_BASE64: dict[str, Any] = {
    "type": "string",
    "pattern": "^([A-Za-z0-9+/]{4})*$",
    "description": "base64; in MessagePack bytes",
    "examples": ["gKCR"],
}
Blob = Annotated[bytes, BeforeValidator(_decode_bytes), Field(strict=True), WithJsonSchema(_BASE64)]
Name = Annotated[str, Field(min_length=1, max_length=NAME_BYTES, json_schema_extra=_NO_NUL), _max_bytes(NAME_BYTES)]
Place = Annotated[str, Field(max_length=PLACE_BYTES, json_schema_extra=_NO_NUL), _max_bytes(PLACE_BYTES)]
Namespace = Annotated[Place, Field(description="'' is the graph itself, else where in it a subgraph stands")]
Names = Annotated[list[Identifier], Field(max_length=1000)]
Idx = Annotated[int, Field(ge=-1000, le=2**31 - 1, strict=True), Whole]
Cursor = Annotated[str, Field(max_length=4000)]
MAX_PARTS = 20_000


class ValueIn(Request):
    """What a channel holds."""

    channel: Name
    version: Name
    type: Name = Field(examples=["msgpack"])
    data: Blob


class WriteIn(Request):
    """What a task wrote to a channel."""

    task_id: Name
    task_path: Place = ""
    idx: Idx = Field(description="its place among the task's writes; below 0 a kind of which a task has one, the last")
    channel: Name
    type: Name = Field(examples=["msgpack"])
    data: Blob

    def to_domain(self) -> ChannelWrite:
        """As the use-case takes it."""
        return ChannelWrite(self.task_id, self.task_path, self.idx, self.channel, self.type, self.data)


class _ThreadRequest(Request):
    user_id: Identifier
    thread_id: Identifier
    ns: Namespace = ""

    @property
    def thread(self) -> Thread:
        """The thread of this user."""
        return Thread(self.user_id, self.thread_id)


class CheckpointIn(_ThreadRequest):
    """A checkpoint. Sent again, it takes the place of what was sent before."""

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
    checkpoint_id: Name = Field(description="later ones sort behind")
    parent_id: Name | None = None
    type: Name = Field(description="how `data` is written", examples=["msgpack"])
    data: Blob = Field(description="the checkpoint without what its channels hold")
    metadata: Annotated[Json, AfterValidator(_check_run_id)] = Field(
        default_factory=dict, description="what lists are filtered by"
    )
    versions: dict[Name, Name] = Field(default_factory=dict, max_length=MAX_PARTS, description="of every channel")
    values: list[ValueIn] = Field(
        default=[], max_length=MAX_PARTS, fail_fast=True, description="of the channels that changed"
    )

    def to_domain(self) -> Checkpoint:
        """As the use-case takes it."""
        return Checkpoint(
            thread=self.thread,
            ns=self.ns,
            checkpoint_id=self.checkpoint_id,
            parent_id=self.parent_id,
            type=self.type,
            data=self.data,
            metadata=self.metadata,
            versions=self.versions,
            values=tuple(ChannelValue(v.channel, v.version, v.type, v.data) for v in self.values),
        )


class WritesIn(_ThreadRequest):
    """What tasks wrote since a checkpoint. A write that is there stays, unless its `idx` is below 0."""

    checkpoint_id: Name
    writes: list[WriteIn] = Field(max_length=MAX_PARTS, fail_fast=True)


class WantedIn(_ThreadRequest):
    """One checkpoint."""

    checkpoint_id: Name | None = Field(default=None, description="absent: the newest of the namespace")


class ListIn(Request):
    """Which checkpoints; what is absent does not matter."""

    user_id: Identifier | None = None
    thread_id: Identifier | None = None
    ns: Namespace | None = None
    checkpoint_id: Name | None = None
    before: Name | None = Field(default=None, description="a checkpoint; those whose ids sort before it")
    metadata: Json | None = Field(default=None, description="what must be equal, key by key")
    limit: Limit = 50
    cursor: Annotated[str, Field(max_length=4000)] | None = Field(
        default=None, description="`next_cursor` of the page before"
    )

    def to_domain(self) -> CheckpointFilter:
        """As the use-case takes it."""
        return CheckpointFilter(self.user_id, self.thread_id, self.ns, self.checkpoint_id, self.before, self.metadata)


class ThreadsIn(Request):
    """Threads of a user."""

    user_id: Identifier
    thread_ids: Names


class RunsIn(Request):
    """Runs, by the `run_id` in the metadata of their checkpoints."""

    user_id: Identifier | None = Field(default=None, description="absent: of whichever user")
    run_ids: Names


class CopyIn(Request):
    """A thread and what its copy is called."""

    user_id: Identifier
    source_thread_id: Identifier
    target_thread_id: Identifier


class CountOut(BaseModel):
    """How many there were."""

    count: int = Field(ge=0, description="threads deleted, or checkpoints deleted or copied")


class ValueOut(BaseModel):
    """What a channel holds."""

    channel: str
    type: str
    data: Annotated[str, WithJsonSchema(_BASE64)]


class WriteOut(ValueOut):
    """A pending write."""

    task_id: str
    task_path: str
    idx: int


class CheckpointOut(BaseModel):
    """A checkpoint with what its channels hold and its pending writes, in the order in which they are applied."""

    user_id: str
    thread_id: str
    ns: str
    checkpoint_id: str
    parent_id: str | None
    type: str
    data: Annotated[str, WithJsonSchema(_BASE64)]
    values: list[ValueOut]
    writes: list[WriteOut]


class FoundOut(BaseModel):
    """The checkpoint, or null: there is none."""

    checkpoint: CheckpointOut | None


class CheckpointPageOut(BaseModel):
    """Newest first; pass `next_cursor` as `cursor` for the next."""

    items: list[CheckpointOut]
    next_cursor: str | None


class StateOut(BaseModel):
    """A thread's state was stored."""

    model_config = ConfigDict(from_attributes=True)
    user_id: str
    thread_id: str
    version: int = Field(description="also the ETag: name it in If-Match, so that nobody's change is lost")
    created_at: datetime
    updated_at: datetime


def checkpoint_out(row: Mapping[str, Any], thread: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the database as CheckpointOut, with bytes; `thread` has user_id, thread_id and ns."""
    values = zip(row["channels"] or (), row["channel_types"] or (), row["channel_values"] or (), strict=True)
    columns = ("write_channels", "write_types", "write_values", "tasks", "paths", "idxs")
    writes = zip(*(row[column] or () for column in columns), strict=True)
    names = ("channel", "type", "data", "task_id", "task_path", "idx")
    return {
        "user_id": thread["user_id"],
        "thread_id": thread["thread_id"],
        "ns": thread["ns"],
        "checkpoint_id": row["checkpoint_id"],
        "parent_id": row["parent_id"],
        "type": row["type"],
        "data": row["data"],
        "values": [{"channel": channel, "type": kind, "data": data} for channel, kind, data in values],
        "writes": [dict(zip(names, write, strict=True)) for write in writes],
    }
