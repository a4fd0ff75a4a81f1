"""The builder of the capability `turn_memory`: turns, artifacts, active sets, views."""

from dataclasses import dataclass

from app.bootstrap.parts import SharedParts
from app.storage.turn_memory.artifacts import ArtifactStorage
from app.storage.turn_memory.context import ContextStorage
from app.usecases.tenancy.limits import Limits
from app.usecases.turn_memory.active_set import ManageActiveSet
from app.usecases.turn_memory.artifacts import ReadArtifacts
from app.usecases.turn_memory.blobs import StoreBlobs
from app.usecases.turn_memory.context import ReadContext
from app.usecases.turn_memory.feedback import GiveFeedback
from app.usecases.turn_memory.turns import ChangeTurns


@dataclass(frozen=True, slots=True)
class TurnMemoryUseCases:
    """The use-cases of one application's turn memory."""

    turns: ChangeTurns
    read: ReadArtifacts
    active_set: ManageActiveSet
    context: ReadContext
    feedback: GiveFeedback


def build_turn_memory(parts: SharedParts, blobs: StoreBlobs, limits: Limits) -> TurnMemoryUseCases:
    """Build the use-cases of turn memory."""
    artifacts, policy = ArtifactStorage(parts.uow), parts.policies.turn_memory
    turns = ChangeTurns(parts.uow, artifacts, blobs, limits, policy, parts.clock)
    return TurnMemoryUseCases(
        turns=turns,
        read=ReadArtifacts(parts.uow, artifacts, blobs, policy, parts.clock),
        active_set=ManageActiveSet(parts.uow, artifacts, policy, parts.clock),
        context=ReadContext(ContextStorage(parts.uow), policy, parts.clock),
        feedback=GiveFeedback(parts.uow, artifacts, turns, parts.embedder, policy),
    )
