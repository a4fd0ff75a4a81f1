"""mnema jobs: background jobs for operators, read from the database without the server."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Annotated
from uuid import UUID

import typer
from mnema_cli.client import out, plain_table, print_json, print_table, write_time
from rich.markup import escape

from app.bootstrap.jobs import open_jobs
from app.cli.operators import TenantOption, find_tenant, resolve_settings, run_use_case
from app.domain.jobs.job import ALL_KINDS, JobKind, JobState
from app.domain.principal import Principal
from app.usecases.jobs.runner import Jobs

jobs_app = typer.Typer(no_args_is_help=True, help="Background jobs.")
KindArgument = Annotated[str, typer.Argument(help=f"{', '.join(JobKind)} or {ALL_KINDS} for all")]


@jobs_app.command("list")
def jobs_list(
    tenant: TenantOption = None,
    state: Annotated[JobState | None, typer.Option()] = None,
    kind: Annotated[JobKind | None, typer.Option()] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 50,
) -> None:
    """List jobs, newest first, and the paused kinds."""

    async def print_page(jobs: Jobs, principal: Principal) -> None:
        page = await jobs.list_jobs(principal, state, kind, None, limit)
        rows = plain_table("id", "kind", "state", "attempts", "next run", "updated", "error")
        for job in page.items:
            times = (write_time(job.next_run), write_time(job.updated_at))
            rows.add_row(str(job.id), job.kind, job.state, str(job.attempts), *times, escape(job.last_error or ""))
        print_table(rows, whole=True)
        if paused := (await jobs.count_jobs(principal)).paused:
            _print_pauses(list(paused))

    _run_for_tenant(tenant, print_page)


@jobs_app.command("show")
def jobs_show(job_id: UUID, tenant: TenantOption = None) -> None:
    """Show one job with its report, as JSON."""

    async def print_one(jobs: Jobs, principal: Principal) -> None:
        print_json(asdict(await jobs.get_job(principal, job_id)))

    _run_for_tenant(tenant, print_one)


@jobs_app.command("replay")
def jobs_replay(job_id: UUID, tenant: TenantOption = None) -> None:
    """Run a dead or done job again."""

    async def replay_one(jobs: Jobs, principal: Principal) -> None:
        job = await jobs.replay_job(principal, job_id)
        out.print(f"{job.id}  {job.kind} is {job.state}", highlight=False)

    _run_for_tenant(tenant, replay_one)


@jobs_app.command("pause")
def jobs_pause(kind: KindArgument, tenant: TenantOption = None) -> None:
    """Pause a kind of job: running jobs finish, due jobs wait."""

    async def pause_kind(jobs: Jobs, principal: Principal) -> None:
        _print_pauses(await jobs.pause_jobs(principal, kind))

    _run_for_tenant(tenant, pause_kind)


@jobs_app.command("resume")
def jobs_resume(kind: KindArgument, tenant: TenantOption = None) -> None:
    """End the pause of a kind, or every pause."""

    async def resume_kind(jobs: Jobs, principal: Principal) -> None:
        _print_pauses(await jobs.resume_jobs(principal, kind))

    _run_for_tenant(tenant, resume_kind)


@jobs_app.command("counts")
def jobs_counts(tenant: TenantOption = None) -> None:
    """Count jobs by kind and state; show the delay of the oldest due job and the paused kinds."""

    async def print_counts(jobs: Jobs, principal: Principal) -> None:
        summary = await jobs.count_jobs(principal)
        rows = plain_table("kind", "state", "jobs")
        for kind, state, count in summary.counts:
            rows.add_row(escape(kind), state, str(count))
        print_table(rows, whole=True)
        if summary.oldest_due_s is not None:
            out.print(f"the oldest due job has waited {summary.oldest_due_s:.0f} s", highlight=False)
        _print_pauses(list(summary.paused))

    _run_for_tenant(tenant, print_counts)


def _run_for_tenant(tenant: str | None, work: Callable[[Jobs, Principal], Awaitable[None]]) -> None:
    async def run_work() -> None:
        settings = resolve_settings()
        owner = await find_tenant(settings, tenant)
        async with open_jobs(settings) as jobs:
            await work(jobs, Principal(owner.id))

    run_use_case(run_work())


def _print_pauses(paused: list[str]) -> None:
    out.print(f"paused: {', '.join(paused) or 'nothing'}", highlight=False)
