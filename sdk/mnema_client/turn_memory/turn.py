"""The steps of a turn, as flows: preload, view, reconcile, update and persist."""

from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import Any

from mnema_wire.turn_memory import ArtifactOut
from mnema_wire.turn_views import ContextView, View

from mnema_client import turn_calls
from mnema_client.turn_calls import Signals
from mnema_client.turn_memory.flows import Flow, Together
from mnema_client.turn_memory.scratchpad import Scratchpad, begin_turn, find_turn

MOST_MEMORIES = 16
MOST_FEEDBACK = 50


def preload_conversation_memory_state(scratchpad: Scratchpad) -> Flow[None]:
    """Begin a turn: store its texts, and read what is remembered. It becomes the current turn of this context.

    Turn memories, feedback and the active set are of the conversation, assistant signals of all conversations of the
    user. They are read once a turn; to call this again only makes the turn the current one again.
    """
    begin_turn(scratchpad)
    if scratchpad.active_set is not None:
        return
    user_id = scratchpad.user_id
    conversation_id = scratchpad.conversation_id
    yield from _store_texts(scratchpad)
    memories, feedback, signals, scratchpad.active_set = yield Together(
        (
            turn_calls.artifact_page(
                conversation_id, user_id=user_id, kind="artifact:turn.fingerprint.v1", limit=MOST_MEMORIES + 1
            ),
            turn_calls.artifact_page(
                conversation_id, user_id=user_id, kind="artifact:turn.log.reaction", limit=MOST_FEEDBACK
            ),
            turn_calls.assistant_signals(user_id),
            turn_calls.active_set(conversation_id, user_id=user_id),
        )
    )
    earlier = [memory for memory in memories.items if memory.turn_id != scratchpad.turn_id]
    scratchpad.turn_memories = _contents(earlier[:MOST_MEMORIES])
    scratchpad.feedback_items = _contents(feedback.items)
    scratchpad.assistant_signals = [turn.model_dump(mode="json") for turn in signals]


def retrospective_context_view(scratchpad: Scratchpad, *, view: View | None = None) -> Flow[ContextView]:
    """Return what an agent reads of the conversation: `text`, and its `blocks`.

    `view` is by default `reconciler`, and `downstream` as soon as the scratchpad has
    `selected_local_memories_turn_ids`: then the selected turns' memories alone are shown. `gate` is the view before
    the reconciler, `final` that of the final answer, with the assistant signals.
    """
    selected = scratchpad.selected_local_memories_turn_ids
    chosen = view or ("reconciler" if selected is None else "downstream")
    answer: ContextView = yield turn_calls.context_view(
        scratchpad.conversation_id,
        chosen,
        user_id=scratchpad.user_id,
        turn_id=scratchpad.turn_id,
        local_memories_turn_ids=selected if chosen in ("downstream", "final") else None,
    )
    return answer


def update_turn_fingerprint(
    scratchpad: Scratchpad | EllipsisType = ...,
    *,
    objective: str | None = None,
    topics: Sequence[str] | None = None,
    assertions: Signals | None = None,
    exceptions: Signals | None = None,
    facts: Signals | None = None,
    assistant_signals: Signals | None = None,
    ctx_retrieval_queries: Sequence[str] | None = None,
    conversation_title: str | None = None,
) -> dict[str, Any]:
    """Change the fingerprint of the current turn, and return it. What is not given stays as it is.

    Nothing is sent: `persist_turn_fingerprint` stores it.
    """
    turn = find_turn(scratchpad)
    given = {
        "objective": objective,
        "topics": topics,
        "assertions": assertions,
        "exceptions": exceptions,
        "facts": facts,
        "assistant_signals": assistant_signals,
        "ctx_retrieval_queries": ctx_retrieval_queries,
        "conversation_title": conversation_title,
    }
    turn.fingerprint = {**(turn.fingerprint or {}), **{name: part for name, part in given.items() if part is not None}}
    return turn.fingerprint


def persist_turn_fingerprint(
    scratchpad: Scratchpad, *, extra_tags: Sequence[str] | None = None
) -> Flow[dict[str, Any]]:
    """Store the turn: its texts, its fingerprint and the selection of memories. Return the fingerprint.

    The fingerprint replaces the turn's one before, in its log and its artifact, and is then in
    `scratchpad.tlog.state["fingerprint"]`. Without `update_turn_fingerprint`, the fingerprint is made of
    `extracted_prefs` and `proposed_facts`.
    """
    fingerprint = scratchpad.fingerprint
    if fingerprint is None:
        fingerprint = update_turn_fingerprint(
            scratchpad,
            assertions=scratchpad.extracted_prefs.get("assertions"),
            exceptions=scratchpad.extracted_prefs.get("exceptions"),
            facts=scratchpad.proposed_facts,
        )
    yield from _store_texts(scratchpad)
    stored = yield turn_calls.put_fingerprint(
        scratchpad.conversation_id,
        scratchpad.turn_id,
        user_id=scratchpad.user_id,
        track_id=scratchpad.track_id,
        made_at=scratchpad.made_at,
        extra_tags=extra_tags,
        project_id=scratchpad.project_id,
        **{"conversation_title": scratchpad.conversation_title, **fingerprint},
    )
    scratchpad.tlog.state["fingerprint"] = stored.fingerprint
    if scratchpad.selected_local_memories_turn_ids is not None:
        scratchpad.active_set = yield turn_calls.select_memories(
            scratchpad.conversation_id,
            scratchpad.selected_local_memories_turn_ids,
            user_id=scratchpad.user_id,
            project_id=scratchpad.project_id,
        )
    return dict(stored.fingerprint)


def _store_texts(scratchpad: Scratchpad) -> Flow[None]:
    """Store the texts of the turn's log if they changed. A log needs the user's text."""
    texts: Mapping[str, Any] = scratchpad.log_texts()
    if "user_text" not in texts or texts == scratchpad.stored_texts:
        return
    yield turn_calls.put_turn(
        scratchpad.conversation_id,
        scratchpad.turn_id,
        user_id=scratchpad.user_id,
        track_id=scratchpad.track_id,
        made_at=scratchpad.made_at,
        conversation_title=scratchpad.conversation_title,
        project_id=scratchpad.project_id,
        **texts,
    )
    scratchpad.stored_texts = texts


def _contents(artifacts: Sequence[ArtifactOut]) -> list[dict[str, Any]]:
    return [artifact.content for artifact in artifacts]
