"""The unit of work: the only access to the database, and the only place that commits.

`read` and `write` open a transaction whose first message binds it to one tenant. `call` runs one function that binds
the tenant itself: a whole transaction in one round trip. `read_anywhere`, `calls_anywhere` and `call_anywhere` are for
reads that a replica may answer: they never write, move no cursor and ask nothing about running transactions.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg

from app.domain.outages import DatabaseUnavailable, TenantMoving
from app.domain.principal import Principal
from app.storage.database_errors import translate_error
from app.storage.engine import UNREACHABLE, Engine
from app.storage.pooling import TIDY_S, end_session
from app.storage.replicas import Replica, Replicas, fallback_reason
from app.transactions import in_transaction

__all__ = ["ReadTx", "Row", "UnitOfWork", "WriteTx"]
READ_ONLY = "BEGIN READ ONLY"
ASK_HOME = "; SELECT FROM residences WHERE tenant_id = '{}' AND state = 'home'"
HOLD_HOME = "; SELECT hold_home('{}')"
"""Statements behind the first of a transaction, where there are clusters (`migrations/sql/0018/homes.sql`)."""
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


class ReplicaTx(ReadTx):
    """Reads on a replica. A statement that fails there for the replica's sake is repeated on the primary, once.

    All later statements then run on the primary, too. This is safe: the primary has everything that the replica had,
    and each statement sees its own snapshot on both servers.
    """

    __slots__ = ("_move",)

    def __init__(
        self, connection: asyncpg.Connection, timeout_s: float | None, move: Callable[[str], Awaitable[Any]]
    ) -> None:
        """Read on `connection`. `move` takes the reason and returns a connection to the primary."""
        super().__init__(connection, timeout_s)
        self._move: Callable[[str], Awaitable[Any]] | None = move

    @property
    def is_on_replica(self) -> bool:
        """True until a statement had to be repeated on the primary."""
        return self._move is not None

    async def fetch(self, statement: str, *args: Any) -> list[Row]:
        """Return all rows."""
        rows: list[Row] = await self._repeat_if_needed(super().fetch, statement, args)
        return rows

    async def fetchrow(self, statement: str, *args: Any) -> Row | None:
        """Return the first row, or None."""
        row: Row | None = await self._repeat_if_needed(super().fetchrow, statement, args)
        return row

    async def fetchval(self, statement: str, *args: Any) -> Any:
        """Return the first value of the first row."""
        return await self._repeat_if_needed(super().fetchval, statement, args)

    async def _repeat_if_needed(self, fetch: Callable[..., Awaitable[Any]], statement: str, args: Sequence[Any]) -> Any:
        try:
            return await fetch(statement, *args)
        except (asyncpg.PostgresError, *UNREACHABLE) as error:
            # a slow statement does not prove that the replica is away: its position shows whether it answers
            reason = "timeout" if isinstance(error, TimeoutError) else fallback_reason(error)
            if self._move is None or reason is None:
                raise
            if isinstance(error, asyncpg.InvalidCachedStatementError):
                await end_session(self._connection)
            move, self._move = self._move, None
            self._connection = await move(reason)
        return await fetch(statement, *args)


async def _roll_back(connection: asyncpg.Connection) -> None:
    """Roll back; close a connection that cannot do that. The caller's first error counts, not this one."""
    try:
        await connection.execute("ROLLBACK", timeout=TIDY_S)
    except Exception:  # the driver has many errors for a broken connection
        with contextlib.suppress(Exception):
            connection.terminate()


