"""The builder of the capability `facts`: store, read and answer facts."""

from dataclasses import dataclass

from app.bootstrap.parts import SharedParts
from app.storage.facts.facts import FactStorage
from app.storage.operations.vectors import VectorStorage
from app.usecases.facts.answer import AnswerFacts
from app.usecases.facts.read import ReadFacts
from app.usecases.facts.store import StoreFacts
from app.usecases.facts.turns import EmbedFactMemories
from app.usecases.tenancy.limits import Limits


@dataclass(frozen=True, slots=True)
class FactUseCases:
    """The use-cases of one application that store, read and answer facts."""

    store: StoreFacts
    read: ReadFacts
    answer: AnswerFacts


def build_facts(parts: SharedParts, limits: Limits) -> FactUseCases:
    """Build the use-cases of facts."""
    storage = FactStorage(parts.uow)
    policies = parts.policies
    return FactUseCases(
        store=StoreFacts(parts.uow, storage, parts.journal, build_fact_memories(parts), limits, policies, parts.clock),
        read=ReadFacts(parts.uow, storage, policies, parts.clock),
        answer=AnswerFacts(parts.uow, storage, parts.access, policies, parts.clock),
    )


def build_fact_memories(parts: SharedParts) -> EmbedFactMemories:
    """Build the step that embeds the memories of facts."""
    return EmbedFactMemories(VectorStorage(parts.uow, parts.space.name), parts.embedder)
