"""Turn memory: calls that write the turns of a conversation, select among them and read the views.

`project_id`, where a call has it, is the id or the name of the API key's own tenant.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Required, TypedDict, TypeVar, Unpack

from mnema_wire.turn_feedback import FeedbackIn, FeedbackOut, GateFeedbackIn, GateFeedbackOut, VerdictName
from mnema_wire.turn_memory import (
    ActiveSetIn,
    ActiveSetOut,
    ArtifactKindName,
    ArtifactOut,
    ArtifactPageOut,
    DeletedTurnOut,
    FingerprintIn,
    FingerprintOut,
    SignalIn,
    StoredTurnOut,
    TurnLogIn,
)
from mnema_wire.turn_views import Buckets, ContextView, SignalTurn, SignalTurns, View
from pydantic import BaseModel

from mnema_client.calls import (
    JSON,
    build_body,
    fill_body,
    get_call,
    idempotency_headers,
    model_reader,
    path_segment,
    query_params,
)
from mnema_client.requests import Moment, encode_body
from mnema_client.transport import Call

M = TypeVar("M", bound=BaseModel)
Signals = Sequence[SignalIn | Mapping[str, Any]]


class TurnLogFields(TypedDict, total=False):
    """Keywords of `put_turn`. `extra`: anything else to keep, at most 16 KiB of JSON. `made_at`: by default now."""

    user_id: Required[str]
    user_text: Required[str]
    assistant_text: str | None
    summary: str | None
    extra: Mapping[str, Any] | None
    track_id: str | None
    made_at: Moment | None
    conversation_title: str | None
    project_id: str | None


class FingerprintFields(TypedDict, total=False):
    """Keywords of `put_fingerprint`. `extra_tags`: tags besides the fingerprint's own."""

    user_id: Required[str]
    objective: str | None
    topics: Sequence[str] | None
    assertions: Signals | None
    exceptions: Signals | None
    facts: Signals | None
    assistant_signals: Signals | None
    ctx_retrieval_queries: Sequence[str] | None
    conversation_title: str | None
    track_id: str | None
    made_at: Moment | None
    extra_tags: Sequence[str] | None
    project_id: str | None


def put_turn(conversation_id: str, turn_id: str, **fields: Unpack[TurnLogFields]) -> Call[StoredTurnOut]:
    """Store the log of a turn, or change it. Fields that are not given keep what is stored."""
    return _put(turn_path(conversation_id, turn_id), StoredTurnOut, build_body(TurnLogIn, **fields))


def get_turn(conversation_id: str, turn_id: str, *, user_id: str) -> Call[ArtifactOut]:
    """Return the whole log of a turn: its `content` has `turn_log` and `turn_summary`. Raise NotFound."""
    return get_call(turn_path(conversation_id, turn_id), ArtifactOut, user_id=user_id)


def delete_turn(conversation_id: str, turn_id: str, *, user_id: str) -> Call[DeletedTurnOut]:
    """Delete a turn for good: its log, its fingerprint and its feedback. Raise NotFound if there is nothing."""
    read = model_reader(DeletedTurnOut)
    path = turn_path(conversation_id, turn_id)
    return Call("DELETE", path, read, query_params(user_id=user_id), repeatable=False)


def put_fingerprint(conversation_id: str, turn_id: str, **fields: Unpack[FingerprintFields]) -> Call[FingerprintOut]:
    """Store what a turn said, in place of its fingerprint before. A turn without a log gets one.

    `mnema_wire.turn_memory` explains the statements, such as `AssertionIn`.
    """
    path = f"{turn_path(conversation_id, turn_id)}/fingerprint"
    return _put(path, FingerprintOut, build_body(FingerprintIn, **fields))


