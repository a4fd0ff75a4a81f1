"""Retrieval for chat: the memories and the summary that go with a user's message (`docs/contract.md`, Chat)."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Final
from uuid import UUID

from app.config.loader import Policies
from app.config.tenant_policies import TenantPolicies
from app.domain.chat.conversation import REACH, may_change
from app.domain.chat.memories import (
    MEMORY_ROLE,
    ChatMemories,
    MemoryHit,
    RetrievalOptions,
    scope_conditions,
)
from app.domain.errors import NulByte
from app.domain.facts.reading import may_retract
from app.domain.filters import Conditions, Filters
from app.domain.memory.memory import Memory, MemoryType
from app.domain.principal import Principal
from app.domain.recall.arrangement import arrange_answer
from app.domain.recall.candidates import Candidate
from app.domain.recall.instructions import AppliedInstruction, leave_out_applied
from app.domain.recall.passages import FoundChunk, join_chunks, passage_text
from app.domain.recall.profiles import RankingProfile, profile_name
from app.domain.recall.scoring import ScoredCandidate
from app.domain.receipts.receipt import QueryReceipt, ToldItem
from app.domain.text_rules import normalise_text, text_key, trim_text
from app.storage.access_log import AccessLog
from app.storage.identity import new_id
from app.storage.recall.search import FoundMemories, Search, SearchStorage
from app.storage.recall.threads import ThreadStorage
from app.storage.reflection.transcripts import ReflectionStorage
from app.storage.uow import ReadTx, UnitOfWork
from app.usecases.offload import offload_if_large
from app.usecases.recall.chunks import FindChunks
from app.usecases.recall.instructions import FindInstructions
from app.usecases.recall.ranking import Ranking, RankMemories
from app.usecases.recall.search import EVERY, SearchQuery
from app.usecases.recall.slots import ChunkSlots, split_chunks


class ReadSummary:
    """The step that reads a summary, if summaries are on and the key may see its category."""

    def __init__(self, storage: ReflectionStorage, policies: TenantPolicies) -> None:
        self._storage = storage
        self._policies = policies

    async def read_summary(self, tx: ReadTx, principal: Principal, user_id: str, memory_id: str) -> str | None:
        """Return the text of the conversation's summary, or None."""
        if not self._policies.of(principal).summaries.enable_summarization:
            return None
        found = await self._storage.load_summary(tx, principal, user_id, memory_id)
        seen = principal.categories
        return found.text if found and (seen is None or found.category in seen) else None


MAX_QUESTION: Final = 8000
"""The characters of a message that the search reads."""
MAX_PRESENT: Final = 64
"""The places that the first search of a scope keeps for memories that the request has already."""
HIT_TYPES: Final = sorted(set(MemoryType) - {MemoryType.summary, MemoryType.procedural, MemoryType.chunk})
"""The types of hits. The summary goes separately, chunks have slots of their own, and procedures are answered only to
agents that ask for them."""
SEARCHES: Final = 4
"""Searches of one scope, each without the memories of the one before that the request has already."""


@dataclass(frozen=True, slots=True)
class _Pools:
    """The pools of one retrieval: `size` memories of each scope, without those that the request has.

    `present`: hashes of the request's texts. `question`: hash of the message. `conditions`: conditions of each scope.
    """

    conditions: list[Conditions]
    size: int
    present: frozenset[bytes] = field(default_factory=frozenset)
    question: bytes = b""

    def is_told(self, candidate: Candidate) -> bool:
        """Return True for a memory whose text the request has, and for a turn that repeats its message."""
        if candidate.text_hash in self.present:
            return True
        return candidate.type == MemoryType.turn and candidate.text_hash == self.question


