"""The methods of both clients on sources of documents."""

import asyncio
import time

from mnema_wire.sources import IndexJob

from mnema_client import sources
from mnema_client.errors import NotFound, TimedOut
from mnema_client.methods import AsyncClient, Method, PagesMethod, SyncClient

FIRST_WAIT_S = 0.2
LONGEST_WAIT_S = 2.0


class SourceMethods:
    """The methods of both clients on sources."""

    add_source = Method(sources.add_source)
    list_sources = PagesMethod(sources.source_page)
    source = Method(sources.source)
    change_source = Method(sources.change_source)
    sync_source = Method(sources.sync_source)
    remove_source = Method(sources.remove_source)
    index_jobs = PagesMethod(sources.index_job_page)
    index_job = Method(sources.index_job)
    source_files = PagesMethod(sources.source_file_page)
    source_file = Method(sources.source_file)
    upload_file = Method(sources.upload_file)
    delete_file = Method(sources.delete_file)
    download_file = Method(sources.download_file)
    source_tree = PagesMethod(sources.source_tree_page)


class SyncSourceMethods(SyncClient):
    """The method of `Mnema` that waits."""

    def wait_for_index(self, job: IndexJob, *, timeout_s: float = 600.0) -> IndexJob:
        """Wait until an index job is done or failed, and return it. Raise TimedOut after `timeout_s` seconds.

        A removal is done when its source is gone.
        """
        until = time.monotonic() + timeout_s
        wait_s = FIRST_WAIT_S
        while not job.has_ended:
            if time.monotonic() + wait_s > until:
                raise timed_out(job, timeout_s)
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)
            try:
                job = self.send(sources.index_job(job.source_id, job.id))
            except NotFound:
                return end_of_removal(job)
        return job


class AsyncSourceMethods(AsyncClient):
    """The method of `AsyncMnema` that waits."""

    async def wait_for_index(self, job: IndexJob, *, timeout_s: float = 600.0) -> IndexJob:
        """Wait until an index job is done or failed, as `Mnema.wait_for_index` does."""
        until = time.monotonic() + timeout_s
        wait_s = FIRST_WAIT_S
        while not job.has_ended:
            if time.monotonic() + wait_s > until:
                raise timed_out(job, timeout_s)
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)
            try:
                job = await self.send(sources.index_job(job.source_id, job.id))
            except NotFound:
                return end_of_removal(job)
        return job


def timed_out(job: IndexJob, timeout_s: float) -> TimedOut:
    """Return the error of a job that has not ended in time."""
    return TimedOut(f"the index job {job.id} is still {job.state} after {timeout_s:g} s", code="timed_out")


def end_of_removal(job: IndexJob) -> IndexJob:
    """Return a job whose source is gone: it is done."""
    return job.model_copy(update={"state": "done"})
