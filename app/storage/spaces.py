"""Embedding spaces: which model the stored vectors belong to."""

from dataclasses import dataclass

import asyncpg

from app.domain.errors import ConfigError
from app.storage.engine import UNPREPARED
from app.storage.uow import UnitOfWork


@dataclass(frozen=True, slots=True)
class Space:
    """The active space; its vectors are in table vec_<name>."""

    name: str
    model: str
    dimension: int


async def active_space(uow: UnitOfWork) -> Space:
    """The active space; raises ConfigError when there is none, or no schema that this role may read."""
    try:
        rows = await uow.definer("SELECT name, model, dimension FROM embedding_spaces WHERE active")
    except (asyncpg.UndefinedTableError, asyncpg.InsufficientPrivilegeError) as error:
        raise ConfigError(UNPREPARED) from error
    if not rows:
        raise ConfigError("no embedding space is active; run `mnema migrate`")
    return Space(**dict(rows[0]))


async def require_space(uow: UnitOfWork, model: str, dimension: int) -> Space:
    """The active space, if it is this model's; ConfigError otherwise: vectors of two models are never compared."""
    space = await active_space(uow)
    if (space.model, space.dimension) != (model, dimension):
        raise ConfigError(
            f"the stored vectors are {space.model} ({space.dimension} dimensions) but the configured embedder is "
            f"{model} ({dimension}); configure that model, or run `mnema migrate` on an installation without memories"
        )
    return space
