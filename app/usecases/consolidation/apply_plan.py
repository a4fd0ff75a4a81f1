"""What a plan of consolidation changes, and how it is written: each merge in a transaction of its own (SPEC §7)."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from app.domain.changes import ChangeKind, Edge, MemoryChange, Observation
from app.domain.consolidation.comparison import Verdict
from app.domain.consolidation.plan import AbsorbedMemory, Merge, Plan
from app.domain.errors import MnemaError, NotFound, VersionConflict, WrongState
from app.domain.outages import WriteContention
from app.domain.principal import Principal
from app.storage.consolidation.comparison import ConsolidationStorage, Related
from app.storage.journal import Journal
from app.storage.uow import UnitOfWork
from app.usecases.memory.relations import threads_of

CHANGED_MEANWHILE = (NotFound, VersionConflict, WrongState, WriteContention)


@dataclass(frozen=True, slots=True)
class AppliedPlan:
    """What was carried out. `skipped`: merges that are left, because somebody changed one of the memories."""

    merges: tuple[Merge, ...] = ()
    links: tuple[Edge, ...] = ()
    skipped: int = 0


class ApplyPlan:
    """Writes plans. Every memory is expected at the version it was judged at."""

    def __init__(self, uow: UnitOfWork, storage: ConsolidationStorage, journal: Journal) -> None:
        self._uow = uow
        self._storage = storage
        self._journal = journal

    async def apply_plan(self, scope: Principal, user_id: str, plan: Plan, now: datetime) -> AppliedPlan:
        """Merge by merge, then the relations; each with the fingerprints of the pairs it settles.

        What somebody changed meanwhile gets neither: the next run sees it again.
        """
        versions = {m.id: m.version for one in plan.verdicts for m in (one.pair.first, one.pair.second)}
        done, lost = [], set[UUID]()
        for merge in plan.merges:
            inside = [one for one in plan.verdicts if one.pair.ids <= _member_ids(merge)]
            version = await self._apply_merge(scope, user_id, merge, inside, now)
            if version is None:
                lost |= _member_ids(merge)
            else:
                done.append(merge)
                versions[merge.survivor.id] = version
        settled = {one.pair.ids for merge in done for one in plan.verdicts if one.pair.ids <= _member_ids(merge)}
        left = [one for one in plan.verdicts if one.pair.ids not in settled and one.pair.ids.isdisjoint(lost)]
        links = [edge for edge in plan.links if lost.isdisjoint((edge.from_id, edge.to_id))]
        for merge in done:
            for one in merge.absorbed:
                del versions[one.memory.id]
        made = await self._apply_links(scope, user_id, left, links, versions, now) if left else ()
        return AppliedPlan(tuple(done), made, len(plan.merges) - len(done))

    async def _apply_merge(
        self, scope: Principal, user_id: str, merge: Merge, verdicts: Sequence[Verdict], now: datetime
    ) -> int | None:
        """The survivor's new version; None when the merge is left for another run."""
        gone = [one.memory.id for one in merge.absorbed]
        try:
            async with self._uow.write(scope) as tx:
                user_pk = await self._storage.lock_user(tx, scope, user_id)
                if user_pk is None:
                    return None
                related = await self._storage.find_related(tx, scope, gone, _member_ids(merge))
                changes = merge_changes(scope, merge, related, now)
                outcome = await self._journal.record(scope, changes, tx=tx)
                await self._storage.record_checked(tx, scope, user_pk, verdicts, now)
        except CHANGED_MEANWHILE:
            await self._record_event(scope, _merge_event(merge, "skipped"))
            return None
        except MnemaError:
            with contextlib.suppress(MnemaError):
                await self._record_event(scope, _merge_event(merge, "error"))
            raise
        after = {one.memory.id: one.memory.version for one in outcome.recorded if one.memory}
        return after[merge.survivor.id]

    async def _apply_links(
        self,
        scope: Principal,
        user_id: str,
        verdicts: Sequence[Verdict],
        links: Sequence[Edge],
        versions: Mapping[UUID, int],
        now: datetime,
    ) -> tuple[Edge, ...]:
        """The relations that are new. `versions`: of the memories that have not given way to another."""
        try:
            async with self._uow.write(scope) as tx:
                user_pk = await self._storage.lock_user(tx, scope, user_id)
                if user_pk is None:
                    return ()
                held = await self._storage.lock_memories(tx, scope, versions)
                changed = {id_ for id_, version in versions.items() if held.get(id_) != version}
                steady = [edge for edge in links if changed.isdisjoint((edge.from_id, edge.to_id))]
                made = await self._storage.filter_unrelated(tx, scope, steady)
                if made:
                    await self._journal.record_relations(tx, scope, made, [_link_event(user_id, edge) for edge in made])
                sure = [one for one in verdicts if changed.isdisjoint(one.pair.ids)]
                await self._storage.record_checked(tx, scope, user_pk, sure, now)
        except CHANGED_MEANWHILE:
            await self._record_event(scope, Observation("worker", "link", "skipped", user_id))
            return ()
        return tuple(made)

    async def _record_event(self, scope: Principal, event: Observation) -> None:
        await self._journal.record_event(scope, [event])


