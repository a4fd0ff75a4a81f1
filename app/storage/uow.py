"""The unit of work: the only way to the database, and the only place that commits.

`read` and `write` open a transaction bound to one tenant by its very first message. `call` runs one function that binds
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

Row: TypeAlias = Mapping[str, Any]


class ReadTx:
    """An open transaction of one tenant that may look."""

    __slots__ = ("_connection", "_timeout")

    def __init__(self, connection: asyncpg.Connection, timeout_s: float | None = None) -> None:
        self._connection = connection
        self._timeout = timeout_s

    async def fetch(self, statement: str, *args: Any) -> list[Row]:
        """All rows."""
        rows: list[Row] = await self._connection.fetch(statement, *args, timeout=self._timeout)
        return rows

    async def fetchrow(self, statement: str, *args: Any) -> Row | None:
        """The first row."""
        row: Row | None = await self._connection.fetchrow(statement, *args, timeout=self._timeout)
        return row

    async def fetchval(self, statement: str, *args: Any) -> Any:
        """The first value of the first row."""
        return await self._connection.fetchval(statement, *args, timeout=self._timeout)


class WriteTx(ReadTx):
    """An open transaction of one tenant that may change things."""

    __slots__ = ()

    async def execute(self, statement: str, *args: Any) -> str:
        """Run it; answers the command tag, e.g. `UPDATE 1`."""
        tag: str = await self._connection.execute(statement, *args, timeout=self._timeout)
        return tag


TIDY_S = 1.0
"""How long a connection that failed or was left may take to come to rest, before it is thrown away."""

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
"""Classes of states with which PostgreSQL refuses for now: it lacks a resource, or an operator is at work."""


def translate_error(error: BaseException) -> MnemaError | None:
    """Our error for the driver's, or None when it is a defect of ours."""
    if isinstance(error, asyncpg.ForeignKeyViolationError) and "tenant_id_fkey" in (error.constraint_name or ""):
        return NotFound("no such tenant")
    state = (error.sqlstate or "") if isinstance(error, asyncpg.PostgresError) else ""
    if known := _ERROR_BY_STATE.get(state):
        return known() if known is not WrongState else WrongState(str(error))
    if state.startswith(_TRANSIENT_CLASSES):
        return DatabaseUnavailable("the database refuses this for now; try again")
    if isinstance(error, REFUSED):
        return DatabaseUnavailable("the database refuses this login")
    if isinstance(error, asyncpg.InterfaceError) and not any(word in str(error) for word in ("clos", "released")):
        return None  # the driver's word for a wrong call; only a lost connection is the database's doing
    return DatabaseUnavailable() if isinstance(error, UNREACHABLE) else None


async def _roll_back(connection: asyncpg.Connection) -> None:
    """Undo; a connection that cannot even do that is thrown away, and the first error is the one that counts."""
    try:
        await connection.execute("ROLLBACK", timeout=TIDY_S)
    except Exception:  # whatever the driver says of a broken connection
        with contextlib.suppress(Exception):
            connection.terminate()


class UnitOfWork:
    """Opens transactions on an engine's pool, of which each tenant has its share: TenantBusy beyond it.

    Each statement may take as long as the engine's `timeout_s` or, where it is given, this one's. Beyond it the
    database counts as away: DatabaseUnavailable, and what the transaction was to write may be stored or not.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @asynccontextmanager
    async def read(self, scope: Principal, *, timeout_s: float | None = None) -> AsyncIterator[ReadTx]:
        """A read-only transaction of one tenant."""
        async with self._open_transaction(scope, "BEGIN READ ONLY") as connection:
            try:
                yield ReadTx(connection, timeout_s)
            except asyncpg.ReadOnlySQLTransactionError as error:  # a defect of ours, not the database's state
                raise RuntimeError("a read-only unit of work tried to write") from error

    @asynccontextmanager
    async def write(self, scope: Principal, *, timeout_s: float | None = None) -> AsyncIterator[WriteTx]:
        """A read-write transaction of one tenant; commits on leaving, rolls back on an exception."""
        async with self._open_transaction(scope, "BEGIN") as connection:  # read-only where the database is
            yield WriteTx(connection, timeout_s)

    @asynccontextmanager
    async def calls(self, scope: Principal) -> AsyncIterator[ReadTx]:
        """A connection on which each statement is a transaction of its own, as in `call`."""
        async with self._acquire_connection(scope.tenant_id) as connection:
            yield ReadTx(connection)

    async def call(self, scope: Principal, statement: str, *args: Any) -> list[Row]:
        """Run one statement as a transaction of its own.

        The statement calls a function whose first parameter is the tenant and which binds it before anything else.
        """
        async with self._acquire_connection(scope.tenant_id) as connection:
            rows: list[Row] = await connection.fetch(statement, scope.tenant_id, *args)
            return rows

    async def call_definer(self, statement: str, *args: Any) -> Sequence[Row]:
        """Call one of the few cross-tenant functions (`authenticate`, `list_tenants`) or read what no tenant owns."""
        async with self._acquire_connection(None) as connection:
            rows: list[Row] = await connection.fetch(statement, *args)
            return rows

    @asynccontextmanager
    async def _open_transaction(self, scope: Principal, begin: str) -> AsyncIterator[asyncpg.Connection]:
        async with self._acquire_connection(scope.tenant_id) as connection:
            # one message, before any savepoint: rolling back a savepoint that had set the tenant would clear it
            await connection.execute(f"{begin}; SELECT set_config('app.tenant_id', '{scope.tenant_id}', true)")
            try:
                yield connection
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
                    async with asyncio.timeout(self._engine.timeout_s):  # others may be trying to, one after the other
                        pool = await self._engine.get_pool()
                connection = await pool.acquire(timeout=self._engine.timeout_s)
                try:
                    yield connection
                finally:
                    with contextlib.suppress(Exception):  # the driver has then closed it
                        await pool.release(connection, timeout=TIDY_S)
            finally:
                shares.return_place(tenant)
        except (asyncpg.PostgresError, *UNREACHABLE) as error:
            if (ours := translate_error(error)) is not None:
                raise ours from error
            raise
        finally:
            in_transaction.reset(token)
