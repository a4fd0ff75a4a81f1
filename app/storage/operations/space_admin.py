"""Adding, switching and dropping of embedding spaces, run by mnema_admin: each has its own tables and functions."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg

from app.domain.errors import NotFound, WrongState
from app.domain.outages import DatabaseUnavailable
from app.storage.operations.administration import owning_spaces, space_name

T = TypeVar("T")
ATTEMPTS = 20
LOCK_WAIT = "1s"
"""The longest wait for a lock on all memories. Writes queue up behind it, so they go first after that."""
RETRY_WAIT_S = 1.0


async def add_space(admin_url: str, model: str, dimension: int, partitions: int = 16) -> str:
    """Return the name of the model's space; create it, empty and unused by servers, if it does not exist."""

    async def insert_space(connection: asyncpg.Connection) -> str:
        name: str | None = await connection.fetchval(
            "SELECT name FROM embedding_spaces WHERE model = $1 AND dimension = $2", model, dimension
        )
        if name is None:
            name = space_name(model, dimension)
            await connection.execute("SELECT add_embedding_space($1, $2, $3, $4)", name, model, dimension, partitions)
        return name

    return await _retry_while_locked(admin_url, insert_space)


async def switch_space(admin_url: str, name: str) -> None:
    """Make the space active. The former one stays ready for the servers that use it. Raise NotFound."""

    async def activate_space(connection: asyncpg.Connection) -> None:
        await _is_active(connection, name)
        await connection.execute("UPDATE embedding_spaces SET active = false, ready = true WHERE active")
        await connection.execute("UPDATE embedding_spaces SET active = true, ready = true WHERE name = $1", name)

    await _retry_while_locked(admin_url, activate_space)


async def drop_space(admin_url: str, name: str) -> None:
    """Delete the space with its vectors and functions. Raise NotFound, or WrongState if it is active."""

    async def delete_space(connection: asyncpg.Connection) -> None:
        if await _is_active(connection, name):
            raise WrongState(f"embedding space {name} is the active one")
        await connection.execute("SELECT drop_embedding_space($1)", name)

    await _retry_while_locked(admin_url, delete_space)


async def _is_active(connection: asyncpg.Connection, name: str) -> bool:
    """Tell whether the space is active. Raise NotFound."""
    active: bool | None = await connection.fetchval("SELECT active FROM embedding_spaces WHERE name = $1", name)
    if active is None:
        raise NotFound(f"no embedding space {name!r}; `mnema embeddings list` names them")
    return active


async def _retry_while_locked(admin_url: str, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
    """Run `work` in a transaction as the owner; retry while others hold the locks it needs."""
    for attempt in range(ATTEMPTS):
        try:
            async with owning_spaces(admin_url) as connection:
                await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_WAIT}'")
                return await work(connection)
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:
            if attempt == ATTEMPTS - 1:
                raise DatabaseUnavailable("other transactions keep the memories table locked; try again") from error
        await asyncio.sleep(RETRY_WAIT_S)
    raise AssertionError
