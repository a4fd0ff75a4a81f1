"""Turns that the server's chat model reads, as flows, and the blocks that agents read of them."""

from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from mnema_wire import blocks
from mnema_wire.blocks import NEWEST_FIRST, format_turn_memories_block, time_since

from mnema_client import turn_extraction
from mnema_client.errors import NoChatModel
from mnema_client.model_events import EventCall, Restart, TextDelta
from mnema_client.turn_extraction import SignalSpec
from mnema_client.turn_memory.flows import Flow, Streamed
from mnema_client.turn_memory.scratchpad import Scratchpad

__all__ = ["format_assistant_signals_block", "format_feedback_block", "format_turn_memories_block", "time_since"]


def format_feedback_block(
    feedback_items: Iterable[Any],
    *,
    order_label: str = NEWEST_FIRST,
    scope_label: str = "conversation",
    now: datetime | None = None,
) -> str:
    """Return the block of reactions, newest first. `time_since` is counted to `now`, by default the present."""
    return blocks.format_feedback_block(
        feedback_items, order_label=order_label, scope_label=scope_label, now=now or datetime.now(UTC)
    )


def format_assistant_signals_block(
    items: Iterable[Any],
    *,
    order_label: str = NEWEST_FIRST,
    scope_label: str = "user_cross_conversation",
    now: datetime | None = None,
) -> str:
    """Return the block of what the assistant mentioned or promoted, by turn, newest first.

    `time_since` is counted to `now`, by default the present.
    """
    return blocks.format_assistant_signals_block(
        items, order_label=order_label, scope_label=scope_label, now=now or datetime.now(UTC)
    )


Listener = Callable[[str], Awaitable[None] | None]


def ctx_reconciler_stream(
    scratchpad: Scratchpad,
    *,
    guess_package_json: Any = None,
    on_delta: Listener | None = None,
    on_thinking_delta: Listener | None = None,
    on_restart: Listener | None = None,
) -> Flow[dict[str, Any]]:
    """Read the user's message of the turn with the server's chat model, and choose the memories that matter for it.

    Return `objective`, `topics`, `assertions`, `exceptions`, `facts`, `local_memories_turn_ids`, `turn_ids`,
    `memory_bucket_ids` and `usage`. The server has stored the choice of memories, and nothing else.

    `on_delta` gets the pieces of the model's answer, which is JSON, as it is written; `on_restart` is told why the
    model writes it again. `on_thinking_delta` is another name of `on_delta`. `guess_package_json`, the view, is
    not sent: the server builds the same view itself. Raise NoChatModel if the server has none.
    """
    events = turn_extraction.stream_reconcile(
        scratchpad.conversation_id,
        scratchpad.turn_id,
        user_id=scratchpad.user_id,
        user_text=scratchpad.user_text,
        timezone=scratchpad.timezone,
        project_id=scratchpad.project_id,
    )
    return (yield from _read_turn(events, on_delta or on_thinking_delta, on_restart))


def turn_summary_stream(
    scratchpad: Scratchpad,
    *,
    assistant_signal_spec: SignalSpec | None = None,
    on_delta: Listener | None = None,
    on_restart: Listener | None = None,
) -> Flow[dict[str, Any]]:
    """Sum up the turn with the server's chat model, and find what the assistant promoted in it.

    Return `summary`, `assistant_signals` and `usage`. Nothing is stored: give the signals to
    `update_turn_fingerprint`, set `scratchpad.summary` and persist again. Without an `assistant_signal_spec` no signals
    are looked for. Raise NoChatModel if the server has none.
    """
    events = turn_extraction.stream_summary(
        scratchpad.conversation_id,
        scratchpad.turn_id,
        user_id=scratchpad.user_id,
        user_text=scratchpad.user_text,
        assistant_text=scratchpad.assistant_text,
        assistant_signal_spec=assistant_signal_spec,
        project_id=scratchpad.project_id,
    )
    return (yield from _read_turn(events, on_delta, on_restart))


def _read_turn(events: EventCall[Any], on_delta: Listener | None, on_restart: Listener | None) -> Flow[dict[str, Any]]:
    def listen(event: Any) -> Awaitable[None] | None:
        if on_delta is not None and isinstance(event, TextDelta):
            return on_delta(event.text)
        if on_restart is not None and isinstance(event, Restart):
            return on_restart(event.reason)
        return None

    try:
        result = yield Streamed(events, listen)
    except NoChatModel as error:
        advice = "Or read the turn with a model of your own, and give its result to update_turn_fingerprint."
        raise NoChatModel({**error.problem, "detail": f"{error.detail} {advice}"}) from error
    read: dict[str, Any] = result.model_dump(mode="json")
    return read
