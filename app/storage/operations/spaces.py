"""Embedding spaces: the model that the stored vectors belong to."""

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
    """A space and its role. `active`: servers should use it; `ready`: servers configured for its model may use it."""

    space: Space
    active: bool
    ready: bool


async def list_spaces(uow: UnitOfWork) -> list[RegisteredSpace]:
    """Return all spaces, oldest first. Raise ConfigError if there is no schema that this role may read."""
    try:
        rows = await uow.call_definer(_LIST_SPACES)
    except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError, asyncpg.InsufficientPrivilegeError) as error:
        raise ConfigError(UNPREPARED) from error
    return [
        RegisteredSpace(Space(row["name"], row["model"], row["dimension"]), row["active"], row["ready"]) for row in rows
    ]


async def active_space(uow: UnitOfWork) -> Space:
    """Return the active space. Raise ConfigError if there is none."""
    return _find_active(await list_spaces(uow))


async def named_space(uow: UnitOfWork, name: str) -> RegisteredSpace:
    """Return the space of this name. Raise NotFound."""
    for registered in await list_spaces(uow):
        if registered.space.name == name:
            return registered
    raise NotFound(f"no embedding space {name!r}; `mnema embeddings list` names them")


async def require_space(uow: UnitOfWork, model: str, dimension: int) -> Space:
    """Return this model's space. Raise ConfigError if there is none or it may not be used yet."""
    spaces = await list_spaces(uow)
    active = _find_active(spaces)
    for registered in spaces:
        if (registered.space.model, registered.space.dimension) == (model, dimension):
            if registered.ready:
                return registered.space
            name = registered.space.name
            raise ConfigError(
                f"embedding space {name} of {model} ({dimension} dimensions) is not ready yet: run "
                f"`mnema embeddings migrate {name}`, then `mnema embeddings switch {name}`; until then configure "
                f"{active.model} ({active.dimension})"
            )
    raise ConfigError(
        f"the stored vectors are {active.model} ({active.dimension} dimensions) but the configured embedder is "
        f"{model} ({dimension}); configure that model, or re-embed the memories, starting with `mnema embeddings add "
        f"--model {model} --dimension {dimension}`; an installation without memories only needs `mnema migrate`"
    )


def _find_active(spaces: list[RegisteredSpace]) -> Space:
    for registered in spaces:
        if registered.active:
            return registered.space
    raise ConfigError("no embedding space is active; run `mnema migrate`")
