"""Routes of /sources: add, list, change, synchronise and remove sources, and read their index jobs."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from mnema_wire.fields import Identifier, Limit
from mnema_wire.sources import DocumentSource, DocumentSourcePage, IndexJob, IndexJobPage, NewSource, SourceChanges

from app.api import links
from app.api.deps import Administrator, AnyPrincipal, App, Reader, Writer, require_scope
from app.api.errors import body_errors, key_errors
from app.api.schemas.sources.sources import index_job_body, source_body, to_new_source, to_source_change
from app.api.transport.idempotency import IdempotencyHeader, retry_key
from app.api.transport.parameters import StrictRoute

router = APIRouter(prefix="/sources", tags=["sources"], route_class=StrictRoute)
SOURCE = "/{source_id:uuid}"
Cursor = Annotated[str | None, Query(max_length=2_000, description="`next_cursor` of the previous page")]


@router.post("", status_code=201, responses={201: {"links": links.SOURCE}, **body_errors(409)})
async def add(
    app: App, principal: AnyPrincipal, body: NewSource, idempotency_key: IdempotencyHeader = None
) -> DocumentSource:
    """Add a folder of documents, or a source that files are uploaded to.

    A folder needs scope `admin`, and an index job reads it. A source of uploads needs scope `write`.
    """
    require_scope(principal, "write" if body.root_path is None else "admin")
    key = retry_key("POST /sources", idempotency_key, body)
    return source_body(await app.sources.manage.add_source(principal, to_new_source(body), key))


@router.get("", responses={200: {"links": links.SOURCES}, **key_errors()})
async def page(
    app: App,
    principal: Reader,
    user_id: Annotated[Identifier | None, Query(description="only the sources of this user")] = None,
    limit: Annotated[Limit, Query()] = 50,
    cursor: Cursor = None,
) -> DocumentSourcePage:
    """List sources with what they hold, newest first."""
    found = await app.sources.manage.list_sources(principal, user_id, cursor, limit)
    return DocumentSourcePage(items=[source_body(view) for view in found.items], next_cursor=found.next_cursor)


@router.get(SOURCE, responses={200: {"links": links.SOURCE}, **key_errors(404)})
async def get(app: App, principal: Reader, source_id: UUID) -> DocumentSource:
    """Return a source with what it holds."""
    return source_body(await app.sources.manage.get_source(principal, source_id))


@router.patch(SOURCE, responses={200: {"links": links.SOURCE}, **body_errors(404, 409)})
async def patch(app: App, principal: Writer, source_id: UUID, body: SourceChanges) -> DocumentSource:
    """Change the name, the patterns or `watch` of a source. New patterns of a folder queue an index job.

    For a folder, everything but the name needs scope `admin`, because its patterns decide which files are read.
    """
    is_admin = principal.has_scope("admin")
    changed = await app.sources.manage.change_source(principal, source_id, to_source_change(body), is_admin=is_admin)
    return source_body(changed)


@router.delete(SOURCE, status_code=202, responses={202: {"links": links.REMOVED_SOURCE}, **key_errors(404)})
async def delete(app: App, principal: Administrator, source_id: UUID) -> IndexJob:
    """Remove a source. Queries find nothing of it from now on, and the returned job deletes it; a folder stays."""
    return index_job_body(await app.sources.manage.remove_source(principal, source_id))


@router.post(f"{SOURCE}/sync", status_code=202, responses={202: {"links": links.INDEX_JOB}, **key_errors(404, 409)})
async def sync(app: App, principal: Writer, source_id: UUID) -> IndexJob:
    """Queue an index job, and return it. If one waits already, it is returned instead."""
    return index_job_body(await app.sources.manage.sync_source(principal, source_id))


@router.get(f"{SOURCE}/jobs", responses={200: {"links": links.INDEX_JOBS}, **key_errors(404)})
async def list_jobs(
    app: App, principal: Reader, source_id: UUID, limit: Annotated[Limit, Query()] = 50, cursor: Cursor = None
) -> IndexJobPage:
    """List the index jobs of a source, newest first."""
    found = await app.sources.manage.list_jobs(principal, source_id, cursor, limit)
    return IndexJobPage(items=[index_job_body(job) for job in found.items], next_cursor=found.next_cursor)


@router.get(f"{SOURCE}/jobs/{{index_job_id:uuid}}", responses=key_errors(404))
async def get_job(app: App, principal: Reader, source_id: UUID, index_job_id: UUID) -> IndexJob:
    """Return an index job and its progress."""
    return index_job_body(await app.sources.manage.get_job(principal, source_id, index_job_id))
