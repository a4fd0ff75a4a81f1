"""Reading memories and their history. The journal writes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from pgvector import HalfVector

from app.domain.languages import mark_language
from app.domain.memory.listing import MemoryListing
from app.domain.memory.memory import Memory, MemoryType
from app.domain.memory.merge_bands import MergeBands, Neighbour
from app.domain.memory.moments import Moments
from app.domain.paging import Position
from app.domain.principal import Principal
from app.domain.text_rules import text_key
from app.ports import Vector
from app.storage.rows import memory_columns, memory_from_row
from app.storage.statements import load_statements
from app.storage.uow import ReadTx, UnitOfWork


@dataclass(frozen=True, slots=True)
class ComparedMemory:
    """A stored memory that a new text is compared with. `near`: same category; `link`: close enough for a relation."""

    neighbour: Neighbour
    near: bool
    link: bool
    category: str
    thread_id: str | None
    importance: int
    pinned: bool
    tags: tuple[str, ...]
    version: int
    expires_at: datetime | None
    valid_from: datetime | None
    valid_to: datetime | None


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One line of a memory's audit trail; `meta` holds the whole row before and after."""

    id: UUID
    memory_id: str
    event: str
    old_ref: str | None
    new_ref: str | None
    actor: str | None
    meta: Mapping[str, Any]
    ts: datetime


