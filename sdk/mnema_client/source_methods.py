"""The methods of both clients on sources of documents."""

import asyncio
import time

from mnema_wire.sources import IndexJob

from mnema_client import sources
from mnema_client.errors import NotFound, TimedOut
from mnema_client.methods import Sends, SendsLater, async_method, async_pages, sync_method, sync_pages

FIRST_WAIT_S = 0.2
LONGEST_WAIT_S = 2.0


class SourceMethods:
    """The methods of `Mnema` on sources."""

    add_source = sync_method(sources.add_source)
    list_sources = sync_pages(sources.source_page)
    source = sync_method(sources.source)
    change_source = sync_method(sources.change_source)
    sync_source = sync_method(sources.sync_source)
    remove_source = sync_method(sources.remove_source)
    index_jobs = sync_pages(sources.index_job_page)
    index_job = sync_method(sources.index_job)
    source_files = sync_pages(sources.source_file_page)
    source_file = sync_method(sources.source_file)
    upload_file = sync_method(sources.upload_file)
    delete_file = sync_method(sources.delete_file)
    download_file = sync_method(sources.download_file)
    source_tree = sync_pages(sources.source_tree_page)

    def wait_for_index(self: Sends, job: IndexJob, *, timeout_s: float = 600.0) -> IndexJob:
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


class AsyncSourceMethods:
    """The methods of `AsyncMnema` on sources."""

    add_source = async_method(sources.add_source)
    list_sources = async_pages(sources.source_page)
    source = async_method(sources.source)
    change_source = async_method(sources.change_source)
    sync_source = async_method(sources.sync_source)
    remove_source = async_method(sources.remove_source)
    index_jobs = async_pages(sources.index_job_page)
    index_job = async_method(sources.index_job)
    source_files = async_pages(sources.source_file_page)
    source_file = async_method(sources.source_file)
    upload_file = async_method(sources.upload_file)
    delete_file = async_method(sources.delete_file)
    download_file = async_method(sources.download_file)
    source_tree = async_pages(sources.source_tree_page)

    async def wait_for_index(self: SendsLater, job: IndexJob, *, timeout_s: float = 600.0) -> IndexJob:
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
