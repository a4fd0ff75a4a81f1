"""Routes of /jobs: background jobs, their failures, pauses and replays. They need scope admin."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from mnema_wire.fields import Limit
from mnema_wire.jobs import Job, JobCount, JobCounts, JobDetail, JobPage, PausedKind, Pauses

from app.api import links
from app.api.deps import Administrator, App
from app.api.errors import body_errors, key_errors, openapi_errors
from app.api.transport.parameters import StrictRoute
from app.domain.jobs.job import JobKind, JobState

router = APIRouter(prefix="/jobs", tags=["jobs"], route_class=StrictRoute)


@router.get("", responses={200: {"links": links.JOBS}, **key_errors()})
async def page(
    app: App,
    principal: Administrator,
    state: Annotated[JobState | None, Query()] = None,
    kind: Annotated[JobKind | None, Query()] = None,
    limit: Annotated[Limit, Query()] = 50,
    cursor: Annotated[str | None, Query(max_length=500, description="`next_cursor` of the previous page")] = None,
) -> JobPage:
    """List jobs, newest first. Jobs in state `dead` failed on every attempt."""
    job_page = await app.jobs.manage.list_jobs(principal, state, kind, cursor, limit)
    return JobPage(items=[Job.model_validate(job) for job in job_page.items], next_cursor=job_page.next_cursor)


@router.get("/counts", responses=openapi_errors(401, 403, 503))
async def counts(app: App, principal: Administrator) -> JobCounts:
    """Return the numbers of jobs by kind and state, the delay of the oldest due job, and the paused kinds."""
    summary = await app.jobs.manage.count_jobs(principal)
    rows = [JobCount(kind=kind, state=state, count=count) for kind, state, count in summary.counts]
    return JobCounts(counts=rows, oldest_due_s=summary.oldest_due_s, paused=list(summary.paused))


@router.post("/pause", responses=body_errors())
async def pause(app: App, principal: Administrator, body: PausedKind) -> Pauses:
    """Pause a kind of job: running jobs finish, due jobs wait."""
    return Pauses(paused=await app.jobs.manage.pause_jobs(principal, body.kind))


@router.post("/resume", responses=body_errors())
async def resume(app: App, principal: Administrator, body: PausedKind) -> Pauses:
    """End the pause of a kind; `*` ends every pause."""
    return Pauses(paused=await app.jobs.manage.resume_jobs(principal, body.kind))


@router.get("/{job_id:uuid}", responses={200: {"links": links.JOB}, **key_errors(404)})
async def get(app: App, principal: Administrator, job_id: UUID) -> JobDetail:
    """Return one job and its report."""
    return JobDetail.model_validate(await app.jobs.manage.get_job(principal, job_id))


@router.post("/{job_id:uuid}/replay", responses={200: {"links": links.JOB}, **key_errors(404, 409)})
async def replay(app: App, principal: Administrator, job_id: UUID) -> JobDetail:
    """Run a dead or done job again."""
    return JobDetail.model_validate(await app.jobs.manage.replay_job(principal, job_id))
