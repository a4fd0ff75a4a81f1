"""The rows of moves, in the cluster that keeps the directory, and the residences that a move ends and begins."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg

from app.domain.clusters.move import FORWARD_ONLY, Move, MoveStep
from app.domain.errors import NotFound, WrongState
from app.storage.clusters.move_session import OWNER, RUNNING, MoveSession, move_statement
from app.storage.identity import new_id

FENCE_S = 2.0
"""The seconds that the end of a residence waits for the writes that hold it, and later writes for it."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The home of a tenant in the directory. `region`: the one that it is bound to."""

    cluster: str
    epoch: int
    region: str | None


@dataclass(frozen=True, slots=True)
class Ended:
    """An ended residence, by its number `epoch`. The tenant has no stamp there above `up_to`, of `database_epoch`."""

    epoch: int
    database_epoch: UUID
    up_to: int


class MoveRows:
    """The stored moves of one tenant."""

    def __init__(self, directory: MoveSession, tenant_id: UUID) -> None:
        self._directory = directory
        self._tenant_id = tenant_id

    async def take_lock(self) -> None:
        """Keep other processes from moving this tenant while the connection lives. Raise WrongState if one does."""
        if not await self.try_lock():
            raise WrongState("another process is moving this tenant")

    async def try_lock(self) -> bool:
        """Take the lock of `take_lock`; return False if another process has it."""
        return bool(await self._directory.connection.fetchval(RUNNING, str(self._tenant_id)))

    async def find_placement(self) -> Placement:
        """Return the tenant's placement. Raise NotFound."""
        row = await self._fetch("placement")
        if row is None:
            raise NotFound("the directory does not place the tenant: `mnema doctor` tells what to do")
        return Placement(row["cluster"], row["epoch"], row["region"])

    async def find_unfinished(self) -> Move | None:
        """Return the move that has not ended."""
        return _move(await self._fetch("unfinished"))

    async def read_again(self, move: Move) -> Move:
        """Return the move as it is stored now. Raise NotFound if it was a request that was withdrawn."""
        if (stored := _move(await self._fetch("stored", move.id))) is None:
            raise NotFound("the tenant is not moving")
        return stored

    async def ask_to_abort(self) -> Move | None:
        """Note that the unfinished move is to be undone, by whoever runs it; return None if none can be undone."""
        return _move(await self._fetch("abort", [step.value for step in FORWARD_ONLY]))

    async def list_former(self) -> list[str]:
        """Return the clusters that the tenant has left and is not at home in now."""
        rows = await self._directory.fetch_rows("former_homes", self._tenant_id, tenant_id=self._tenant_id)
        return [row["source"] for row in rows]

    async def begin_move(self, source: str, target: str, details: Mapping[str, Any]) -> Move:
        """Store a new move."""
        move = _move(await self._fetch("begin", new_id(), source, target, dict(details)))
        assert move is not None
        return move

    async def advance(
        self, move: Move, step: MoveStep, details: Mapping[str, Any] | None = None, error: str | None = None
    ) -> Move:
        """Take the move to its next step, and add to its details. Raise WrongState if another run took it elsewhere."""
        later = _move(await self._fetch("advance", move.id, move.step.value, step.value, dict(details or {}), error))
        if later is None:
            raise WrongState(f"another process took this move from the step {move.step}; run the command again")
        return later

    async def settle_erasures(self, cluster: str) -> None:
        """Note that a former home owes no erasures any more, because its copy is deleted."""
        await self._fetch("settle_erasures", cluster)

    async def place(self, cluster: str, epoch: int, *, leave_region: bool) -> None:
        """Write the new home into the directory."""
        await self._fetch("place", cluster, epoch, leave_region)

    async def _fetch(self, name: str, *args: object) -> asyncpg.Record | None:
        async with self._directory.acting(OWNER, self._tenant_id) as connection:
            return await connection.fetchrow(move_statement(name), self._tenant_id, *args)


async def is_home(session: MoveSession, tenant_id: UUID) -> bool:
    """Return True if the cluster takes the tenant's writes."""
    row = await session.fetch_row("residence", tenant_id, tenant_id=tenant_id)
    return row is not None and row["state"] == "home"


async def end_residence(source: MoveSession, tenant_id: UUID) -> Ended | None:
    """End the tenant's residence on the source; return None if writes hold it for more than FENCE_S seconds."""
    try:
        async with source.acting(OWNER, tenant_id, lock_timeout_s=FENCE_S) as connection:
            row = await connection.fetchrow(move_statement("fence"), tenant_id)
    except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
        return None
    return Ended(row["residence_epoch"], row["epoch"], row["up_to"])


async def begin_residence(target: MoveSession, tenant_id: UUID, ended: Ended) -> None:
    """Begin the tenant's residence on the target. Its own rules get a new stamp, so that the servers learn them."""
    async with target.acting(OWNER, tenant_id) as connection:
        await connection.execute(
            move_statement("begin_residence"), tenant_id, ended.epoch, ended.database_epoch, ended.up_to
        )
        await connection.execute(move_statement("touch_rules"), tenant_id)


async def resume_residence(source: MoveSession, tenant_id: UUID, rows: MoveRows, move: Move | None) -> None:
    """Take back the residence that a move has ended, if it has.

    `move`: the move as this run knows it, None if it knows of none. Raise WrongState if another run took it further:
    that one may end the residence again, for another one to begin. It cannot while this transaction holds the home.
    """
    async with source.acting(OWNER, tenant_id) as connection:
        row = await connection.fetchrow(move_statement("residence"), tenant_id)
        if row is None or row["state"] != "away":
            return
        await connection.execute(move_statement("lock_home"), tenant_id)
        stored = await rows.find_unfinished()
        if (stored and (stored.id, stored.step)) != (move and (move.id, move.step)):
            raise WrongState("another process took this move further; run the command again")
        row = await connection.fetchrow(move_statement("residence"), tenant_id)
        if row["state"] == "away":
            await connection.execute(move_statement("resume"), tenant_id, row["epoch"])


async def forget_residence(session: MoveSession, tenant_id: UUID) -> None:
    """Forget that the tenant once was at home in this cluster, after its copy is deleted."""
    await session.fetch_rows("forget_residence", tenant_id, tenant_id=tenant_id)


def _move(row: asyncpg.Record | None) -> Move | None:
    if row is None:
        return None
    return Move(
        row["id"],
        row["tenant_id"],
        row["source"],
        row["target"],
        MoveStep(row["step"]),
        row["details"],
        row["aborted_at"] is not None,
    )
