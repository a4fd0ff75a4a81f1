"""Deleting artifacts: old ones, those of a conversation, and those of a user."""

from datetime import datetime

from app.domain.principal import Principal
from app.domain.turn_memory.artifacts import Conversation
from app.storage.engine import LONG_S
from app.storage.statements import load_statements
from app.storage.uow import UnitOfWork, WriteTx

_SQL = load_statements("turn_memory/blobs.sql")


class ArtifactRetention:
    """Statements that delete many artifacts. Their blobs outside PostgreSQL are deleted by a sweep."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    async def expire_artifacts(self, principal: Principal, before: datetime, limit: int, *, dry_run: bool) -> int:
        """Delete at most `limit` artifacts made before a time; return how many. If `dry_run`, only count all."""
        if dry_run:
            async with self._uow.read(principal, timeout_s=LONG_S) as tx:
                return int(await tx.fetchval(_SQL["count_expired"], principal.tenant_id, before))
        [row] = await self._uow.call(principal, _SQL["expire_artifacts"], before, limit)
        expired: int = row["expired"]
        return expired

    async def purge_conversation(self, principal: Principal, conversation: Conversation) -> int:
        """Delete the artifacts of a conversation with their blobs; return how many artifacts."""
        [row] = await self._uow.call(principal, _SQL["purge_artifacts"], *conversation)
        purged: int = row["purged"]
        return purged


async def erase_artifacts(tx: WriteTx, principal: Principal, user_id: str) -> dict[str, int]:
    """Delete a user's artifacts and blobs in the transaction of the erasure; return the numbers of both.

    The contents of blobs outside PostgreSQL are deleted by a job that is queued in it.
    """
    counts: dict[str, int] = await tx.fetchval(_SQL["erase_artifacts"], principal.tenant_id, user_id)
    return counts
