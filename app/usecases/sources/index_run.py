"""One run of an index job: its source, its lease, its deadline and the tenant's quota."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from app.domain.errors import TerminalJobError
from app.domain.jobs.job import Deferral
from app.domain.outages import WriteContention
from app.domain.principal import Principal
from app.domain.sources.folder import SourceRoot
from app.domain.sources.index_job import IndexJob
from app.domain.sources.source import Source
from app.domain.sources.source_policy import SourcePolicy
from app.domain.sources.sync_plan import KnownFile, Room
from app.storage.sources.index_jobs import Hold, IndexJobStorage
from app.storage.sources.sources import Usage
from app.storage.uow import UnitOfWork, WriteTx

T = TypeVar("T")
ATTEMPTS: Final = 5


class SourceRemoved(Exception):
    """The source was removed while it was indexed. Its removal deletes what there is."""


@dataclass(frozen=True, slots=True)
class IndexRun:
    """A run of an index job. `worker` is the name under which it holds the lease; `until` a time of the event loop."""

    principal: Principal
    source: Source
    index_job: IndexJob
    worker: str
    policy: SourcePolicy
    until: float

    @property
    def actor(self) -> str:
        """The actor in history rows."""
        return f"source:{self.source.id}"

    @property
    def root(self) -> SourceRoot:
        """The folder of the source."""
        assert self.source.root_path is not None
        return SourceRoot(self.principal.tenant_id, self.source.root_path)

    def check_time(self) -> None:
        """Raise Deferral after the end of the slice: other jobs run, then this one goes on."""
        if asyncio.get_running_loop().time() >= self.until:
            raise Deferral(0, "the job lets others run and then goes on")


class HeldTransactions:
    """Transactions that hold the source and the lease of a run, so that two runs never write the same file."""

    def __init__(self, uow: UnitOfWork, jobs: IndexJobStorage) -> None:
        self._uow = uow
        self._jobs = jobs

    async def run_held(self, run: IndexRun, work: Callable[[WriteTx], Awaitable[T]], *, removal: bool = False) -> T:
        """Return the result of `work` in one transaction; repeat it after a deadlock.

        Raise SourceRemoved unless the run is a `removal`, TerminalJobError if another worker may hold the job.
        """
        for attempt in range(ATTEMPTS):
            await asyncio.sleep(random.uniform(0, 0.05) * attempt)
            try:
                async with self._uow.write(run.principal) as tx:
                    hold = await self._jobs.hold_source(tx, run.principal, run.index_job, run.worker)
                    if hold is Hold.LOST:
                        raise TerminalJobError("the source or the lease of its job is gone")
                    if hold is Hold.REMOVED and not removal:
                        raise SourceRemoved
                    return await work(tx)
            except WriteContention:
                if attempt == ATTEMPTS - 1:
                    raise
        raise WriteContention()


class QuotaTally:
    """The bytes and chunks of the tenant, counted on from what they were at the beginning of the run."""

    def __init__(self, usage: Usage, policy: SourcePolicy) -> None:
        self._bytes = usage.bytes
        self._chunks = usage.chunks
        self._policy = policy

    @property
    def room(self) -> Room:
        """The bytes and chunks that the quota leaves."""
        return Room(max(0, self._policy.tenant_bytes - self._bytes), max(0, self._policy.tenant_chunks - self._chunks))

    def take_room(self, known: KnownFile | None, size: int, chunks: int) -> bool:
        """Count a file in place of the stored one; return False, and count neither, if it does not fit."""
        self.free_room(known)
        if size > self.room.bytes or chunks > self.room.chunks:
            return False
        self._bytes += size
        self._chunks += chunks
        return True

    def free_room(self, known: KnownFile | None) -> None:
        """Subtract a stored file from the tally."""
        if known is not None:
            self._bytes -= known.counted_bytes
            self._chunks -= known.chunk_count

    def give_back(self, size: int, chunks: int) -> None:
        """Subtract a file that `take_room` counted."""
        self._bytes -= size
        self._chunks -= chunks
