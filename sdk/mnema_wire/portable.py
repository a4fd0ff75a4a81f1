"""Records of an export that can be imported, one model for each kind, and the answers to their lines."""

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal
from uuid import UUID

from pydantic import AfterValidator, Field, ValidationError

from mnema_wire.bases import Request
from mnema_wire.checks import check_json, check_storable
from mnema_wire.fields import Identifier, Json, Moment, Origin, Sequence

MAX_DOCUMENT: Final = 16 << 20
"""Bytes of JSON of an image in history, a state, an item or an artifact. The line's limit is lower."""
MAX_DEPTH: Final = 64


def _check_document(value: Any) -> Any:
    return check_json(value, MAX_DOCUMENT, MAX_DEPTH)


def _check_base64(value: str) -> str:
    try:
        base64.b64decode(value, validate=True)
    except binascii.Error:
        raise ValueError("not base64") from None
    return value


Text = Annotated[str, AfterValidator(check_storable)]
Document = Annotated[dict[str, Any], AfterValidator(_check_document)]
Anything = Annotated[Any, AfterValidator(_check_document)]
Base64 = Annotated[str, AfterValidator(_check_base64)]
Count = Annotated[int, Field(ge=0, lt=2**31)]
Number = Annotated[int, Field(ge=0, lt=2**63)]
Tags = Annotated[list[Text], Field(max_length=1000)]
Score = Annotated[float, Field(ge=0, le=1)]


class Portable(Request):
    """The base of the records. `ids`: the fields that hold ids of records. `refs`: fields that may name some."""

    ids: ClassVar[tuple[str, ...]] = ("id",)
    refs: ClassVar[tuple[str, ...]] = ()


class PortableUser(Portable):
    """The user itself. `cluster` and `region`: where it was exported; an import ignores them."""

    ids = ()
    user_id: Identifier
    created_at: Moment | None = None
    cluster: Identifier | None = None
    region: Identifier | None = None


class MemoryImage(Portable):
    """A memory as its history keeps it."""

    id: UUID
    user_id: Identifier
    thread_id: Identifier | None = None
    seq: Sequence | None = None
    agent_id: Identifier | None = None
    run_id: Identifier | None = None
    actor_id: Identifier | None = None
    role: Text | None = None
    type: Literal["semantic", "episodic", "procedural", "insight", "turn", "summary", "chunk"]
    category: Identifier
    text: Text
    steps_text: Text | None = None
    importance: Annotated[int, Field(ge=1, le=5)]
    pinned: bool
    tags: Tags
    state: Literal["active", "superseded", "retracted", "expired", "soft_deleted"]
    source: Document | None = None
    metadata: Json
    superseded_by: UUID | None = None
    purge_at: Moment | None = None
    version: Annotated[int, Field(ge=1, lt=2**31)]
    created_at: Moment
    updated_at: Moment
    expires_at: Moment | None = None
    language: Text | None = None
    valid_from: Moment | None = None
    valid_to: Moment | None = None
    origin: Origin | None = None


class PortableMemory(MemoryImage):
    """A memory in any state."""

    ids = ("id", "superseded_by")
    refs = ("source",)
    origin: Origin | None = "import"
    stored_at: Moment | None = None
    fact_topic: Annotated[str, Field(pattern=r"^[a-z0-9_]{1,100}$")] | None = None
    last_accessed: Moment | None = None
    hits: Number | None = None


class PurgedImage(Portable):
    """A purged memory as its history keeps it."""

    category: Identifier
    type: Text
    state: Text
    user_id: Identifier


def _check_images(meta: dict[str, Any], image: type[Portable], purged: type[Portable]) -> dict[str, Any]:
    """Return the `meta` of an entry unchanged. Raise ValueError if an image in it is none of the entry's kind.

    `purged`: the model of an image before a change that left none.
    """
    for name in ("before", "after"):
        try:
            if name in meta:
                (image if "after" in meta else purged).model_validate(meta[name])
        except ValidationError as error:
            place = ".".join((name, *map(str, error.errors(include_url=False, include_input=False)[0]["loc"])))
            raise ValueError(f"{place}: not as history keeps it") from None
    return meta


def _check_memory_images(meta: dict[str, Any]) -> dict[str, Any]:
    return _check_images(meta, MemoryImage, PurgedImage)


def _check_fact_images(meta: dict[str, Any]) -> dict[str, Any]:
    return _check_images(meta, FactImage, FactImage)


class PortableHistory(Portable):
    """An entry of a memory's history."""

    ids = ("id", "memory_id")
    refs = ("old_ref", "new_ref", "meta")
    id: UUID
    memory_id: UUID
    event: Literal["ADD", "UPDATE", "DELETE", "MERGE", "LINK", "TTL", "RESTORE"]
    old_ref: Text | None = None
    new_ref: Text | None = None
    actor: Text | None = None
    meta: Annotated[Document, AfterValidator(_check_memory_images)]
    ts: Moment