def merge_changes(scope: Principal, merge: Merge, related: Iterable[Related], now: datetime) -> list[MemoryChange]:
    """The survivor takes over values and relations (`related`: of the absorbed); the absorbed point to it.

    In the order of ids, so that two transactions never wait for each other in a circle.
    """
    survivor, threads = merge.survivor, [one.memory.thread_id for one in merge.absorbed]
    fields: dict[str, Any] = {
        "importance": merge.importance,
        "pinned": merge.pinned,
        "tags": list(merge.tags),
        "created_at": merge.created_at,
        "updated_at": now,
    }
    merged = MemoryChange(
        kind=ChangeKind.merged,
        memory_id=survivor.id,
        user_id=survivor.user_id,
        actor=scope.actor_name,
        fields=fields,
        threads=threads_of(survivor.thread_id, *threads),
        expect_version=survivor.version,
        expect_states=("active",),
        delta_meta={"combined": len(_member_ids(merge))},
        history_meta={"absorbed": [{"id": str(one.memory.id), **_merge_reason(one)} for one in merge.absorbed]},
        old_ref=str(merge.absorbed[0].memory.id),
        new_ref=str(survivor.id),
        edges=_inherited_edges(merge, related),
        observations=(_merge_event(merge, "ok"),),
    )
    absorbed = [_supersede_change(scope, one, survivor.id, now) for one in merge.absorbed]
    return sorted([merged, *absorbed], key=lambda change: change.memory_id)


def _supersede_change(scope: Principal, one: AbsorbedMemory, survivor: UUID, now: datetime) -> MemoryChange:
    return MemoryChange(
        kind=ChangeKind.superseded,
        memory_id=one.memory.id,
        user_id=one.memory.user_id,
        actor=scope.actor_name,
        fields={"state": "superseded", "superseded_by": survivor, "updated_at": now},
        expect_version=one.memory.version,
        expect_states=("active",),
        history_meta={"reason": "consolidation", **_merge_reason(one)},
        old_ref=str(one.memory.id),
        new_ref=str(survivor),
    )


def _merge_reason(one: AbsorbedMemory) -> dict[str, Any]:
    return {"rule": one.rule, "similarity": None if one.score is None else round(one.score, 4)}


def _inherited_edges(merge: Merge, related: Iterable[Related]) -> tuple[Edge, ...]:
    """What the absorbed were related to, the survivor is: from the newer to the older."""
    edges = []
    for other in related:
        newer = merge.created_at >= other.created_at
        ends = (merge.survivor.id, other.id) if newer else (other.id, merge.survivor.id)
        edges.append(Edge(*ends, category=other.category, strength=other.strength))
    return tuple(edges)


def _member_ids(merge: Merge) -> frozenset[UUID]:
    return frozenset((merge.survivor.id, *(one.memory.id for one in merge.absorbed)))


def _merge_event(merge: Merge, status: Literal["ok", "error", "skipped"]) -> Observation:
    survivor = merge.survivor
    sim = max((one.score for one in merge.absorbed if one.score is not None), default=None)
    return Observation(
        "worker", "merge", status, survivor.user_id, survivor.thread_id, survivor.id, survivor.category, sim
    )


def _link_event(user_id: str, edge: Edge) -> Observation:
    return Observation(
        "worker", "link", user_id=user_id, memory_id=edge.from_id, category=edge.category, sim=edge.strength
    )
