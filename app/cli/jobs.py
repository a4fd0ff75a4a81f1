"""mnema jobs: background jobs for operators, read from the database without the server."""

from dataclasses import asdict
from typing import Annotated
from uuid import UUID

import typer
from mnema_cli.output import out, plain_table, print_json, print_table, write_time
from rich.markup import escape

from app.bootstrap.job_management import open_jobs
from app.cli.operators import Owner, TenantOption, run_for_tenant
from app.domain.jobs.job import ALL_KINDS, JobKind, JobState
from app.usecases.jobs.management import Jobs

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

    async def print_page(jobs: Jobs, owner: Owner) -> None:
        page = await jobs.list_jobs(owner.principal, state, kind, None, limit)
        rows = plain_table("id", "kind", "state", "attempts", "next run", "updated", "error")
        for job in page.items:
            rows.add_row(
                str(job.id),
                job.kind,
                job.state,
                str(job.attempts),
                write_time(job.next_run),
                write_time(job.updated_at),
                escape(job.last_error or ""),
            )
        print_table(rows, whole=True)
        if paused := (await jobs.count_jobs(owner.principal)).paused:
            _print_pauses(list(paused))

    run_for_tenant(open_jobs, tenant, print_page)


@jobs_app.command("show")
def jobs_show(job_id: UUID, tenant: TenantOption = None) -> None:
    """Show one job with its report, as JSON."""
    job = run_for_tenant(open_jobs, tenant, lambda jobs, owner: jobs.get_job(owner.principal, job_id))
    print_json(asdict(job))


@jobs_app.command("replay")
def jobs_replay(job_id: UUID, tenant: TenantOption = None) -> None:
    """Run a dead or done job again."""
    job = run_for_tenant(open_jobs, tenant, lambda jobs, owner: jobs.replay_job(owner.principal, job_id))
    out.print(f"{job.id}  {job.kind} is {job.state}", highlight=False)


@jobs_app.command("pause")
def jobs_pause(kind: KindArgument, tenant: TenantOption = None) -> None:
    """Pause a kind of job: running jobs finish, due jobs wait."""
    _print_pauses(run_for_tenant(open_jobs, tenant, lambda jobs, owner: jobs.pause_jobs(owner.principal, kind)))


@jobs_app.command("resume")
def jobs_resume(kind: KindArgument, tenant: TenantOption = None) -> None:
    """End the pause of a kind, or every pause."""
    _print_pauses(run_for_tenant(open_jobs, tenant, lambda jobs, owner: jobs.resume_jobs(owner.principal, kind)))


@jobs_app.command("counts")
def jobs_counts(tenant: TenantOption = None) -> None:
    """Count jobs by kind and state; show the delay of the oldest due job and the paused kinds."""
    summary = run_for_tenant(open_jobs, tenant, lambda jobs, owner: jobs.count_jobs(owner.principal))
    rows = plain_table("kind", "state", "jobs")
    for kind, state, count in summary.counts:
        rows.add_row(escape(kind), state, str(count))
    print_table(rows, whole=True)
    if summary.oldest_due_s is not None:
        out.print(f"the oldest due job has waited {summary.oldest_due_s:.0f} s", highlight=False)
    _print_pauses(list(summary.paused))


def _print_pauses(paused: list[str]) -> None:
    out.print(f"paused: {', '.join(paused) or 'nothing'}", highlight=False)
