"""The unit of work: the only access to the database, and the only place that commits.

`read` and `write` open a transaction whose first message binds it to one tenant. `call` runs one function that binds
the tenant itself: a whole transaction in one round trip.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg

from app.domain.errors import (
    DuplicateText,
    ErasedText,
    IdempotencyKeyUsed,
    MnemaError,
    NotFound,
    StateTooLarge,
    VersionConflict,
    WrongState,
)
from app.domain.outages import DatabaseFull, DatabaseReadOnly, DatabaseUnavailable, WriteContention
from app.domain.principal import Principal
from app.ports import in_transaction
from app.storage.engine import REFUSED, UNREACHABLE, Engine
from app.storage.pooling import LOST, LOST_STATEMENTS, end_session

Row: TypeAlias = Mapping[str, Any]


class ReadTx:
    """An open read-only transaction of one tenant."""

    __slots__ = ("_connection", "_timeout")

    def __init__(self, connection: asyncpg.Connection, timeout_s: float | None = None) -> None:
        self._connection = connection
        self._timeout = timeout_s

    async def fetch(self, statement: str, *args: Any) -> list[Row]:
        """Return all rows."""
        rows: list[Row] = await self._connection.fetch(statement, *args, timeout=self._timeout)
        return rows

    async def fetchrow(self, statement: str, *args: Any) -> Row | None:
        """Return the first row, or None."""
        row: Row | None = await self._connection.fetchrow(statement, *args, timeout=self._timeout)
        return row

    async def fetchval(self, statement: str, *args: Any) -> Any:
        """Return the first value of the first row."""
        return await self._connection.fetchval(statement, *args, timeout=self._timeout)


class WriteTx(ReadTx):
    """An open read-write transaction of one tenant."""

    __slots__ = ()

    async def execute(self, statement: str, *args: Any) -> str:
        """Run the statement; return its command tag, e.g. `UPDATE 1`."""
        tag: str = await self._connection.execute(statement, *args, timeout=self._timeout)
        return tag


TIDY_S = 1.0
"""The seconds that a connection may take to become idle after an error; then it is closed."""

_ERROR_BY_STATE: dict[str, type[MnemaError]] = {
    "MN404": NotFound,
    "MN409": WrongState,
    "MN410": ErasedText,
    "MN412": VersionConflict,
    "MN413": StateTooLarge,
    "MN425": IdempotencyKeyUsed,
    "23503": WriteContention,  # the user was erased while the memory was written
    "23505": DuplicateText,
    "40P01": WriteContention,
    "40001": WriteContention,
    "55P03": WriteContention,
    "25006": DatabaseReadOnly,
    "25P03": DatabaseUnavailable,  # a transaction that was idle for too long
    "25P04": DatabaseUnavailable,  # or took too long
    "53100": DatabaseFull,
    "58030": DatabaseUnavailable,  # an error of its disk
}
_TRANSIENT_CLASSES = ("53", "57")
"""SQLSTATE classes of temporary refusals: PostgreSQL lacks a resource, or an operator intervenes."""


def translate_error(error: BaseException) -> MnemaError | None:
    """Return our error for the driver's, or None if the error is a defect of ours."""
    if isinstance(error, asyncpg.ForeignKeyViolationError) and "tenant_id_fkey" in (error.constraint_name or ""):
        return NotFound("no such tenant")
    state = (error.sqlstate or "") if isinstance(error, asyncpg.PostgresError) else ""
    if ours := _ERROR_BY_STATE.get(state):
        return ours() if ours is not WrongState else WrongState(str(error))
    if state.startswith(_TRANSIENT_CLASSES):
        return DatabaseUnavailable("the database refuses this for now; try again")
    if isinstance(error, asyncpg.InvalidCachedStatementError):
        return DatabaseUnavailable("the database has a new schema; try again")
    if isinstance(error, LOST):
        return DatabaseUnavailable(LOST_STATEMENTS)
    if isinstance(error, REFUSED):
        return DatabaseUnavailable("the database refuses this login")
    if isinstance(error, asyncpg.InterfaceError) and not any(word in str(error) for word in ("clos", "released")):
        return None  # a wrong call of ours; only a lost connection is the database's fault
    return DatabaseUnavailable() if isinstance(error, UNREACHABLE) else None


