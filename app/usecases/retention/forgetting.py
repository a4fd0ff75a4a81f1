"""Forgetting: soft-delete unused and overflowing memories, purge those not restored (`docs/contract.md`, Retention).

Every run works in bounded batches and is idempotent. With `dry_run` it changes nothing and reports what it would do.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from app.config.tenant_policies import TenantPolicies
from app.domain.changes import ChangeKind, MemoryChange, Observation
from app.domain.errors import NotFound, VersionConflict, WrongState
from app.domain.memory.memory import Memory
from app.domain.memory.transitions import (
    Transition,
    deleting_fields,
    expiring_fields,
    source_states,
    transition_meta,
)
from app.domain.outages import WriteContention
from app.domain.principal import Principal
from app.ports import TrustedClock
from app.storage.journal import Journal
from app.storage.retention.forgetting import ForgettingStorage
from app.storage.retention.partitions import PartitionStorage
from app.storage.uow import UnitOfWork
from app.usecases.memory.relations import threads_of

SAMPLE = 20
CHANGED_MEANWHILE = (NotFound, VersionConflict, WrongState, WriteContention)


@dataclass(slots=True)
class ForgettingReport:
    """The result of a run, or of a dry run. `counts`: rows by kind; `sample`: ids of up to SAMPLE memories."""

    job: str
    dry_run: bool
    counts: dict[str, int] = field(default_factory=dict)
    sample: list[UUID] = field(default_factory=list)


class ForgetMemories:
    """The jobs `ttl`, `purge`, `evict` and `retention`, each for one tenant."""

    JOBS = ("ttl", "purge", "evict", "retention")

    def __init__(
        self,
        uow: UnitOfWork,
        storage: ForgettingStorage,
        journal: Journal,
        policies: TenantPolicies,
        clock: TrustedClock,
    ) -> None:
        self._uow = uow
        self._storage = storage
        self._partitions = PartitionStorage(uow)
        self._journal = journal
        self._policies = policies
        self._clock = clock

    async def run_job(self, principal: Principal, job: str, *, dry_run: bool = False) -> ForgettingReport:
        """Run one of JOBS; raise KeyError for another name.

        Raise ClockSkew, with nothing deleted, if a job goes by time and the clocks cannot be trusted.
        """
        runs: dict[str, Callable[..., Awaitable[ForgettingReport]]] = {
            "ttl": self.expire_memories,
            "purge": self.purge_memories,
            "evict": self.evict_entries,
            "retention": self.delete_old_records,
        }
        return await runs[job](principal, dry_run=dry_run)

    async def expire_memories(self, principal: Principal, *, dry_run: bool = False) -> ForgettingReport:
        """Expire memories past their `expires_at`, then soft-delete unpinned ones of low importance that nobody
        stored, changed or retrieved for long.
        """
        now = await self._clock.trusted_time()
        overdue = partial(self._storage.find_overdue, now=now)
        expired = await self._run_sweep(principal, "ttl", overdue, self._expire_change, dry_run)
        find = partial(self._storage.find_forgettable, policy=self._policies.of(principal).lifecycle, now=now)
        forgotten = await self._run_sweep(principal, "ttl", find, self._forget_change, dry_run)
        counts = {"memories": expired.counts["memories"] + forgotten.counts["memories"]}
        return ForgettingReport("ttl", dry_run, counts, (expired.sample + forgotten.sample)[:SAMPLE])

    async def purge_memories(self, principal: Principal, *, dry_run: bool = False) -> ForgettingReport:
        """Delete for good the soft-deleted memories that nobody restored in time."""
        find = partial(self._storage.find_purgeable, now=await self._clock.trusted_time())
        return await self._run_sweep(principal, "purge", find, self._purge_change, dry_run)

    async def evict_entries(self, principal: Principal, *, dry_run: bool = False) -> ForgettingReport:
        """Soft-delete the oldest unpinned entries of threads with too many."""
        most = self._policies.of(principal).lifecycle.max_entries
        find = partial(self._storage.find_overflowing, max_entries=most)
        return await self._run_sweep(principal, "evict", find, self._evict_change, dry_run)

    async def evict_thread(self, principal: Principal, user_id: str, thread_id: str) -> ForgettingReport:
        """Evict as `evict_entries` does, for one user in one thread."""
        find = partial(
            self._storage.find_thread_overflow,
            user_id=user_id,
            thread_id=thread_id,
            max_entries=self._policies.of(principal).lifecycle.max_entries,
        )
        return await self._run_sweep(principal, "evict", find, self._evict_change, dry_run=False)

    async def change_found(
        self,
        principal: Principal,
        find: Callable[..., Awaitable[list[Memory]]],
        change: Callable[[Principal, Memory], MemoryChange],
    ) -> int:
        """Apply `change` to each memory that `find` returns, in batches, until it returns none; return how many.

        A memory that others change meanwhile is left for the next batch. If others change a whole batch, the run ends.
        """
        report = await self._run_sweep(principal, "delete", find, change, dry_run=False)
        return report.counts["memories"]

    async def delete_old_records(self, principal: Principal, *, dry_run: bool = False) -> ForgettingReport:
        """Delete records beyond their retention, batch by batch, the oldest first.

        These are revisions of the change log, events, idempotency records, finished jobs, store items, model calls,
        daily token budgets, removed facts, receipts, days of usage and artifacts. A sweep deletes the blobs of the
        artifacts later. Most events and receipts leave with their week instead (KeepPartitions).
        """
        now = await self._clock.trusted_time()
        counts = Counter[str]()
        policies = self._policies.of(principal)
        policy = policies.lifecycle
        old = policies.turn_memory.keep_after(now)
        longest = await self._partitions.longest_kept(self._policies.defaults.lifecycle)
        while True:
            deleted = await self._storage.expire_records(
                principal, policy, now, longest, artifacts_before=old, dry_run=dry_run
            )
            counts.update(deleted)
            if dry_run or max(deleted.values()) < policy.records_batch:
                return ForgettingReport("retention", dry_run, dict(counts))

    async def _run_sweep(
        self,
        principal: Principal,
        job: str,
        find: Callable[..., Awaitable[list[Memory]]],
        change: Callable[[Principal, Memory], MemoryChange],
        dry_run: bool,
    ) -> ForgettingReport:
        report = ForgettingReport(job, dry_run, {"memories": 0})
        batch = self._policies.defaults.lifecycle.batch
        while memories := await self._find_memories(principal, find, 100_000 if dry_run else batch):
            report.sample = (report.sample + [m.id for m in memories])[:SAMPLE]
            count = (
                len(memories)
                if dry_run
                else await self._apply_changes(principal, [change(principal, m) for m in memories])
            )
            report.counts["memories"] += count
            if dry_run or not count:
                break
        return report

    async def _find_memories(
        self, principal: Principal, find: Callable[..., Awaitable[list[Memory]]], limit: int
    ) -> list[Memory]:
        async with self._uow.read(principal) as tx:
            return await find(tx, principal, limit=limit)

    async def _apply_changes(self, principal: Principal, changes: Sequence[MemoryChange]) -> int:
        """Apply all in one transaction. If a memory changed meanwhile, apply the others one by one. Return how many."""
        try:
            return len((await self._journal.record(principal, changes)).recorded)
        except CHANGED_MEANWHILE:
            if len(changes) == 1:
                return 0
        return sum([await self._apply_changes(principal, [change]) for change in changes])

    def _expire_change(self, principal: Principal, memory: Memory) -> MemoryChange:
        return MemoryChange(
            kind=ChangeKind.expired,
            memory_id=memory.id,
            user_id=memory.user_id,
            actor=principal.actor_name,
            fields=expiring_fields(self._clock.now()),
            threads=threads_of(memory.thread_id),
            expect_version=memory.version,
            expect_states=source_states(Transition.expire),
            history_meta={"reason": "expires_at", **transition_meta(Transition.expire)},
            observations=(_sweep_event(memory, "ttl"),),
        )

    def _forget_change(self, principal: Principal, memory: Memory) -> MemoryChange:
        return self._soft_delete_change(principal, memory, ChangeKind.forgotten, "ttl")

    def _evict_change(self, principal: Principal, memory: Memory) -> MemoryChange:
        return self._soft_delete_change(principal, memory, ChangeKind.soft_deleted, "eviction")

    def _soft_delete_change(self, principal: Principal, memory: Memory, kind: ChangeKind, reason: str) -> MemoryChange:
        now = self._clock.now()
        lifecycle = self._policies.of(principal).lifecycle
        return MemoryChange(
            kind=kind,
            memory_id=memory.id,
            user_id=memory.user_id,
            actor=principal.actor_name,
            fields=deleting_fields(now, lifecycle.purge_at(now)),
            threads=threads_of(memory.thread_id),
            expect_version=memory.version,
            expect_states=("active",),
            history_meta={"reason": reason, **transition_meta(Transition.delete)},
            observations=(_sweep_event(memory, "ttl" if kind is ChangeKind.forgotten else "delete"),),
        )

    def _purge_change(self, principal: Principal, memory: Memory) -> MemoryChange:
        return MemoryChange(
            kind=ChangeKind.purged,
            memory_id=memory.id,
            user_id=memory.user_id,
            actor=principal.actor_name,
            expect_version=memory.version,
            expect_states=("soft_deleted",),  # no `threads`: the deltas already showed the soft delete
            observations=(_sweep_event(memory, "delete"),),
        )


def _sweep_event(memory: Memory, op: str) -> Observation:
    return Observation("worker", op, "ok", memory.user_id, memory.thread_id, memory.id, memory.category)