class PortableRelation(Portable):
    """A relation between two memories of the user."""

    ids = ("id", "from_id", "to_id")
    id: UUID
    from_id: UUID
    to_id: UUID
    relation_type: Text | None = None
    strength: Score
    created_at: Moment | None = None


class PortableFact(Portable):
    """A ranked value or a single value of a topic."""

    refs = ("source_message_id",)
    id: UUID
    thread_id: Identifier | None = None
    topic_key: Annotated[str, Field(pattern=r"^[a-z0-9_]{1,100}$")]
    form: Literal["ranked", "single"]
    rank: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    value: Annotated[Text, Field(min_length=1, max_length=1000)]
    category: Identifier
    source_message_id: Text | None = None
    list_length: Count | None = None
    listed_at: Moment | None = None
    created_at: Moment
    updated_at: Moment
    doubted_at: Moment | None = None
    removed_at: Moment | None = None


class FactImage(Portable):
    """A fact as its history keeps it."""

    id: UUID
    user_id: Identifier
    thread_id: Identifier | None = None
    topic_key: Annotated[str, Field(pattern=r"^[a-z0-9_]{1,100}$")]
    kind: Literal["ranked", "single"]
    rank: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    value: Annotated[Text, Field(min_length=1, max_length=1000)]
    category: Identifier
    source_message_id: Text | None = None
    created_at: Moment
    updated_at: Moment
    doubted_at: Moment | None = None
    removed_at: Moment | None = None


class PortableFactHistory(Portable):
    """An entry of a fact's history."""

    ids = ("id", "fact_id")
    refs = ("meta",)
    id: UUID
    fact_id: UUID
    event: Literal["ADD", "UPDATE", "DELETE", "MERGE", "RESTORE"]
    actor: Text | None = None
    meta: Annotated[Document, AfterValidator(_check_fact_images)]
    ts: Moment


class PortablePatch(Portable):
    """A proposal about the user's context, with its decision. An open question about it is not imported."""

    ids = ("id", "answer_id")
    refs = ("signals",)
    id: UUID
    field: Annotated[str, Field(pattern=r"^[a-z][a-z_]{0,63}$")]
    value: Annotated[Text, Field(min_length=1, max_length=500)]
    sensitive: bool
    state: Literal["pending", "approved", "rejected", "expired", "applied"]
    signals: Anything
    actor: Text
    thread_id: Identifier | None = None
    created_at: Moment
    expires_at: Moment
    decided_at: Moment | None = None
    decided_by: Text | None = None
    way: Literal["route", "chat", "signals", "insight", "expiry"] | None = None
    keys: Annotated[list[UUID], Field(max_length=10_000)]
    answer_id: UUID | None = None
    asked_in: Text | None = None
    question: Text | None = None
    asked_at: Moment | None = None
    asked_turn_id: UUID | None = None
    asked_by_key: UUID | None = None


class PortablePatchHistory(Portable):
    """An entry of a proposal's history."""

    ids = ("id", "patch_id")
    refs = ("old_ref", "new_ref", "meta")
    id: UUID
    patch_id: UUID
    event: Literal["CONSENT"]
    old_ref: Text | None = None
    new_ref: Text | None = None
    actor: Text | None = None
    meta: Document
    ts: Moment


class PortableValue(Portable):
    """A value of the user's context. `id` is the proposal that put it."""

    id: UUID
    field: Text
    value: Text
    updated_at: Moment


class PortableCheckpoint(Portable):
    """A state of a thread, or the head of a saver's lineage."""

    id: UUID
    thread_id: Identifier
    held: Literal["state", "lineage"]
    version: Annotated[int, Field(ge=1, lt=2**63)]
    head: Text | None = None
    checkpoint_data: Document
    checkpoint_binary: Base64 | None = None
    created_at: Moment
    updated_at: Moment


class PortableSaved(Portable):
    """The fields of a saver's records. Their `id` is made of their fields."""

    ids = ()
    id: list[Text]
    thread_id: Identifier
    ns: Text
    type: Text
    data: Base64


class PortableLineage(PortableSaved):
    """A checkpoint of a saver."""

    checkpoint_id: Text
    parent_id: Text | None = None
    metadata: Document
    versions: Document
    created_at: Moment


class PortableSavedValue(PortableSaved):
    """A value of a saver's channel."""

    channel: Text
    version: Text


class PortableSavedWrite(PortableSaved):
    """A pending write of a saver."""

    checkpoint_id: Text
    task_id: Text
    task_path: Text
    idx: Annotated[int, Field(ge=-(2**31), lt=2**31)]
    channel: Text


