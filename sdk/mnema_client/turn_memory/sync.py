"""Turn memory with the client `Mnema`: the functions of `mnema_client.turn_memory`, without await."""

import functools
from collections.abc import Iterator, Mapping
from typing import Any, Unpack

from mnema_wire.bases import Answered

from mnema_client.client import Mnema
from mnema_client.turn_memory import reading, turn
from mnema_client.turn_memory.artifacts import (
    TITLE,
    ArtifactChoice,
    ArtifactFields,
    fetch_artifacts,
    fetch_title,
    save_artifact,
)
from mnema_client.turn_memory.flows import drive_now, run_now
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

preload_conversation_memory_state = run_now(turn.preload_conversation_memory_state)
retrospective_context_view = run_now(turn.retrospective_context_view)
ctx_reconciler_stream = run_now(reading.ctx_reconciler_stream)
persist_turn_fingerprint = run_now(turn.persist_turn_fingerprint)
turn_summary_stream = run_now(reading.turn_summary_stream)


class FetchedArtifacts(Mapping[str, Any]):
    """Artifacts of a conversation, `conversation_title` and `items`, that are fetched when one of them is read."""

    def __init__(self, client: Mnema, user_id: str, conversation_id: str, **choice: Any) -> None:
        self._client = client
        self._place = user_id, conversation_id
        self._choice = choice

    def get(self, name: str, default: Any = None) -> Any:
        """Return one part; the title takes one short request."""
        if name == TITLE and "_found" not in vars(self):
            return drive_now(self._client, fetch_title(*self._place))
        return self._found.get(name, default)

    def __getitem__(self, name: str) -> Any:
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    @functools.cached_property
    def _found(self) -> dict[str, Any]:
        return drive_now(self._client, fetch_artifacts(*self._place, **self._choice))


class ContextClient:
    """The artifacts of conversations, with `Mnema`."""

    def __init__(self, client: Mnema) -> None:
        self.client = client

    def save_artifact(self, **fields: Unpack[ArtifactFields]) -> Answered:
        """Store an artifact in place of the one before, as `mnema_client.turn_memory.ContextClient` does."""
        return drive_now(self.client, save_artifact(fields))

    def fetch_conversation_artifacts(
        self,
        user_id: str,
        conversation_id: str,
        materialize: bool = False,
        days: int = 365,
        **choice: Unpack[ArtifactChoice],
    ) -> FetchedArtifacts:
        """Return the artifacts of a conversation, as `mnema_client.turn_memory.ContextClient` does."""
        return FetchedArtifacts(self.client, user_id, conversation_id, materialize=materialize, days=days, **choice)
