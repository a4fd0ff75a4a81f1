"""mnema run: run background jobs by hand."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Annotated, Final
from uuid import UUID

import typer
from mnema_cli.output import USAGE, exit_with_error, out
from rich.markup import escape

from app.bootstrap.blobs import open_blobs
from app.bootstrap.consent import open_consent
from app.bootstrap.consolidation import open_consolidation
from app.bootstrap.directory import open_directory
from app.bootstrap.reflection import open_reflection
from app.bootstrap.retention import open_forgetting, open_partitions
from app.bootstrap.spaces import open_embed_missing
from app.cli.operators import resolve_settings, run_use_case
from app.config.settings import Settings
from app.domain.consolidation.plan import PairDecision, Report
from app.domain.outages import NoChatModel
from app.domain.principal import Principal
from app.domain.reflection.transcript import ReflectionKind
from app.usecases.retention.forgetting import ForgetMemories, ForgettingReport
from app.usecases.retention.partitions import PartitionReport

KINDS: Final[Mapping[str, ReflectionKind]] = {"episodes": "episode", "summaries": "summary", "insights": "insight"}
"""The kind of reflection for each job name."""
PARTITIONS = "partitions"
JOBS = (*ForgetMemories.JOBS, PARTITIONS, "consolidate", "consent", "embed", "blobs", *KINDS)
OF_USERS = ("consolidate", *KINDS)


def run_job(
    job: Annotated[str, typer.Argument(help=", ".join(JOBS))],
    tenant: Annotated[str | None, typer.Option(help="name or id; without it every tenant")] = None,
    user: Annotated[str | None, typer.Option(help=f"only this user_id; for {', '.join(OF_USERS)}")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only show what would be done")] = False,
) -> None:
    """Run a background job now. Episodes, summaries and insights need a chat model."""
    if job not in JOBS:
        exit_with_error(f"unknown job {job!r}; use one of {', '.join(JOBS)}", USAGE)
    if user is not None and job not in OF_USERS:
        exit_with_error(f"{job} runs for whole tenants; only {', '.join(OF_USERS)} take --user", USAGE)

    if job == PARTITIONS and tenant is not None:
        exit_with_error(f"{PARTITIONS} hold the rows of all tenants; they take no --tenant", USAGE)

    async def run_for_tenants() -> None:
        settings = resolve_settings()
        if job == PARTITIONS:
            async with open_partitions(settings) as upkeep:
                _print_partitions(await upkeep.keep_partitions(dry_run=dry_run))
            return
        async with open_directory(settings) as tenants:
            owners = [await tenants.find_tenant(tenant)] if tenant else await tenants.list_tenants()
        ids = {owner.name: owner.id for owner in owners}
        if job == "consolidate":
            await run_consolidation(settings, ids, user, dry_run)
            return
        if job in KINDS:
            await run_reflection(settings, ids, job, user, dry_run)
            return
        async with _open_job(settings, job, dry_run) as run_once:
            for owner in owners:
                _print_report(owner.name, await run_once(Principal(owner.id)))

    run_use_case(run_for_tenants())


@asynccontextmanager
async def _open_job(
    settings: Settings, job: str, dry_run: bool
) -> AsyncIterator[Callable[[Principal], Awaitable[ForgettingReport]]]:
    """Open a function that runs the job for one tenant and returns its report."""
    if job == "consent":
        async with open_consent(settings) as consent:

            async def expire_proposals(principal: Principal) -> ForgettingReport:
                return ForgettingReport(
                    job, dry_run, {"expired": await consent.expire_patches(principal, dry_run=dry_run)}
                )

            yield expire_proposals
    elif job == "embed":
        async with open_embed_missing(settings) as embed:

            async def fill_vectors(principal: Principal) -> ForgettingReport:
                if not dry_run:
                    return ForgettingReport(job, dry_run, await embed.embed_all(principal))
                missing, past = await embed.count_missing(principal), await embed.count_past(principal)
                return ForgettingReport(job, dry_run, {"missing": missing, "past": past})

            yield fill_vectors
    elif job == "blobs":
        async with open_blobs(settings) as blobs:

            async def sweep_blobs(principal: Principal) -> ForgettingReport:
                report = await blobs.sweep_blobs(principal, dry_run=dry_run)
                return ForgettingReport(job, dry_run, asdict(report))

            yield sweep_blobs
    else:
        async with open_forgetting(settings) as lifecycle:

            async def forget_memories(principal: Principal) -> ForgettingReport:
                return await lifecycle.run_job(principal, job, dry_run=dry_run)

            yield forget_memories


def _print_partitions(report: PartitionReport) -> None:
    note = " (dry run: nothing was changed)" if report.dry_run else ""
    out.print(f"partitions: added {len(report.added)}, moved {report.moved} rows{note}", highlight=False)
    for old in report.dropped:
        counts = ", ".join(f"{name} {count}" for name, count in old.rows.items())
        out.print(
            f"  {'would drop' if report.dry_run else 'dropped'} the week of {old.week[:10]}: {counts}", highlight=False
        )
    for name in report.skipped:
        out.print(f"  {name} not made: its rows in the default partition are too many to move", highlight=False)
    if report.busy:
        out.print("  a table was in use; run it again", highlight=False)


def _print_report(tenant: str, report: ForgettingReport) -> None:
    counts = ", ".join(f"{name} {count}" for name, count in report.counts.items())
    note = " (dry run: nothing was changed)" if report.dry_run else ""
    out.print(f"{escape(tenant)}: {report.job}: {counts}{note}", highlight=False)
    for memory_id in report.sample:
        out.print(f"  {memory_id}", highlight=False)


async def run_consolidation(settings: Settings, tenants: Mapping[str, UUID], user: str | None, dry_run: bool) -> None:
    """Consolidate one tenant after another and print each report. `tenants` maps names to ids."""
    async with open_consolidation(settings) as work:
        for name, tenant_id in tenants.items():
            _print_consolidation(
                name, await work.consolidate_users(Principal(tenant_id), dry_run=dry_run, user_id=user), dry_run
            )


def _print_consolidation(tenant: str, report: Report, dry_run: bool) -> None:
    counts = ", ".join(f"{name} {count}" for name, count in report.as_json().items() if name != "decisions")
    note = " (dry run: nothing was changed)" if dry_run else ""
    out.print(f"{escape(tenant)}: consolidate: {counts}{note}", highlight=False)
    for decision in report.decisions:
        _print_decision(decision)


def _print_decision(decision: PairDecision) -> None:
    rule = f" {decision.rule}" if decision.rule else ""
    user = f" {decision.user_id}" if decision.user_id is not None else ""
    ids = " ".join(str(memory_id) for memory_id in decision.ids)
    line = f"  {decision.action} {decision.score:.2f}{rule}{user} [{decision.category}] {ids}"
    out.print(escape(line), highlight=False)
    for text in decision.texts or ():
        out.print(escape(f"      {text}"), highlight=False)


async def run_reflection(
    settings: Settings, tenants: Mapping[str, UUID], job: str, user: str | None, dry_run: bool
) -> None:
    """Run a reflection job for one tenant after another and print each text. `tenants` maps names to ids.

    Raise NoChatModel, TokensSpent or ChatModelUnavailable.
    """
    note = " (dry run: nothing was changed)" if dry_run else ""
    async with open_reflection(settings) as work:
        if not work.has_model:
            raise NoChatModel()
        for name, tenant_id in tenants.items():
            counts = dict.fromkeys(("read", "created", "updated", "tokens"), 0)
            async for result in work.reflect_waiting(Principal(tenant_id), KINDS[job], user_id=user, dry_run=dry_run):
                accepted = result.why is None
                increments = (1, result.created * accepted, result.updated * accepted, result.tokens)
                counts = {key: counts[key] + more for key, more in zip(counts, increments, strict=True)}
                for text in result.texts if accepted else ():
                    source = result.user_id if result.thread_id is None else f"{result.user_id} {result.thread_id}"
                    out.print(escape(f"  {source}: {text}"), highlight=False)
            totals = ", ".join(f"{key} {count}" for key, count in counts.items())
            out.print(f"{escape(name)}: {job}: {totals}{note}", highlight=False)