class PortableItem(Portable):
    """An item of the store."""

    id: UUID
    namespace: Annotated[list[Text], Field(min_length=1, max_length=100)]
    key: Text
    value: Document
    indexed: Annotated[list[Text], Field(max_length=100)] | None = None
    user_id: Identifier | None = None
    ttl_s: Annotated[float, Field(gt=0, le=10**10)] | None = None
    expires_at: Moment | None = None
    created_at: Moment
    updated_at: Moment


class PortableArtifact(Portable):
    """An artifact of turn memory with its payload."""

    id: UUID
    artifact: Literal[
        "artifact:turn.log",
        "artifact:turn.fingerprint.v1",
        "artifact:turn.log.reaction",
        "conversation.active_set.v1",
        "conversation.memory.bucket.v1",
        "conv.start",
    ]
    conversation_id: Identifier
    turn_id: Identifier | None = None
    track_id: Identifier | None = None
    place: Text
    text: Text
    tags: Tags
    hosted_uri: Text | None = None
    version: Annotated[int, Field(ge=1, lt=2**63)]
    reconciled_version: Number | None = None
    made_at: Moment
    created_at: Moment
    updated_at: Moment
    payload: Anything = None


class PortableSource(Portable):
    """A source of documents."""

    id: UUID
    name: Annotated[Text, Field(min_length=1, max_length=200)]
    source_kind: Literal["folder", "upload"]
    root_path: Annotated[Text, Field(max_length=4096)] | None = None
    category: Identifier
    agent_id: Identifier | None = None
    include: Tags
    exclude: Tags
    watch: bool
    removed_at: Moment | None = None
    created_at: Moment
    updated_at: Moment


class PortableFile(Portable):
    """A file of a source. Its content comes in records of its own."""

    ids = ("id", "source_id")
    id: UUID
    source_id: UUID
    path: Annotated[Text, Field(min_length=1, max_length=4096)]
    filetype: Text | None = None
    size: Number
    modified_at: Moment
    stamp: Text = ""
    hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    settings: Text = ""
    state: Literal["waiting", "indexed", "rejected"]
    reason: Text | None = None
    detail: Text | None = None
    encoding: Text | None = None
    characters: Number
    chunk_count: Count
    hosted_uri: Text | None = None
    indexed_at: Moment | None = None
    created_at: Moment
    updated_at: Moment


class PortablePlace(Portable):
    """The place of a chunk in its file or its turn."""

    ids = ("id", "file_id", "turn_id")
    id: UUID
    file_id: UUID | None = None
    turn_id: UUID | None = None
    ordinal: Count
    start: Count
    end: Count
    page: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    heading: Tags
    gap: Text = ""


class PortableContent(Portable):
    """A part of an uploaded file."""

    ids = ("id", "source_id")
    id: UUID
    source_id: UUID
    path: Text
    hosted_uri: Text | None = None
    part: Count
    parts: Annotated[int, Field(ge=1, lt=2**31)]
    data: Base64


PORTABLE: Final[Mapping[str, type[Portable]]] = {
    "user": PortableUser,
    "memory": PortableMemory,
    "history": PortableHistory,
    "relation": PortableRelation,
    "fact": PortableFact,
    "fact_history": PortableFactHistory,
    "context_patch": PortablePatch,
    "context_history": PortablePatchHistory,
    "context_value": PortableValue,
    "checkpoint": PortableCheckpoint,
    "checkpoint_lineage": PortableLineage,
    "checkpoint_value": PortableSavedValue,
    "checkpoint_write": PortableSavedWrite,
    "item": PortableItem,
    "artifact": PortableArtifact,
    "source": PortableSource,
    "file": PortableFile,
    "chunk_place": PortablePlace,
    "file_content": PortableContent,
}
"""The model of each kind that is imported."""

LEFT_OUT: Final[Mapping[str, str]] = {
    **dict.fromkeys(("change", "fact_change", "cursor"), "what readers of the other installation were told"),
    **dict.fromkeys(("receipt", "usage", "event"), "what the other installation answered and did"),
    **dict.fromkeys(("job", "index_job", "reflection", "compared"), "work of the other installation"),
    **dict.fromkeys(("retry_key", "memory_batch"), "requests to the other installation"),
    **dict.fromkeys(("webhook", "webhook_delivery"), "receivers of the other installation, which know its secrets"),
}
"""The other kinds of an export, with what they are."""


class ImportedLine(Request):
    """The answer to a line that was imported, or that needed no import."""

    line: int
    kind: str
    action: Literal["imported", "unchanged", "left_out"]
    id: str | None = None
    reason: str | None = None
