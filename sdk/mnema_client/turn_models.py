"""Answers about turn memory: turns, their artifacts, what is selected, and the views that agents read."""

from datetime import datetime
from typing import Any
from uuid import UUID

from mnema_wire.bases import Page
from pydantic import Field

from mnema_client.answered import Answered, Stored


class StoredTurn(Answered):
    """A turn whose log was stored. `created`: it had none before."""

    turn_id: str
    conversation_id: str
    track_id: str | None = None
    made_at: datetime
    created: bool


class StoredFingerprint(Answered):
    """The fingerprint of a turn, as it is stored, and its tags."""

    fingerprint: dict[str, Any]
    tags: list[str]


class DeletedTurn(Answered):
    """The number of artifacts that were deleted."""

    deleted: int


class Artifact(Answered):
    """An artifact of a conversation.

    `text` is the index as it is stored; `content` is its JSON, or the blob's if it was materialized.
    """

    id: UUID
    kind: str
    turn_id: str | None = None
    track_id: str | None = None
    tags: list[str]
    text: str
    content: Any
    hosted_uri: str | None = None
    version: int
    made_at: datetime
    created_at: datetime
    updated_at: datetime


class ArtifactPage(Page[Artifact]):
    """A page of artifacts, newest first, with the title of the conversation (empty: it has none)."""

    conversation_title: str


class ActiveSet(Stored):
    """The selection of a conversation, and how far its buckets are reconciled.

    `selected_local_memories_turn_ids` is None until something is selected. `unknown_turn_ids` and
    `unknown_bucket_ids`: ids of the selection that name nothing, or are the beginning of several.
    """

    picked_bucket_ids: list[str]
    selected_local_memories_turn_ids: list[str] | None = None
    last_reconciled_ts: datetime | None = None
    since_last_reconcile: int
    conversation_title: str
    unknown_turn_ids: list[str] = Field(default_factory=list)
    unknown_bucket_ids: list[str] = Field(default_factory=list)
