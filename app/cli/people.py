"""mnema export, erase, run: a person's data out or gone, and background work by hand."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import httpx
import typer
from rich.markup import escape

from app.bootstrap import consenting, forgetting, tenancy
from app.bootstrap.spaces import embedding_now
from app.cli.client import USAGE, describe, explain, fail, open_client, out, request
from app.cli.consolidation import consolidate
from app.cli.operators import run, settings
from app.cli.reflection import KINDS, reflect
from app.config.settings import Settings
from app.domain.principal import Scope
from app.usecases.retention.forgetting import Lifecycle, Report

JOBS = (*Lifecycle.JOBS, "consolidate", "consent", "embed", *KINDS)
OF_USERS = ("consolidate", *KINDS)
UserOption = Annotated[str, typer.Option("--user", help="user_id")]


def export(user: UserOption, to: Annotated[Path, typer.Option(help="a file, created or replaced")]) -> None:
    """Write everything held of a user to a file, one JSON record a line."""
    draft = to.with_name(f"{to.name}.part")
    with open_client() as client:
        try:
            _download(client, f"{_path(user)}/export", draft)
            draft.replace(to)
        except OSError as error:
            fail(f"cannot write {explain(error)}")
        finally:
            with suppress(OSError):
                draft.unlink()
    with to.open("rb") as file:
        out.print(f"{sum(1 for _ in file)} records written to {escape(str(to))}", highlight=False)


def _download(client: httpx.Client, path: str, to: Path) -> None:
    try:
        with client.stream("GET", path) as response, to.open("wb") as file:
            if not response.is_success:
                response.read()
                fail(describe(response))
            for chunk in response.iter_bytes():
                file.write(chunk)
    except httpx.HTTPError as error:
        fail(f"{client.base_url}: {str(error) or type(error).__name__}")


def _path(user: str) -> str:
    """Where a user is found; also one called `..`, which no client would otherwise send as it is."""
    return f"/users/{quote(user, safe='').replace('.', '%2E')}"


def erase(user: UserOption, yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False) -> None:
    """Erase a person for good and print the receipt."""
    if not yes:
        typer.confirm(f"Erase everything held of {user!r}? It cannot be undone", abort=True)
    with open_client() as client:
        receipt = request(client, "POST", f"{_path(user)}/erase")
    out.print(f"erased {escape(receipt['user_id'])} at {receipt['erased_at']}", highlight=False)
    for name, count in receipt["counts"].items():
        out.print(f"  {name:<18} {count}", highlight=False)


def run_job(
    job: Annotated[str, typer.Argument(help=", ".join(JOBS))],
    tenant: Annotated[str | None, typer.Option(help="name or id; none = every tenant")] = None,
    user: Annotated[str | None, typer.Option(help="of this user_id alone; not of whole tenants' jobs")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would be done")] = False,
) -> None:
    """Run a background job now; episodes, summaries and insights need a chat model."""
    if job not in JOBS:
        fail(f"a job is one of {', '.join(JOBS)}", USAGE)
    if user is not None and job not in OF_USERS:
        fail(f"{job} is of whole tenants: only {', '.join(OF_USERS)} take --user", USAGE)

    async def work() -> None:
        found = settings()
        async with tenancy(found) as tenants:
            chosen = [await tenants.find(tenant)] if tenant else await tenants.tenants()
        ids = {owner.name: owner.id for owner in chosen}
        if job == "consolidate":
            await consolidate(found, ids, user, dry_run)
            return
        if job in KINDS:
            await reflect(found, ids, job, user, dry_run)
            return
        async with _running(found, job, dry_run) as one:
            for owner in chosen:
                _print(owner.name, await one(Scope(owner.id)))

    run(work())


@asynccontextmanager
async def _running(found: Settings, job: str, dry_run: bool) -> AsyncIterator[Callable[[Scope], Awaitable[Report]]]:
    """What runs the job for one tenant."""
    if job == "consent":
        async with consenting(found) as consent:

            async def expire(scope: Scope) -> Report:
                return Report(job, dry_run, {"expired": await consent.expire(scope, dry_run=dry_run)})

            yield expire
    elif job == "embed":
        async with embedding_now(found) as embed:

            async def fill(scope: Scope) -> Report:
                counts = {"missing": await embed.lacking(scope)} if dry_run else await embed.all(scope)
                return Report(job, dry_run, counts)

            yield fill
    else:
        async with forgetting(found) as lifecycle:

            async def forget(scope: Scope) -> Report:
                return await lifecycle.run(scope, job, dry_run=dry_run)

            yield forget


def _print(tenant: str, report: Report) -> None:
    counts = ", ".join(f"{name} {count}" for name, count in report.counts.items())
    note = " (dry run: nothing was changed)" if report.dry_run else ""
    out.print(f"{escape(tenant)}: {report.job}: {counts}{note}", highlight=False)
    for memory_id in report.sample:
        out.print(f"  {memory_id}", highlight=False)
