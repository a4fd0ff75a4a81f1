"""The builder of the capability `recall`: answer queries and read deltas."""

from app.bootstrap.parts import SharedParts
from app.storage.recall.delta import DeltaStorage
from app.storage.recall.search import SearchStorage
from app.usecases.facts.answer import AnswerFacts
from app.usecases.recall.candidates import Candidates
from app.usecases.recall.delta import ReadDelta
from app.usecases.recall.query import QueryMemories
from app.usecases.recall.ranking import RankMemories


def build_recall(parts: SharedParts, facts: AnswerFacts) -> tuple[ReadDelta, QueryMemories]:
    """Build the use-cases that read a thread's delta and answer queries."""
    cursors, search = DeltaStorage(), SearchStorage(parts.space.name)
    delta = ReadDelta(parts.uow, cursors, parts.policies)
    candidates = Candidates(search, parts.reranker, parts.policies.relevance, parts.clock)
    ranks = RankMemories(parts.uow, search, candidates, parts.embedder, parts.policies)
    query = QueryMemories(parts.uow, search, ranks, delta, cursors, parts.tokens, parts.access, facts, parts.policies)
    return delta, query
