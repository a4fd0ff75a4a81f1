"""The wire format of checkpoints: MessagePack bodies, values as the saver's serde writes them. Pure functions."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
import ormsgpack
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from mnema_client.errors import CannotBeSent
from mnema_client.transport import Call

T = TypeVar("T")
MSGPACK = "application/msgpack"
HEADERS = {"Content-Type": MSGPACK, "Accept": MSGPACK}
MAX_FILTER_CHARS = 2000
MAX_FILTERS_CHARS = 12_000
"""Limits in characters of JSON. Longer metadata is stored but cannot be used in a filter."""


@dataclass(frozen=True)
class Place:
    """A user, thread, namespace and checkpoint. `named`: the config named the user, so returned configs do too."""

    user_id: str
    thread_id: str
    ns: str
    checkpoint_id: str | None
    named: bool

    @property
    def request_body(self) -> dict[str, Any]:
        """The fields that a request names the place by."""
        return {"user_id": self.user_id, "thread_id": self.thread_id, "ns": self.ns}

    def checkpoint_config(self, checkpoint_id: str) -> RunnableConfig:
        """Return the config of a checkpoint at this place."""
        where = {"thread_id": self.thread_id, "checkpoint_ns": self.ns, "checkpoint_id": checkpoint_id}
        return {"configurable": where | ({"user_id": self.user_id} if self.named else {})}


def place_of(config: RunnableConfig, user_id: str | None) -> Place:
    """Return the place that a config names. `user_id` is the saver's user, or None. Raise ValueError."""
    named = config["configurable"]
    user = user_of(config, user_id)
    if user is None:
        raise CannotBeSent("no user: give the saver a user_id, or name one in the config's configurable")
    if named["thread_id"] is None:
        raise CannotBeSent("no thread: name a thread_id in the config's configurable")
    return Place(
        user,
        str(named["thread_id"]),
        named.get("checkpoint_ns") or "",
        named.get("checkpoint_id"),
        named=user_id is None or "user_id" in named,
    )


def user_of(config: RunnableConfig | None, user_id: str | None) -> str | None:
    """Return the config's user, else the saver's. Raise ValueError if the config names another user."""
    named = (config or {}).get("configurable", {}).get("user_id")
    if named is None:
        return user_id
    if user_id is not None and str(named) != user_id:
        raise CannotBeSent(f"this saver belongs to user {user_id!r}, but the config names {named!r}")
    return str(named)


def saver_call(path: str, body: Mapping[str, Any], read: Callable[[Any], T]) -> Call[T]:
    """Return a request of the saver; it is safe to retry each one."""

    def read_response(response: httpx.Response) -> T:
        return read(ormsgpack.unpackb(response.content) if response.content else None)

    return Call("POST", f"/saver/{path}", read_response, content=ormsgpack.packb(body), headers=HEADERS)


def ignore_body(_answer: Any) -> None:
    """Read nothing: the response has no body."""


def put_checkpoint(
    serde: SerializerProtocol,
    place: Place,
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: ChannelVersions,
) -> Call[None]:
    """Store a checkpoint. Only the values of `new_versions` are sent; the server has the others."""
    fields: dict[str, Any] = dict(checkpoint)
    values = fields.pop("channel_values")
    all_metadata = get_checkpoint_metadata(config, metadata)
    kind, data = serde.dumps_typed({"checkpoint": fields, "metadata": all_metadata})
    sent = [
        {"channel": channel, "version": str(version), **encode_value(serde, values[channel])}
        for channel, version in new_versions.items()
        if channel in values
    ]
    body = {
        **place.request_body,
        "checkpoint_id": checkpoint["id"],
        "parent_id": place.checkpoint_id,
        "type": kind,
        "data": data,
        "metadata": filterable_metadata(all_metadata),
        "versions": {channel: str(version) for channel, version in checkpoint["channel_versions"].items()},
        "values": sent,
    }
    return saver_call("put", body, ignore_body)


def put_writes(
    serde: SerializerProtocol, place: Place, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
) -> Call[None]:
    """Store a task's writes."""
    sent = [
        {
            "task_id": task_id,
            "task_path": task_path,
            "idx": WRITES_IDX_MAP.get(channel, idx),
            "channel": channel,
            **encode_value(serde, value),
        }
        for idx, (channel, value) in enumerate(writes)
    ]
    return saver_call(
        "writes", {**place.request_body, "checkpoint_id": place.checkpoint_id, "writes": sent}, ignore_body
    )