@dataclass(frozen=True)
class RetrieveForChat:
    """The use-case that retrieves memories from the conversation and from what is known in every conversation."""

    uow: UnitOfWork
    search: SearchStorage
    threads: ThreadStorage
    chunks: FindChunks
    ranks: RankMemories
    summaries: ReadSummary
    access: AccessLog
    policies: TenantPolicies
    instructions: FindInstructions

    async def retrieve_memories(
        self,
        principal: Principal,
        user_id: str,
        memory_id: str,
        text: str,
        options: RetrievalOptions,
        *,
        present: Collection[str] = (),
    ) -> ChatMemories:
        """Return the memories that help to answer `text`, best first, and the summary of the conversation `memory_id`.

        `present`: the texts of the request's messages, which are no hits. Nothing is read if `top_k` is 0 or less.
        Without the embedder the search is lexical, without the reranker it is not reranked; `degraded` then has the
        error's code.
        """
        policies = self.policies.of(principal)
        top_k = policies.chat.default_top_k if options.top_k is None else options.top_k
        if top_k <= 0:
            return ChatMemories()
        categories = policies.categories.searchable_by(principal)
        place = user_id, memory_id
        if not (question := normalise_text(text[:MAX_QUESTION])) or not categories:
            async with self.uow.read_anywhere(principal) as tx:
                return ChatMemories(summary=await self.summaries.read_summary(tx, principal, *place))
        conditions = scope_conditions(memory_id, across=policies.chat.across_conversations)
        profile = _build_profile(policies, options)
        told = await offload_if_large(sum(map(len, present)), _hash_texts, present)
        pools = _Pools(conditions, profile.pool * top_k, told, text_key(question))
        least = _least_relevance(policies, options)
        request = SearchQuery(question, Filters(user_id), memory_id, top_k=top_k, min_relevance=least)
        profile = replace(profile, pool=profile.pool * len(conditions))
        lengths = dict.fromkeys(categories, EVERY)
        slots = min(top_k, policies.sources.answer_chunks)
        ranking = await self.ranks.prepare_ranking(principal, request, categories, lengths, profile, chunks=slots)
        ranking.search = replace(ranking.search, left_out=Conditions(type=HIT_TYPES), with_vectors=True)
        return await self._answer(principal, place, ranking, pools)

    async def _answer(
        self, principal: Principal, place: tuple[str, str], ranking: Ranking, pools: _Pools
    ) -> ChatMemories:
        find = partial(self._find_candidates, pools=pools)
        reranked = await self.ranks.rerank_candidates(ranking, find)
        async with self.uow.read_anywhere(principal) as tx:
            chosen = await self.ranks.choose_ranked(tx, ranking, reranked, find)
            applied = await self._find_instructions(tx, ranking, pools)
            chosen = leave_out_applied(chosen, applied)
            ids = [*(scored.candidate.id for scored in chosen), *(one.id for one in applied)]
            found = FoundMemories()
            if ids:
                found = await self.search.load_answer(tx, principal, ranking.search, chosen=ids)
            standing = [found.chosen[one.id] for one in applied if one.id in found.chosen]
            next_own = await self._find_follow_ups(tx, principal, found.chosen, pools)
            chunks = await self.chunks.load_chosen(tx, ranking)
            summary = await self.summaries.read_summary(tx, principal, *place)
        items, _ = arrange_answer(chosen, found.chosen, ranking.query.text, ranking.limits)
        scores = [item.scored for item in items]
        most = self.policies.of(principal).chat.memory_chars
        hits = [_hit_of(round(scored.total, 4), found.chosen[scored.candidate.id], most) for scored in scores]
        hits = _with_follow_ups(hits, next_own, most)[: ranking.limits.top_k]
        found.chosen.update({later.id: later for later in next_own.values()})
        hits += _chunk_hits(chunks, ranking.chunks.most if ranking.chunks else 0, most)
        best = max((hit.score for hit in hits), default=1.0)
        hits = [*(_hit_of(best, memory, most) for memory in standing), *_order_equals(hits)]
        self.access.record_access(principal, [hit.id for hit in hits], ranking.observe_search(scores))
        if self.policies.of(principal).query.receipts:
            receipt = _build_receipt(principal, place, hits, found.chosen, chunks, ranking)
            self.access.record_receipt(principal, receipt)
        dated = self.policies.of(principal).chat.dates
        return ChatMemories(tuple(hits), summary, ranking.degraded, dated)

    async def _find_instructions(self, tx: ReadTx, ranking: Ranking, pools: _Pools) -> list[AppliedInstruction]:
        """Return the standing instructions of all scopes that apply, without those that the request has."""
        told = {*pools.present, pools.question}
        searches = [replace(ranking.search, left_out=ranking.search.left_out | one) for one in pools.conditions]
        return await self.instructions.find_applying(
            tx, ranking.principal, ranking, searches, is_told=lambda text: text_key(text) in told
        )

    async def _find_follow_ups(
        self, tx: ReadTx, principal: Principal, chosen: Mapping[UUID, Memory], pools: _Pools
    ) -> dict[UUID, Memory]:
        """Return for each turn of a user their next message, if it may change the turn and the request has it not."""
        turns = [id_ for id_, one in chosen.items() if one.type is MemoryType.turn and one.role == "user"]
        found = await self.threads.find_next_own(tx, principal, turns, REACH) if turns else {}
        told = {*pools.present, pools.question}
        return {
            id_: later
            for id_, later in found.items()
            if text_key(later.text) not in told
            and may_change(chosen[id_].text, later.text, retracts=may_retract(later.text))
        }

    async def _find_candidates(self, tx: ReadTx, ranking: Ranking, pools: _Pools) -> list[Candidate]:
        """Return the pools of all scopes, each memory once. Chunks go to their slots.

        What was learnt in this conversation is known in every one, so it is in both pools.
        """
        if ranking.chunks is not None:
            ranking.chunks.candidates = []
        found: list[Candidate] = []
        for conditions in pools.conditions:
            found += await self._find_pool(tx, ranking, pools, conditions)
        found = list({candidate.id: candidate for candidate in found}.values())
        newest_first = sorted(found, key=lambda c: (c.created_at, c.id))
        newest = {c.text_hash or c.id: c.id for c in newest_first}  # of equal texts the newest
        return [c for c in found if newest[c.text_hash or c.id] == c.id]

    async def _find_pool(self, tx: ReadTx, ranking: Ranking, pools: _Pools, conditions: Conditions) -> list[Candidate]:
        """Return the pool of one scope.

        The next best memories replace those that the request has. So the search asks for some more, and runs again if
        they were too few.
        """
        wanted = pools.size + min(len(pools.present) + 1, MAX_PRESENT)
        told: list[UUID] = []
        kept: list[Candidate] = []
        for _ in range(SEARCHES):
            search = _scope_search(ranking, conditions, wanted, told)
            found = await self.search.find_candidates(tx, ranking.principal, search)
            found = _take_chunks(found, ranking.chunks)
            kept = [c for c in found if not pools.is_told(c)]
            if len(found) < wanted or len(kept) >= pools.size:
                break
            told += [c.id for c in found if pools.is_told(c)]
        return _nearest_of(kept, ranking.profile, pools.size)


