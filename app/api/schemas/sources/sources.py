"""Conversions between the bodies of /sources and the domain."""

from mnema_wire import sources as wire
from mnema_wire.limits import SHARED_USER

from app.domain.sources.index_job import IndexJob
from app.domain.sources.source import NewSource, SourceKind
from app.usecases.sources.manage import SourceChange, SourceView


def to_new_source(body: wire.NewSource) -> NewSource:
    """Return the domain object."""
    return NewSource(
        name=body.name or "",
        kind=SourceKind.UPLOAD if body.root_path is None else SourceKind.FOLDER,
        category=body.category,
        user_id=body.user_id or SHARED_USER,
        root_path=body.root_path,
        agent_id=body.agent_id,
        include=tuple(body.include),
        exclude=tuple(body.exclude),
        watch=body.watch,
    )


def to_source_change(body: wire.SourceChanges) -> SourceChange:
    """Return the domain object."""
    include = None if body.include is None else tuple(body.include)
    exclude = None if body.exclude is None else tuple(body.exclude)
    return SourceChange(body.name, include, exclude, body.watch)


def index_job_body(job: IndexJob) -> wire.IndexJob:
    """Return the body for a domain object."""
    values = {name: getattr(job, name, None) for name in wire.IndexJob.model_fields}
    counts = {name: getattr(job.progress, name) for name in wire.IndexJob.model_fields if hasattr(job.progress, name)}
    return wire.IndexJob(**{**values, **counts})


def source_body(view: SourceView) -> wire.DocumentSource:
    """Return the body for a domain object."""
    source = view.source
    names = wire.DocumentSource.model_fields.keys() - {"withheld", "status", "index_job", "include", "exclude", "kind"}
    return wire.DocumentSource(
        **{name: getattr(source, name) for name in names},
        kind=source.kind.value,
        include=list(source.include),
        exclude=list(source.exclude),
        status=wire.SourceStatus.model_validate(view.status),
        index_job=index_job_body(view.index_job) if view.index_job else None,
    )
