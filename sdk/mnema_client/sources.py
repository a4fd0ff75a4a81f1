"""Sources of documents: the calls that manage them and their files, and the methods of both clients."""

import asyncio
import time
from collections.abc import Sequence
from typing import TypedDict, Unpack
from uuid import UUID

import httpx
from mnema_wire.bases import Page
from mnema_wire.sources import (
    DocumentSource,
    FileState,
    IndexJob,
    NewSource,
    SourceChanges,
    SourceFile,
    TreeEntry,
    UploadedFile,
)

from mnema_client.calls import JSON, get_call, idempotency_headers, ignore_body, json_body, model_reader, path_id
from mnema_client.errors import NotFound, TimedOut
from mnema_client.methods import AsyncClient, Method, PagesMethod, SyncClient
from mnema_client.transport import Call

BINARY = {"Content-Type": "application/octet-stream"}
FIRST_WAIT_S = 0.2
LONGEST_WAIT_S = 2.0


class SourceFields(TypedDict, total=False):
    """Keywords of `add_source` besides the folder; `NewSource` explains each."""

    name: str | None
    category: str | None
    user_id: str | None
    agent_id: str | None
    include: Sequence[str] | None
    exclude: Sequence[str] | None
    watch: bool | None


class SourceChangeFields(TypedDict, total=False):
    """Keywords of `change_source`."""

    name: str | None
    include: Sequence[str] | None
    exclude: Sequence[str] | None
    watch: bool | None


def add_source(
    root_path: str | None = None, *, idempotency_key: str | None = None, **fields: Unpack[SourceFields]
) -> Call[DocumentSource]:
    """Add a folder of documents, or without `root_path` a source that files are uploaded to.

    `NewSource` explains each field. A folder must be below the server's `source_roots`, and needs scope admin.
    """
    content = json_body(NewSource, root_path=root_path, **fields)
    headers = idempotency_headers(idempotency_key, JSON)
    return Call("POST", "/sources", model_reader(DocumentSource), content=content, headers=headers)


def source_page(
    *, user_id: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Call[Page[DocumentSource]]:
    """Return one page of sources, newest first; with `user_id` those of one user."""
    return get_call("/sources", Page[DocumentSource], user_id=user_id, limit=limit, cursor=cursor)


def source(source_id: UUID | str) -> Call[DocumentSource]:
    """Return a source with what it holds."""
    return get_call(_source_path(source_id), DocumentSource)


def change_source(source_id: UUID | str, **fields: Unpack[SourceChangeFields]) -> Call[DocumentSource]:
    """Change the name, the patterns or `watch` of a source. New patterns of a folder queue an index job."""
    content = json_body(SourceChanges, **fields)
    return Call("PATCH", _source_path(source_id), model_reader(DocumentSource), content=content, headers=JSON)


def sync_source(source_id: UUID | str) -> Call[IndexJob]:
    """Queue an index job and return it, or the one that waits already."""
    return Call("POST", f"{_source_path(source_id)}/sync", model_reader(IndexJob))


def remove_source(source_id: UUID | str) -> Call[IndexJob]:
    """Remove a source. Queries find nothing of it from now on, and the returned job deletes it. Needs scope admin."""
    return Call("DELETE", _source_path(source_id), model_reader(IndexJob))


def index_job_page(
    source_id: UUID | str, *, limit: int | None = None, cursor: str | None = None
) -> Call[Page[IndexJob]]:
    """Return one page of the index jobs of a source, newest first."""
    return get_call(f"{_source_path(source_id)}/jobs", Page[IndexJob], limit=limit, cursor=cursor)


def index_job(source_id: UUID | str, index_job_id: UUID | str) -> Call[IndexJob]:
    """Return an index job and its progress."""
    path = f"{_source_path(source_id)}/jobs/{path_id(index_job_id)}"
    return get_call(path, IndexJob)


def source_file_page(
    source_id: UUID | str, *, state: FileState | None = None, limit: int | None = None, cursor: str | None = None
) -> Call[Page[SourceFile]]:
    """Return one page of the files of a source, by path. A rejected one says why."""
    return get_call(f"{_source_path(source_id)}/files", Page[SourceFile], state=state, limit=limit, cursor=cursor)


def source_file(source_id: UUID | str, file_id: UUID | str) -> Call[SourceFile]:
    """Return a file of a source."""
    return get_call(_file_path(source_id, file_id), SourceFile)


def upload_file(source_id: UUID | str, path: str, content: bytes) -> Call[UploadedFile]:
    """Upload a file; an index job reads it afterwards. The same content for the same path changes nothing.

    `path`: below the root of the source, with `/`, such as guides/setup.md.
    """
    place = f"{_source_path(source_id)}/files"
    return Call("POST", place, model_reader(UploadedFile), {"path": path}, content, BINARY)


def delete_file(source_id: UUID | str, file_id: UUID | str) -> Call[None]:
    """Delete an uploaded file with its chunks. Needs scope admin."""
    return Call("DELETE", _file_path(source_id, file_id), ignore_body)


def download_file(source_id: UUID | str, file_id: UUID | str) -> Call[bytes]:
    """Return the content of an uploaded file."""
    return Call("GET", f"{_file_path(source_id, file_id)}/content", _read_content)


def source_tree_page(
    source_id: UUID | str, path: str = "", *, limit: int | None = None, cursor: str | None = None
) -> Call[Page[TreeEntry]]:
    """Return one page of a folder of a source, by name, each file with its state."""
    return get_call(f"{_source_path(source_id)}/tree", Page[TreeEntry], path=path or None, limit=limit, cursor=cursor)


def _read_content(response: httpx.Response) -> bytes:
    return response.content


def _source_path(source_id: UUID | str) -> str:
    return f"/sources/{path_id(source_id)}"


def _file_path(source_id: UUID | str, file_id: UUID | str) -> str:
    return f"{_source_path(source_id)}/files/{path_id(file_id)}"


class SourceMethods:
    """The methods of both clients on sources."""

    add_source = Method(add_source)
    list_sources = PagesMethod(source_page)
    source = Method(source)
    change_source = Method(change_source)
    sync_source = Method(sync_source)
    remove_source = Method(remove_source)
    index_jobs = PagesMethod(index_job_page)
    index_job = Method(index_job)
    source_files = PagesMethod(source_file_page)
    source_file = Method(source_file)
    upload_file = Method(upload_file)
    delete_file = Method(delete_file)
    download_file = Method(download_file)
    source_tree = PagesMethod(source_tree_page)


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
                job = self.send(index_job(job.source_id, job.id))
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
                job = await self.send(index_job(job.source_id, job.id))
            except NotFound:
                return end_of_removal(job)
        return job


def timed_out(job: IndexJob, timeout_s: float) -> TimedOut:
    """Return the error of a job that has not ended in time."""
    return TimedOut(f"the index job {job.id} is still {job.state} after {timeout_s:g} s", code="timed_out")


def end_of_removal(job: IndexJob) -> IndexJob:
    """Return a job whose source is gone: it is done."""
    return job.model_copy(update={"state": "done"})
