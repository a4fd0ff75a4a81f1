"""The summary of a conversation, as a chat may use it."""

from app.config.loader import Policies
from app.domain.principal import Principal
from app.storage.reflection.transcripts import ReflectionStorage
from app.storage.uow import ReadTx


class ReadSummary:
    """The step that reads a summary, if summaries are on and the key may see its category."""

    def __init__(self, storage: ReflectionStorage, policies: Policies) -> None:
        self._storage = storage
        self._is_on = policies.summaries.enable_summarization

    async def read_summary(self, tx: ReadTx, principal: Principal, user_id: str, memory_id: str) -> str | None:
        """Return the text of the conversation's summary, or None."""
        if not self._is_on:
            return None
        found = await self._storage.load_summary(tx, principal, user_id, memory_id)
        seen = principal.categories
        return found.text if found and (seen is None or found.category in seen) else None
