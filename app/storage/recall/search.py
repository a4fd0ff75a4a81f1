"""Reading for memory.query: candidates in one call, the answer in another. The database applies every filter."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from pgvector import HalfVector

from app.domain.filters import Conditions, Filters
from app.domain.languages import mark_language
from app.domain.memory.memory import Memory
from app.domain.memory.moments import NOW, Moments
from app.domain.outages import PastIncomplete
from app.domain.principal import Principal
from app.domain.recall.candidates import Candidate
from app.ports import Vector
from app.storage.rows import memory_columns, memory_from_row
from app.storage.statements import load_statements
from app.storage.uow import ReadTx, Row

TOP_FOR_RELATIONS = 10
"""The number of best candidates of each search whose relations are read."""


@dataclass(frozen=True, slots=True)
class Search:
    """The filters of a search and the number of candidates of each kind. A `vector` of None means lexical only.

    `with_vectors`: candidates have their vectors and the hashes of their texts.
    `chunks`: this many chunks by vector and as many by words are candidates too, of `chunk_categories` and found in a
    search of their own; no other candidate is a chunk. `beside`: neighbouring turns of this many best candidates of
    each kind become candidates too. `exact`: the largest number of memories of a tenant that are all compared, without
    the approximate index. `moments`: the times that the search is about. Other than NOW, it is of one user, whose
    memories may have the categories `today` now; no candidate is a chunk, and relations count for nothing. `spoken`:
    the language of the text; None: told from it.
    """

    filters: Filters
    categories: tuple[str, ...]
    text: str
    vector: Vector | None
    dense: int
    lexical: int
    with_vectors: bool = False
    with_strengths: bool = True
    with_tokens: bool = False
    beside: int = 0
    exact: int = 5000
    left_out: Conditions = field(default_factory=Conditions)
    chunks: int = 0
    chunk_categories: tuple[str, ...] = ()
    moments: Moments = NOW
    today: tuple[str, ...] = ()
    spoken: str | None = None

    @property
    def row_conditions(self) -> Conditions | None:
        """The conditions of filters and `left_out` together; None if there are none."""
        return self.filters.row_conditions() | self.left_out or None

    @property
    def words(self) -> str:
        """The text as the search by words reads it: in the language that is searched, else in its own."""
        return mark_language(self.text, self.filters.language or self.spoken)


@dataclass(frozen=True, slots=True)
class Related:
    """A memory related to one in the answer; `via` is the id of that one."""

    memory: Memory
    strength: float
    via: UUID


@dataclass(frozen=True, slots=True)
class FoundMemories:
    """The memories of an answer. `chosen` holds those of the requested ids that are still visible."""

    whole: list[Memory] = field(default_factory=list)
    chosen: dict[UUID, Memory] = field(default_factory=dict)
    related: list[Related] = field(default_factory=list)


class Recalled(NamedTuple):
    """The candidates of a search. `has_instructions`: its user has standing instructions, or may have some."""

    candidates: list[Candidate]
    has_instructions: bool = True


class SearchStorage:
    """Statements on one embedding space. Each one binds the tenant and applies user, categories and filters."""

    def __init__(self, space: str) -> None:
        self._recall = load_statements("recall/search.sql")["recall"].format(space=space)
        self._answer = load_statements("recall/search.sql")["answer"]
        self._past_is_filled = load_statements("recall/search.sql")["past_is_filled"].format(space=space)
        self._recall_at = load_statements("recall/search.sql")["recall_at"].format(space=space)
        self._answer_at = load_statements("recall/search.sql")["answer_at"].format(columns=memory_columns("(a.memory)"))

    async def find_candidates(self, tx: ReadTx, principal: Principal, search: Search) -> list[Candidate]:
        """Return the best `dense` memories by cosine, the best `lexical` by ts_rank, turns beside them, and chunks."""
        return (await self.recall(tx, principal, search)).candidates

    async def recall(self, tx: ReadTx, principal: Principal, search: Search) -> Recalled:
        """Return the candidates of `find_candidates`, and whether the user may have standing instructions.

        The instructions are looked up after the search: one that is stored later counts from the next query.
        """
        if not search.moments.is_now:
            return Recalled(await self._find_former(tx, principal, search))
        row = await tx.fetchrow(
            self._recall,
            *filter_arguments(principal, search),
            search.words,
            None if search.vector is None else HalfVector(search.vector),
            search.dense,
            search.lexical,
            search.beside,
            TOP_FOR_RELATIONS if search.with_strengths else 0,
            search.exact,
            search.with_tokens,
            search.with_vectors,
            search.chunks,
            list(search.chunk_categories),
        )
        if row is None:
            return Recalled([])
        return Recalled([] if row["id"] is None else _candidates_from_row(row), row["has_instructions"])

    async def _find_former(self, tx: ReadTx, principal: Principal, search: Search) -> list[Candidate]:
        """Return the candidates among the memories as they were. Raise PastIncomplete while the past is filled."""
        as_of = search.moments.as_of
        if as_of is not None and not await tx.fetchval(self._past_is_filled, principal.tenant_id, as_of):
            raise PastIncomplete()
        row = await tx.fetchrow(
            self._recall_at,
            *filter_arguments(principal, search),
            search.words,
            None if search.vector is None else HalfVector(search.vector),
            search.dense,
            search.lexical,
            search.beside,
            search.with_tokens,
            search.with_vectors,
            *_time_arguments(search),
        )
        return [] if row is None or row["id"] is None else _candidates_from_row(row)

    async def load_answer(
        self,
        tx: ReadTx,
        principal: Principal,
        search: Search,
        *,
        whole: Sequence[str] = (),
        whole_limit: int = 0,
        chosen: Sequence[UUID] = (),
        related: int = 0,
        first: int | None = None,
    ) -> FoundMemories:
        """Return the memories of an answer.

        `whole`: categories returned in full, pinned and most important first, at most `whole_limit` memories.
        `chosen`: ids to return. `related`: the number of memories with the strongest relations to the `first` chosen
        ones, or to all of them.
        """
        ids = list(chosen)
        if not search.moments.is_now:
            return await self._load_former(tx, principal, search, whole, whole_limit, ids)
        limits = (related, len(ids) if first is None else first)
        rows = await tx.fetch(
            self._answer, *filter_arguments(principal, search), list(whole), whole_limit, ids, *limits
        )
        memories = FoundMemories()
        for row in rows:
            memory = memory_from_row(row)
            if row["part"] == "whole":
                memories.whole.append(memory)
            elif row["part"] == "chosen":
                memories.chosen[memory.id] = memory
            else:
                memories.related.append(Related(memory, float(row["strength"]), row["via"]))
        return memories

    async def _load_former(
        self, tx: ReadTx, principal: Principal, search: Search, whole: Sequence[str], whole_limit: int, ids: list[UUID]
    ) -> FoundMemories:
        """Return the memories of an answer as they were, without related ones: relations have no history."""
        rows = await tx.fetch(
            self._answer_at,
            *filter_arguments(principal, search),
            list(whole),
            whole_limit,
            ids,
            *_time_arguments(search),
        )
        memories = FoundMemories()
        for row in rows:
            memory = memory_from_row(row)
            if row["part"] == "whole":
                memories.whole.append(memory)
            else:
                memories.chosen[memory.id] = memory
        return memories


def _time_arguments(search: Search) -> tuple[Any, ...]:
    """Return the last arguments of a statement in time: its times, and the categories that a memory may have now."""
    return search.moments.as_of, search.moments.valid_at, list(search.today)


def filter_arguments(principal: Principal, search: Search) -> tuple[Any, ...]:
    """Return the first arguments of every statement: tenant, user, categories and filters."""
    user_id = principal.reach(search.filters.user_id)
    return principal.tenant_id, user_id, list(search.categories), search.row_conditions


_COLUMNS = (
    "id",
    "category",
    "type",
    "importance",
    "pinned",
    "created_at",
    "updated_at",
    "thread_id",
    "seq",
    "actor_id",
    "asks",
    "assistant",
    "orders",
    "similarity",
    "lexical",
    "strength",
)


def _candidates_from_row(row: Row) -> list[Candidate]:
    """Build candidates from one row of columns. All tokens lie in one string, `lengths` bytes each."""
    tokens: list[bytes | None] = []
    all_tokens = row["tokens"] or b""
    at = 0
    for length in row["lengths"]:
        tokens.append(None if length is None else all_tokens[at : at + length])
        at += length or 0
    absent: list[None] = [None] * len(tokens)
    vectors = [None if e is None else e.to_numpy().astype(np.float32) for e in row["embeddings"] or ()] or absent
    columns = [row[name] for name in _COLUMNS]
    hashes = row["text_hashes"] or absent
    return list(map(Candidate._make, zip(*columns, tokens, vectors, absent, hashes, absent, strict=True)))