def get_checkpoint(serde: SerializerProtocol, place: Place) -> Call[CheckpointTuple | None]:
    """Return the checkpoint at this place, the newest one if none is named."""

    def read_checkpoint(answer: Any) -> CheckpointTuple | None:
        checkpoint = answer["checkpoint"]
        return None if checkpoint is None else tuple_of(serde, checkpoint, place)

    named = {} if place.checkpoint_id is None else {"checkpoint_id": place.checkpoint_id}
    return saver_call("get", {**place.request_body, **named}, read_checkpoint)


@dataclass(frozen=True)
class CheckpointPage:
    """One page of checkpoints, newest first; `cursor` is None on the last page."""

    items: list[CheckpointTuple]
    cursor: str | None


def list_checkpoints(
    serde: SerializerProtocol, conditions: Mapping[str, Any], named: bool, limit: int, cursor: str | None
) -> Call[CheckpointPage]:
    """Return at most `limit` of the wanted checkpoints, after the cursor."""

    def read_page(answer: Any) -> CheckpointPage:
        items = [
            tuple_of(serde, item, Place(item["user_id"], item["thread_id"], item["ns"], None, named))
            for item in answer["items"]
        ]
        return CheckpointPage(items, answer["next_cursor"])

    return saver_call("list", {**conditions, "limit": limit, **({"cursor": cursor} if cursor else {})}, read_page)


def list_conditions(
    config: RunnableConfig | None,
    user_id: str | None,
    matching: Mapping[str, Any] | None,
    before: RunnableConfig | None,
) -> dict[str, Any]:
    """Return the conditions of a list. Raise ValueError for a filter that is not JSON."""
    named = (config or {}).get("configurable", {})
    thread = named.get("thread_id")
    parts = {
        "user_id": user_of(config, user_id),
        "thread_id": None if thread is None else str(thread),
        "ns": named.get("checkpoint_ns"),
        "checkpoint_id": named.get("checkpoint_id"),
        "before": (before or {}).get("configurable", {}).get("checkpoint_id"),
        "metadata": json.loads(json.dumps(matching, allow_nan=False)) if matching else None,
    }
    return {name: value for name, value in parts.items() if value is not None}


def tuple_of(serde: SerializerProtocol, stored: Mapping[str, Any], place: Place) -> CheckpointTuple:
    """Return a stored checkpoint as LangGraph's tuple."""
    decoded = serde.loads_typed((stored["type"], stored["data"]))
    values = {v["channel"]: serde.loads_typed((v["type"], v["data"])) for v in stored["values"]}
    parent = stored["parent_id"]
    return CheckpointTuple(
        config=place.checkpoint_config(stored["checkpoint_id"]),
        checkpoint=decoded["checkpoint"] | {"channel_values": values},
        metadata=decoded["metadata"],
        parent_config=None if parent is None else place.checkpoint_config(parent),
        pending_writes=[
            (w["task_id"], w["channel"], serde.loads_typed((w["type"], w["data"]))) for w in stored["writes"]
        ],
    )


def encode_value(serde: SerializerProtocol, value: Any) -> dict[str, Any]:
    """Return a value as the serde writes it."""
    kind, data = serde.dumps_typed(value)
    return {"type": kind, "data": data}


def filterable_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata that lists can filter by: short JSON without NUL. The checkpoint has all of it."""
    filterable: dict[str, Any] = {}
    size = 0
    for key, value in metadata.items():
        try:
            text = json.dumps({key: value}, allow_nan=False)
        except (ValueError, TypeError, RecursionError):
            continue
        if len(text) > MAX_FILTER_CHARS or "\\u0000" in text or not _is_encodable(text):
            continue
        if (size := size + len(text)) > MAX_FILTERS_CHARS:
            break
        filterable[key] = json.loads(text)[key]
    return filterable


def _is_encodable(text: str) -> bool:
    """Tell whether no string in this JSON contains half of a surrogate pair."""
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def split_batches(names: Iterable[str], most: int = 1000) -> Iterable[list[str]]:
    """Return the names in lists of at most `most`, the server's limit."""
    all_names = list(names)
    return (all_names[start : start + most] for start in range(0, len(all_names), most))