class UnitOfWork:
    """Transactions on an engine's pool. Each tenant has a share of it; beyond the share they raise TenantBusy.

    Each statement may take `timeout_s` seconds, by default the engine's. After that DatabaseUnavailable is raised, and
    the transaction may have been stored or not.
    """

    def __init__(self, engine: Engine, replicas: Replicas | None = None, *, one_of_several: bool = False) -> None:
        """Work on the pool of `engine`. Reads that a replica may answer run on one of `replicas`.

        `one_of_several`: the database is a cluster among others. Transactions then begin with the question whether the
        tenant is at home there, and raise TenantMoving if not.
        """
        self._engine = engine
        self._replicas = replicas
        self._ask_home, self._hold_home = (ASK_HOME, HOLD_HOME) if one_of_several else ("", "")

    @property
    def parts(self) -> Mapping[str, "UnitOfWork"]:
        """The units of work of each cluster by its name; without clusters this one, with an empty name."""
        return {"": self}

    @property
    def directory(self) -> "UnitOfWork":
        """The units of work where tenants and keys are written."""
        return self

    async def call_everywhere(self, statement: str, *args: Any) -> Sequence[Row]:
        """Call a function as in `call_definer` in each cluster that answers, and return the rows of all."""
        return await self.call_definer(statement, *args)

    async def call_definer_for(self, tenant_id: UUID | None, statement: str, *args: Any) -> Sequence[Row]:
        """Call a function as in `call_definer`, where this tenant is at home if it is known."""
        return await self.call_definer(statement, *args)

    @asynccontextmanager
    async def read(self, principal: Principal, *, timeout_s: float | None = None) -> AsyncIterator[ReadTx]:
        """Open a read-only transaction of one tenant."""
        async with self._open_transaction(principal, READ_ONLY, self._ask_home) as connection:
            with _no_writes():
                yield ReadTx(connection, timeout_s)

    @asynccontextmanager
    async def read_anywhere(self, principal: Principal, *, timeout_s: float | None = None) -> AsyncIterator[ReadTx]:
        """Open a read-only transaction on a replica that has every acknowledged commit, else on the primary.

        Its statements may run in two transactions, the later ones on the primary.
        """
        if self._replicas is None or (replica := await self._replicas.choose_replica()) is None:
            async with self.read(principal, timeout_s=timeout_s) as tx:
                self._count_read("primary")
                yield tx
        else:
            async with self._read_replica(self._replicas, replica, principal, READ_ONLY, timeout_s) as tx:
                yield tx

    @asynccontextmanager
    async def calls_anywhere(self, principal: Principal) -> AsyncIterator[ReadTx]:
        """Yield statements that are transactions of their own, as in `calls`, on a replica as in `read_anywhere`."""
        if self._replicas is None or (replica := await self._replicas.choose_replica()) is None:
            async with self.calls(principal) as tx:
                self._count_read("primary")
                yield tx
        else:
            async with self._read_replica(self._replicas, replica, principal, None, None) as tx:
                yield tx

    async def call_anywhere(self, principal: Principal, statement: str, *args: Any) -> list[Row]:
        """Run one statement that only reads, as in `call`, on a replica as in `read_anywhere`."""
        async with self.calls_anywhere(principal) as tx:
            return await tx.fetch(statement, principal.tenant_id, *args)

    @asynccontextmanager
    async def write(self, principal: Principal, *, timeout_s: float | None = None) -> AsyncIterator[WriteTx]:
        """Open a read-write transaction of one tenant; commit at the end, roll back on an exception.

        With `timeout_s`, a statement may take and wait for locks so many seconds.
        """
        begin = "BEGIN"  # still read-only if the database is
        if timeout_s is not None:
            begin += f"; SET LOCAL lock_timeout = '{timeout_s:.0f}s'"
        async with self._open_transaction(principal, begin, self._hold_home) as connection:
            yield WriteTx(connection, timeout_s)

    @asynccontextmanager
    async def calls(self, principal: Principal) -> AsyncIterator[ReadTx]:
        """Yield a connection on which each statement is a transaction of its own, as in `call`."""
        async with self._acquire_connection(principal) as connection:
            yield ReadTx(connection)

    async def call(self, principal: Principal, statement: str, *args: Any) -> list[Row]:
        """Run one statement as a transaction of its own.

        The statement calls a function that takes the tenant as its first parameter and binds it before anything else.
        """
        async with self._acquire_connection(principal) as connection:
            rows: list[Row] = await connection.fetch(statement, principal.tenant_id, *args)
            return rows

    async def call_definer(self, statement: str, *args: Any) -> Sequence[Row]:
        """Call one of the few cross-tenant functions (such as `authenticate`), or read tables without a tenant."""
        async with self._acquire_connection(None) as connection:
            rows: list[Row] = await connection.fetch(statement, *args)
            return rows

    def _count_read(self, place: str) -> None:
        if self._replicas is not None:
            self._replicas.reads[place] += 1

    @asynccontextmanager
    async def _read_replica(
        self, replicas: Replicas, replica: Replica, principal: Principal, begin: str | None, timeout_s: float | None
    ) -> AsyncIterator[ReadTx]:
        async with AsyncExitStack() as stack:
            stack.enter_context(_one_unit())
            stack.enter_context(_no_writes())

            async def move(reason: str) -> asyncpg.Connection:
                replicas.leave_replica(replica, reason)
                connection = await stack.enter_async_context(_borrow_connection(self._engine, principal))
                if begin is not None:
                    await stack.enter_async_context(_begin(connection, principal, begin, self._ask_home))
                self._count_read("primary")
                return connection

            tx: ReadTx
            try:
                connection = await stack.enter_async_context(_borrow_connection(replica.engine, principal))
                if begin is not None:
                    await stack.enter_async_context(
                        _begin(connection, principal, begin, self._ask_home, to_commit=False)
                    )
            except (asyncpg.PostgresError, DatabaseUnavailable, *UNREACHABLE) as error:
                if (reason := fallback_reason(error)) is None:
                    raise
                tx = ReadTx(await move(reason), timeout_s)
            else:
                tx = ReplicaTx(connection, timeout_s, move)
            try:
                yield tx
            finally:
                if isinstance(tx, ReplicaTx) and tx.is_on_replica:
                    self._count_read("replica")

    @asynccontextmanager
    async def _open_transaction(self, principal: Principal, begin: str, home: str) -> AsyncIterator[asyncpg.Connection]:
        async with self._acquire_connection(principal) as connection, _begin(connection, principal, begin, home):
            yield connection

    @asynccontextmanager
    async def _acquire_connection(self, principal: Principal | None) -> AsyncIterator[asyncpg.Connection]:
        with _one_unit():
            async with _borrow_connection(self._engine, principal) as connection:
                yield connection