def _build_profile(policies: Policies, options: RetrievalOptions) -> RankingProfile:
    """Return the configured profile. With the fusion `sigmoid` it has the recency and the threshold of chat."""
    policy = policies.chat
    profile = policies.profiles[profile_name(policies.chat.profile)]
    if profile.fusion != "sigmoid":
        return profile
    recency = policy.recency_weight if options.recency_weight is None else options.recency_weight
    least = policy.score_threshold if options.score_threshold is None else options.score_threshold
    return replace(profile, recency=recency, score_threshold=least)


def _least_relevance(policies: Policies, options: RetrievalOptions) -> float | None:
    """Return the minimum of the calibrated relevance, which replaces a profile's threshold."""
    is_calibrated = policies.profiles[profile_name(policies.chat.profile)].fusion != "sigmoid"
    return options.score_threshold if is_calibrated else None


def _take_chunks(found: list[Candidate], slots: ChunkSlots | None) -> list[Candidate]:
    """Return the candidates that are no chunks. Add the chunks to `slots`, which may have those of another scope."""
    before = slots.candidates if slots else []
    others = split_chunks(found, slots)
    if slots is not None:
        slots.candidates = before + slots.candidates
    return others


def _scope_search(ranking: Ranking, conditions: Conditions, wanted: int, told: list[UUID]) -> Search:
    """Return the search for the best `wanted` memories of a scope, without those in `told`.

    A profile that ranks by the vector alone asks the full-text search only if there is no vector.
    """
    left_out = ranking.search.left_out | conditions
    search = replace(ranking.search, left_out=left_out)
    if told:  # not the first search of the scope, which found the chunks
        left_out["exclude_ids"] = [str(id_) for id_ in told]
        search = replace(search, chunks=0)
    if ranking.profile.fusion != "sigmoid":
        return replace(search, dense=max(ranking.profile.dense_candidates, wanted))
    if search.vector is None:
        return replace(search, dense=0, lexical=wanted)
    return replace(search, dense=wanted, lexical=0, left_out=left_out | Conditions(embedded=True))


