"""Artifacts: the index rows of turn memory, by kind. Some kinds have a blob besides."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple
from uuid import UUID

WHOLE_CONVERSATION: Final = ""
"""The place of an artifact that belongs to no turn and no bucket."""
BUCKET_TAG: Final = "mem:bucket:"
REACTION_PREFIX: Final = "[turn.log.reaction]"
"""The beginning of a reaction's index; JSON follows."""


class ArtifactKind(StrEnum):
    """The kinds of artifacts. A turn log and a bucket have a blob; the others are their index row alone."""

    turn_log = "artifact:turn.log"
    fingerprint = "artifact:turn.fingerprint.v1"
    reaction = "artifact:turn.log.reaction"
    active_set = "conversation.active_set.v1"
    bucket = "conversation.memory.bucket.v1"
    start = "conv.start"


class Conversation(NamedTuple):
    """One conversation of one user."""

    user_id: str
    conversation_id: str


@dataclass(frozen=True, slots=True)
class Artifact:
    """A stored artifact.

    - `place`: unique among the conversation's artifacts of this kind: the turn id of a log or fingerprint, `user:` and
      the turn id of a user's reaction, an id of a machine's, the bucket's id, empty for the active set and the start.
    - `text`: the index JSON. `hosted_uri`: the address of the blob.
    - `version`: 1 for a new row, one more for each change.
    - `made_at`: when the turn or the reaction was made; views sort by it.
    """

    id: UUID
    kind: ArtifactKind
    place: str
    turn_id: str | None
    track_id: str | None
    text: str
    tags: tuple[str, ...]
    hosted_uri: str | None
    version: int
    made_at: datetime
    created_at: datetime
    updated_at: datetime
    conversation_id: str


@dataclass(frozen=True, slots=True)
class ArtifactChange:
    """An artifact to store or, with `text` None, to delete.

    `expect` is the version to replace: 0 means that there is none, None accepts any.
    """

    kind: ArtifactKind
    place: str
    text: str | None
    made_at: datetime
    turn_id: str | None = None
    track_id: str | None = None
    tags: Sequence[str] = ()
    hosted_uri: str | None = None
    expect: int | None = None


def parse_index(text: str) -> Any:
    """Return the JSON of an index row."""
    return json.loads(text.removeprefix(REACTION_PREFIX))


_UUID: Final = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_URI: Final = re.compile(f"([a-z0-9]+):({_UUID})/({_UUID})")


def format_blob_uri(scheme: str, tenant_id: UUID, blob_id: UUID) -> str:
    """Return the address of a blob. `scheme` names the store that has it."""
    return f"{scheme}:{tenant_id}/{blob_id}"


def blob_scheme(uri: str) -> str | None:
    """Return the name of the store of a blob, or None if `uri` is no address of a blob."""
    found = _URI.fullmatch(uri)
    return found[1] if found else None


def blob_of_tenant(uri: str, scheme: str, tenant_id: UUID) -> UUID | None:
    """Return the id of a blob; None if the address is not one of this store and this tenant."""
    found = _URI.fullmatch(uri)
    return UUID(found[3]) if found and found[1] == scheme and UUID(found[2]) == tenant_id else None