@contextmanager
def _one_unit() -> Iterator[None]:
    """Refuse a second unit of work in this task, and translate the driver's errors."""
    if in_transaction.get():
        raise RuntimeError("a unit of work is already open in this task")
    token = in_transaction.set(True)
    try:
        yield
    except (asyncpg.PostgresError, *UNREACHABLE) as error:
        if (ours := translate_error(error)) is not None:
            raise ours from error
        raise
    finally:
        in_transaction.reset(token)


@contextmanager
def _no_writes() -> Iterator[None]:
    try:
        yield
    except asyncpg.ReadOnlySQLTransactionError as error:  # a defect of ours, not the database's state
        raise RuntimeError("a read-only unit of work tried to write") from error


@asynccontextmanager
async def _begin(
    connection: asyncpg.Connection, principal: Principal, begin: str, home: str, *, to_commit: bool = True
) -> AsyncIterator[None]:
    """Begin a transaction of one tenant, and commit it if no exception comes; roll it back if not `to_commit`.

    `home`: a statement that returns one row if the tenant is at home, or nothing to ask.
    """
    # one message, before any savepoint: rolling back a savepoint that had set the tenant would clear it
    bind = f"{begin}; SELECT set_config('app.tenant_id', '{principal.tenant_id}', true)"
    if await connection.execute(bind + home.format(principal.tenant_id)) != "SELECT 1":
        raise TenantMoving()
    try:
        yield
        principal.require_live()
    except asyncpg.InvalidCachedStatementError:  # `_borrow_connection` ends the session, and with it this transaction
        raise
    except BaseException:
        await _roll_back(connection)
        raise
    await (connection.execute("COMMIT") if to_commit else _roll_back(connection))


@asynccontextmanager
async def _borrow_connection(engine: Engine, principal: Principal | None) -> AsyncIterator[asyncpg.Connection]:
    """Take a place of the tenant's share, and a connection of the pool. Raise Unauthenticated without a live lease."""
    tenant = None
    if principal is not None:
        principal.require_live()
        tenant = principal.tenant_id
    shares = engine.shares
    if not shares.take_place(tenant):
        await shares.wait_for_place(tenant, engine.timeout_s)
    try:
        if (pool := engine.pool_if_open) is None:
            async with asyncio.timeout(engine.timeout_s):  # others may be opening it already
                pool = await engine.get_pool()
        connection = await pool.acquire(timeout=engine.timeout_s)
        try:
            yield connection
        except asyncpg.InvalidCachedStatementError:
            await end_session(connection)
            raise
        finally:
            with contextlib.suppress(Exception):  # after an error the driver has closed the connection
                await pool.release(connection, timeout=TIDY_S)
    finally:
        shares.return_place(tenant)