async def _roll_back(connection: asyncpg.Connection) -> None:
    """Roll back; close a connection that cannot do that. The caller's first error counts, not this one."""
    try:
        await connection.execute("ROLLBACK", timeout=TIDY_S)
    except Exception:  # the driver has many errors for a broken connection
        with contextlib.suppress(Exception):
            connection.terminate()


class UnitOfWork:
    """Transactions on an engine's pool, of which each tenant has its share; beyond it they raise TenantBusy.

    Each statement may take `timeout_s` seconds, by default the engine's. After that DatabaseUnavailable is raised, and
    the transaction may have been stored or not.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @asynccontextmanager
    async def read(self, principal: Principal, *, timeout_s: float | None = None) -> AsyncIterator[ReadTx]:
        """Open a read-only transaction of one tenant."""
        async with self._open_transaction(principal, "BEGIN READ ONLY") as connection:
            try:
                yield ReadTx(connection, timeout_s)
            except asyncpg.ReadOnlySQLTransactionError as error:  # a defect of ours, not the database's state
                raise RuntimeError("a read-only unit of work tried to write") from error

    @asynccontextmanager
    async def write(self, principal: Principal, *, timeout_s: float | None = None) -> AsyncIterator[WriteTx]:
        """Open a read-write transaction of one tenant; commit at the end, roll back on an exception."""
        async with self._open_transaction(principal, "BEGIN") as connection:  # still read-only if the database is
            yield WriteTx(connection, timeout_s)

    @asynccontextmanager
    async def calls(self, principal: Principal) -> AsyncIterator[ReadTx]:
        """Yield a connection on which each statement is a transaction of its own, as in `call`."""
        async with self._acquire_connection(principal.tenant_id) as connection:
            yield ReadTx(connection)

    async def call(self, principal: Principal, statement: str, *args: Any) -> list[Row]:
        """Run one statement as a transaction of its own.

        The statement calls a function that takes the tenant as its first parameter and binds it before anything else.
        """
        async with self._acquire_connection(principal.tenant_id) as connection:
            rows: list[Row] = await connection.fetch(statement, principal.tenant_id, *args)
            return rows

    async def call_definer(self, statement: str, *args: Any) -> Sequence[Row]:
        """Call one of the few cross-tenant functions (such as `authenticate`), or read tables without a tenant."""
        async with self._acquire_connection(None) as connection:
            rows: list[Row] = await connection.fetch(statement, *args)
            return rows

    @asynccontextmanager
    async def _open_transaction(self, principal: Principal, begin: str) -> AsyncIterator[asyncpg.Connection]:
        async with self._acquire_connection(principal.tenant_id) as connection:
            # one message, before any savepoint: rolling back a savepoint that had set the tenant would clear it
            await connection.execute(f"{begin}; SELECT set_config('app.tenant_id', '{principal.tenant_id}', true)")
            try:
                yield connection
            except asyncpg.InvalidCachedStatementError:  # `_acquire_connection` ends its session, and so this, too
                raise
            except BaseException:
                await _roll_back(connection)
                raise
            await connection.execute("COMMIT")

    @asynccontextmanager
    async def _acquire_connection(self, tenant: UUID | None) -> AsyncIterator[asyncpg.Connection]:
        if in_transaction.get():
            raise RuntimeError("a unit of work is already open in this task")
        token, shares = in_transaction.set(True), self._engine.shares
        try:
            if not shares.take_place(tenant):
                await shares.wait_for_place(tenant, self._engine.timeout_s)
            try:
                if (pool := self._engine.pool_if_open) is None:
                    async with asyncio.timeout(self._engine.timeout_s):  # others may be opening it already
                        pool = await self._engine.get_pool()
                connection = await pool.acquire(timeout=self._engine.timeout_s)
                try:
                    yield connection
                except asyncpg.InvalidCachedStatementError:
                    await end_session(connection, TIDY_S)
                    raise
                finally:
                    with contextlib.suppress(Exception):  # the driver has closed it in that case
                        await pool.release(connection, timeout=TIDY_S)
            finally:
                shares.return_place(tenant)
        except (asyncpg.PostgresError, *UNREACHABLE) as error:
            if (ours := translate_error(error)) is not None:
                raise ours from error
            raise
        finally:
            in_transaction.reset(token)
