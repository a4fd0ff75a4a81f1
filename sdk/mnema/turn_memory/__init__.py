"""Turn memory for chat SDKs: what each turn said, and what the next agent reads of it."""

from mnema.turn_memory.presentation import (
    format_assistant_signals_block,
    format_feedback_block,
    format_turn_memories_block,
)

__all__ = ["format_assistant_signals_block", "format_feedback_block", "format_turn_memories_block"]
