"""The builder of the capability `turn_memory`: turns, artifacts, active sets, views."""

from dataclasses import dataclass

from app.bootstrap.blobs import build_blob_use_case
from app.bootstrap.parts import SharedParts
from app.bootstrap.reflection import build_model_gateway
from app.storage.turn_memory.artifacts import ArtifactStorage
from app.storage.turn_memory.context import ContextStorage
from app.usecases.tenancy.limits import Limits
from app.usecases.turn_memory.active_set import ManageActiveSet
from app.usecases.turn_memory.artifacts import ReadArtifacts
from app.usecases.turn_memory.blobs import StoreBlobs
from app.usecases.turn_memory.context import ReadBuckets, ReadContext
from app.usecases.turn_memory.deletion import DeleteTurn
from app.usecases.turn_memory.feedback import GiveFeedback
from app.usecases.turn_memory.journal import ReadJournal
from app.usecases.turn_memory.memory_reconcile import ReconcileMemory
from app.usecases.turn_memory.reconcile import ReconcileTurn
from app.usecases.turn_memory.summarize import SummariseTurn
from app.usecases.turn_memory.turns import ChangeTurns


@dataclass(frozen=True, slots=True)
class TurnMemoryUseCases:
    """The use-cases of one application's turn memory."""

    blobs: StoreBlobs
    turns: ChangeTurns
    delete: DeleteTurn
    read: ReadArtifacts
    active_set: ManageActiveSet
    context: ReadContext
    feedback: GiveFeedback
    reconcile: ReconcileTurn
    summarise: SummariseTurn
    buckets: ReadBuckets
    reconcile_memory: ReconcileMemory


def build_turn_memory(parts: SharedParts, limits: Limits) -> TurnMemoryUseCases:
    """Build the use-cases of turn memory."""
    artifacts = ArtifactStorage(parts.uow)
    policies = parts.policies
    blobs = build_blob_use_case(parts)
    reconciles = parts.settings.memory_reconcile_enabled
    turns = ChangeTurns(parts.uow, artifacts, blobs, limits, policies, parts.clock, reconciles=reconciles)
    active_set = ManageActiveSet(parts.uow, artifacts, policies, parts.clock)
    context = ReadContext(ContextStorage(parts.uow), policies, parts.clock)
    gateway = build_model_gateway(parts.uow, parts.journal, parts.chat, policies.defaults, parts.clock)
    buckets = ReadBuckets(parts.uow, artifacts, policies, enabled=reconciles)
    journals = ReadJournal(turns, context, buckets, policies)
    return TurnMemoryUseCases(
        blobs=blobs,
        turns=turns,
        delete=DeleteTurn(parts.uow, artifacts, blobs, policies, parts.clock),
        read=ReadArtifacts(parts.uow, artifacts, blobs, policies, parts.clock),
        active_set=active_set,
        context=context,
        feedback=GiveFeedback(parts.uow, artifacts, turns, parts.embedder, policies),
        reconcile=ReconcileTurn(gateway, journals, active_set, policies, parts.clock),
        summarise=SummariseTurn(gateway, journals, turns, policies),
        buckets=buckets,
        reconcile_memory=ReconcileMemory(parts.uow, artifacts, blobs, parts.clock, enabled=reconciles),
    )
