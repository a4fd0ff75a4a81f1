"""What a daily consolidation looks at, and which pairs it has checked. Merging and linking is the journal's."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import combinations
from uuid import UUID

from app.domain.changes import Edge
from app.domain.consolidation.comparison import ConsolidationPolicy, Fingerprint, Pair, Verdict, fingerprint
from app.domain.consolidation.plan import Ids
from app.domain.memory.memory import Memory
from app.domain.principal import Scope
from app.storage.rows import memory_columns, memory_from_row
from app.storage.statements import statements
from app.storage.uow import ReadTx, WriteTx

_AT_ONCE = 500
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

    async def users(
        self, tx: ReadTx, scope: Scope, policy: ConsolidationPolicy, now: datetime, user_id: str | None
    ) -> list[str]:
        """Users with something in the pool, in order; of `user_id` alone if given."""
        since = policy.oldest(now), policy.changed_since(now)
        rows = await tx.fetch(
            _statement("users"), scope.tenant_id, user_id, scope.category_list, *since, policy.pool_importance
        )
        return [row["user_id"] for row in rows]

    async def memories(self, tx: ReadTx, scope: Scope, user_id: str) -> list[Memory]:
        """All of the user's, with their hits."""
        rows = await tx.fetch(_statement("memories"), scope.tenant_id, user_id, scope.category_list)
        return [memory_from_row(row) for row in rows]

    async def pairs(
        self,
        tx: ReadTx,
        scope: Scope,
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
        found: dict[Ids, Pair] = {}
        for (user_id, category), members in by_category.items():
            chosen, everyone = [one for one in members if one in in_pool], list(members)
            for start in range(0, len(chosen), _AT_ONCE):
                some = chosen[start : start + _AT_ONCE]
                rows = await tx.fetch(
                    _statement("pairs", self._space),
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

    async def checked(self, tx: ReadTx, scope: Scope, user_id: str, since: datetime) -> dict[Fingerprint, datetime]:
        """The fingerprints made after `since`, and when."""
        rows = await tx.fetch(_statement("checked"), scope.tenant_id, user_id, since)
        return {fingerprint(row["low"], row["high"], row["score"]): row["checked_at"] for row in rows}

    async def apart(self, tx: ReadTx, scope: Scope, ids: Iterable[UUID]) -> frozenset[Ids]:
        """Every two of which one was restored after it had given way to the other, or both after giving way to one."""
        rows = await tx.fetch(_statement("apart"), scope.tenant_id, [str(one) for one in ids])
        together: defaultdict[UUID, set[UUID]] = defaultdict(set)
        for row in rows:
            together[row["heir"]] |= {row["heir"], row["id"]}
        return frozenset(frozenset(two) for several in together.values() for two in combinations(several, 2))

    async def hold_user(self, tx: WriteTx, scope: Scope, user_id: str) -> int | None:
        """The user's key, safe from an erasure until the transaction ends; None for one who was erased."""
        key: int | None = await tx.fetchval(_statement("hold_user"), scope.tenant_id, user_id)
        return key

    async def hold_memories(self, tx: WriteTx, scope: Scope, ids: Iterable[UUID]) -> dict[UUID, int]:
        """The versions of those that are active, unchangeable by others until the transaction ends."""
        rows = await tx.fetch(_statement("hold_memories"), scope.tenant_id, list(ids))
        return {row["id"]: row["version"] for row in rows}

    async def relations(self, tx: ReadTx, scope: Scope, of: Iterable[UUID], without: Iterable[UUID]) -> list[Related]:
        """Active memories that any `of` these is related to."""
        rows = await tx.fetch(_statement("relations"), scope.tenant_id, [str(one) for one in of], list(without))
        return [Related(**dict(row)) for row in rows]

    async def unrelated(self, tx: ReadTx, scope: Scope, edges: Sequence[Edge]) -> list[Edge]:
        """Those of the edges whose ends are not related yet."""
        ends = [str(edge.from_id) for edge in edges], [str(edge.to_id) for edge in edges]
        rows = await tx.fetch(_statement("related"), scope.tenant_id, *ends)
        known = {(row["a"], row["b"]) for row in rows}
        return [edge for edge in edges if (str(edge.from_id), str(edge.to_id)) not in known]

    async def mark(self, tx: WriteTx, scope: Scope, user_pk: int, verdicts: Sequence[Verdict], now: datetime) -> None:
        """Remember that these pairs were checked."""
        prints = [one.pair.fingerprint for one in verdicts]
        await tx.execute(
            _statement("mark"),
            scope.tenant_id,
            user_pk,
            [one.low for one in prints],
            [one.high for one in prints],
            [one.score for one in prints],
            [one.rule is not None for one in verdicts],
            now,
        )

    async def forget(self, tx: WriteTx, scope: Scope, until: datetime) -> None:
        """Drop the fingerprints made until then."""
        await tx.execute(_statement("forget"), scope.tenant_id, until)


@lru_cache(maxsize=64)
def _statement(name: str, space: str = "") -> str:
    return statements("consolidation/comparison.sql")[name].format(columns=memory_columns("m"), vec=f"vec_{space}")
