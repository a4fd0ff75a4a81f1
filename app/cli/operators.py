"""The functions that operators' commands share. They use the database alone."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Any, NamedTuple, TypeVar
from uuid import UUID

import structlog
import typer
from mnema_cli.output import USAGE, error_text, exit_with_error

from app.bootstrap.database import read_clusters
from app.bootstrap.directory import open_directory
from app.config.logs import configure_logs
from app.config.settings import AdminSettings, Settings
from app.domain.errors import MnemaError
from app.domain.principal import Principal

P = TypeVar("P")
T = TypeVar("T")
TenantOption = Annotated[
    str | None, typer.Option("--tenant", help="name or id; not needed if there is only one tenant")
]


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
    async with open_directory(settings) as tenants:
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
    from app.embedded.home import Home  # an installation with a URL has none

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
    from app.embedded.home import Home

    home = Home()
    if not home.is_installed or not home.postgres.is_running():
        exit_with_error("set MNEMA_ADMIN_DATABASE_URL to the database URL of mnema_admin, or run `mnema up`")
    return home.role_url(home.postgres.start_server(), "mnema_admin")
