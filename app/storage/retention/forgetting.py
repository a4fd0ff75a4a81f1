"""Finding memories and receipts that are due to be forgotten, and erasing a user."""

import asyncio
from datetime import datetime
from functools import cache
from typing import Final

from app.domain.memory.memory import Memory
from app.domain.principal import Principal
from app.domain.retention.forgetting import ForgettingPolicy, LongestKept
from app.domain.tombstones import compute_tombstones, user_tombstone
from app.domain.trusted_time import TrustedTime
from app.storage.agent_state.store_items import ItemRecords, erase_items
from app.storage.consent.patches import consent_texts, erase_consent
from app.storage.engine import LONG_S
from app.storage.facts.facts import FactStorage
from app.storage.reflection.model_calls import ModelCallStorage
from app.storage.retention.personal_data import SWEPT, TABLES
from app.storage.rows import affected_rows, memory_columns, memory_from_row
from app.storage.sources.sources import erase_sources
from app.storage.statements import load_statements
from app.storage.turn_memory.artifacts import ArtifactRetention, erase_artifacts
from app.storage.uow import ReadTx, UnitOfWork, WriteTx

_SQL: Final = load_statements("retention/forgetting.sql", columns=memory_columns("m"))


class ForgettingStorage:
    """Statements that find memories by age, expire records and erase users. The journal changes memories."""

    def __init__(self, uow: UnitOfWork, secret: bytes) -> None:
        self._uow = uow
        self._secret = secret

    async def find_forgettable(
        self, tx: ReadTx, principal: Principal, policy: ForgettingPolicy, now: TrustedTime, limit: int
    ) -> list[Memory]:
        """Return active, unpinned memories of low importance that nobody read or changed in the policy's time."""
        before = policy.forget_before(now)
        rows = await tx.fetch(_SQL["forgettable"], principal.tenant_id, before, policy.forget_below, limit)
        return [memory_from_row(row) for row in rows]

    async def find_overdue(self, tx: ReadTx, principal: Principal, now: TrustedTime, limit: int) -> list[Memory]:
        """Return active memories past their `expires_at`."""
        rows = await tx.fetch(_SQL["overdue"], principal.tenant_id, now.moment, limit)
        return [memory_from_row(row) for row in rows]

    async def find_purgeable(self, tx: ReadTx, principal: Principal, now: TrustedTime, limit: int) -> list[Memory]:
        """Return soft-deleted memories that can no longer be restored."""
        rows = await tx.fetch(_SQL["purgeable"], principal.tenant_id, now.moment, limit)
        return [memory_from_row(row) for row in rows]

    async def find_overflowing(self, tx: ReadTx, principal: Principal, max_entries: int, limit: int) -> list[Memory]:
        """Return the oldest unpinned entries of threads with more than `max_entries` of one user."""
        rows = await tx.fetch(_SQL["overflowing"], principal.tenant_id, max_entries, limit)
        return [memory_from_row(row) for row in rows]

    async def find_thread_overflow(
        self, tx: ReadTx, principal: Principal, user_id: str, thread_id: str, max_entries: int, limit: int
    ) -> list[Memory]:
        """Return the same as `find_overflowing`, for one user in one thread."""
        rows = await tx.fetch(_SQL["overflowing_thread"], principal.tenant_id, max_entries, limit, user_id, thread_id)
        return [memory_from_row(row) for row in rows]

    async def expire_records(
        self,
        principal: Principal,
        policy: ForgettingPolicy,
        now: TrustedTime,
        longest: LongestKept,
        *,
        artifacts_before: datetime | None,
        dry_run: bool,
    ) -> dict[str, int]:
        """Delete old records: at most the policy's `records_batch` of each table. Return the number by table.

        `longest`: the longest time that any tenant keeps events and receipts; most are deleted with their week.
        Artifacts made before `artifacts_before` are old; if it is None, none are. If `dry_run`, only count them all. It
        takes several transactions, so an error does not undo earlier deletions.
        """
        records_before, keys_before = policy.records_before(now)
        limit = policy.records_batch
        rows = await self._uow.call(
            principal,
            _SQL["expire"],
            policy.change_log_revisions,
            policy.events_before(now, longest),
            records_before,
            keys_before,
            limit,
            dry_run,
        )
        counts: dict[str, int] = rows[0]["counts"]
        items = await ItemRecords(self._uow).expire_items(principal, now, limit, dry_run=dry_run)
        calls = await ModelCallStorage(self._uow).expire_calls(principal, records_before, limit, dry_run=dry_run)
        facts = await FactStorage(self._uow).purge_removed(principal, policy.purge_before(now), limit, dry_run=dry_run)
        receipts = await expire_receipts(
            self._uow, principal, policy.receipts_before(now, longest), records_before, limit, dry_run=dry_run
        )
        artifacts = 0
        if artifacts_before is not None:
            retention = ArtifactRetention(self._uow)
            artifacts = await retention.expire_artifacts(principal, artifacts_before, limit, dry_run=dry_run)
        return {**counts, **receipts, "store_items": items, "llm_calls": calls, "facts": facts, "artifacts": artifacts}

    async def erase_user(self, principal: Principal, user_id: str) -> dict[str, int] | None:
        """Delete everything of a user, including text in history and delta.

        Return the number of rows by table, None for an unknown user. The user's row is locked first, then the memories.
        A concurrent new memory waits, starts anew and finds the tombstones. The erasure waits for a change that has
        begun. Raise WriteContention if the two blocked each other.
        """
        async with self._uow.write(principal, timeout_s=LONG_S) as tx:
            stored = await tx.fetchrow(_SQL["lock_user"], principal.tenant_id, user_id) is not None
            if not stored and not await tx.fetchval(_traces_statement(), principal.tenant_id, user_id):
                # a server may keep a turn of the user that the database has never seen
                hidden = user_tombstone(self._secret, principal.tenant_id, user_id)
                await tx.execute(_SQL["refuse_earlier"], principal.tenant_id, hidden)
                return None
            await tx.fetchval(_SQL["lock_memories"], principal.tenant_id, user_id)
            threads: int = await tx.fetchval(_SQL["erase_threads"], principal.tenant_id, user_id)
            rows = await tx.fetch(_SQL["texts"], principal.tenant_id, user_id)
            texts = [*(row["text"] for row in rows), *await consent_texts(tx, principal, user_id)]
            turns = [row["turn"] for row in rows]
            # in a thread: documents have many texts
            hashes = await asyncio.to_thread(
                compute_tombstones, self._secret, principal.tenant_id, user_id, texts, turns
            )
            # servers may keep turns of the user to store later
            hidden = user_tombstone(self._secret, principal.tenant_id, user_id)
            consent = await erase_consent(tx, principal, user_id)
            sources = await erase_sources(tx, principal, user_id)  # before the blobs that its files refer to
            artifacts = await erase_artifacts(tx, principal, user_id)
            receipts = await erase_receipts(tx, principal, user_id)  # before the memories that it looks for
            counts: dict[str, int] = await tx.fetchval(
                _SQL["erase"],
                principal.tenant_id,
                user_id,
                [*hashes, hidden],
                principal.actor_name,
            )
            counts["store_items"] = await erase_items(tx, principal, user_id)
            for table, counted in SWEPT.items():
                counts[counted] = affected_rows(
                    await tx.execute(_of_table("sweep", table), principal.tenant_id, user_id)
                )
        return {
            **counts,
            **consent,
            **sources,
            **artifacts,
            **receipts,
            "threads_renamed": threads,
            "tombstones": len(hashes),
        }


