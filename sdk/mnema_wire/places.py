"""The place of a tenant among the clusters of an installation, and its moves."""

from datetime import datetime
from typing import Annotated, Literal, get_args
from uuid import UUID

from pydantic import ConfigDict, Field

from mnema_wire.bases import Answered, Request, words
from mnema_wire.fields import Identifier

MoveStep = Literal[
    "requested", "prepare", "copy", "fence", "compare", "flip", "clean", "done", "resume", "undo", "undone"
]
MoveState = Literal["waiting", "running", "done", "undone"]


class NewMove(Request):
    """A move to ask for."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"cluster": "us1"}]})
    cluster: Identifier = Field(description="the cluster that becomes the home")


class TenantMove(Answered):
    """A move of the tenant to another cluster."""

    model_config = ConfigDict(from_attributes=True)
    id: UUID
    source: str = Field(description="the cluster that it leaves")
    target: str = Field(description="the cluster that becomes the home")
    state: Annotated[str, words(*get_args(MoveState))] = Field(
        description="`waiting` is for a worker; `undone`: it went back"
    )
    step: Annotated[str, words(*get_args(MoveStep))] = Field(description="what the move does now, or did last")
    copied: int = Field(description="tables that are copied")
    tables: int = Field(description="tables to copy; 0 before the copy")
    requested: bool = Field(description="a key of the tenant asked for it; else the operator moves the tenant")
    aborted: bool = Field(description="its end was asked for")
    reason: str | None = Field(description="why it went back")
    started_at: datetime
    changed_at: datetime = Field(description="when its step last changed")
    ended_at: datetime | None


class MoveTarget(Answered):
    """A cluster that the tenant may ask to move to."""

    cluster: str = Field(description="its name")
    region: str | None = Field(description="its region; null: the operator named none")


class MoveProblem(Answered):
    """The reason why a request for a move would be refused now."""

    code: str = Field(description="such as `moves_not_offered`, `no_mover` and `move_refused`")
    detail: str


class TenantPlace(Answered):
    """The place of a tenant."""

    cluster: str = Field(description="its home, which has its rows and takes its writes")
    region: str | None = Field(description="the region of its home")
    bound_to: str | None = Field(description="the region that only the operator moves it out of")
    copies: list[str] = Field(description="former homes with a copy, until the operator deletes it")
    unreached: list[str] = Field(description="clusters that do not answer now, and may have a copy")
    targets: list[MoveTarget] = Field(description="where it may move to; empty if moves are not offered")
    move: TenantMove | None = Field(description="the newest move, also after its end; null: it never moved")
    problem: MoveProblem | None = Field(description="why a move would be refused now; null: it may ask for one")
