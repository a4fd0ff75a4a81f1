"""The summary of a conversation, as a chat may use it."""

from app.config.tenant_policies import TenantPolicies
from app.domain.principal import Principal
from app.storage.reflection.transcripts import ReflectionStorage
from app.storage.uow import ReadTx


class ReadSummary:
    """The step that reads a summary, if summaries are on and the key may see its category."""

    def __init__(self, storage: ReflectionStorage, policies: TenantPolicies) -> None:
        self._storage = storage
        self._policies = policies

    async def read_summary(self, tx: ReadTx, principal: Principal, user_id: str, memory_id: str) -> str | None:
        """Return the text of the conversation's summary, or None."""
        if not self._policies.of(principal).summaries.enable_summarization:
            return None
        found = await self._storage.load_summary(tx, principal, user_id, memory_id)
        seen = principal.categories
        return found.text if found and (seen is None or found.category in seen) else None