def _nearest_of(candidates: list[Candidate], profile: RankingProfile, size: int) -> list[Candidate]:
    """Return the `size` nearest candidates. A profile that weighs several signals ranks all of them."""
    if profile.fusion != "sigmoid" or len(candidates) <= size:
        return candidates
    return sorted(candidates, key=lambda c: (-_nearness(c), c.id))[:size]


def _nearness(candidate: Candidate) -> float:
    """Return the cosine, or the match of the full-text search if there was no vector to search by."""
    return candidate.lexical or 0.0 if candidate.similarity is None else candidate.similarity


def _hash_texts(texts: Collection[str]) -> frozenset[bytes]:
    """Return the hashes of texts. A text that cannot be stored has none."""
    hashes = set()
    for text in texts:
        with suppress(NulByte):
            hashes.add(text_key(text))
    return frozenset(hashes)


def _chunk_hits(chunks: Sequence[FoundChunk], count: int, most: int) -> list[MemoryHit]:
    """Return the best chunks of documents, each behind its path and heading. Chunks of turns are left out: their turn
    is a hit itself, or a message of the request.
    """
    of_documents = [one for one in chunks if one.chunk.place is None or one.chunk.place.turn_id is None][:count]
    hits = []
    for one in of_documents:
        memory = one.chunk.memory
        text = trim_text(passage_text(join_chunks(one, 0)), most)
        score = round(one.scored.total if one.scored.relevance is None else one.scored.relevance, 4)
        hits.append(MemoryHit(memory.id, MEMORY_ROLE, text, memory.created_at, score, memory.category))
    return hits


def _with_follow_ups(hits: Sequence[MemoryHit], next_own: Mapping[UUID, Memory], most: int) -> list[MemoryHit]:
    """Return the hits, each with the message that may change it, which has its score. Each comes once."""
    known = {hit.id for hit in hits}
    ordered: list[MemoryHit] = []
    for hit in hits:
        ordered.append(hit)
        later = next_own.get(hit.id)
        if later is not None and later.id not in known:
            known.add(later.id)
            ordered.append(_hit_of(hit.score, later, most))
    return ordered


def _hit_of(score: float, memory: Memory, most: int) -> MemoryHit:
    is_turn = memory.type is MemoryType.turn
    role = (memory.role if is_turn else None) or MEMORY_ROLE
    text = trim_text(memory.text, most)
    days = memory.updated_at, memory.valid_to
    return MemoryHit(memory.id, role, text, memory.created_at, score, memory.category, memory.fact_topic, days)


def _order_equals(hits: Sequence[MemoryHit]) -> Iterator[MemoryHit]:
    """Yield the hits in their order; of neighbours with one score the newest first."""
    for _score, equals in groupby(hits, key=lambda hit: hit.score):
        yield from sorted(equals, key=lambda hit: hit.created_at, reverse=True)


def _build_receipt(
    principal: Principal,
    place: tuple[str, str],
    hits: Sequence[MemoryHit],
    memories: Mapping[UUID, Memory],
    chunks: Sequence[FoundChunk],
    ranking: Ranking,
) -> QueryReceipt:
    """Return the receipt of the memories `hits` that were put before a chat of `place` (user and conversation)."""
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
