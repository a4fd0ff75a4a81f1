"""Sources of documents: the calls that manage them and their files, their bodies and answers."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, TypedDict, Unpack
from uuid import UUID

import httpx
from mnema_wire.bases import Page
from pydantic import Field

from mnema_client.answered import Answered, Stored
from mnema_client.calls import (
    JSON,
    build_body,
    idempotency_headers,
    ignore_body,
    model_reader,
    path_id,
    query_params,
)
from mnema_client.requests import Sent
from mnema_client.transport import Call

FileState = Literal["waiting", "indexed", "rejected"]
BINARY = {"Content-Type": "application/octet-stream"}


class NewSource(Sent):
    """A source to add. With `root_path` it is a folder that the workers read; without, files are uploaded to it.

    `category`: of all chunks (by default knowledge). `user_id`: whose documents they are; without it queries for any
    user find them. `include`, `exclude`: patterns of paths, such as `*.md` or `drafts/`. `watch`: index a folder again
    soon after a file changed.
    """

    root_path: str | None = None
    name: str | None = None
    category: str = "knowledge"
    user_id: str | None = None
    agent_id: str | None = None
    include: list[str] = Field(default_factory=list)
    exclude: list[str] = Field(default_factory=list)
    watch: bool = True


class SourceChanges(Sent):
    """Fields of a source to change; the others stay."""

    name: str = ""
    include: list[str] = Field(default_factory=list)
    exclude: list[str] = Field(default_factory=list)
    watch: bool = True


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


class IndexJob(Answered):
    """An index job and its progress. `state`: queued, running, done or failed; `error`: a code and a sentence.

    `files_done` is the sum of the five counts of files; `files_total` is None until the files are counted.
    """

    id: UUID
    source_id: UUID
    kind: str
    cause: str
    state: str
    files_total: int | None
    files_done: int
    added: int
    changed: int
    unchanged: int
    removed: int
    rejected: int
    chunks_added: int
    chunks_kept: int
    chunks_removed: int
    bytes_read: int
    error: str | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    updated_at: datetime

    @property
    def has_ended(self) -> bool:
        """True if the job is done or failed."""
        return self.state in ("done", "failed")


class SourceStatus(Answered):
    """The contents of a source. `state`: ready, indexing, failed or removing."""

    state: str
    files: int
    indexed: int
    waiting: int
    rejected: int
    chunks: int
    bytes: int
    synced_at: datetime | None
    error: str | None


class DocumentSource(Stored):
    """A source. `kind`: folder or upload; `index_job`: the job that the request queued."""

    id: UUID
    name: str
    kind: str
    root_path: str | None
    category: str
    user_id: str
    agent_id: str | None
    include: list[str]
    exclude: list[str]
    watch: bool
    created_at: datetime
    updated_at: datetime
    status: SourceStatus
    index_job: IndexJob | None = None


class SourceFile(Stored):
    """A file of a source. `message`: why it is rejected, as a sentence; `hash`: the SHA-256 of its content in hex."""

    id: UUID
    source_id: UUID
    path: str
    kind: str | None
    size: int
    hash: str | None
    state: str
    reason: str | None = None
    message: str | None = None
    encoding: str | None
    characters: int
    chunks: int
    uploaded: bool
    modified_at: datetime
    indexed_at: datetime | None


class UploadedFile(Answered):
    """An uploaded file. `action`: created, replaced, or unchanged if the source has this content already."""

    file: SourceFile
    action: str
    index_job: IndexJob | None = None


class TreeEntry(Answered):
    """An entry of a folder of a source. `state`: indexed, rejected, waiting, new or excluded; None for a folder."""

    name: str
    path: str
    kind: str
    size: int | None
    modified_at: datetime
    state: str | None
    chunks: int | None = None
    file_id: UUID | None = None
    reason: str | None = None
    message: str | None = None


def add_source(
    root_path: str | None = None, *, idempotency_key: str | None = None, **fields: Unpack[SourceFields]
) -> Call[DocumentSource]:
    """Add a folder of documents, or without `root_path` a source that files are uploaded to.

    `NewSource` explains each field. A folder must be below the server's `source_roots`, and needs scope admin.
    """
    body = build_body(NewSource, root_path=root_path, **fields)
    headers = idempotency_headers(idempotency_key, JSON)
    return Call("POST", "/sources", model_reader(DocumentSource), content=body.body(), headers=headers)


def source_page(
    *, user_id: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Call[Page[DocumentSource]]:
    """Return one page of sources, newest first; with `user_id` those of one user."""
    params = query_params(user_id=user_id, limit=limit, cursor=cursor)
    return Call("GET", "/sources", model_reader(Page[DocumentSource]), params)


def source(source_id: UUID | str) -> Call[DocumentSource]:
    """Return a source with what it holds."""
    return Call("GET", _source_path(source_id), model_reader(DocumentSource))


def change_source(source_id: UUID | str, **fields: Unpack[SourceChangeFields]) -> Call[DocumentSource]:
    """Change the name, the patterns or `watch` of a source. New patterns of a folder queue an index job."""
    content = build_body(SourceChanges, **fields).body()
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
    params = query_params(limit=limit, cursor=cursor)
    return Call("GET", f"{_source_path(source_id)}/jobs", model_reader(Page[IndexJob]), params)


def index_job(source_id: UUID | str, index_job_id: UUID | str) -> Call[IndexJob]:
    """Return an index job and its progress."""
    path = f"{_source_path(source_id)}/jobs/{path_id(index_job_id)}"
    return Call("GET", path, model_reader(IndexJob))


def source_file_page(
    source_id: UUID | str, *, state: FileState | None = None, limit: int | None = None, cursor: str | None = None
) -> Call[Page[SourceFile]]:
    """Return one page of the files of a source, by path. A rejected one says why."""
    params = query_params(state=state, limit=limit, cursor=cursor)
    return Call("GET", f"{_source_path(source_id)}/files", model_reader(Page[SourceFile]), params)


def source_file(source_id: UUID | str, file_id: UUID | str) -> Call[SourceFile]:
    """Return a file of a source."""
    return Call("GET", _file_path(source_id, file_id), model_reader(SourceFile))


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
    params = query_params(path=path or None, limit=limit, cursor=cursor)
    return Call("GET", f"{_source_path(source_id)}/tree", model_reader(Page[TreeEntry]), params)


def _read_content(response: httpx.Response) -> bytes:
    return response.content


def _source_path(source_id: UUID | str) -> str:
    return f"/sources/{path_id(source_id)}"


def _file_path(source_id: UUID | str, file_id: UUID | str) -> str:
    return f"{_source_path(source_id)}/files/{path_id(file_id)}"
