"""Embedding spaces come and go by mnema_admin's hand: tables and functions of their own."""

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
"""How long others' writes may queue up behind a lock on all memories that is not to be had; then they go first."""
RETRY_WAIT_S = 1.0


async def add_space(admin_url: str, model: str, dimension: int, partitions: int = 16) -> str:
    """The name of the model's space, made if it is not there yet: empty and used by no server."""

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
    """Make it the active one. What was active stays ready for the servers that use it. Raises NotFound."""

    async def activate_space(connection: asyncpg.Connection) -> None:
        await _is_active(connection, name)
        await connection.execute("UPDATE embedding_spaces SET active = false, ready = true WHERE active")
        await connection.execute("UPDATE embedding_spaces SET active = true, ready = true WHERE name = $1", name)

    await _retry_while_locked(admin_url, activate_space)


async def drop_space(admin_url: str, name: str) -> None:
    """Its vectors, its functions and its name. Raises NotFound, or WrongState for the active one."""

    async def delete_space(connection: asyncpg.Connection) -> None:
        if await _is_active(connection, name):
            raise WrongState(f"embedding space {name} is the active one")
        await connection.execute("SELECT drop_embedding_space($1)", name)

    await _retry_while_locked(admin_url, delete_space)


async def _is_active(connection: asyncpg.Connection, name: str) -> bool:
    """Whether it is active."""
    active: bool | None = await connection.fetchval("SELECT active FROM embedding_spaces WHERE name = $1", name)
    if active is None:
        raise NotFound(f"no embedding space {name!r}; `mnema embeddings list` names them")
    return active


async def _retry_while_locked(admin_url: str, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
    """One transaction as the owner, begun again as long as others hold what it needs."""
    for attempt in range(ATTEMPTS):
        try:
            async with owning_spaces(admin_url) as connection:
                await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_WAIT}'")
                return await work(connection)
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:
            if attempt == ATTEMPTS - 1:
                raise DatabaseUnavailable("others hold the memories' table all the time; try again") from error
        await asyncio.sleep(RETRY_WAIT_S)
    raise AssertionError
