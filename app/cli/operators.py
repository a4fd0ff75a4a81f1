"""mnema migrate, secret and doctor, and what operators' commands share: they use the database alone."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Any, NamedTuple, TypeVar
from uuid import UUID

import structlog
import typer
from mnema_cli.client import USAGE, error_text, exit_with_error, out
from rich.markup import escape

from app.bootstrap.administration import (
    ask_chat_model,
    change_secret,
    create_roles,
    diagnose_installation,
    find_database,
    migrate_database,
    roles_script,
)
from app.bootstrap.clusters import migrate_clusters
from app.bootstrap.database import read_clusters
from app.bootstrap.tenancy import open_tenants
from app.config.logs import configure_logs
from app.config.settings import AdminSettings, Settings
from app.domain.errors import ConfigError, MnemaError
from app.domain.principal import Principal
from app.embedded.home import DATABASE, Home
from app.usecases.operations.readiness import READ_ONLY, Readiness

P = TypeVar("P")
T = TypeVar("T")
secret_app = typer.Typer(no_args_is_help=True, help="The installation's secret, MNEMA_SECRET_KEY.")
TenantOption = Annotated[
    str | None, typer.Option("--tenant", help="name or id; not needed if there is only one tenant")
]
REMEDIES = {
    "database": "check MNEMA_DATABASE_URL and that PostgreSQL runs there, or start the embedded one with `mnema up`"
}


def run_use_case(work: Coroutine[Any, Any, T]) -> T:
    """Run a use-case and return its result. On a MnemaError, print a message and exit. Warnings go to stderr."""
    if not structlog.is_configured():  # its default prints every line to stdout, among the results
        configure_logs("warning")
    try:
        return asyncio.run(work)
    except MnemaError as error:
        exit_with_error(error_text(error))


class Owner(NamedTuple):
    """A tenant that a command is about."""

    id: UUID
    name: str

    @property
    def principal(self) -> Principal:
        """The tenant as the caller of a use-case."""
        return Principal(self.id)


async def find_tenant(settings: Settings, tenant: str | None) -> Owner:
    """Return a tenant by its name or id; without one, the only tenant. Exit if there are several. Raise NotFound."""
    async with open_tenants(settings) as tenants:
        known = [await tenants.find_tenant(tenant)] if tenant is not None else await tenants.list_tenants()
    if len(known) != 1:
        names = ", ".join(sorted(one.name for one in known)) or "none yet; create one with: mnema tenant create NAME"
        exit_with_error(f"name a tenant with --tenant: {names}", USAGE)
    return Owner(known[0].id, known[0].name)


def run_for_tenant(
    open_parts: Callable[[Settings], AbstractAsyncContextManager[P]],
    tenant: str | None,
    work: Callable[[P, Owner], Awaitable[T]],
) -> T:
    """Open a part of the application, let `work` use it for a tenant, and return its result."""

    async def run_work() -> T:
        settings = resolve_settings()
        owner = await find_tenant(settings, tenant)
        async with open_parts(settings) as parts:
            return await work(parts, owner)

    return run_use_case(run_work())


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
    if first := next(iter(read_clusters(Settings()).values()), None):
        return first.admin_database_url.get_secret_value()
    home = Home()
    if not home.is_installed or not home.postgres.is_running():
        exit_with_error("set MNEMA_ADMIN_DATABASE_URL to the database URL of mnema_admin, or run `mnema up`")
    return home.role_url(home.postgres.start_server(), "mnema_admin")


def migrate_schema(
    roles_only: Annotated[
        bool, typer.Option("--roles-only", help="create roles, database and extension but no schema, before a restore")
    ] = False,
    print_sql: Annotated[
        bool, typer.Option("--print-sql", help="only print the SQL of that, for psql and your database administrator")
    ] = False,
) -> None:
    """Migrate the schema to the newest version, as mnema_admin (MNEMA_ADMIN_DATABASE_URL).

    With MNEMA_SUPERUSER_DATABASE_URL, MNEMA_ADMIN_PASSWORD and MNEMA_APP_PASSWORD it first creates roles, database and
    extension. CREATEROLE and CREATEDB are enough for that. With MNEMA_BACKUP_PASSWORD it also creates mnema_backup,
    which can read everything and write nothing.

    With MNEMA_CLUSTERS it does this for each cluster of the file and joins them: see docs/scaling.md.
    """
    settings = AdminSettings()
    try:
        named = find_database(settings.admin_database_url.get_secret_value())
    except ConfigError as error:
        exit_with_error(error_text(error))
    database = settings.database or named or DATABASE
    if print_sql:
        typer.echo(roles_script(database), nl=False)
        return
    if superuser := settings.superuser_database_url.get_secret_value():
        passwords = settings.role_passwords()
        if not all(passwords.values()):
            exit_with_error("set MNEMA_ADMIN_PASSWORD and MNEMA_APP_PASSWORD")
        run_use_case(create_roles(superuser, database, passwords))
    if roles_only:
        if not superuser:
            exit_with_error("set MNEMA_SUPERUSER_DATABASE_URL")
        out.print("roles, database and extension exist")
        return
    if (several := Settings()).clusters is not None:
        for name, model in run_use_case(migrate_clusters(several)).items():
            out.print(f"{name}: the schema is current; the vectors are from {model}", highlight=False)
        return
    model = run_use_case(migrate_database(admin_url(), Settings()))
    out.print(f"the schema is current; the vectors are from {model}")


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


def run_doctor(
    ask_model: Annotated[
        bool, typer.Option("--ask-model", help="also ask the chat model a question, which costs some tokens")
    ] = False,
) -> None:
    """Check this installation and say how to repair it.

    With --ask-model, show how the chat model's endpoint is asked for JSON, and which parameters it takes.
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
    if ask_model:
        out.print(f"\nchat model: {escape(run_use_case(ask_chat_model(settings)))}", highlight=False)
    if failed - Readiness.OPTIONAL:
        raise typer.Exit(1)
