"""mnema migrate, tenant, key, secret and doctor: operators' commands, which use the database without the server."""

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

import typer
from rich.markup import escape

from app.bootstrap.administration import change_secret, create_roles, diagnose_installation, migrate_database
from app.bootstrap.tenancy import open_tenants, remove_tenant
from app.cli.client import error_text, exit_with_error, out, plain_table, print_table
from app.config.settings import AdminSettings, Settings
from app.domain.errors import MnemaError
from app.embedded.home import DATABASE, Home
from app.usecases.operations.readiness import READ_ONLY, Readiness

T = TypeVar("T")
tenant_app = typer.Typer(no_args_is_help=True, help="Tenants.")
secret_app = typer.Typer(no_args_is_help=True, help="The installation's secret, MNEMA_SECRET_KEY.")
key_app = typer.Typer(no_args_is_help=True, help="API keys.")
TenantOption = Annotated[str, typer.Option("--tenant", help="name or id")]
REMEDIES = {
    "database": "check MNEMA_DATABASE_URL and that PostgreSQL runs there, or start the embedded one with `mnema up`"
}


def run_use_case(work: Coroutine[Any, Any, T]) -> T:
    """Run a use-case and return its result. On a MnemaError, print a message and exit."""
    try:
        return asyncio.run(work)
    except MnemaError as error:
        exit_with_error(error_text(error))


def resolve_settings() -> Settings:
    """Return the settings; without MNEMA_DATABASE_URL, those of the embedded installation if it runs, else exit."""
    settings = Settings()
    if settings.database_url.get_secret_value():
        return settings
    home = Home()
    if not home.is_installed or not home.postgres.is_running():
        exit_with_error(
            "set MNEMA_DATABASE_URL to the database URL of mnema_app, or start the embedded server: mnema up"
        )
    return home.server_settings(home.postgres.start_server())


def admin_url() -> str:
    """Return the database URL of mnema_admin; without one, that of the embedded installation if it runs, else exit."""
    if url := AdminSettings().admin_database_url.get_secret_value():
        return url
    home = Home()
    if not home.is_installed or not home.postgres.is_running():
        exit_with_error("set MNEMA_ADMIN_DATABASE_URL to the database URL of mnema_admin, or run `mnema up`")
    return home.role_url(home.postgres.start_server(), "mnema_admin")


def migrate_schema(
    roles_only: Annotated[
        bool, typer.Option("--roles-only", help="create roles, database and extension but no schema, before a restore")
    ] = False,
) -> None:
    """Migrate the schema to the newest version, as mnema_admin (MNEMA_ADMIN_DATABASE_URL).

    With MNEMA_SUPERUSER_DATABASE_URL, MNEMA_ADMIN_PASSWORD and MNEMA_APP_PASSWORD it first creates roles, database and
    extension. With MNEMA_BACKUP_PASSWORD it also creates mnema_backup, which can read everything and write nothing.
    """
    settings = AdminSettings()
    if superuser := settings.superuser_database_url.get_secret_value():
        passwords = settings.role_passwords()
        if not all(passwords.values()):
            exit_with_error("set MNEMA_ADMIN_PASSWORD and MNEMA_APP_PASSWORD")
        database = urlsplit(settings.admin_database_url.get_secret_value()).path.removeprefix("/") or DATABASE
        run_use_case(create_roles(superuser, settings.database or database, passwords))
    if roles_only:
        if not superuser:
            exit_with_error("set MNEMA_SUPERUSER_DATABASE_URL")
        out.print("roles, database and extension exist")
        return
    model = run_use_case(migrate_database(admin_url(), Settings()))
    out.print(f"the schema is current; the vectors are from {model}")


@tenant_app.command("create")
def tenant_create(name: str) -> None:
    """Create a tenant."""

    async def create_tenant() -> None:
        async with open_tenants(resolve_settings()) as tenants:
            tenant = await tenants.create_tenant(name)
        out.print(f"{tenant.id}  {escape(tenant.name)}", highlight=False)

    run_use_case(create_tenant())


@tenant_app.command("list")
def tenant_list() -> None:
    """List tenants."""

    async def print_tenants() -> None:
        async with open_tenants(resolve_settings()) as tenants:
            all_tenants = await tenants.list_tenants()
        rows = plain_table("id", "name", "created")
        for tenant in all_tenants:
            rows.add_row(str(tenant.id), escape(tenant.name), tenant.created_at.isoformat()[:19])
        print_table(rows, whole=True)

    run_use_case(print_tenants())


