"""Bodies of /sources (`docs/sources.md`)."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from mnema_wire.bases import Change, Request, Stored, is_absent
from mnema_wire.checks import check_storable
from mnema_wire.fields import Identifier
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app.domain.sources.index_job import IndexCause, IndexJob, IndexJobKind, IndexJobState
from app.domain.sources.patterns import MAX_PATTERN, MAX_PATTERNS
from app.domain.sources.source import SHARED_USER, NewSource, SourceKind, SourceState
from app.usecases.sources.manage import SourceChange, SourceView

MAX_ROOT = 4_096
Pattern = Annotated[str, Field(min_length=1, max_length=MAX_PATTERN), AfterValidator(check_storable)]
Patterns = Annotated[list[Pattern], Field(max_length=MAX_PATTERNS)]
RootPath = Annotated[str, Field(min_length=1, max_length=MAX_ROOT), AfterValidator(check_storable)]
Switch = Annotated[bool, Field(strict=True)]


class SourceIn(Request):
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

    def to_domain(self) -> NewSource:
        """Return the domain object."""
        return NewSource(
            name=self.name or "",
            kind=SourceKind.UPLOAD if self.root_path is None else SourceKind.FOLDER,
            category=self.category,
            user_id=self.user_id or SHARED_USER,
            root_path=self.root_path,
            agent_id=self.agent_id,
            include=tuple(self.include),
            exclude=tuple(self.exclude),
            watch=self.watch,
        )


class SourcePatchIn(Change):
    """The new fields of a source. Absent fields stay."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"exclude": ["drafts/"]}]})
    name: Identifier | None = None
    include: Patterns | None = None
    exclude: Patterns | None = None
    watch: Switch | None = None

    def to_domain(self) -> SourceChange:
        """Return the domain object."""
        include = None if self.include is None else tuple(self.include)
        exclude = None if self.exclude is None else tuple(self.exclude)
        return SourceChange(self.name, include, exclude, self.watch)


class IndexJobOut(BaseModel):
    """An index job and its progress."""

    model_config = ConfigDict(from_attributes=True)
    id: UUID
    source_id: UUID
    kind: IndexJobKind
    cause: IndexCause
    state: IndexJobState
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

    @classmethod
    def from_job(cls, job: IndexJob) -> "IndexJobOut":
        """Return the body for a domain object."""
        values = {name: getattr(job, name, None) for name in cls.model_fields}
        counts = {name: getattr(job.progress, name) for name in cls.model_fields if hasattr(job.progress, name)}
        return cls(**{**values, **counts})


class IndexJobPageOut(BaseModel):
    """A page of index jobs, newest first. Pass `next_cursor` as `cursor` for the next page."""

    items: list[IndexJobOut]
    next_cursor: str | None = None


class SourceStatusOut(BaseModel):
    """The contents of a source. `error` is that of the last index job."""

    model_config = ConfigDict(from_attributes=True)
    state: SourceState = Field(description="failed: the last index job failed; removing: no query finds its chunks")
    files: int
    indexed: int
    waiting: int
    rejected: int
    chunks: int
    bytes: int
    synced_at: datetime | None = Field(description="the end of the last index job that did not fail")
    error: str | None


class SourceOut(Stored):
    """A source, its contents, and the index job that the request queued."""

    told = frozenset({"id", "kind", "created_at", "updated_at", "status", "index_job"})
    id: UUID
    name: str
    kind: Literal["folder", "upload"]
    root_path: str | None
    category: str
    user_id: str = Field(description=f"`{SHARED_USER}`: queries for any user of the tenant find the documents")
    agent_id: str | None
    include: list[str]
    exclude: list[str]
    watch: bool
    created_at: datetime
    updated_at: datetime
    status: SourceStatusOut
    index_job: IndexJobOut | None = Field(default=None, exclude_if=is_absent)

    @classmethod
    def from_view(cls, view: SourceView) -> "SourceOut":
        """Return the body for a domain object."""
        source = view.source
        names = cls.model_fields.keys() - {"withheld", "status", "index_job", "include", "exclude", "kind"}
        return cls(
            **{name: getattr(source, name) for name in names},
            kind=source.kind.value,
            include=list(source.include),
            exclude=list(source.exclude),
            status=SourceStatusOut.model_validate(view.status),
            index_job=IndexJobOut.from_job(view.index_job) if view.index_job else None,
        )


class SourcePageOut(BaseModel):
    """A page of sources, newest first. Pass `next_cursor` as `cursor` for the next page."""

    items: list[SourceOut]
    next_cursor: str | None = None
