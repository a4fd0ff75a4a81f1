"""A tenant with thousands of memories of several users, and the expected search results, computed with numpy."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

import asyncpg
import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector

from app.domain.filters import Filters
from app.domain.memory.memory import Memory
from app.domain.outages import EmbedderUnavailable
from app.domain.recall.candidates import Candidate
from app.domain.text_rules import text_key
from app.ports import Vector
from app.providers.embeddings.base import VectorsOnlyEmbedder
from app.storage.identity import new_id
from tests.usecases.stored import VECTORS
from tests.where_trees import as_json, matches

DIMENSION = 384
TOLERANCE = 1e-5
"""The difference below which two cosines are a tie, because the database adds in single precision."""

USERS = ("ana", "ben", "cleo")
WORDS = ("harbour", "violin", "granite", "saffron", "lantern")
STOP_WORDS = "the of and"
START = datetime(2026, 1, 1, tzinfo=UTC)
STEPS = 48
SHARES: tuple[tuple[str, float], ...] = (("preferences", 0.86), ("event", 0.1), ("goals", 0.03), ("tasks", 0.01))
"""The categories, all ranked: one holds nearly every memory, one almost none."""
RARE = 0.003


def moment(step: int) -> datetime:
    """Return START plus `step` hours; the crowd's memories change at whole hours."""
    return START + timedelta(hours=step)


def seeded(seed: object) -> Vector:
    """Return a unit vector that depends on `seed` alone."""
    digest = hashlib.sha256(repr(seed).encode()).digest()
    vector = np.random.default_rng(int.from_bytes(digest[:8], "big")).standard_normal(DIMENSION)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


class SeededEmbedder(VectorsOnlyEmbedder):
    """An embedder with random vectors, equal for equal texts. `failing` makes it fail."""

    model = "all-MiniLM-L6-v2"
    dimension = DIMENSION
    failing = False

    async def embed_texts(self, texts: Sequence[str]) -> list[Vector]:
        """Return one seeded vector for each text."""
        return [await self.embed_query(text) for text in texts]

    async def embed_query(self, text: str) -> Vector:
        """Return the text's seeded vector; raise EmbedderUnavailable if `failing`."""
        if self.failing:
            raise EmbedderUnavailable()
        return seeded(text)

    async def close(self) -> None:
        """Do nothing; there are no connections."""


@dataclass(frozen=True)
class Crowd:
    """The stored rows of one tenant, and their vectors as the database rounds them."""

    rows: list[dict[str, Any]]
    vectors: NDArray[np.float64]

    def matching(self, filters: Filters, categories: Iterable[str]) -> list[int]:
        """Return the indexes of the active rows in `categories` that pass every filter."""
        wanted = set(categories)
        return [
            place
            for place, row in enumerate(self.rows)
            if row["state"] == "active" and row["category"] in wanted and admits(filters, row)
        ]

    def nearest(self, places: Sequence[int], vector: Vector, k: int) -> tuple[set[UUID], set[UUID]]:
        """Return the ids that must be among the best `k` by cosine, and those that may be (ties with the last)."""
        cosines = self.cosines(places, vector)
        if len(places) <= k:
            ids = {self.rows[p]["id"] for p in places}
            return ids, ids
        last = np.sort(cosines)[-k]
        sure = {self.rows[p]["id"] for p, c in zip(places, cosines, strict=True) if c > last + TOLERANCE}
        maybe = {self.rows[p]["id"] for p, c in zip(places, cosines, strict=True) if c >= last - TOLERANCE}
        return sure, maybe

    def cosines(self, places: Sequence[int], vector: Vector) -> NDArray[np.float64]:
        """Return the cosines of these rows with the vector, rounded as the database rounds it."""
        query = vector.astype(np.float16).astype(np.float64)
        chosen = self.vectors[list(places)]
        return (chosen @ query) / np.linalg.norm(chosen, axis=1) / np.linalg.norm(query)


_CHECKS: dict[str, Callable[[Any, dict[str, Any]], bool]] = {
    "importance_min": lambda value, row: row["importance"] >= value,
    "importance_max": lambda value, row: row["importance"] <= value,
    "updated_after": lambda value, row: row["updated_at"] >= value,
    "updated_before": lambda value, row: row["updated_at"] < value,
    "tag": lambda value, row: value in row["tags"],
    "where": lambda value, row: matches(as_json(value), row),
}


def admits(filters: Filters, row: dict[str, Any] | Memory) -> bool:
    """Return True if a row passes the filters (`docs/contract.md`, Recall): all must hold, None is no filter."""
    values = row if isinstance(row, dict) else {name: getattr(row, name) for name in Memory.__dataclass_fields__}
    for name in Filters.__dataclass_fields__:
        wanted = getattr(filters, name)
        if wanted is None:
            continue
        check = _CHECKS.get(name)
        if not (check(wanted, values) if check else values[name] == wanted):
            return False
    return True