class MemoryStorage:
    """Statements that read memories, history and neighbours within the principal's categories."""

    def __init__(self, uow: UnitOfWork, space: str) -> None:
        self._uow = uow
        self._space = space

    async def find_neighbours(
        self, principal: Principal, user_id: str, category: str, text: str, vector: Vector, bands: MergeBands
    ) -> list[ComparedMemory]:
        """Return the semantic memories to compare a new text with, best first, in one round trip."""
        rows = await self._uow.call(
            principal,
            _format_statement("neighbours", self._space),
            user_id,
            category,
            principal.category_list,
            text_key(text),
            HalfVector(vector),
            bands.neighbours,
            bands.link_top_k,
            bands.link_min,
        )
        return [_compared_from_row(row) for row in rows]

    async def find_all_neighbours(
        self, principal: Principal, user_id: str, texts: Sequence[tuple[str, str, Vector]], bands: MergeBands
    ) -> list[list[ComparedMemory]]:
        """Return the memories to compare each category, text and vector of one user with, in one round trip."""
        rows = await self._uow.call(
            principal,
            _format_statement("neighbours_of_each", self._space),
            user_id,
            [category for category, _text, _vector in texts],
            principal.category_list,
            [text_key(text) for _category, text, _vector in texts],
            [HalfVector(vector) for _category, _text, vector in texts],
            bands.neighbours,
            bands.link_top_k,
            bands.link_min,
        )
        found: list[list[ComparedMemory]] = [[] for _text in texts]
        for row in rows:
            found[row["place"] - 1].append(_compared_from_row(row))
        return found

    async def get_memory(self, tx: ReadTx, principal: Principal, memory_id: UUID) -> Memory | None:
        """Return the memory in any state; None if it does not exist or this key may not see it."""
        row = await tx.fetchrow(_format_statement("get"), principal.tenant_id, memory_id, principal.category_list)
        return memory_from_row(row) if row else None

    async def get_memory_at(self, tx: ReadTx, principal: Principal, memory_id: UUID, moments: Moments) -> Memory | None:
        """Return the memory as it was; None if it was not there, or if this key may not see its category then and now.

        In any state, but with `valid_at` only if it answers a question about that time.
        """
        times = moments.as_of, moments.valid_at
        row = await tx.fetchrow(
            _format_statement("get_at"), principal.tenant_id, memory_id, principal.category_list, *times
        )
        return memory_from_row(row) if row else None

    async def is_placed(self, tx: ReadTx, principal: Principal, memory: Memory) -> bool:
        """Tell whether a memory is a chunk of a file or turn, and not one that a caller wrote."""
        if memory.type is not MemoryType.chunk:
            return False
        return bool(await tx.fetchval(_format_statement("is_placed"), principal.tenant_id, memory.id))

    async def list_memories(
        self,
        tx: ReadTx,
        principal: Principal,
        listing: MemoryListing,
        after: Mapping[str, str] | None,
        limit: int,
    ) -> list[Memory]:
        """Return memories behind `after`, in the order of the listing, at most `limit`."""
        arguments = [
            principal.tenant_id,
            principal.reach(listing.filters.user_id),
            listing.narrow_categories(principal.category_list),
            listing.row_conditions(),
            listing.order_conditions(after),
            limit,
        ]
        words = listing.words and mark_language(listing.words, listing.filters.language)
        if not listing.moments.is_now:
            times = listing.moments.as_of, listing.moments.valid_at
            rows = await tx.fetch(_format_list("page_at"), *arguments, words, *times, principal.category_list)
        elif words is None:
            rows = await tx.fetch(_format_list("page"), *arguments)
        else:
            rows = await tx.fetch(_format_list("worded"), *arguments, words)
        return [memory_from_row(row) for row in rows]

    async def read_memories(self, tx: ReadTx, principal: Principal, user_id: str, ids: Sequence[str]) -> list[Memory]:
        """Return the user's own memories among these, in any state."""
        if not ids:
            return []
        rows = await tx.fetch(
            _format_statement("of_user"), principal.tenant_id, user_id, principal.category_list, list(ids)
        )
        return [memory_from_row(row) for row in rows]

    async def list_history(
        self, tx: ReadTx, principal: Principal, memory_id: UUID, after: Position | None, limit: int
    ) -> list[HistoryRow]:
        """Return the memory's history behind `after`, newest first, at most `limit`."""
        rows = await tx.fetch(
            _format_statement("history"),
            principal.tenant_id,
            str(memory_id),
            principal.category_list,
            *(after or (None, None)),
            limit,
        )
        return [HistoryRow(**dict(row)) for row in rows]

    async def find_given_end(self, tx: ReadTx, principal: Principal, memory: Memory) -> datetime | None:
        """Return the end of the memory's span without the supersession that set it, if one did."""
        if memory.valid_to is None:
            return None
        rows = await tx.fetch(_format_statement("given_end"), principal.tenant_id, str(memory.id), memory.valid_to)
        return rows[0]["valid_to"] if rows else memory.valid_to

    async def find_begun(self, tx: ReadTx, principal: Principal, memory: Memory) -> Memory | None:
        """Return the memory whose span began in the place of this one alone, None if there is none."""
        if memory.superseded_by is None:
            return None
        rows = await tx.fetch(
            _format_statement("begun"), principal.tenant_id, memory.id, memory.superseded_by, principal.category_list
        )
        return memory_from_row(rows[0]) if rows else None

    async def has_existed(self, tx: ReadTx, principal: Principal, memory_id: UUID) -> bool:
        """Tell whether the tenant ever had this memory."""
        return bool(await tx.fetchval(_format_statement("known"), principal.tenant_id, str(memory_id)))


@lru_cache(maxsize=64)
def _format_statement(name: str, space: str = "") -> str:
    return load_statements("memory/memories.sql")[name].format(columns=memory_columns("m"), space=space)


@lru_cache(maxsize=3)
def _format_list(name: str) -> str:
    return load_statements("memory/listing.sql")[name].format(columns=memory_columns("m"))


def _compared_from_row(row: Mapping[str, Any]) -> ComparedMemory:
    neighbour = Neighbour(
        id=row["id"],
        text=row["text"],
        similarity=-1.0 if row["similarity"] is None else min(1.0, float(row["similarity"])),
        created_at=row["created_at"],
        equal=row["equal"],
    )
    return ComparedMemory(
        neighbour=neighbour,
        near=row["near"] or row["equal"],
        link=row["link"],
        category=row["category"],
        thread_id=row["thread_id"],
        importance=row["importance"],
        pinned=row["pinned"],
        tags=tuple(row["tags"]),
        version=row["version"],
        expires_at=row["expires_at"],
        valid_from=row["valid_from"],
        valid_to=row["valid_to"],
    )
