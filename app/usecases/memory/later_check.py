"""The check of a new memory by a chat model: a job that commits with the write and runs seconds later.

The request never waits for a model. The job asks whether the new memory is one fact with a neighbour in the check band,
as nightly consolidation does.
"""

from collections.abc import Sequence
from dataclasses import replace

from app.domain.changes import MemoryChange
from app.domain.jobs.job import JobKind, NewJob
from app.domain.memory.merge_bands import MergeBands
from app.domain.principal import Principal
from app.ports import JobQueue
from app.storage.identity import new_id
from app.storage.memory.memories import ComparedMemory
from app.usecases.memory.merge import WriteResult

Compared = tuple[WriteResult, Sequence[ComparedMemory]]
"""The result of a write, and the memories that its text was compared with."""


class LaterCheck:
    """The writer of the jobs `same_fact`. Without a queue, because there is no chat model, it writes none."""

    def __init__(self, queue: JobQueue | None, bands: MergeBands) -> None:
        self._queue = queue
        self._bands = bands

    def add_job(self, changes: list[MemoryChange], writes: Sequence[Compared]) -> list[MemoryChange]:
        """Return the changes, the last one with one job for all new memories that have a neighbour to check.

        The job names the memories to compare, so that it need not look at all memories of the user.
        """
        if self._queue is None:
            return changes
        near = {
            str(written.id): ids
            for written, compared in writes
            if written.action == "created" and (ids := self._neighbours_to_check(compared))
        }
        if not near:
            return changes
        payload = {"memory_ids": [*near], "neighbours": sorted({other for ids in near.values() for other in ids})}
        job = NewJob(JobKind.same_fact, changes[-1].user_id, payload, new_id())
        return [*changes[:-1], replace(changes[-1], jobs=(*changes[-1].jobs, job))]

    def publish_jobs(self, principal: Principal, changes: Sequence[MemoryChange]) -> None:
        """Notify the workers of the jobs of these changes, which are committed."""
        for job_id in (job.id for change in changes for job in change.jobs):
            if job_id is not None and self._queue is not None:
                self._queue.publish_job(principal.tenant_id, job_id)

    def _neighbours_to_check(self, compared: Sequence[ComparedMemory]) -> list[str]:
        return [
            str(other.neighbour.id)
            for other in compared
            if other.near and other.neighbour.similarity >= self._bands.check_low
        ]