def make_rows(size: int, seed: int) -> list[dict[str, Any]]:
    """Return rows that depend on `seed` alone, except their ids. Some values are rare, some rows are not active."""
    rng = np.random.default_rng(seed)
    names, weights = zip(*SHARES, strict=True)
    categories = rng.choice(names, size, p=np.array(weights) / sum(weights))
    users = rng.choice(USERS, size, p=(0.7, 0.25, 0.05))
    return [_row(rng, number, str(categories[number]), str(users[number])) for number in range(size)]


def _row(rng: np.random.Generator, number: int, category: str, user: str) -> dict[str, Any]:
    def pick(*values: Any) -> Any:
        return "rare" if rng.random() < RARE else values[int(rng.integers(len(values)))]

    text = f"{user} notes {WORDS[int(rng.integers(len(WORDS)))]} number{number}."
    state = rng.choice(["active", "soft_deleted", "superseded"], p=(0.94, 0.03, 0.03))
    step = int(rng.integers(STEPS))
    return {
        "id": new_id(),
        "user_id": user,
        "thread_id": pick(None, "t1", "t2"),
        "agent_id": pick(None, "planner", "stylist"),
        "run_id": pick(None, "run-1"),
        "actor_id": pick(None, "maya"),
        "role": pick(None, "user", "assistant"),
        "type": str(rng.choice(["semantic", "episodic", "insight", "turn"])),
        "category": category,
        "text": text,
        "text_hash": text_key(text),
        "importance": int(rng.integers(1, 6)),
        "pinned": bool(rng.random() < 0.05),
        "tags": [pick("red", "green", "blue")],
        "state": str(state),
        "metadata": {},
        "version": 1,
        "created_at": START,
        "updated_at": moment(step),
    }


async def settle(
    sql: asyncpg.Connection,
    tenant_id: UUID,
    size: int,
    seed: int = 7,
    vary: Callable[[], dict[str, Any]] = dict,
) -> Crowd:
    """Store a crowd in one transaction with the history that the tripwire requires, as a superuser.

    `vary` returns further values of each row.
    """
    rows = [row | vary() for row in make_rows(size, seed)]
    vectors = np.random.default_rng(seed + 1).standard_normal((size, DIMENSION))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)
    await sql.execute(f"ALTER TABLE memories ALTER COLUMN stored_at SET DEFAULT '{START.isoformat()}'")
    async with sql.transaction():
        await sql.executemany("INSERT INTO users (tenant_id, user_id) VALUES ($1, $2)", [(tenant_id, u) for u in USERS])
        keys = {
            r["user_id"]: r["user_pk"]
            for r in await sql.fetch("SELECT user_id, user_pk FROM users WHERE tenant_id = $1", tenant_id)
        }
        columns = ("tenant_id", "user_pk", *rows[0])
        records = [(tenant_id, keys[row["user_id"]], *row.values()) for row in rows]
        await sql.copy_records_to_table("memories", columns=columns, records=records)
        history = [(tenant_id, new_id(), str(row["id"]), "ADD") for row in rows]
        await sql.copy_records_to_table("history", columns=("tenant_id", "id", "memory_id", "event"), records=history)
        names = ("type", "category", "state")
        embedded = [
            (tenant_id, keys[row["user_id"]], row["id"], *(row[n] for n in names), HalfVector(vector))
            for row, vector in zip(rows, vectors, strict=True)
        ]
        await sql.copy_records_to_table(
            VECTORS, columns=("tenant_id", "user_pk", "memory_id", *names, "embedding"), records=embedded
        )
        await sql.execute(
            f"UPDATE {VECTORS} v SET thread_key = thread_key(m.thread_id) FROM memories m"
            " WHERE v.tenant_id = $1 AND m.tenant_id = $1 AND m.id = v.memory_id",
            tenant_id,
        )
        await _relate(sql, tenant_id, [row["id"] for row in rows])
    await sql.execute("ANALYZE")
    return Crowd(rows, vectors.astype(np.float64))


async def _relate(sql: asyncpg.Connection, tenant_id: UUID, ids: list[UUID]) -> None:
    """Relate every memory to the next one of any user, so that related memories must be filtered as well."""
    relations = [(tenant_id, new_id(), str(b), str(a), 0.9) for a, b in pairwise(ids)]
    columns = ("tenant_id", "id", "from_id", "to_id", "strength")
    await sql.copy_records_to_table("relations", columns=columns, records=relations)


def ids_of(candidates: Iterable[Candidate]) -> set[UUID]:
    """Return the ids of the candidates' memories."""
    return {candidate.id for candidate in candidates}