def artifact_page(
    conversation_id: str,
    *,
    user_id: str,
    kind: ArtifactKindName | Sequence[ArtifactKindName] | None = None,
    tag: str | None = None,
    turn_id: str | None = None,
    days: int | None = None,
    materialize: bool | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[ArtifactPageOut]:
    """Return one page of a conversation's artifacts, newest first, with the conversation's title.

    `days`: by default 365; `materialize`: read the blobs too, then a page has at most 20 artifacts.
    """
    params: dict[str, Any] = {
        **query_params(user_id=user_id, tag=tag, turn_id=turn_id, days=days, materialize=materialize),
        **query_params(limit=limit, cursor=cursor),
    }
    if kind is not None:
        params["kind"] = [kind] if isinstance(kind, str) else list(kind)
    return Call("GET", f"{conversation_path(conversation_id)}/artifacts", model_reader(ArtifactPageOut), params)


def active_set(conversation_id: str, *, user_id: str) -> Call[ActiveSetOut]:
    """Return what is selected in a conversation, and how far its buckets are reconciled."""
    return get_call(f"{conversation_path(conversation_id)}/active-set", ActiveSetOut, user_id=user_id)


def select_memories(
    conversation_id: str,
    turn_ids: Sequence[str] | None = None,
    *,
    user_id: str,
    bucket_ids: Sequence[str] | None = None,
    conversation_title: str | None = None,
    project_id: str | None = None,
) -> Call[ActiveSetOut]:
    """Select the turns whose memories matter from now on, and the buckets. What is not given stays as it is.

    `turn_ids`: ids or unique beginnings of ids; the first 5 count, and the first 3 of `bucket_ids`. An empty list
    selects nothing.
    """
    body = build_body(
        ActiveSetIn,
        user_id=user_id,
        project_id=project_id,
        selected_local_memories_turn_ids=turn_ids,
        picked_bucket_ids=bucket_ids,
        conversation_title=conversation_title,
    )
    return _put(f"{conversation_path(conversation_id)}/active-set", ActiveSetOut, body)


def assistant_signals(
    user_id: str, *, days: int | None = None, limit: int | None = None, key: str | None = None
) -> Call[list[SignalTurn]]:
    """Return the user's newest turns in which the assistant promoted something, in all conversations.

    `key`: only turns with an assistant signal of this key.
    """
    read = model_reader(SignalTurns)
    path = f"/users/{path_segment(user_id)}/assistant-signals"
    return Call("GET", path, lambda response: read(response).items, query_params(days=days, limit=limit, key=key))


def context_view(
    conversation_id: str,
    view: View,
    *,
    user_id: str,
    turn_id: str | None = None,
    local_memories_turn_ids: Sequence[str] | None = None,
) -> Call[ContextView]:
    """Return what an agent reads of a conversation. `turn_id` is the current turn.

    `local_memories_turn_ids`: the selected turns in place of those in the active set; an empty list selects none.
    """
    params: dict[str, Any] = query_params(user_id=user_id, view=view, turn_id=turn_id)
    if local_memories_turn_ids is not None:
        params["local_memories_turn_ids"] = list(local_memories_turn_ids) or [""]
    return Call("GET", f"{conversation_path(conversation_id)}/context", model_reader(ContextView), params)


def buckets(
    conversation_id: str, *, user_id: str, status: Literal["active", "disabled"] | None = None
) -> Call[Buckets]:
    """Return the buckets of a conversation, with this status or all."""
    path = f"{conversation_path(conversation_id)}/buckets"
    return get_call(path, Buckets, user_id=user_id, status=status)


def turn_path(conversation_id: str, turn_id: str) -> str:
    """Return the path of a turn."""
    return f"{conversation_path(conversation_id)}/turns/{path_segment(turn_id)}"


def conversation_path(conversation_id: str) -> str:
    """Return the path of a conversation."""
    return f"/conversations/{path_segment(conversation_id)}"


def _put(path: str, model: type[M], body: BaseModel) -> Call[M]:
    return Call("PUT", path, model_reader(model), content=encode_body(body), headers=JSON)


def turn_feedback(
    conversation_id: str,
    turn_id: str,
    reaction: VerdictName | None,
    text: str = "",
    *,
    user_id: str,
    origin: Literal["user", "machine"] = "user",
    confidence: float | None = None,
    apply_feedback_to_turn_log: bool = False,
    project_id: str | None = None,
    idempotency_key: str | None = None,
) -> Call[FeedbackOut]:
    """Store a reaction to a turn.

    The user's reaction replaces the user's one before, and None clears it. Those of machines add up; each needs a
    `confidence` of at least 0.70. `apply_feedback_to_turn_log`: show it in the turn's log too.
    """
    given = {  # all of them: a reaction of None is sent
        "user_id": user_id,
        "project_id": project_id,
        "origin": origin,
        "reaction": reaction,
        "text": text,
        "confidence": confidence,
        "apply_feedback_to_turn_log": apply_feedback_to_turn_log,
    }
    body = fill_body(FeedbackIn, given)
    headers = idempotency_headers(idempotency_key, JSON)
    path = f"{turn_path(conversation_id, turn_id)}/feedback"
    return Call("POST", path, model_reader(FeedbackOut), content=encode_body(body), headers=headers)


def gate_feedback(
    conversation_id: str,
    text: str,
    reaction: VerdictName,
    *,
    user_id: str,
    confidence: float,
    candidate_turn_ids: Sequence[str] | None = None,
    apply_feedback_to_turn_log: bool = False,
    project_id: str | None = None,
    idempotency_key: str | None = None,
) -> Call[GateFeedbackOut]:
    """Store a machine's reaction to the turn that the text is most likely about. The server chooses the turn.

    `candidate_turn_ids`: the turns to choose among, by default the newest 10.
    """
    body = build_body(
        GateFeedbackIn,
        user_id=user_id,
        project_id=project_id,
        text=text,
        reaction=reaction,
        confidence=confidence,
        candidate_turn_ids=candidate_turn_ids,
        apply_feedback_to_turn_log=apply_feedback_to_turn_log,
    )
    headers = idempotency_headers(idempotency_key, JSON)
    path = f"{conversation_path(conversation_id)}/feedback"
    return Call("POST", path, model_reader(GateFeedbackOut), content=encode_body(body), headers=headers)