@cache
def _of_table(name: str, table: str) -> str:
    return _SQL[name].replace("{table}", table)


@cache
def _traces_statement() -> str:
    """Return the statement that tells whether any table of the catalogue names a user."""
    owned = [_of_table("trace", table) for table, data in TABLES.items() if data.names_owner]
    return "SELECT " + " OR ".join(f"({statement})" for statement in [*owned, _SQL["trace_of_items"]])


_RECEIPTS = load_statements("receipts/receipts.sql")


async def expire_receipts(
    uow: UnitOfWork, principal: Principal, before: datetime, usage_before: datetime, limit: int, *, dry_run: bool
) -> dict[str, int]:
    """Delete at most `limit` old receipts and as many old days of usage; return the numbers by table.

    If `dry_run`, only count them all.
    """
    rows = await uow.call(principal, _RECEIPTS["expire"], before, usage_before, limit, dry_run)
    counts: dict[str, int] = rows[0]["counts"]
    return counts


async def erase_receipts(tx: WriteTx, principal: Principal, user_id: str) -> dict[str, int]:
    """Delete the user's receipts and usage, and take the user's memories out of other receipts; return the counts.

    Call it in the transaction of the erasure, before the memories are deleted.
    """
    counts: dict[str, int] = await tx.fetchval(_RECEIPTS["erase"], principal.tenant_id, user_id)
    return counts
