"""The connection pool, and the proof that it connects as a role that row-level security binds."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import Mapping
from typing import Any

import asyncpg
from pgvector.asyncpg import register_vector

from app.domain.errors import ConfigError
from app.domain.outages import DatabaseUnavailable
from app.shares import TenantShares
from app.storage.database_url import NO_URL, connection_arguments
from app.storage.epochs import BEGIN_EPOCH, NO_EPOCHS
from app.storage.pooling import LOST, LOST_STATEMENTS, STATEMENT_CACHE, prove_prepared, startup_refusal

UNREACHABLE = (
    OSError,
    asyncio.TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.ObjectNotInPrerequisiteStateError,  # the database takes no connections
    asyncpg.InterfaceError,
    asyncpg.TooManyConnectionsError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InternalClientError,  # raised when a connection dies under a running statement
)
"""Errors of the driver when the database is away, starting or stopping."""

REFUSED = (
    asyncpg.InvalidPasswordError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InvalidAuthorizationSpecificationError,
)
"""Errors of the driver when the database is up but refuses this login."""

LONG_S = 60.0
"""The statement timeout in seconds for work that no client waits for."""

CONNECT_S = 10.0
CLOSE_S = 5.0

UNPREPARED = "the database is not prepared: run `mnema migrate`"

ROLE = """
SELECT r.rolname, r.rolsuper OR r.rolbypassrls AS free, pg_has_role(r.rolname, 'mnema_owner', 'MEMBER') AS owner,
       EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = 'public' AND c.relowner = r.oid) AS owns
FROM pg_roles r WHERE r.rolname = current_user
"""
"""A query for the powers of this connection's role that bypass row-level security."""

_POWERS = {
    "free": ("superuser or BYPASSRLS", "ALTER ROLE mnema_app NOSUPERUSER NOBYPASSRLS"),
    "owner": ("member of mnema_owner", "REVOKE mnema_owner FROM mnema_app"),
    "owns": ("owner of relations", "REASSIGN OWNED BY mnema_app TO mnema_owner"),
}
"""The name of each power, and the statement that takes it from mnema_app."""


async def prepare_connection(connection: asyncpg.Connection) -> None:
    """Teach a connection to read and write JSON and vectors."""
    await connection.set_type_codec(
        "jsonb", schema="pg_catalog", encoder=_encode_json, decoder=_decode_json, format="binary"
    )
    await register_vector(connection)


async def _reset_connection(connection: asyncpg.Connection) -> None:
    """Roll back an open transaction; all our settings end with it, so the driver's session reset is not needed."""
    if connection.is_in_transaction():
        await connection.execute("ROLLBACK")


_EMPTY_JSON = b"\x01{}"
"""The encoded metadata of most memories."""


def _encode_json(value: Any) -> bytes:
    return b"\x01" + json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _decode_json(value: bytes) -> Any:
    return json.loads(value[1:].decode()) if value != _EMPTY_JSON else {}


class Engine:
    """A pool of connections as `mnema_app`. It opens on first use.

    A connection and a statement may each take `timeout_s` seconds; then the database counts as away. A connection keeps
    `statement_cache` prepared statements; with 0 it prepares each anew, which works behind any pooler.
    """

    def __init__(
        self,
        url: str,
        *,
        min_size: int = 2,
        max_size: int = 10,
        timeout_s: float = LONG_S,
        statement_cache: int = STATEMENT_CACHE,
    ) -> None:
        self._url = url
        self._statement_cache = statement_cache
        self._sizes = (min_size, max_size)
        self.timeout_s = timeout_s
        self._pool: asyncpg.Pool | None = None
        self._opening = asyncio.Lock()
        self.shares = TenantShares(max_size, reserved=1 if max_size > 1 else 0)  # for authentication

    @property
    def connection_count(self) -> int:
        """The number of open connections."""
        return 0 if self._pool is None else int(self._pool.get_size())

    @property
    def pool_if_open(self) -> asyncpg.Pool | None:
        """The pool, or None if it is not open."""
        return self._pool

    async def get_pool(self) -> asyncpg.Pool:
        """Return the open pool. Raise DatabaseUnavailable if the database is away, ConfigError for a wrong role."""
        if self._pool is None:
            async with self._opening:
                if self._pool is None:
                    self._pool = await self._open_pool()
        return self._pool

    def _arguments(self) -> dict[str, Any]:
        # Poolers refuse most other settings; the role has the rest. The zone is that of times in JSON and of dates.
        return connection_arguments(self._url, application_name="mnema", timezone="UTC")

    async def _open_pool(self) -> asyncpg.Pool:
        try:
            pool = await asyncpg.create_pool(
                **{"timeout": min(CONNECT_S, self.timeout_s)} | self._arguments(),
                min_size=self._sizes[0],
                max_size=self._sizes[1],
                init=self._init_connection,
                reset=_reset_connection,
                command_timeout=self.timeout_s,
                statement_cache_size=self._statement_cache,
                max_cacheable_statement_size=0,  # any size: a statement without a name may not outlive its transaction
            )
        except REFUSED as e:
            raise ConfigError(f"the database refuses this login: {e}") from e
        except (asyncpg.ClientConfigurationError, OverflowError):  # the driver's message may hold the password
            raise ConfigError(NO_URL) from None
        except LOST as e:
            raise ConfigError(LOST_STATEMENTS) from e
        except ssl.SSLCertVerificationError as e:
            raise ConfigError(f"the database's certificate is not accepted: {e.verify_message}") from e
        except UNREACHABLE as e:
            raise startup_refusal(e) or DatabaseUnavailable() from e
        except ValueError as e:  # an address that cannot be read, or the codec of vectors has no type in the database
            raise ConfigError(UNPREPARED if "unknown type" in str(e) else NO_URL) from None
        try:
            refuse_privileged(await pool.fetchrow(ROLE))
        except UNREACHABLE as e:
            pool.terminate()
            raise DatabaseUnavailable() from e
        except BaseException:
            pool.terminate()
            raise
        return pool

    async def _init_connection(self, connection: asyncpg.Connection) -> None:
        if self._statement_cache:
            await prove_prepared(connection)
        await prepare_connection(connection)
        with contextlib.suppress(*NO_EPOCHS):  # other checks report them
            await connection.execute(BEGIN_EPOCH)

    async def close(self) -> None:
        """Close the pool; cut off statements that do not end within CLOSE_S seconds."""
        if self._pool is not None:
            pool, self._pool = self._pool, None
            try:
                async with asyncio.timeout(CLOSE_S):
                    await pool.close()
            except (TimeoutError, *UNREACHABLE):
                pool.terminate()


def refuse_privileged(role: Mapping[str, Any]) -> None:
    """Raise ConfigError if a row of `ROLE` shows a role that owns relations or bypasses row-level security."""
    wrong = [powers for what, powers in _POWERS.items() if role[what]]
    if wrong:
        held = ", ".join(power for power, _cure in wrong)
        cures = "; ".join(cure for _power, cure in wrong)
        mend = f"as a superuser: {cures}" if role["rolname"] == "mnema_app" else "use mnema_app"
        raise ConfigError(
            f"refusing to serve as database role {role['rolname']!r}: it can bypass row-level security ({held}); {mend}"
        )
