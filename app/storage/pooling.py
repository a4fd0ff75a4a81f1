"""The demands on a connection pooler between server and database, and the proof that a connection's pooler meets them.

A pooler in transaction mode gives each transaction any of its connections to the database. A statement that a client
has prepared is then there only if the pooler keeps count of prepared statements, as PgBouncer does from 1.21 on.
Otherwise a statement fails, or the statement of another client that has the same name runs in its place.
"""

import contextlib
from functools import partial

import asyncpg

from app.domain.errors import ConfigError

STATEMENT_CACHE = 100
"""The prepared statements that a connection keeps, by default."""

LOST_STATEMENTS = (
    "the connection pooler before the database loses prepared statements: use PgBouncer 1.21 or later with "
    "max_prepared_statements = 500, or set MNEMA_DATABASE_STATEMENT_CACHE=0 in every server and worker"
)

LOST = (asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError)
"""Errors of the driver when a pooler does not keep count of prepared statements."""

PROBE = "mnema_probe"
TIDY_S = 1.0
"""The seconds that a connection may take to become idle after an error; then it is closed."""


async def prove_prepared(connection: asyncpg.Connection) -> None:
    """Prepare a statement whose name is the same on every connection, and keep it while the connection lasts.

    Raise ConfigError if another client's statement of that name is there already: then clients share connections to
    the database without a pooler that keeps their statements apart. Only the second client can detect this.
    """
    try:
        statement = await connection.prepare("SELECT 1", name=PROBE)
    except LOST as e:
        raise ConfigError(LOST_STATEMENTS) from e
    connection.add_termination_listener(partial(_forget, statement))  # the driver closes unreferenced statements


def _forget(_statement: object, _connection: asyncpg.Connection) -> None:
    """Do nothing: the statement ends with its connection."""


async def end_session(connection: asyncpg.Connection) -> None:
    """Roll back and end the database's side of a connection whose prepared statements no longer fit the schema.

    A pooler would keep that side, and give the same statement to the next client, which fails in the same way.
    """
    with contextlib.suppress(Exception):  # success also raises an error, because the session has ended
        await connection.execute("ROLLBACK; SELECT pg_terminate_backend(pg_backend_pid())", timeout=TIDY_S)
    with contextlib.suppress(Exception):
        connection.terminate()


def startup_refusal(error: BaseException) -> ConfigError | None:
    """Return our error if a pooler refuses what the URL of the database asks for, such as `options`; else None."""
    if isinstance(error, asyncpg.ProtocolViolationError) and "startup parameter" in str(error):
        return ConfigError(
            f"the connection pooler before the database refuses the options of MNEMA_DATABASE_URL: {error}"
        )
    return None
