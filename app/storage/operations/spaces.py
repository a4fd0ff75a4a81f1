"""Embedding spaces: which model the stored vectors belong to."""

from dataclasses import dataclass

import asyncpg

from app.domain.errors import ConfigError, NotFound
from app.storage.engine import UNPREPARED
from app.storage.uow import UnitOfWork

_LIST_SPACES = (
    "SELECT name, model, dimension, active, active OR ready AS ready FROM embedding_spaces ORDER BY created_at, name"
)


@dataclass(frozen=True, slots=True)
class Space:
    """One model's vectors, in table vec_<name>."""

    name: str
    model: str
    dimension: int


@dataclass(frozen=True, slots=True)
class RegisteredSpace:
    """A space and its part: `active`, what servers should use; `ready`, what those of its model may use."""

    space: Space
    active: bool
    ready: bool


async def list_spaces(uow: UnitOfWork) -> list[RegisteredSpace]:
    """Every space, the oldest first; raises ConfigError when there is no schema that this role may read."""
    try:
        rows = await uow.call_definer(_LIST_SPACES)
    except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError, asyncpg.InsufficientPrivilegeError) as error:
        raise ConfigError(UNPREPARED) from error
    return [
        RegisteredSpace(Space(row["name"], row["model"], row["dimension"]), row["active"], row["ready"]) for row in rows
    ]


async def active_space(uow: UnitOfWork) -> Space:
    """The active space; raises ConfigError when there is none."""
    return _find_active(await list_spaces(uow))


async def named_space(uow: UnitOfWork, name: str) -> RegisteredSpace:
    """The space of this name; raises NotFound."""
    for one in await list_spaces(uow):
        if one.space.name == name:
            return one
    raise NotFound(f"no embedding space {name!r}; `mnema embeddings list` names them")


async def require_space(uow: UnitOfWork, model: str, dimension: int) -> Space:
    """This model's space, if it may be used; ConfigError otherwise: vectors of two models are never compared."""
    found = await list_spaces(uow)
    active = _find_active(found)
    for one in found:
        if (one.space.model, one.space.dimension) == (model, dimension):
            if one.ready:
                return one.space
            name = one.space.name
            raise ConfigError(
                f"embedding space {name} of {model} ({dimension} dimensions) is not taken up yet: run "
                f"`mnema embeddings migrate {name}`, then `mnema embeddings switch {name}`; until then configure "
                f"{active.model} ({active.dimension})"
            )
    raise ConfigError(
        f"the stored vectors are {active.model} ({active.dimension} dimensions) but the configured embedder is "
        f"{model} ({dimension}); configure that model, or bring them over beginning with `mnema embeddings add "
        f"--model {model} --dimension {dimension}`; an installation without memories only needs `mnema migrate`"
    )


def _find_active(found: list[RegisteredSpace]) -> Space:
    for one in found:
        if one.active:
            return one.space
    raise ConfigError("no embedding space is active; run `mnema migrate`")
