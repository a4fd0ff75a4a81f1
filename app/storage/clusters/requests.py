"""Requests for moves, which a server may store and a worker with an operator's URLs carries out."""

from typing import Final, NamedTuple

from app.domain.clusters.move import FORWARD_ONLY, MoveStep
from app.domain.clusters.place import TenantMove
from app.domain.principal import Principal
from app.storage.clusters.homes import Homes
from app.storage.identity import new_id
from app.storage.statements import load_statements
from app.storage.uow import Row

_SQL: Final = load_statements("clusters/requests.sql")


class RequestOutcome(NamedTuple):
    """The answer of `request_move`. `wait_s`: seconds until the tenant may ask again, if it asked too often."""

    outcome: str
    wait_s: int | None


class MoveRequests:
    """The moves of a tenant in the directory. Each method raises DatabaseUnavailable while it is away."""

    def __init__(self, homes: Homes) -> None:
        self._homes = homes

    async def find_newest(self, principal: Principal) -> TenantMove | None:
        """Return the tenant's newest move, also one that has ended."""
        async with self._homes.directory.read(principal) as tx:
            row = await tx.fetchrow(_SQL["newest"], principal.tenant_id)
        return None if row is None else _read_move(row)

    async def has_mover(self) -> bool:
        """Return True if a worker that can move tenants was seen lately."""
        [row] = await self._homes.directory.call_definer(_SQL["has_mover"])
        return bool(row["has_mover"])

    async def request_move(self, principal: Principal, target: str, per_day: int) -> RequestOutcome:
        """Store a request unless something forbids it."""
        async with self._homes.directory.write(principal) as tx:
            row = await tx.fetchrow(_SQL["request"], principal.tenant_id, new_id(), target, per_day)
        assert row is not None
        return RequestOutcome(row["outcome"], row["wait_s"])

    async def withdraw_move(self, principal: Principal) -> TenantMove | None:
        """Delete a request that no worker has begun; return it as undone, None if there is none."""
        async with self._homes.directory.write(principal) as tx:
            row = await tx.fetchrow(_SQL["withdraw"], principal.tenant_id)
        return None if row is None else _read_move(row)

    async def abort_move(self, principal: Principal) -> bool:
        """Ask for the end of the unfinished move that the tenant asked for; return False if none can go back."""
        async with self._homes.directory.write(principal) as tx:
            return bool(await tx.fetch(_SQL["abort"], principal.tenant_id, sorted(FORWARD_ONLY)))


def _read_move(row: Row) -> TenantMove:
    details = row["details"]
    return TenantMove(
        id=row["id"],
        source=row["source"],
        target=row["target"],
        step=MoveStep(row["step"]),
        is_running=row["is_running"],
        copied=details.get("copied", 0),
        tables=details.get("tables", 0),
        requested=bool(details.get("requested")),
        aborted=row["aborted_at"] is not None,
        reason=None if row["step"] == MoveStep.done else details.get("why"),
        started_at=row["started_at"],
        changed_at=row["changed_at"],
        ended_at=row["ended_at"],
    )
