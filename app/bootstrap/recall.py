"""The builder of the capability `recall`: answer queries, search, and read threads and their deltas."""

from dataclasses import dataclass

from app.bootstrap.parts import SharedParts
from app.storage.recall.chunks import ChunkReader
from app.storage.recall.delta import DeltaStorage
from app.storage.recall.instructions import InstructionStorage
from app.storage.recall.search import SearchStorage
from app.storage.recall.threads import ThreadStorage
from app.usecases.facts.answer import AnswerFacts
from app.usecases.recall.candidates import Candidates
from app.usecases.recall.chunks import FindChunks
from app.usecases.recall.delta import ReadDelta
from app.usecases.recall.hidden import FindHidden
from app.usecases.recall.instructions import FindInstructions
from app.usecases.recall.query import QueryMemories
from app.usecases.recall.ranking import RankMemories
from app.usecases.recall.search import SearchMemories
from app.usecases.recall.threads import ReadThreads


@dataclass(frozen=True, slots=True)
class RecallUseCases:
    """The use-cases of the capability."""

    query: QueryMemories
    search: SearchMemories
    delta: ReadDelta
    threads: ReadThreads


def build_ranking(parts: SharedParts) -> RankMemories:
    """Build the stages of a ranking."""
    search = SearchStorage(parts.space.name)
    models = parts.policies.defaults.relevance, parts.policies.defaults.document_relevance
    candidates = Candidates(search, parts.reranker, models, parts.clock)
    return RankMemories(parts.uow, search, ChunkReader(), candidates, parts.embedder, parts.policies, parts.clock)


def build_instructions(parts: SharedParts) -> FindInstructions:
    """Build the step that finds the standing instructions of a user."""
    return FindInstructions(InstructionStorage(parts.space.name), parts.policies)


def build_recall(parts: SharedParts, facts: AnswerFacts) -> RecallUseCases:
    """Build the use-cases that answer queries, search with citations, and read a thread's turns and delta."""
    uow = parts.uow
    policies = parts.policies
    cursors = DeltaStorage()
    search = SearchStorage(parts.space.name)
    chunks = FindChunks(ChunkReader())
    delta = ReadDelta(uow, cursors, policies)
    ranks = build_ranking(parts)
    hidden = FindHidden(uow, ranks, policies)
    return RecallUseCases(
        query=QueryMemories(
            uow,
            search,
            chunks,
            ranks,
            delta,
            cursors,
            parts.tokens,
            parts.access,
            facts,
            build_instructions(parts),
            hidden,
            policies,
        ),
        search=SearchMemories(uow, search, chunks, ranks, parts.tokens, parts.access, policies),
        delta=delta,
        threads=ReadThreads(uow, ThreadStorage()),
    )
