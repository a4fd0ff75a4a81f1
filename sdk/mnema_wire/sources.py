"""Sources of documents, their files and their index jobs."""

from datetime import datetime
from typing import Annotated, Literal, get_args
from uuid import UUID

from pydantic import AfterValidator, ConfigDict, Field

from mnema_wire.bases import Answered, Change, Page, Request, Stored, is_absent, words
from mnema_wire.checks import check_storable
from mnema_wire.fields import Identifier
from mnema_wire.limits import MAX_PATTERN, MAX_PATTERNS, SHARED_USER

FileState = Literal["waiting", "indexed", "rejected"]
MAX_ROOT = 4_096
Pattern = Annotated[str, Field(min_length=1, max_length=MAX_PATTERN), AfterValidator(check_storable)]
Patterns = Annotated[list[Pattern], Field(max_length=MAX_PATTERNS)]
RootPath = Annotated[str, Field(min_length=1, max_length=MAX_ROOT), AfterValidator(check_storable)]
Switch = Annotated[bool, Field(strict=True)]


class NewSource(Request):
    """A source to add. With `root_path` it is a folder that the workers read; without, files are uploaded to it."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"name": "handbook", "category": "knowledge", "include": ["*.md"]}]},
    )
    root_path: RootPath | None = Field(
        default=None, description="absolute path of a folder below the setting `source_roots`; needs scope admin"
    )
    name: Identifier | None = Field(default=None, description="by default the name of the folder, or `uploads`")
    category: Identifier = Field(default="knowledge", description="of all chunks; agents need it in their allowlist")
    user_id: Identifier | None = Field(
        default=None, description="whose documents they are; absent: queries for any user of the tenant find them"
    )
    agent_id: Identifier | None = None
    include: Patterns = Field(default=[], description="patterns of paths, such as `*.md`; none: every file")
    exclude: Patterns = Field(default=[], description="patterns of paths that are left out")
    watch: Switch = Field(default=True, description="index a folder again soon after a file changed")


class SourceChanges(Change):
    """The new fields of a source. Absent fields stay."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"exclude": ["drafts/"]}]})
    name: Identifier | None = None
    include: Patterns | None = None
    exclude: Patterns | None = None
    watch: Switch | None = None


class IndexJob(Answered):
    """An index job and its progress."""

    model_config = ConfigDict(from_attributes=True)
    id: UUID
    source_id: UUID
    kind: Annotated[str, words("sync", "removal")]
    cause: Annotated[str, words("added", "request", "upload", "watch", "schedule", "removed")]
    state: Annotated[str, words("queued", "running", "done", "failed")]
    files_total: int | None = Field(description="null until the files are counted")
    files_done: int = Field(description="the sum of the next five")
    added: int
    changed: int
    unchanged: int
    removed: int
    rejected: int
    chunks_added: int
    chunks_kept: int
    chunks_removed: int
    bytes_read: int
    error: str | None = Field(description="a code and a sentence")
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    updated_at: datetime

    @property
    def has_ended(self) -> bool:
        """True if the job is done or failed."""
        return self.state in ("done", "failed")


class IndexJobPage(Page[IndexJob]):
    """A page of index jobs, newest first. Pass `next_cursor` as `cursor` for the next page."""


class SourceStatus(Answered):
    """The contents of a source. `error` is that of the last index job."""

    model_config = ConfigDict(from_attributes=True)
    state: Annotated[str, words("ready", "indexing", "failed", "removing")] = Field(
        description="failed: the last index job failed; removing: no query finds its chunks"
    )
    files: int
    indexed: int
    waiting: int
    rejected: int
    chunks: int
    bytes: int
    synced_at: datetime | None = Field(description="the end of the last index job that did not fail")
    error: str | None


class DocumentSource(Stored):
    """A source, its contents, and the index job that the request queued."""

    told = frozenset({"id", "kind", "created_at", "updated_at", "status", "index_job"})
    id: UUID
    name: str
    kind: Annotated[str, words("folder", "upload")]
    root_path: str | None
    category: str
    user_id: str = Field(description=f"`{SHARED_USER}`: queries for any user of the tenant find the documents")
    agent_id: str | None
    include: list[str]
    exclude: list[str]
    watch: bool
    created_at: datetime
    updated_at: datetime
    status: SourceStatus
    index_job: IndexJob | None = Field(default=None, exclude_if=is_absent)


class DocumentSourcePage(Page[DocumentSource]):
    """A page of sources, newest first. Pass `next_cursor` as `cursor` for the next page."""


class SourceFile(Stored):
    """A file of a source."""

    told = frozenset({"id", "source_id", "state", "reason", "message", "modified_at", "indexed_at"})
    id: UUID
    source_id: UUID
    path: str = Field(description="below the root of the source")
    kind: str | None = Field(description="the kind of document; null: no parser reads it")
    size: int
    hash: str | None = Field(description="the SHA-256 of the content in hex; null: it was not read")
    state: Annotated[str, words(*get_args(FileState))] = Field(
        description="waiting: the index job has not parsed it yet"
    )
    reason: str | None = Field(default=None, exclude_if=is_absent, description="why it is rejected: a stable code")
    message: str | None = Field(default=None, exclude_if=is_absent, description="the same as a plain sentence")
    encoding: str | None = Field(
        description="chunks' positions count characters of the file decoded so; null: of its text"
    )
    characters: int
    chunks: int
    uploaded: bool = Field(description="its content can be downloaded")
    modified_at: datetime
    indexed_at: datetime | None


class SourceFilePage(Page[SourceFile]):
    """A page of files, by path. Pass `next_cursor` as `cursor` for the next page."""


class UploadedFile(Answered):
    """An uploaded file, and the index job that will read it."""

    file: SourceFile
    action: Annotated[str, words("created", "replaced", "unchanged")] = Field(
        description="unchanged: the source has the same content for this path already"
    )
    index_job: IndexJob | None = Field(default=None, exclude_if=is_absent)


class TreeEntry(Answered):
    """An entry of a folder of a source."""

    name: str
    path: str = Field(description="below the root of the source")
    kind: Annotated[str, words("file", "folder", "link", "other")]
    size: int | None = Field(description="null for a folder")
    modified_at: datetime
    state: Annotated[str, words("indexed", "rejected", "waiting", "new", "excluded")] | None = Field(
        description="excluded: no part of the source; new: not indexed yet; null: a folder"
    )
    chunks: int | None = Field(default=None, exclude_if=is_absent)
    file_id: UUID | None = Field(default=None, exclude_if=is_absent)
    reason: str | None = Field(default=None, exclude_if=is_absent, description="why it is rejected: a stable code")
    message: str | None = Field(default=None, exclude_if=is_absent, description="the same as a plain sentence")


class TreePage(Page[TreeEntry]):
    """A page of a folder, sorted by name. Pass `next_cursor` as `cursor` for the next page."""
