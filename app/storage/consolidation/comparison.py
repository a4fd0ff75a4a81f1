"""What a daily consolidation looks at, and which pairs it has checked. Merging and linking is the journal's."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
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
"""Memories whose neighbours one statement finds."""


@dataclass(frozen=True, slots=True)
class Related:
    """A memory at the other end of a relation."""

    id: UUID
    category: str
    created_at: datetime
    strength: float


class ConsolidationStorage:
    """Reads one embedding space. Active semantic memories only, held to the scope's categories."""

    def __init__(self, space: str) -> None:
        self._space = space

    async def find_users(
        self, tx: ReadTx, scope: Principal, policy: ConsolidationPolicy, now: datetime, user_id: str | None
    ) -> list[str]:
        """Users with something in the pool, in order; of `user_id` alone if given."""
        since = policy.compared_since(now), policy.changed_since(now)
        rows = await tx.fetch(
            _format_statement("users"), scope.tenant_id, user_id, scope.category_list, *since, policy.pool_importance
        )
        return [row["user_id"] for row in rows]

    async def load_memories(self, tx: ReadTx, scope: Principal, user_id: str) -> list[Memory]:
        """All of the user's, with their hits."""
        rows = await tx.fetch(_format_statement("memories"), scope.tenant_id, user_id, scope.category_list)
        return [memory_from_row(row) for row in rows]

    async def find_pairs(
        self,
        tx: ReadTx,
        scope: Principal,
        memories: Iterable[Memory],
        in_pool: Collection[UUID],
        *,
        low: float,
        neighbours: int,
    ) -> list[Pair]:
        """Each of one user's memories that is in the pool with its nearest of the same category, each two once.

        `low`: the least cosine; `neighbours`: of one memory at most.
        """
        by_category: defaultdict[tuple[str, str], dict[UUID, Memory]] = defaultdict(dict)
        for one in memories:
            by_category[one.user_id, one.category][one.id] = one
        found: dict[IdPair, Pair] = {}
        for (user_id, category), members in by_category.items():
            chosen, everyone = [one for one in members if one in in_pool], list(members)
            for start in range(0, len(chosen), _PAIRS_BATCH):
                some = chosen[start : start + _PAIRS_BATCH]
                rows = await tx.fetch(
                    _format_statement("pairs", self._space),
                    scope.tenant_id,
                    user_id,
                    category,
                    some,
                    everyone,
                    low,
                    neighbours,
                )
                for row in rows:
                    pair = Pair(members[row["low"]], members[row["high"]], float(row["score"]))
                    found[pair.ids] = pair
        return list(found.values())

    async def load_checked(
        self, tx: ReadTx, scope: Principal, user_id: str, since: datetime
    ) -> dict[Fingerprint, datetime]:
        """The fingerprints made after `since`, and when."""
        rows = await tx.fetch(_format_statement("checked"), scope.tenant_id, user_id, since)
        return {pair_fingerprint(row["low"], row["high"], row["score"]): row["checked_at"] for row in rows}

    async def find_restored_pairs(self, tx: ReadTx, scope: Principal, ids: Iterable[UUID]) -> frozenset[IdPair]:
        """Every two of which one was restored after it had given way to the other, or both after giving way to one."""
        rows = await tx.fetch(_format_statement("apart"), scope.tenant_id, [str(one) for one in ids])
        together: defaultdict[UUID, set[UUID]] = defaultdict(set)
        for row in rows:
            together[row["heir"]] |= {row["heir"], row["id"]}
        return frozenset(frozenset(two) for several in together.values() for two in combinations(several, 2))

    async def lock_user(self, tx: WriteTx, scope: Principal, user_id: str) -> int | None:
        """The user's key, safe from an erasure until the transaction ends; None for one who was erased."""
        key: int | None = await tx.fetchval(_format_statement("hold_user"), scope.tenant_id, user_id)
        return key

    async def lock_memories(self, tx: WriteTx, scope: Principal, ids: Iterable[UUID]) -> dict[UUID, int]:
        """The versions of those that are active, unchangeable by others until the transaction ends."""
        rows = await tx.fetch(_format_statement("hold_memories"), scope.tenant_id, list(ids))
        return {row["id"]: row["version"] for row in rows}

    async def find_related(
        self, tx: ReadTx, scope: Principal, of: Iterable[UUID], without: Iterable[UUID]
    ) -> list[Related]:
        """Active memories that any `of` these is related to."""
        rows = await tx.fetch(_format_statement("relations"), scope.tenant_id, [str(one) for one in of], list(without))
        return [Related(**dict(row)) for row in rows]

    async def filter_unrelated(self, tx: ReadTx, scope: Principal, edges: Sequence[Edge]) -> list[Edge]:
        """Those of the edges whose ends are not related yet."""
        ends = [str(edge.from_id) for edge in edges], [str(edge.to_id) for edge in edges]
        rows = await tx.fetch(_format_statement("related"), scope.tenant_id, *ends)
        known = {(row["a"], row["b"]) for row in rows}
        return [edge for edge in edges if (str(edge.from_id), str(edge.to_id)) not in known]

    async def record_checked(
        self, tx: WriteTx, scope: Principal, user_pk: int, verdicts: Sequence[Verdict], now: datetime
    ) -> None:
        """Remember that these pairs were checked."""
        prints = [one.pair.fingerprint for one in verdicts]
        await tx.execute(
            _format_statement("mark"),
            scope.tenant_id,
            user_pk,
            [one.low for one in prints],
            [one.high for one in prints],
            [one.score for one in prints],
            [one.rule is not None for one in verdicts],
            now,
        )

    async def delete_checked(self, tx: WriteTx, scope: Principal, until: datetime) -> None:
        """Drop the fingerprints made until then."""
        await tx.execute(_format_statement("forget"), scope.tenant_id, until)


@lru_cache(maxsize=64)
def _format_statement(name: str, space: str = "") -> str:
    return load_statements("consolidation/comparison.sql")[name].format(columns=memory_columns("m"), vec=f"vec_{space}")
