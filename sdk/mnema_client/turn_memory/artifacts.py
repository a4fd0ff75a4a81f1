"""Artifacts of conversations, as flows: store one by its kind, and fetch them with the conversation's title."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Required, TypedDict

from mnema_wire.bases import Answered
from mnema_wire.turn_memory import ArtifactKindName, ArtifactPageOut

from mnema_client import turn_calls
from mnema_client.errors import CannotBeSent
from mnema_client.transport import Call
from mnema_client.turn_memory.flows import Flow

TITLE: Final = "conversation_title"
TURN_LOG: Final = "artifact:turn.log"
FINGERPRINT: Final = "artifact:turn.fingerprint.v1"
REACTION: Final = "artifact:turn.log.reaction"
ACTIVE_SET: Final = "conversation.active_set.v1"
INDEX_ONLY: Final = {TURN_LOG: False, FINGERPRINT: True, REACTION: True, ACTIVE_SET: True}
"""The kinds that can be saved. Those that are index-only have no blob."""
SET_BY_SERVER: Final = {
    TURN_LOG: ("turn_id",),
    FINGERPRINT: ("version", "turn_id"),
    REACTION: ("turn_id", "ts", "objective"),
    ACTIVE_SET: ("last_reconciled_ts", "since_last_reconcile", "unknown_turn_ids", "unknown_bucket_ids"),
}
"""Parts of a stored artifact that a write does not have."""
PAGE: Final = 200
PAGE_WITH_BLOBS: Final = 20


class ArtifactFields(TypedDict, total=False):
    """Keywords of `save_artifact`.

    - `kind`: artifact:turn.log, artifact:turn.fingerprint.v1, artifact:turn.log.reaction or conversation.active_set.v1.
      The server alone writes the others.
    - `tenant`, `project`: the server checks that `tenant/project` is the API key's own tenant.
    - `content`: the fields of the HTTP route that writes this kind, or an artifact's content as it was fetched.
    - `extra_tags`: only for a fingerprint. `index_only`: only a turn log is not.
    """

    kind: Required[str]
    user_id: Required[str]
    conversation_id: Required[str]
    content: Required[Mapping[str, Any]]
    turn_id: str | None
    track_id: str | None
    tenant: str | None
    project: str | None
    extra_tags: Sequence[str] | None
    index_only: bool | None


class ArtifactChoice(TypedDict, total=False):
    """Further keywords of `fetch_conversation_artifacts`: only artifacts of a kind, a tag or a turn."""

    kind: ArtifactKindName | Sequence[ArtifactKindName] | None
    tag: str | None
    turn_id: str | None


def save_artifact(fields: ArtifactFields) -> Flow[Answered]:
    """Store an artifact; return the server's answer. Raise ValueError for fields that the kind cannot have."""
    kind = fields["kind"]
    content = dict(fields["content"])
    _check_fields(kind, fields)
    if kind == TURN_LOG and "turn_log" in content:
        return (yield from _restore_log(fields, content["turn_log"]))
    if content.get("turn_id") not in (None, fields.get("turn_id")):
        raise CannotBeSent(f"the content is of turn {content['turn_id']!r}, turn_id is {fields.get('turn_id')!r}")
    sent = {name: part for name, part in content.items() if name not in SET_BY_SERVER[kind]}
    stored: Answered = yield _write_call(kind, fields, sent)
    return stored


def fetch_artifacts(
    user_id: str, conversation_id: str, *, materialize: bool = False, days: int | None = 365, **choice: Any
) -> Flow[dict[str, Any]]:
    """Return `conversation_title` and all artifacts (`items`) of a conversation, newest first, as JSON objects."""
    limit = PAGE_WITH_BLOBS if materialize else PAGE
    items: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page: ArtifactPageOut = yield turn_calls.artifact_page(
            conversation_id,
            user_id=user_id,
            days=days,
            materialize=materialize,
            limit=limit,
            cursor=cursor,
            **choice,
        )
        items += [artifact.model_dump(mode="json") for artifact in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return {TITLE: page.conversation_title, "items": items}


def fetch_title(user_id: str, conversation_id: str) -> Flow[str]:
    """Return the title of a conversation: that of its active set, else that of its start, else an empty text."""
    page: ArtifactPageOut = yield turn_calls.artifact_page(conversation_id, user_id=user_id, limit=1)
    return page.conversation_title


def _restore_log(fields: ArtifactFields, log: Mapping[str, Any]) -> Flow[Answered]:
    """Store a turn log as it was fetched, with its fingerprint. Its feedback is artifacts of its own."""
    content = {name: log.get(name) for name in ("turn_id", "user_text", "assistant_text", "summary", "extra")}
    stored = yield from save_artifact({**fields, "content": {**content, "made_at": log.get("ts")}})
    if fingerprint := (log.get("state") or {}).get("fingerprint"):
        yield from save_artifact({**fields, "kind": FINGERPRINT, "content": fingerprint, "index_only": True})
    return stored


def _check_fields(kind: str, fields: ArtifactFields) -> None:
    if kind not in INDEX_ONLY:
        raise CannotBeSent(f"the server alone writes artifacts of kind {kind!r}; you can save: {', '.join(INDEX_ONLY)}")
    if fields.get("index_only") not in (None, INDEX_ONLY[kind]):
        raise CannotBeSent(f"an artifact of kind {kind!r} has index_only={INDEX_ONLY[kind]}")
    if kind != ACTIVE_SET and fields.get("turn_id") is None:
        raise CannotBeSent(f"an artifact of kind {kind!r} needs a turn_id")
    if kind != FINGERPRINT and fields.get("extra_tags"):
        raise CannotBeSent(f"only an artifact of kind {FINGERPRINT!r} may have extra_tags")


def _write_call(kind: str, fields: ArtifactFields, content: dict[str, Any]) -> Call[Answered]:
    place: dict[str, Any] = {"user_id": fields["user_id"], "project_id": _project_id(fields)}
    conversation_id = fields["conversation_id"]
    turn_id = fields.get("turn_id") or ""
    if kind == ACTIVE_SET:
        turn_ids = content.pop("selected_local_memories_turn_ids", None)
        bucket_ids = content.pop("picked_bucket_ids", None)
        return turn_calls.select_memories(conversation_id, turn_ids, bucket_ids=bucket_ids, **place, **content)
    if kind == REACTION:
        return turn_calls.turn_feedback(conversation_id, turn_id, **place, **content)
    place["track_id"] = fields.get("track_id")
    if kind == FINGERPRINT:
        tags = fields.get("extra_tags")
        return turn_calls.put_fingerprint(conversation_id, turn_id, extra_tags=tags, **place, **content)
    return turn_calls.put_turn(conversation_id, turn_id, **place, **content)


def _project_id(fields: ArtifactFields) -> str | None:
    """Return the name of the tenant of a tenant and a project, None if neither is given."""
    return "/".join(filter(None, (fields.get("tenant"), fields.get("project")))) or None
