"""Forgetting by id or by description, for HTTP and MCP: show what would go, then soft-delete what is confirmed."""

import re
from itertools import pairwise
from typing import Final
from uuid import UUID

from mnema_wire.memory import Forgetting, Forgotten

from app.api.schemas.memory.memories import memory_body
from app.bootstrap import Application
from app.domain.errors import FactMemory, NotFound, ScopeRequired
from app.domain.filters import Filters
from app.domain.languages import ENGLISH, count_unspaced
from app.domain.memory.memory import Memory, MemoryType
from app.domain.phrasebooks.phrasebook import fold
from app.domain.principal import Principal
from app.usecases.recall.search import SearchQuery

SHOWN: Final = 5
"""The most memories that a description finds."""
LEAST_RELEVANCE: Final = 0.3
"""The least calibrated relevance of a memory that a description may mean. What fits nothing finds nothing."""
LEAST_WORD: Final = 4
"""The letters of a word that a description shares with a memory in another language than English.

Relevance is calibrated on English, and other texts of one language look alike to an English model.
"""
_WORD: Final = re.compile(r"[^\W_]+")
_DESCRIBED: Final = frozenset({MemoryType.semantic, MemoryType.episodic, MemoryType.insight})


async def forget_memories(app: Application, principal: Principal, body: Forgetting) -> Forgotten:
    """Return what would go; with `confirm`, soft-delete these memories of the user. Idempotent; each can be restored.

    Raise NotFound if the user has no such memory that the key may see, FactMemory if one tells facts, and ScopeRequired
    for a description without the scope to query.
    """
    if body.confirm is None:
        return Forgotten(matches=[memory_body(memory) for memory in await _find(app, principal, body)], forgotten=[])
    for memory_id in body.confirm:
        await _load(app, principal, body.user_id, memory_id)
    gone = [await app.memory.edit.soft_delete_memory(principal, memory_id) for memory_id in body.confirm]
    return Forgotten(matches=[], forgotten=[memory_body(memory) for memory in gone])


async def _find(app: Application, principal: Principal, body: Forgetting) -> list[Memory]:
    if body.id is not None:
        return [await _load(app, principal, body.user_id, body.id)]
    if not principal.has_scope("query"):
        raise ScopeRequired("a description needs a key with scope 'query'; name the memory by its id")
    filters = Filters(user_id=body.user_id)
    described = body.description or ""
    query = SearchQuery(described, filters, types=_DESCRIBED, top_k=SHOWN, min_relevance=LEAST_RELEVANCE)
    found = (await app.recall.search.search_memories(principal, query)).results
    memories = (result.memory for result in found if result.memory.fact_topic is None)
    return [memory for memory in memories if _may_mean(described, memory)]


def _may_mean(described: str, memory: Memory) -> bool:
    if memory.language == ENGLISH:
        return True
    return not _long_words(described).isdisjoint(_long_words(memory.text))


def _long_words(text: str) -> frozenset[str]:
    """Return the folded words that say something by their length, and the pairs of signs of scripts without blanks."""
    low = fold(text)
    words = frozenset(word for word in _WORD.findall(low) if len(word) >= LEAST_WORD)
    return words | frozenset(one + other for one, other in pairwise(low) if count_unspaced(one + other) == 2)


async def _load(app: Application, principal: Principal, user_id: str, memory_id: UUID) -> Memory:
    memory = await app.memory.read.get_memory(principal, memory_id)
    if memory.user_id != user_id:
        raise NotFound()
    if memory.fact_topic is not None:
        raise FactMemory()
    return memory
