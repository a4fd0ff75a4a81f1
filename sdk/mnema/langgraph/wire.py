"""How checkpoints travel: bodies in MessagePack, values as the saver's serde writes them; pure."""

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

from mnema.transport import Call

T = TypeVar("T")
MSGPACK = "application/msgpack"
HEADERS = {"Content-Type": MSGPACK, "Accept": MSGPACK}
MAX_FILTER_CHARS, MAX_FILTERS_CHARS = 2000, 12_000
"""Characters of JSON: metadata that is longer is kept, and cannot be filtered by."""


@dataclass(frozen=True)
class Place:
    """Where in which thread of which user. `named`: the config named the user, so what is answered names it too."""

    user_id: str
    thread_id: str
    ns: str
    checkpoint_id: str | None
    named: bool

    @property
    def request_body(self) -> dict[str, Any]:
        """As a request says it."""
        return {"user_id": self.user_id, "thread_id": self.thread_id, "ns": self.ns}

    def checkpoint_config(self, checkpoint_id: str) -> RunnableConfig:
        """Of a checkpoint at this place."""
        where = {"thread_id": self.thread_id, "checkpoint_ns": self.ns, "checkpoint_id": checkpoint_id}
        return {"configurable": where | ({"user_id": self.user_id} if self.named else {})}


def place_of(config: RunnableConfig, user_id: str | None) -> Place:
    """The place that a config names, of this user or of the one that it names; raises ValueError."""
    named = config["configurable"]
    user = user_of(config, user_id)
    if user is None:
        raise ValueError("whose thread is it? give the saver a user_id, or name one in the config's configurable")
    if named["thread_id"] is None:
        raise ValueError("which thread is it? name a thread_id in the config's configurable")
    return Place(
        user,
        str(named["thread_id"]),
        named.get("checkpoint_ns") or "",
        named.get("checkpoint_id"),
        named=user_id is None or "user_id" in named,
    )


def user_of(config: RunnableConfig | None, user_id: str | None) -> str | None:
    """The user that a config names, else the saver's; raises ValueError for a config of somebody else."""
    named = (config or {}).get("configurable", {}).get("user_id")
    if named is None:
        return user_id
    if user_id is not None and str(named) != user_id:
        raise ValueError(f"this saver is of user {user_id!r}, and the config names {named!r}")
    return str(named)


def saver_call(path: str, body: Mapping[str, Any], read: Callable[[Any], T]) -> Call[T]:
    """A request of the saver; each may be sent again."""

    def read_response(response: httpx.Response) -> T:
        return read(ormsgpack.unpackb(response.content) if response.content else None)

    return Call("POST", f"/saver/{path}", read_response, content=ormsgpack.packb(body), headers=HEADERS)


def ignore_body(_answer: Any) -> None:
    """What there is to read in an answer without a body."""


def put_checkpoint(
    serde: SerializerProtocol,
    place: Place,
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: ChannelVersions,
) -> Call[None]:
    """Store a checkpoint; of its values those of `new_versions` travel, the server has the others."""
    rest: dict[str, Any] = dict(checkpoint)
    values = rest.pop("channel_values")
    known = get_checkpoint_metadata(config, metadata)
    kind, data = serde.dumps_typed({"checkpoint": rest, "metadata": known})
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
        "metadata": filterable_metadata(known),
        "versions": {channel: str(version) for channel, version in checkpoint["channel_versions"].items()},
        "values": sent,
    }
    return saver_call("put", body, ignore_body)


def put_writes(
    serde: SerializerProtocol, place: Place, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
) -> Call[None]:
    """Store what a task wrote."""
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
    """The checkpoint at this place, the newest one if none is named."""

    def read_checkpoint(answer: Any) -> CheckpointTuple | None:
        found = answer["checkpoint"]
        return None if found is None else tuple_of(serde, found, place)

    wanted = {} if place.checkpoint_id is None else {"checkpoint_id": place.checkpoint_id}
    return saver_call("get", {**place.request_body, **wanted}, read_checkpoint)


@dataclass(frozen=True)
class CheckpointPage:
    """Checkpoints, newest first; `cursor` None on the last page."""

    items: list[CheckpointTuple]
    cursor: str | None


def list_checkpoints(
    serde: SerializerProtocol, wanted: Mapping[str, Any], named: bool, limit: int, cursor: str | None
) -> Call[CheckpointPage]:
    """Some of the checkpoints that are wanted, behind the cursor."""

    def read_page(answer: Any) -> CheckpointPage:
        items = [
            tuple_of(serde, item, Place(item["user_id"], item["thread_id"], item["ns"], None, named))
            for item in answer["items"]
        ]
        return CheckpointPage(items, answer["next_cursor"])

    return saver_call("list", {**wanted, "limit": limit, **({"cursor": cursor} if cursor else {})}, read_page)


def list_conditions(
    config: RunnableConfig | None,
    user_id: str | None,
    matching: Mapping[str, Any] | None,
    before: RunnableConfig | None,
) -> dict[str, Any]:
    """What a list asks for; raises ValueError for a filter that is not JSON."""
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


def tuple_of(serde: SerializerProtocol, found: Mapping[str, Any], place: Place) -> CheckpointTuple:
    """A stored checkpoint as LangGraph has it."""
    whole = serde.loads_typed((found["type"], found["data"]))
    values = {v["channel"]: serde.loads_typed((v["type"], v["data"])) for v in found["values"]}
    parent = found["parent_id"]
    return CheckpointTuple(
        config=place.checkpoint_config(found["checkpoint_id"]),
        checkpoint=whole["checkpoint"] | {"channel_values": values},
        metadata=whole["metadata"],
        parent_config=None if parent is None else place.checkpoint_config(parent),
        pending_writes=[
            (w["task_id"], w["channel"], serde.loads_typed((w["type"], w["data"]))) for w in found["writes"]
        ],
    )


def encode_value(serde: SerializerProtocol, value: Any) -> dict[str, Any]:
    """A value as the serde writes it."""
    kind, data = serde.dumps_typed(value)
    return {"type": kind, "data": data}


def filterable_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What of the metadata lists can be filtered by: short JSON without NUL. The whole of it is in the checkpoint."""
    found: dict[str, Any] = {}
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
        found[key] = json.loads(text)[key]
    return found


def _is_encodable(text: str) -> bool:
    """Whether every surrogate of the text that this JSON holds has its other half."""
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def split_batches(names: Iterable[str], most: int = 1000) -> Iterable[list[str]]:
    """As many at once as the server takes."""
    every = list(names)
    return (every[start : start + most] for start in range(0, len(every), most))
