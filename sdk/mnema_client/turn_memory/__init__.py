"""Turn memory for chat SDKs: what each turn said, and what the next agent reads of it.

`mnema_client.turn_memory.sync` has the same functions for the client `Mnema`, without await.
"""

from mnema_client.turn_memory import reading, turn
from mnema_client.turn_memory.context_client import ContextClient, FetchedArtifacts
from mnema_client.turn_memory.flows import run_later
from mnema_client.turn_memory.reading import (
    format_assistant_signals_block,
    format_feedback_block,
    format_turn_memories_block,
)
from mnema_client.turn_memory.scratchpad import Scratchpad, TurnLog
from mnema_client.turn_memory.turn import update_turn_fingerprint

__all__ = [
    "ContextClient",
    "FetchedArtifacts",
    "Scratchpad",
    "TurnLog",
    "ctx_reconciler_stream",
    "format_assistant_signals_block",
    "format_feedback_block",
    "format_turn_memories_block",
    "persist_turn_fingerprint",
    "preload_conversation_memory_state",
    "retrospective_context_view",
    "turn_summary_stream",
    "update_turn_fingerprint",
]

preload_conversation_memory_state = run_later(turn.preload_conversation_memory_state)
retrospective_context_view = run_later(turn.retrospective_context_view)
ctx_reconciler_stream = run_later(reading.ctx_reconciler_stream)
persist_turn_fingerprint = run_later(turn.persist_turn_fingerprint)
turn_summary_stream = run_later(reading.turn_summary_stream)
