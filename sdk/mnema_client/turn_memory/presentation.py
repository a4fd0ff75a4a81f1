"""The blocks of turn memories, feedback and assistant signals, as the server's views have them.

The items are JSON objects as the server answers them: fingerprints, and reactions.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from mnema_wire import blocks
from mnema_wire.blocks import NEWEST_FIRST, format_turn_memories_block, time_since

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
