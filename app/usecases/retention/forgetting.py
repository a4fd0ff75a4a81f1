"""Forgetting (seed 003 §7; seed 002 eviction): soft-delete what nobody needs, purge what nobody restored.

Every run is bounded by batches, can be repeated, and with `dry_run` only tells what it would do.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from app.config.loader import Policies
from app.domain.changes import ChangeKind, MemoryChange, Observation
from app.domain.errors import NotFound, VersionConflict, WrongState
from app.domain.memory.memory import Memory
from app.domain.outages import WriteContention
from app.domain.principal import Scope
from app.ports import Clock
from app.storage.journal import Journal
from app.storage.retention.forgetting import LifecycleStorage
from app.storage.uow import UnitOfWork
from app.usecases.memory.relations import threads_of

SAMPLE = 20
CHANGED_MEANWHILE = (NotFound, VersionConflict, WrongState, WriteContention)


@dataclass(slots=True)
class Report:
    """What a run did or, dry, would do. `counts`: by what; `sample`: some of the memories."""

    job: str
    dry_run: bool
    counts: dict[str, int] = field(default_factory=dict)
    sample: list[UUID] = field(default_factory=list)


class Lifecycle:
    """The jobs `ttl`, `purge`, `evict` and `retention`, one tenant at a time."""

    JOBS = ("ttl", "purge", "evict", "retention")

    def __init__(
        self, uow: UnitOfWork, storage: LifecycleStorage, journal: Journal, policies: Policies, clock: Clock
    ) -> None:
        self._uow = uow
        self._storage = storage
        self._journal = journal
        self._policy = policies.lifecycle
        self._clock = clock

    async def run(self, scope: Scope, job: str, *, dry_run: bool = False) -> Report:
        """Run one of JOBS."""
        runs: dict[str, Callable[..., Awaitable[Report]]] = {
            "ttl": self.ttl,
            "purge": self.purge,
            "evict": self.evict,
            "retention": self.retention,
        }
        return await runs[job](scope, dry_run=dry_run)

    async def ttl(self, scope: Scope, *, dry_run: bool = False) -> Report:
        """Soft-delete what was neither accessed nor changed for long and matters little."""
        find = partial(self._storage.forgettable, policy=self._policy, now=self._clock.now())
        return await self._sweep(scope, "ttl", find, self._expired, dry_run)

    async def purge(self, scope: Scope, *, dry_run: bool = False) -> Report:
        """Remove for good what was soft-deleted and not restored in time."""
        find = partial(self._storage.purgeable, now=self._clock.now())
        return await self._sweep(scope, "purge", find, self._purged, dry_run)

    async def evict(self, scope: Scope, *, dry_run: bool = False) -> Report:
        """Soft-delete the oldest entries of threads that hold too many."""
        find = partial(self._storage.overflowing, max_entries=self._policy.max_entries)
        return await self._sweep(scope, "evict", find, self._evicted, dry_run)

    async def evict_thread(self, scope: Scope, user_id: str, thread_id: str) -> Report:
        """As `evict`, for one user in one thread."""
        find = partial(
            self._storage.overflowing_thread,
            user_id=user_id,
            thread_id=thread_id,
            max_entries=self._policy.max_entries,
        )
        return await self._sweep(scope, "evict", find, self._evicted, dry_run=False)

    async def retention(self, scope: Scope, *, dry_run: bool = False) -> Report:
        """Drop what is older than its days: revisions of the change log, events, idempotency records, finished jobs,
        store items, calls of the model and its daily budgets; batch by batch, the oldest first."""
        now, counts = self._clock.now(), Counter[str]()
        while True:
            done = await self._storage.expire(scope, self._policy, now, dry_run=dry_run)
            counts.update(done)
            if dry_run or max(done.values()) < self._policy.records_batch:
                return Report("retention", dry_run, dict(counts))

    async def _sweep(
        self,
        scope: Scope,
        job: str,
        find: Callable[..., Awaitable[list[Memory]]],
        change: Callable[[Scope, Memory], MemoryChange],
        dry_run: bool,
    ) -> Report:
        report = Report(job, dry_run, {"memories": 0})
        while found := await self._found(scope, find, 100_000 if dry_run else self._policy.batch):
            report.sample = (report.sample + [m.id for m in found])[:SAMPLE]
            done = len(found) if dry_run else await self._apply(scope, [change(scope, m) for m in found])
            report.counts["memories"] += done
            if dry_run or not done:
                break
        return report

    async def _found(self, scope: Scope, find: Callable[..., Awaitable[list[Memory]]], limit: int) -> list[Memory]:
        async with self._uow.read(scope) as tx:
            return await find(tx, scope, limit=limit)

    async def _apply(self, scope: Scope, changes: Sequence[MemoryChange]) -> int:
        """All in one transaction; if somebody changed one of them meanwhile, one by one, leaving those out."""
        try:
            return len((await self._journal.record(scope, changes)).recorded)
        except CHANGED_MEANWHILE:
            if len(changes) == 1:
                return 0
        return sum([await self._apply(scope, [change]) for change in changes])

    def _expired(self, scope: Scope, memory: Memory) -> MemoryChange:
        return self._soft_deleted(scope, memory, ChangeKind.expired, "ttl")

    def _evicted(self, scope: Scope, memory: Memory) -> MemoryChange:
        return self._soft_deleted(scope, memory, ChangeKind.soft_deleted, "eviction")

    def _soft_deleted(self, scope: Scope, memory: Memory, kind: ChangeKind, reason: str) -> MemoryChange:
        now = self._clock.now()
        return MemoryChange(
            kind=kind,
            memory_id=memory.id,
            user_id=memory.user_id,
            actor=scope.actor,
            fields={"state": "soft_deleted", "purge_at": self._policy.purge_at(now), "updated_at": now},
            threads=threads_of(memory.thread_id),
            expect_version=memory.version,
            expect_states=("active",),
            history_meta={"reason": reason},
            observations=(_event(memory, "ttl" if kind is ChangeKind.expired else "delete"),),
        )

    def _purged(self, scope: Scope, memory: Memory) -> MemoryChange:
        return MemoryChange(
            kind=ChangeKind.purged,
            memory_id=memory.id,
            user_id=memory.user_id,
            actor=scope.actor,
            expect_version=memory.version,
            expect_states=("soft_deleted",),  # its threads were told when it was soft-deleted
            observations=(_event(memory, "delete"),),
        )


def _event(memory: Memory, op: str) -> Observation:
    return Observation("worker", op, "ok", memory.user_id, memory.thread_id, memory.id, memory.category)