@tenant_app.command("delete")
def tenant_delete(
    tenant: Annotated[str, typer.Argument(help="name or id")],
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> None:
    """Delete a tenant with all its data, as mnema_admin (MNEMA_ADMIN_DATABASE_URL).

    Its keys are revoked first. If the command is interrupted, run it again.
    """
    if not yes:
        typer.confirm(f"Delete all data of tenant {tenant!r}? This cannot be undone", abort=True)
    counts = run_use_case(remove_tenant(Settings(), admin_url(), tenant))
    out.print(f"deleted {escape(tenant)}", highlight=False)
    for name, count in sorted(counts.items()):
        out.print(f"  {name:<24} {count}", highlight=False)


@key_app.command("create")
def key_create(
    tenant: TenantOption,
    scopes: Annotated[str, typer.Option(help="comma-separated: query, write, chat, approve, admin")] = "query,write",
    agents: Annotated[
        str | None, typer.Option(help="comma-separated; without it the key is not bound to agents")
    ] = None,
    name: Annotated[str, typer.Option()] = "key",
    days: Annotated[int | None, typer.Option(min=1, help="days until the key expires")] = None,
) -> None:
    """Create a key. It is printed once and stored only as a hash."""

    async def create_key() -> None:
        expires = datetime.now(UTC) + timedelta(days=days) if days else None
        bound = None if agents is None else _split_names(agents)  # an empty list is refused, unlike None
        async with open_tenants(resolve_settings()) as tenants:
            owner = await tenants.find_tenant(tenant)
            key, plain = await tenants.create_key(owner.id, name, _split_names(scopes), bound, expires)
        out.print(f"{key.id}  {plain}", highlight=False)

    run_use_case(create_key())


@key_app.command("list")
def key_list(tenant: TenantOption) -> None:
    """List the keys of a tenant."""

    async def print_keys() -> None:
        async with open_tenants(resolve_settings()) as tenants:
            keys = await tenants.list_keys((await tenants.find_tenant(tenant)).id)
        rows = plain_table("id", "name", "key", "scopes", "agents", "expires", "revoked")
        for key in keys:
            agents = "any" if key.agents is None else ",".join(key.agents)
            times = (moment.isoformat()[:16] if moment else "" for moment in (key.expires_at, key.revoked_at))
            rows.add_row(str(key.id), escape(key.name), f"{key.prefix}…", ",".join(key.scopes), escape(agents), *times)
        print_table(rows, whole=True)

    run_use_case(print_keys())


@key_app.command("revoke")
def key_revoke(key_id: UUID, tenant: TenantOption) -> None:
    """Revoke a key. Every server refuses it within seconds."""

    async def revoke_key() -> None:
        async with open_tenants(resolve_settings()) as tenants:
            await tenants.revoke_key((await tenants.find_tenant(tenant)).id, key_id)
        out.print("revoked")

    run_use_case(revoke_key())


@secret_app.callback()
def _secret_group() -> None:
    """Keep `accept` a subcommand: Typer would drop the name of an only command."""


@secret_app.command("accept")
def secret_accept() -> None:
    """Make this MNEMA_SECRET_KEY the secret of the database, as mnema_admin (MNEMA_ADMIN_DATABASE_URL).

    The keys of tenants' chat endpoints are decrypted with MNEMA_FORMER_SECRET_KEY and encrypted with the new secret.
    /ready then fails on servers with another secret. Texts that were erased under the former secret are no longer
    recognised.
    """
    count = run_use_case(change_secret(resolve_settings(), admin_url()))
    out.print(f"keys of chat endpoints encrypted again: {count}", highlight=False)
    out.print("accepted; texts erased under the former secret are no longer recognised")


def run_doctor() -> None:
    """Check this installation and say how to repair it.

    Exit code 1 if the server could not answer requests, 0 if it could, even without a broker.
    """
    settings = Settings()
    home = Home()
    if not settings.database_url.get_secret_value() and home.is_installed and home.postgres.is_running():
        settings = home.settings_with_redis(home.postgres.start_server())
    try:
        checks = asyncio.run(diagnose_installation(settings))
    except MnemaError as error:
        exit_with_error(error_text(error))
    except Exception as error:  # an error of the driver: the database exists, but `mnema migrate` has not prepared it
        exit_with_error(f"the database is not prepared ({error_text(error)}): run `mnema migrate`")
    failed = Readiness.failed_checks(checks)
    for name, verdict in checks.items():
        mark = "[green]ok[/]  " if name not in failed else "[red]bad[/] "
        if name in failed & Readiness.OPTIONAL:
            mark = "[yellow]warn[/]"
        out.print(f"{mark} {name}{'' if verdict == 'ok' else ': ' + escape(verdict)}", highlight=False)
    for name in failed & REMEDIES.keys():
        if checks[name] != READ_ONLY:  # that verdict already names the remedy
            out.print(f"\nto repair {name}: {REMEDIES[name]}", highlight=False)
    if failed - Readiness.OPTIONAL:
        raise typer.Exit(1)


def _split_names(value: str | None) -> list[str]:
    return [part.strip() for part in (value or "").split(",") if part.strip()]
