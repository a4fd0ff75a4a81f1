"""The builder of the capability `memory`: write, change and read memories."""

from dataclasses import dataclass

from app.bootstrap.facts import build_fact_memories
from app.bootstrap.parts import SharedParts
from app.storage.facts.facts import FactStorage
from app.storage.memory.batches import BatchStorage
from app.storage.memory.change_feed import ChangeFeedStorage
from app.storage.memory.memories import MemoryStorage
from app.usecases.facts.turns import ReadTurnFacts
from app.usecases.memory.batch_plans import BatchPlanner
from app.usecases.memory.batches import MemoryBatches
from app.usecases.memory.bulk import BulkWrite
from app.usecases.memory.change_feed import ChangeFeed
from app.usecases.memory.closing import CloseSpans
from app.usecases.memory.correct import CorrectMemories
from app.usecases.memory.edit import EditMemories
from app.usecases.memory.history import ReadHistory
from app.usecases.memory.later_check import LaterCheck
from app.usecases.memory.read import ReadMemories
from app.usecases.memory.turns import StoreTurn
from app.usecases.memory.write import WriteMemories
from app.usecases.tenancy.limits import Limits


@dataclass(frozen=True, slots=True)
class MemoryUseCases:
    """The use-cases of one application that write, change and read memories."""

    write: WriteMemories
    turns: StoreTurn
    bulk: BulkWrite
    edit: EditMemories
    read: ReadMemories
    history: ReadHistory
    batches: MemoryBatches
    correct: CorrectMemories
    changes: ChangeFeed


def build_memory(parts: SharedParts, limits: Limits) -> MemoryUseCases:
    """Build the use-cases that write, change and read memories."""
    uow = parts.uow
    journal = parts.journal
    embedder = parts.embedder
    policies = parts.policies
    clock = parts.clock
    memories = MemoryStorage(uow, parts.space.name)
    batches = BatchStorage()
    planner = BatchPlanner(batches, policies, clock)
    later = LaterCheck(parts.publisher if parts.chat.is_available else None, policies.defaults.bands)
    told = build_fact_memories(parts)
    facts = ReadTurnFacts(FactStorage(uow), policies)
    closing = CloseSpans(uow, memories, journal, policies, clock)
    write = WriteMemories(
        memories, journal, parts.access, embedder, told, limits, policies, clock, later, facts, closing
    )
    return MemoryUseCases(
        write=write,
        turns=StoreTurn(write, journal, embedder, told, parts.publisher, limits, policies, facts),
        bulk=BulkWrite(write, limits),
        edit=EditMemories(uow, memories, journal, embedder, policies, clock, closing),
        read=ReadMemories(uow, memories, clock),
        history=ReadHistory(uow, memories),
        changes=ChangeFeed(uow, ChangeFeedStorage()),
        correct=CorrectMemories(uow, memories, journal, write, limits, policies, clock),
        batches=MemoryBatches(uow, batches, planner, journal, limits, policies),
    )
