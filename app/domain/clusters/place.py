"""The place of a tenant, and the moves that its administrators ask for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from app.domain.clusters.move import ENDED, MoveStep
from app.domain.errors import LimitReached, MnemaError


class NoClusters(MnemaError, status=404):
    """This installation has one database, so a tenant has no other place."""


class NotMoving(MnemaError, status=404):
    """The tenant is not moving."""


class MovesNotOffered(MnemaError, status=403):
    """Tenants of this installation may not ask for a move; its operator moves them."""


class MoveRefused(MnemaError, status=409):
    """The tenant cannot move there."""


class NoMover(MnemaError, status=503):
    """No worker of this installation can move tenants now: its operator gives one the admin and mover URLs."""


class TooManyMoves(LimitReached):
    """The tenant has asked for as many moves as it may in 24 hours; wait for the seconds in Retry-After."""


class MoveState(StrEnum):
    """The state of a move, as a tenant's administrator sees it."""

    waiting = "waiting"  # for a worker that begins it, or goes on with it
    running = "running"
    done = "done"
    undone = "undone"


@dataclass(frozen=True, slots=True)
class TenantMove:
    """A move of a tenant. `copied` of `tables` tables are copied; 0 of 0 before the copy.

    `requested`: by the tenant's administrator; else by the operator. `aborted`: somebody asked for its end.
    `reason`: why it went back.
    """

    id: UUID
    source: str
    target: str
    step: MoveStep
    is_running: bool
    copied: int
    tables: int
    requested: bool
    aborted: bool
    reason: str | None
    started_at: datetime
    changed_at: datetime
    ended_at: datetime | None

    @property
    def state(self) -> MoveState:
        """The state."""
        if self.step in ENDED:
            return MoveState(self.step.value)
        return MoveState.running if self.is_running else MoveState.waiting


@dataclass(frozen=True, slots=True)
class TenantPlace:
    """The place of a tenant: its home `cluster` in `region`, and the region that it is `bound_to`.

    `copies`: former homes that still have a copy. `unreached`: clusters that do not answer and may have one.
    `targets`: regions by name of the clusters that take the tenant. `move`: the newest one. `problem`: why a request
    for a move is refused now.
    """

    cluster: str
    region: str | None
    bound_to: str | None
    copies: Sequence[str]
    unreached: Sequence[str]
    targets: Mapping[str, str | None]
    move: TenantMove | None
    problem: MnemaError | None
