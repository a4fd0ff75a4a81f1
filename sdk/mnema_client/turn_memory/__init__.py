"""Turn memory for chat SDKs: what each turn said, and what the next agent reads of it.

`mnema_client.turn_memory.sync` has the same functions for the client `Mnema`, without await.
"""

from collections.abc import Generator
from typing import Any, Unpack

from mnema_wire.bases import Answered

from mnema_client.client import AsyncMnema
from mnema_client.turn_memory import reading, turn
from mnema_client.turn_memory.artifacts import (
    TITLE,
    ArtifactChoice,
    ArtifactFields,
    fetch_artifacts,
    fetch_title,
    save_artifact,
)
from mnema_client.turn_memory.flows import drive_later, run_later
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


class FetchedArtifacts:
    """Artifacts of a conversation that are fetched when they are awaited, whole or one part of them."""

    def __init__(self, client: AsyncMnema, user_id: str, conversation_id: str, **choice: Any) -> None:
        self._client = client
        self._place = user_id, conversation_id
        self._choice = choice
        self._found: dict[str, Any] | None = None

    async def get(self, name: str, default: Any = None) -> Any:
        """Return one part: `conversation_title`, which takes one short request, or `items`."""
        if name == TITLE and self._found is None:
            return await drive_later(self._client, fetch_title(*self._place))
        return (await self).get(name, default)

    def __await__(self) -> Generator[Any, None, dict[str, Any]]:
        return self._fetch().__await__()

    async def _fetch(self) -> dict[str, Any]:
        if self._found is None:
            self._found = await drive_later(self._client, fetch_artifacts(*self._place, **self._choice))
        return self._found


class ContextClient:
    """The artifacts of conversations, with `AsyncMnema`."""

    def __init__(self, client: AsyncMnema) -> None:
        self.client = client

    async def save_artifact(self, **fields: Unpack[ArtifactFields]) -> Answered:
        """Store an artifact in place of the one before; `ArtifactFields` explains each keyword.

        A reaction of origin `machine` is added. Raise ValueError for a keyword that the kind cannot have.
        """
        return await drive_later(self.client, save_artifact(fields))

    def fetch_conversation_artifacts(
        self,
        user_id: str,
        conversation_id: str,
        materialize: bool = False,
        days: int = 365,
        **choice: Unpack[ArtifactChoice],
    ) -> FetchedArtifacts:
        """Return the artifacts of a conversation, to be awaited: `conversation_title` and `items`, newest first.

        `await ….get("conversation_title")` fetches the title alone. `materialize`: read the blobs too. `days`: only
        artifacts of these days.
        """
        return FetchedArtifacts(self.client, user_id, conversation_id, materialize=materialize, days=days, **choice)
