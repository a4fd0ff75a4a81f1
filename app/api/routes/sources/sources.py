"""Routes of /sources: add, list, change, synchronise and remove sources, and read their index jobs."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from mnema_wire.fields import Identifier, Limit

from app.api import links
from app.api.deps import Administrator, AnyPrincipal, App, Reader, Writer, has_scope, require_scope
from app.api.errors import openapi_errors
from app.api.schemas.sources.sources import (
    IndexJobOut,
    IndexJobPageOut,
    SourceIn,
    SourceOut,
    SourcePageOut,
    SourcePatchIn,
)
from app.api.transport.idempotency import IdempotencyHeader, retry_key
from app.api.transport.parameters import StrictRoute

router = APIRouter(prefix="/sources", tags=["sources"], route_class=StrictRoute)
SOURCE = "/{source_id:uuid}"
Cursor = Annotated[str | None, Query(max_length=2_000, description="`next_cursor` of the previous page")]


@router.post(
    "",
    status_code=201,
    response_model=SourceOut,
    responses={201: {"links": links.SOURCE}, **openapi_errors(400, 401, 403, 409, 413, 422, 503)},
)
async def add(
    app: App, principal: AnyPrincipal, body: SourceIn, idempotency_key: IdempotencyHeader = None
) -> SourceOut:
    """Add a folder of documents, or a source that files are uploaded to.

    A folder needs scope `admin`, and an index job reads it. A source of uploads needs scope `write`.
    """
    require_scope(principal, "write" if body.root_path is None else "admin")
    key = retry_key("POST /sources", idempotency_key, body)
    return SourceOut.from_view(await app.sources.manage.add_source(principal, body.to_domain(), key))


@router.get(
    "", response_model=SourcePageOut, responses={200: {"links": links.SOURCES}, **openapi_errors(401, 403, 422, 503)}
)
async def page(
    app: App,
    principal: Reader,
    user_id: Annotated[Identifier | None, Query(description="only the sources of this user")] = None,
    limit: Annotated[Limit, Query()] = 50,
    cursor: Cursor = None,
) -> SourcePageOut:
    """List sources with what they hold, newest first."""
    found = await app.sources.manage.list_sources(principal, user_id, cursor, limit)
    return SourcePageOut(items=[SourceOut.from_view(view) for view in found.items], next_cursor=found.next_cursor)


@router.get(
    SOURCE,
    response_model=SourceOut,
    responses={200: {"links": links.SOURCE}, **openapi_errors(401, 403, 404, 422, 503)},
)
async def get(app: App, principal: Reader, source_id: UUID) -> SourceOut:
    """Return a source with what it holds."""
    return SourceOut.from_view(await app.sources.manage.get_source(principal, source_id))


@router.patch(
    SOURCE,
    response_model=SourceOut,
    responses={200: {"links": links.SOURCE}, **openapi_errors(400, 401, 403, 404, 409, 413, 422, 503)},
)
async def patch(app: App, principal: Writer, source_id: UUID, body: SourcePatchIn) -> SourceOut:
    """Change the name, the patterns or `watch` of a source. New patterns of a folder queue an index job.

    More than the name of a folder needs scope `admin`: its patterns decide which files are read.
    """
    is_admin = has_scope(principal, "admin")
    changed = await app.sources.manage.change_source(principal, source_id, body.to_domain(), is_admin=is_admin)
    return SourceOut.from_view(changed)


@router.delete(
    SOURCE,
    status_code=202,
    response_model=IndexJobOut,
    responses={202: {"links": links.REMOVED_SOURCE}, **openapi_errors(401, 403, 404, 422, 503)},
)
async def delete(app: App, principal: Administrator, source_id: UUID) -> IndexJobOut:
    """Remove a source. Queries find nothing of it from now on, and the returned job deletes it; a folder stays."""
    return IndexJobOut.from_job(await app.sources.manage.remove_source(principal, source_id))


@router.post(
    f"{SOURCE}/sync",
    status_code=202,
    response_model=IndexJobOut,
    responses={202: {"links": links.INDEX_JOB}, **openapi_errors(401, 403, 404, 409, 422, 503)},
)
async def sync(app: App, principal: Writer, source_id: UUID) -> IndexJobOut:
    """Queue an index job, and return it. If one waits already, it is returned instead."""
    return IndexJobOut.from_job(await app.sources.manage.sync_source(principal, source_id))


@router.get(
    f"{SOURCE}/jobs",
    response_model=IndexJobPageOut,
    responses={200: {"links": links.INDEX_JOBS}, **openapi_errors(401, 403, 404, 422, 503)},
)
async def list_jobs(
    app: App, principal: Reader, source_id: UUID, limit: Annotated[Limit, Query()] = 50, cursor: Cursor = None
) -> IndexJobPageOut:
    """List the index jobs of a source, newest first."""
    found = await app.sources.manage.list_jobs(principal, source_id, cursor, limit)
    return IndexJobPageOut(items=[IndexJobOut.from_job(job) for job in found.items], next_cursor=found.next_cursor)


@router.get(
    f"{SOURCE}/jobs/{{index_job_id:uuid}}",
    response_model=IndexJobOut,
    responses=openapi_errors(401, 403, 404, 422, 503),
)
async def get_job(app: App, principal: Reader, source_id: UUID, index_job_id: UUID) -> IndexJobOut:
    """Return an index job and its progress."""
    return IndexJobOut.from_job(await app.sources.manage.get_job(principal, source_id, index_job_id))
