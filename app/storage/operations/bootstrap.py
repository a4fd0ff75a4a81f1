"""The steps before the first migration: roles, database, extension and grants.

A superuser can run them, a role with CREATEROLE and CREATEDB, or somebody else by the script of `bootstrap_script`.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import asyncpg

from app.domain.errors import ConfigError, RightsMissing
from app.storage.database_url import connect
from app.storage.statements import load_statements

LEAST_MAJOR: Final = 16
"""The oldest PostgreSQL with the rules of roles that the statements rely on."""

_MISSING: Final = load_statements("operations/bootstrap.sql")
_ROLE: Final = "SELECT rolname, rolsuper OR rolcreatedb AS creates FROM pg_roles WHERE rolname = current_user"
_EXISTS: Final = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)"
_OWNS: Final = "SELECT coalesce(pg_has_role(to_regrole('mnema_owner')::oid, 'SET'), false)"
_SET_LOGIN: Final = "SELECT format('ALTER ROLE %I PASSWORD %L', $1::text, $2::text)"
_AGAIN: Final = "then run `mnema migrate` again (`mnema migrate --print-sql` prints all statements)"
_SECTION: Final = "-- Missing: {name}.\nSELECT statement FROM (\n{query}\n) s \\gexec\n"
_SCRIPT: Final = r"""
-- What `mnema migrate` needs: PostgreSQL 16 or newer, roles, a database, and pgvector in it. Run it with psql as a role
-- with CREATEROLE and CREATEDB, or as a superuser. It may run twice: each query lists what is missing, and \gexec runs
-- that. Passwords are set if given: psql -v admin_password=… -v app_password=… -f THIS_FILE URL
\set ON_ERROR_STOP on
\set database {database}

{roles}
\if :{{?admin_password}}
ALTER ROLE mnema_admin PASSWORD :'admin_password';
\endif
\if :{{?app_password}}
ALTER ROLE mnema_app PASSWORD :'app_password';
\endif

-- The backup role is optional. It needs BYPASSRLS, which only a role with BYPASSRLS may give.
\if :{{?backup_password}}
{backup}
ALTER ROLE mnema_backup PASSWORD :'backup_password';
\endif

{databases}
\connect :"database"

{inside}
""".lstrip()


async def bootstrap_cluster(url: str, database: str, passwords: Mapping[str, str]) -> None:
    """Create the roles, the database and the vector extension. Idempotent.

    `url`: of a superuser, or of a role with CREATEROLE and CREATEDB. mnema_app gets no access to large objects if a
    superuser does this. It gets no access to other databases either, unless other programs use the cluster.

    `passwords`: for `mnema_admin` and `mnema_app`, and for `mnema_backup` and `mnema_mover` if that role is wanted.
    Every call sets them again.

    Raise RightsMissing, with the statement, if the role may not run one. Roles are then as they were before.
    """
    async with _open_steps(url) as steps, steps.connection.transaction():
        await steps.run_missing("roles")
        if "mnema_backup" in passwords:
            await steps.run_missing("backup")
        if "mnema_mover" in passwords:
            await steps.run_missing("mover")
        await steps.set_passwords(passwords)
        await steps.require_creator(database)
    async with _open_steps(url) as steps:
        await steps.run_missing("databases", database)
    async with _open_steps(url, database) as steps:
        await steps.run_missing("inside")


async def require_bootstrap(connection: asyncpg.Connection) -> None:
    """Raise RightsMissing, with the statements, if roles, extension or grants are missing that a migration needs."""
    _require_version(connection)
    for name in ("roles", "inside"):  # the second one names roles
        missing = await _list_missing(connection, name)
        if statements := "; ".join(row["statement"] for row in missing if row["needed"]):
            raise RightsMissing(f"the database is not prepared; run as its administrator: {statements}; {_AGAIN}")
    if not await connection.fetchval(_OWNS):
        raise RightsMissing("the role of MNEMA_ADMIN_DATABASE_URL is no member of mnema_owner: use mnema_admin")


def bootstrap_script(database: str) -> str:
    """Return the bootstrap as a script for psql. It may run twice, and has no password in it."""
    quoted = "'{}'".format(database.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n"))
    sections = {name: _SECTION.format(name=name, query=query) for name, query in _MISSING.items()}
    sections["databases"] = sections["databases"].replace("$1::text", ":'database'")
    return _SCRIPT.format(database=quoted, **sections)


class _Steps:
    """A connection of the role that runs the statements."""

    def __init__(self, connection: asyncpg.Connection, role: Mapping[str, Any]) -> None:
        self.connection = connection
        self._role = role

    async def run_missing(self, name: str, *args: str) -> None:
        """Run the statements that a query of bootstrap.sql lists."""
        for row in await _list_missing(self.connection, name, *args):
            await self._run(row["statement"], row["statement"])

    async def set_passwords(self, passwords: Mapping[str, str]) -> None:
        """Set the passwords of these roles."""
        for role, password in passwords.items():
            await self._run(await self.connection.fetchval(_SET_LOGIN, role, password), f"ALTER ROLE {role} PASSWORD …")

    async def require_creator(self, database: str) -> None:
        """Raise RightsMissing if the database does not exist and this role may not create one."""
        if self._role["creates"] or await self.connection.fetchval(_EXISTS, database):
            return
        name = self._role["rolname"]
        raise RightsMissing(
            f"the database {database} does not exist, and the role {name} may not create it; run as its administrator: "
            f"ALTER ROLE {name} CREATEDB; {_AGAIN}"
        )

    async def _run(self, statement: str, shown: str) -> None:
        try:
            await self.connection.execute(statement)
        except asyncpg.InsufficientPrivilegeError as error:
            reason = ": ".join(part for part in (error.message, error.detail) if part)
            raise RightsMissing(
                f"the role {self._role['rolname']} may not run a statement that is needed ({reason}); run as a role "
                f"that may: {shown}; {_AGAIN}"
            ) from error


@asynccontextmanager
async def _open_steps(url: str, database: str | None = None) -> AsyncIterator[_Steps]:
    connection = await connect(url, database)
    try:
        _require_version(connection)
        yield _Steps(connection, await connection.fetchrow(_ROLE))
    finally:
        await connection.close()


def _require_version(connection: asyncpg.Connection) -> None:
    major = connection.get_server_version().major
    if major < LEAST_MAJOR:
        raise ConfigError(f"the database runs PostgreSQL {major}; Mnema needs {LEAST_MAJOR} or newer")


async def _list_missing(connection: asyncpg.Connection, name: str, *args: str) -> list[asyncpg.Record]:
    return list(await connection.fetch(_MISSING[name], *args))
