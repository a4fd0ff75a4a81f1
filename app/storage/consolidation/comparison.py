"""The memories that a daily consolidation compares, and the pairs it has checked. The journal merges and links."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import combinations
from uuid import UUID

from app.domain.changes import Edge
from app.domain.consolidation.comparison import ConsolidationPolicy, Fingerprint, Pair, Verdict, pair_fingerprint
from app.domain.consolidation.plan import IdPair
from app.domain.memory.memory import Memory
from app.domain.principal import Principal
from app.storage.rows import memory_columns, memory_from_row
from app.storage.statements import load_statements
from app.storage.uow import ReadTx, WriteTx

_PAIRS_BATCH = 500
"""The number of memories whose neighbours one statement finds."""


@dataclass(frozen=True, slots=True)
class Related:
    """A memory at the other end of a relation."""

    id: UUID
    category: str
    created_at: datetime
    strength: float


@dataclass(frozen=True, slots=True)
class AskedPair:
    """The time when a pair was last asked about, and whether that gave a verdict."""

    at: datetime
    has_verdict: bool


class ConsolidationStorage:
    """Statements on one embedding space, on active semantic memories within the principal's categories."""

    def __init__(self, space: str) -> None:
        self._space = space

    async def find_users(
        self, tx: ReadTx, principal: Principal, policy: ConsolidationPolicy, now: datetime, user_id: str | None
    ) -> list[str]:
        """Return the users with memories in the pool, in order; only `user_id` if it is given."""
        rows = await tx.fetch(
            _format_statement("users"),
            principal.tenant_id,
            user_id,
            principal.category_list,
            policy.compared_since(now),
            policy.changed_since(now),
            policy.pool_importance,
        )
        return [row["user_id"] for row in rows]

    async def load_memories(
        self, tx: ReadTx, principal: Principal, user_id: str, ids: Collection[UUID] | None = None
    ) -> list[Memory]:
        """Return the user's memories, with their hits: all, or those in `ids`."""
        only = None if ids is None else list(ids)
        rows = await tx.fetch(
            _format_statement("memories"), principal.tenant_id, user_id, principal.category_list, only
        )
        return [memory_from_row(row) for row in rows]

    async def find_pairs(
        self,
        tx: ReadTx,
        principal: Principal,
        memories: Iterable[Memory],
        in_pool: Collection[UUID],
        *,
        low: float,
        neighbours: int,
        link_min: float,
    ) -> list[Pair]:
        """Pair each memory in the pool with its nearest of the same user and category; each pair occurs once.

        `low`: the least cosine similarity, `link_min` that of a relation; `neighbours`: the most pairs of one memory.
        """
        by_category: defaultdict[tuple[str, str], dict[UUID, Memory]] = defaultdict(dict)
        for memory in memories:
            by_category[memory.user_id, memory.category][memory.id] = memory
        pairs: dict[IdPair, Pair] = {}
        for (user_id, category), members in by_category.items():
            pooled = [memory_id for memory_id in members if memory_id in in_pool]
            all_ids = list(members)
            for start in range(0, len(pooled), _PAIRS_BATCH):
                batch = pooled[start : start + _PAIRS_BATCH]
                rows = await tx.fetch(
                    _format_statement("pairs", self._space),
                    principal.tenant_id,
                    user_id,
                    category,
                    batch,
                    all_ids,
                    low,
                    neighbours,
                    link_min,
                )
                for row in rows:
                    pair = Pair(members[row["low"]], members[row["high"]], float(row["score"]), row["linkable"])
                    pairs[pair.ids] = pair
        return list(pairs.values())

    async def load_checked(
        self, tx: ReadTx, principal: Principal, user_id: str, since: datetime
    ) -> dict[Fingerprint, AskedPair]:
        """Return the fingerprints of pairs asked about after `since`."""
        rows = await tx.fetch(_format_statement("checked"), principal.tenant_id, user_id, since)
        return {
            pair_fingerprint(row["low"], row["high"], row["score"]): AskedPair(row["checked_at"], row["has_verdict"])
            for row in rows
        }

    async def find_restored_pairs(self, tx: ReadTx, principal: Principal, ids: Iterable[UUID]) -> frozenset[IdPair]:
        """Return pairs that were merged and then restored: one into the other, or both into the same memory."""
        rows = await tx.fetch(
            _format_statement("restored_pairs"), principal.tenant_id, [str(memory_id) for memory_id in ids]
        )
        families: defaultdict[UUID, set[UUID]] = defaultdict(set)
        for row in rows:
            families[row["heir"]] |= {row["heir"], row["id"]}
        return frozenset(frozenset(pair) for family in families.values() for pair in combinations(family, 2))

    async def lock_user(self, tx: WriteTx, principal: Principal, user_id: str) -> int | None:
        """Return the user's key, locked against an erasure until the transaction ends; None if they are erased."""
        key: int | None = await tx.fetchval(_format_statement("lock_user"), principal.tenant_id, user_id)
        return key

    async def lock_memories(self, tx: WriteTx, principal: Principal, ids: Iterable[UUID]) -> dict[UUID, int]:
        """Return the versions of the active ones, locked against changes until the transaction ends."""
        rows = await tx.fetch(_format_statement("lock_memories"), principal.tenant_id, list(ids))
        return {row["id"]: row["version"] for row in rows}

    async def find_related(
        self, tx: ReadTx, principal: Principal, of: Iterable[UUID], without: Iterable[UUID]
    ) -> list[Related]:
        """Return active memories related to any in `of`, except those in `without`."""
        rows = await tx.fetch(
            _format_statement("relations"), principal.tenant_id, [str(end) for end in of], list(without)
        )
        return [Related(**dict(row)) for row in rows]

    async def filter_unrelated(self, tx: ReadTx, principal: Principal, edges: Sequence[Edge]) -> list[Edge]:
        """Return the edges whose ends are not related yet."""
        rows = await tx.fetch(
            _format_statement("related_pairs"),
            principal.tenant_id,
            [str(edge.from_id) for edge in edges],
            [str(edge.to_id) for edge in edges],
        )
        related = {(row["a"], row["b"]) for row in rows}
        return [edge for edge in edges if (str(edge.from_id), str(edge.to_id)) not in related]

    async def record_checked(
        self, tx: WriteTx, principal: Principal, user_pk: int, verdicts: Sequence[Verdict], now: datetime
    ) -> None:
        """Record the verdicts on these pairs, checked at `now`."""
        same = {verdict.pair.fingerprint: verdict.rule is not None for verdict in verdicts}
        await self._record(tx, principal, user_pk, same, now)

    async def record_refused(
        self, tx: WriteTx, principal: Principal, user_pk: int, pairs: Iterable[Pair], now: datetime
    ) -> None:
        """Record that the model was asked about these pairs at `now` and gave no valid verdict."""
        await self._record(tx, principal, user_pk, {pair.fingerprint: None for pair in pairs}, now)

    async def _record(
        self, tx: WriteTx, principal: Principal, user_pk: int, same: Mapping[Fingerprint, bool | None], now: datetime
    ) -> None:
        await tx.execute(
            _format_statement("record_checked"),
            principal.tenant_id,
            user_pk,
            [pair.low for pair in same],
            [pair.high for pair in same],
            [pair.score for pair in same],
            list(same.values()),
            now,
        )

    async def delete_checked(self, tx: WriteTx, principal: Principal, until: datetime) -> None:
        """Delete the fingerprints of pairs checked at or before `until`."""
        await tx.execute(_format_statement("delete_checked"), principal.tenant_id, until)


@lru_cache(maxsize=64)
def _format_statement(name: str, space: str = "") -> str:
    return load_statements("consolidation/comparison.sql")[name].format(columns=memory_columns("m"), vec=f"vec_{space}")
