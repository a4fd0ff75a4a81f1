"""The receipt of a retrieval for chat."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from app.domain.chat.memories import MemoryHit
from app.domain.memory.memory import Memory
from app.domain.principal import Principal
from app.domain.recall.passages import FoundChunk
from app.domain.recall.scoring import ScoredCandidate
from app.domain.receipts.receipt import QueryReceipt, ToldItem
from app.storage.identity import new_id
from app.usecases.recall.ranking import Ranking


def build_receipt(
    principal: Principal,
    place: tuple[str, str],
    hits: Sequence[MemoryHit],
    memories: Mapping[UUID, Memory],
    chunks: Sequence[FoundChunk],
    ranking: Ranking,
) -> QueryReceipt:
    """Return the receipt of the memories `hits` that a chat of `place` (user and conversation) was told."""
    known = {**memories, **{one.chunk.memory.id: one.chunk.memory for one in chunks}}
    scored: list[ScoredCandidate] = [*ranking.ranked, *(one.scored for one in chunks)]
    relevance = {one.candidate.id: one.relevance for one in scored}
    user_id, thread_id = place
    return QueryReceipt(
        id=new_id(),
        via="chat",
        agent=principal.agent,
        key_id=principal.key_id,
        user_id=user_id,
        thread_id=thread_id,
        items=tuple(_told_item(known[hit.id], relevance.get(hit.id)) for hit in hits),
        relevance=ranking.answerable,
        degraded=ranking.degraded,
    )


def _told_item(memory: Memory, relevance: float | None) -> ToldItem:
    return ToldItem("item", memory.id, memory.category, memory.user_id, None, memory.version, relevance)
