"""mnema jobs: background work as operators see it, past the server."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import datetime
from typing import Annotated
from uuid import UUID

import typer
from rich.markup import escape

from app.bootstrap import supervising, tenancy
from app.cli.client import out, show, table
from app.cli.operators import TenantOption, run, settings
from app.domain.jobs.job import ALL_KINDS, Job, JobKind, JobState
from app.domain.principal import Scope
from app.usecases.jobs.runner import Jobs

jobs_app = typer.Typer(no_args_is_help=True, help="Background jobs.")
KindArgument = Annotated[str, typer.Argument(help=f"{', '.join(JobKind)} or {ALL_KINDS} for all")]


@jobs_app.command("list")
def list_(
    tenant: TenantOption,
    state: Annotated[JobState | None, typer.Option()] = None,
    kind: Annotated[JobKind | None, typer.Option()] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 50,
) -> None:
    """List jobs, newest first; say what is paused."""

    async def work(jobs: Jobs, scope: Scope) -> None:
        found = await jobs.page(scope, state, kind, None, limit)
        rows = table("id", "kind", "state", "attempts", "next run", "updated", "error")
        for job in found.items:
            times = (job.next_run.isoformat()[:19], job.updated_at.isoformat()[:19])
            rows.add_row(str(job.id), job.kind, job.state, str(job.attempts), *times, escape(job.last_error or ""))
        show(rows, whole=True)
        if paused := (await jobs.counts(scope)).paused:
            _print_pauses(list(paused))

    _of(tenant, work)


@jobs_app.command("show")
def show_(job_id: UUID, tenant: TenantOption) -> None:
    """Show one job with its report, as JSON."""

    async def work(jobs: Jobs, scope: Scope) -> None:
        _print(await jobs.get(scope, job_id))

    _of(tenant, work)


@jobs_app.command("replay")
def replay(job_id: UUID, tenant: TenantOption) -> None:
    """Run a dead or done job again."""

    async def work(jobs: Jobs, scope: Scope) -> None:
        job = await jobs.replay(scope, job_id)
        out.print(f"{job.id}  {job.kind} is {job.state}", highlight=False)

    _of(tenant, work)


@jobs_app.command("pause")
def pause(kind: KindArgument, tenant: TenantOption) -> None:
    """Start no more jobs of a kind."""

    async def work(jobs: Jobs, scope: Scope) -> None:
        _print_pauses(await jobs.pause(scope, kind))

    _of(tenant, work)


@jobs_app.command("resume")
def resume(kind: KindArgument, tenant: TenantOption) -> None:
    """End a kind's pause, or every pause."""

    async def work(jobs: Jobs, scope: Scope) -> None:
        _print_pauses(await jobs.resume(scope, kind))

    _of(tenant, work)


@jobs_app.command("counts")
def counts(tenant: TenantOption) -> None:
    """Count jobs by kind and state; say how far behind they are and what is paused."""

    async def work(jobs: Jobs, scope: Scope) -> None:
        found = await jobs.counts(scope)
        rows = table("kind", "state", "jobs")
        for kind, state, count in found.counts:
            rows.add_row(escape(kind), state, str(count))
        show(rows, whole=True)
        if found.oldest_due_s is not None:
            out.print(f"the oldest due job has waited {found.oldest_due_s:.0f} s", highlight=False)
        _print_pauses(list(found.paused))

    _of(tenant, work)


def _of(tenant: str, work: Callable[[Jobs, Scope], Awaitable[None]]) -> None:
    async def done() -> None:
        found = settings()
        async with tenancy(found) as tenants:
            owner = await tenants.find(tenant)
        async with supervising(found) as jobs:
            await work(jobs, Scope(owner.id))

    run(done())


def _print(job: Job) -> None:
    out.print_json(json.dumps(asdict(job), default=_plain), highlight=False)


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _print_pauses(paused: list[str]) -> None:
    out.print(f"paused: {', '.join(paused) or 'nothing'}", highlight=False)
