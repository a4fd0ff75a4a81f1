"""Candidates for memory.query: filters first, then dense and lexical search, in one statement."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector

from app.domain.filters import Filters
from app.domain.memory import Memory
from app.domain.scope import Scope
from app.domain.scoring import Candidate
from app.ports import Vector
from app.storage.rows import candidate_columns, memory_from_row
from app.storage.sql import statements
from app.storage.uow import ReadTx


@dataclass(frozen=True, slots=True)
class Search:
    """What may be looked at and how many candidates of each kind are wanted. `vector` None = lexical only.

    `beside`: of so many best of each kind the turns beside them are candidates too.
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


class SearchStorage:
    """Reads one embedding space. Every method filters by tenant, user, categories and filters in the database."""

    def __init__(self, space: str) -> None:
        self._space = space

    async def candidates(self, tx: ReadTx, scope: Scope, search: Search) -> list[Candidate]:
        """Every memory among the best `dense` by cosine or the best `lexical` by ts_rank, unordered."""
        conditions = search.filters.row_conditions()
        statement = _candidates(
            self._space,
            search.vector is not None,
            search.filters.user_id is not None,
            conditions is not None,
            search.with_vectors,
            search.with_strengths,
            search.with_tokens,
            search.beside > 0,
        )
        vector = None if search.vector is None else HalfVector(search.vector)
        wanted = (search.dense, search.lexical, *([search.beside] if search.beside else []))
        rows = await tx.fetch(statement, *self._scope(scope, search), search.text, vector, *wanted)
        return [_candidate(row) for row in rows]

    async def whole_categories(
        self, tx: ReadTx, scope: Scope, search: Search, categories: Sequence[str], limit: int
    ) -> list[Memory]:
        """Memories of context-mode `all` categories, pinned and most important first."""
        statement = _plain("whole_categories", search.filters.user_id is not None)
        arguments = self._scope(scope, search, categories)
        return [memory_from_row(row) for row in await tx.fetch(statement, *arguments, limit)]

    async def related(
        self, tx: ReadTx, scope: Scope, search: Search, ids: Sequence[UUID], limit: int
    ) -> list[tuple[Memory, float]]:
        """The strongest relations of `ids` that are not among them, with their strength."""
        if not ids or not limit:
            return []
        statement = _plain("related", search.filters.user_id is not None)
        rows = await tx.fetch(statement, *self._scope(scope, search), [str(i) for i in ids], limit)
        return [(memory_from_row(row), float(row["strength"])) for row in rows]

    @staticmethod
    def _scope(scope: Scope, search: Search, categories: Sequence[str] | None = None) -> tuple[Any, ...]:
        chosen = list(search.categories if categories is None else categories)
        return scope.tenant_id, search.filters.user_id, chosen, search.filters.row_conditions()


@lru_cache(maxsize=512)
def _candidates(
    space: str,
    dense: bool,
    of_user: bool,
    filtered: bool,
    with_vectors: bool,
    with_strengths: bool,
    with_tokens: bool,
    with_beside: bool,
) -> str:
    sql = statements("search.sql")
    source = sql["recent" if not dense else "dense_filtered" if filtered else "dense"]
    pieces = {
        "vec": f"vec_{space}",
        "columns": candidate_columns("m"),
        "lexical_user": "(SELECT pk FROM who)" if of_user else "NULL",
        "user_vector": "AND v.user_pk = (SELECT pk FROM who)" if of_user else "",
        "user_memory": "AND m.user_pk = (SELECT pk FROM who)" if of_user else "",
        "similarity": "1 - (v.embedding <=> $6)" if dense else "NULL::float8",
        "embedding": "v.embedding" if with_vectors else "NULL::halfvec",
        "tokens": "v.tokens" if with_tokens else "NULL::bytea",
    }
    pieces["strength"] = sql["strength"].format(**pieces) if with_strengths else "NULL::real"
    pieces["beside"] = sql["beside"].format(**pieces) if with_beside else ""
    return sql["candidates"].format(dense=source.format(**pieces), **pieces)


@lru_cache(maxsize=16)
def _plain(name: str, of_user: bool) -> str:
    return statements("search.sql")[name].format(
        columns=candidate_columns("m"), user_memory="AND m.user_pk = (SELECT pk FROM who)" if of_user else ""
    )


def _candidate(row: Any) -> Candidate:
    embedding: NDArray[np.float32] | None = None
    if row["embedding"] is not None:
        embedding = row["embedding"].to_numpy().astype(np.float32)
    return Candidate(
        memory=memory_from_row(row),
        similarity=None if row["similarity"] is None else float(row["similarity"]),
        lexical=None if row["lexical_rank"] is None else float(row["lexical_rank"]),
        strength=float(row["strength"] or 0.0),
        embedding=embedding,
        tokens=row["tokens"],
    )
