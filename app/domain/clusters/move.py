"""The steps of a tenant's move from one cluster to another (`docs/adr/0039-a-move-compares-before-the-flip.md`).

The step is stored before its work begins, so the next run knows where a killed one was. A step's work may run twice.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from app.domain.clusters.room import Room
from app.domain.errors import MnemaError


class MoveStep(StrEnum):
    """The work that a move does now, or its end.

    Only from `compare` do several ways lead on, `flip` and those that go back, and one statement chooses between them:
    so the tenant never gets two homes.
    """

    requested = "requested"  # the tenant's administrator asked for it: check what forbids it
    prepare = "prepare"  # remove what an earlier move left on the target; make partitions there
    copy = "copy"  # replicate until every table is in step
    fence = "fence"  # end the residence on the source: its writes wait, then look for the new home
    compare = "compare"  # the target has everything; compare counts and checksums
    flip = "flip"  # begin the residence on the target, and write the placement
    clean = "clean"  # drop subscription, slots and publication
    done = "done"
    resume = "resume"  # take the residence on the source back; the copy goes on
    undo = "undo"  # take it back if need be, and remove subscription, slots, publication and copy
    undone = "undone"


ENDED = frozenset({MoveStep.done, MoveStep.undone})
FORWARD_ONLY = frozenset({MoveStep.flip, MoveStep.clean, MoveStep.done})
"""Steps from which a move cannot go back: the tenant is at home on the target, or is about to be."""


@dataclass(frozen=True, slots=True)
class Move:
    """A move as it is stored.

    `details`: what later steps need, such as the number of the ended residence. `is_aborted`: somebody asked for its
    end.
    """

    id: UUID
    tenant_id: UUID
    source: str
    target: str
    step: MoveStep
    details: Mapping[str, Any]
    is_aborted: bool = False

    @property
    def name(self) -> str:
        """The name of its publication, its subscription and its slot."""
        return f"mnema_move_{self.id.hex}"


@dataclass(frozen=True, slots=True)
class StoppedMove:
    """An unfinished move that no process runs."""

    tenant_id: UUID
    target: str
    step: MoveStep

    @property
    def advice(self) -> str:
        """A sentence with the command that goes on."""
        abort = "" if self.step in FORWARD_ONLY else ", or undo it with --abort"
        return (
            f"the move of the tenant {self.tenant_id} stopped at the step {self.step}, and the tenant may have no "
            f"home: run `mnema tenant move {self.tenant_id} --to {self.target}`{abort}"
        )


class ErasureOwed(MnemaError, status=503):
    """A copy of a tenant in a former home still has what was erased."""


@dataclass(frozen=True, slots=True)
class OwedErasures:
    """A copy in a former home that still has what was erased since."""

    tenant_id: UUID
    cluster: str
    erasures: int

    @property
    def advice(self) -> str:
        """A sentence with the command that deletes the copy."""
        return (
            f"{self.cluster} has a copy of the tenant {self.tenant_id} that owes {self.erasures} erasures: run"
            f" `mnema tenant move {self.tenant_id} --forget-old`"
        )


@dataclass(frozen=True, slots=True)
class MovePlan:
    """The plan of a move. `rows`: the tenant's rows by table. `problems`: what forbids the move now.

    `size`: about how many bytes it copies. `room`: that of the target.
    """

    tenant_id: UUID
    source: str
    target: str
    rows: Mapping[str, int]
    size: int
    room: Room
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MoveOutcome:
    """An ended move. `pause_s`: the seconds that the tenant had no home; None if another run ended the residence."""

    move: Move
    pause_s: float | None = None


@dataclass(frozen=True, slots=True)
class MoveProgress:
    """Progress that is shown. `tables` of `all_tables` are copied."""

    step: MoveStep
    tables: int = 0
    all_tables: int = 0


ReportProgress = Callable[[MoveProgress], None]
