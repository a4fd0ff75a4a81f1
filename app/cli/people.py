"""mnema export, erase, run: a person's data out or gone, and background work by hand."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import httpx
import typer
from rich.markup import escape

from app.bootstrap.consent import open_consent
from app.bootstrap.retention import open_forgetting
from app.bootstrap.spaces import open_embed_missing
from app.bootstrap.tenancy import open_tenants
from app.cli.client import USAGE, describe_response, error_text, exit_with_error, open_client, out, request_json
from app.cli.consolidation import run_consolidation
from app.cli.operators import resolve_settings, run_use_case
from app.cli.reflection import KINDS, run_reflection
from app.config.settings import Settings
from app.domain.principal import Principal
from app.usecases.retention.forgetting import ForgetMemories, ForgettingReport

JOBS = (*ForgetMemories.JOBS, "consolidate", "consent", "embed", *KINDS)
OF_USERS = ("consolidate", *KINDS)
UserOption = Annotated[str, typer.Option("--user", help="user_id")]


def export_user(user: UserOption, to: Annotated[Path, typer.Option(help="a file, created or replaced")]) -> None:
    """Write everything held of a user to a file, one JSON record a line."""
    draft = to.with_name(f"{to.name}.part")
    with open_client() as client:
        try:
            _download_export(client, f"{_user_path(user)}/export", draft)
            draft.replace(to)
        except OSError as error:
            exit_with_error(f"cannot write {error_text(error)}")
        finally:
            with suppress(OSError):
                draft.unlink()
    with to.open("rb") as file:
        out.print(f"{sum(1 for _ in file)} records written to {escape(str(to))}", highlight=False)


def _download_export(client: httpx.Client, path: str, to: Path) -> None:
    try:
        with client.stream("GET", path) as response, to.open("wb") as file:
            if not response.is_success:
                response.read()
                exit_with_error(describe_response(response))
            for chunk in response.iter_bytes():
                file.write(chunk)
    except httpx.HTTPError as error:
        exit_with_error(f"{client.base_url}: {str(error) or type(error).__name__}")


def _user_path(user: str) -> str:
    """Where a user is found; also one called `..`, which no client would otherwise send as it is."""
    return f"/users/{quote(user, safe='').replace('.', '%2E')}"


def erase_user(user: UserOption, yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False) -> None:
    """Erase a person for good and print the receipt."""
    if not yes:
        typer.confirm(f"Erase everything held of {user!r}? It cannot be undone", abort=True)
    with open_client() as client:
        receipt = request_json(client, "POST", f"{_user_path(user)}/erase")
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
        exit_with_error(f"a job is one of {', '.join(JOBS)}", USAGE)
    if user is not None and job not in OF_USERS:
        exit_with_error(f"{job} is of whole tenants: only {', '.join(OF_USERS)} take --user", USAGE)

    async def run_for_tenants() -> None:
        found = resolve_settings()
        async with open_tenants(found) as tenants:
            chosen = [await tenants.find_tenant(tenant)] if tenant else await tenants.list_tenants()
        ids = {owner.name: owner.id for owner in chosen}
        if job == "consolidate":
            await run_consolidation(found, ids, user, dry_run)
            return
        if job in KINDS:
            await run_reflection(found, ids, job, user, dry_run)
            return
        async with _open_job(found, job, dry_run) as one:
            for owner in chosen:
                _print_report(owner.name, await one(Principal(owner.id)))

    run_use_case(run_for_tenants())


@asynccontextmanager
async def _open_job(
    found: Settings, job: str, dry_run: bool
) -> AsyncIterator[Callable[[Principal], Awaitable[ForgettingReport]]]:
    """What runs the job for one tenant."""
    if job == "consent":
        async with open_consent(found) as consent:

            async def expire_proposals(scope: Principal) -> ForgettingReport:
                return ForgettingReport(job, dry_run, {"expired": await consent.expire_patches(scope, dry_run=dry_run)})

            yield expire_proposals
    elif job == "embed":
        async with open_embed_missing(found) as embed:

            async def fill_vectors(scope: Principal) -> ForgettingReport:
                counts = {"missing": await embed.count_missing(scope)} if dry_run else await embed.embed_all(scope)
                return ForgettingReport(job, dry_run, counts)

            yield fill_vectors
    else:
        async with open_forgetting(found) as lifecycle:

            async def forget_memories(scope: Principal) -> ForgettingReport:
                return await lifecycle.run_job(scope, job, dry_run=dry_run)

            yield forget_memories


def _print_report(tenant: str, report: ForgettingReport) -> None:
    counts = ", ".join(f"{name} {count}" for name, count in report.counts.items())
    note = " (dry run: nothing was changed)" if report.dry_run else ""
    out.print(f"{escape(tenant)}: {report.job}: {counts}{note}", highlight=False)
    for memory_id in report.sample:
        out.print(f"  {memory_id}", highlight=False)
