"""Application of a consolidation plan: each merge, then the relations, each in a transaction of its own."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from app.domain.changes import ChangeKind, Edge, MemoryChange, Observation
from app.domain.consolidation.comparison import Pair, Verdict
from app.domain.consolidation.plan import AbsorbedMemory, Merge, Plan
from app.domain.errors import MnemaError, NotFound, VersionConflict, WrongState
from app.domain.memory.memory import Memory
from app.domain.memory.transitions import Transition, source_states, superseding_fields, transition_meta
from app.domain.outages import WriteContention
from app.domain.principal import Principal
from app.storage.consolidation.comparison import ConsolidationStorage, Related
from app.storage.journal import Journal
from app.storage.uow import UnitOfWork
from app.usecases.memory.relations import threads_of

CHANGED_MEANWHILE = (NotFound, VersionConflict, WrongState, WriteContention)


@dataclass(frozen=True, slots=True)
class AppliedPlan:
    """The part of a plan that was applied. `skipped` counts merges with a memory that changed meanwhile."""

    merges: tuple[Merge, ...] = ()
    links: tuple[Edge, ...] = ()
    skipped: int = 0


class ApplyPlan:
    """A writer of plans. It changes a memory only at the version that was judged."""

    def __init__(self, uow: UnitOfWork, storage: ConsolidationStorage, journal: Journal) -> None:
        self._uow = uow
        self._storage = storage
        self._journal = journal

    async def apply_plan(self, principal: Principal, user_id: str, plan: Plan, now: datetime) -> AppliedPlan:
        """Apply each merge, then the relations, and record the fingerprints of the settled pairs.

        Skip memories that changed meanwhile; the next run sees them again.
        """
        versions = {m.id: m.version for verdict in plan.verdicts for m in (verdict.pair.first, verdict.pair.second)}
        merged = []
        changed = set[UUID]()
        for merge in plan.merges:
            inside = [verdict for verdict in plan.verdicts if verdict.pair.ids <= _member_ids(merge)]
            version = await self._apply_merge(principal, user_id, merge, inside, now)
            if version is None:
                changed |= _member_ids(merge)
            else:
                merged.append(merge)
                versions[merge.survivor.id] = version
        settled = {v.pair.ids for merge in merged for v in plan.verdicts if v.pair.ids <= _member_ids(merge)}
        left = [v for v in plan.verdicts if v.pair.ids not in settled and v.pair.ids.isdisjoint(changed)]
        links = [edge for edge in plan.links if changed.isdisjoint((edge.from_id, edge.to_id))]
        for merge in merged:
            for absorbed in merge.absorbed:
                del versions[absorbed.memory.id]
        added = await self._apply_links(principal, user_id, left, links, versions, now) if left else ()
        return AppliedPlan(tuple(merged), added, len(plan.merges) - len(merged))

    async def _apply_merge(
        self, principal: Principal, user_id: str, merge: Merge, verdicts: Sequence[Verdict], now: datetime
    ) -> int | None:
        """Apply one merge. Return the survivor's new version, None if the merge is left for another run."""
        absorbed_ids = [absorbed.memory.id for absorbed in merge.absorbed]
        try:
            async with self._uow.write(principal) as tx:
                user_pk = await self._storage.lock_user(tx, principal, user_id)
                if user_pk is None:
                    return None
                related = await self._storage.find_related(tx, principal, absorbed_ids, _member_ids(merge))
                changes = merge_changes(principal, merge, related, now)
                outcome = await self._journal.record(principal, changes, tx=tx)
                await self._storage.record_checked(tx, principal, user_pk, verdicts, now)
        except CHANGED_MEANWHILE:
            await self._record_event(principal, _merge_event(merge, "skipped"))
            return None
        except MnemaError:
            with contextlib.suppress(MnemaError):
                await self._record_event(principal, _merge_event(merge, "error"))
            raise
        new_versions = {change.memory.id: change.memory.version for change in outcome.recorded if change.memory}
        return new_versions[merge.survivor.id]

    async def _apply_links(
        self,
        principal: Principal,
        user_id: str,
        verdicts: Sequence[Verdict],
        links: Sequence[Edge],
        versions: Mapping[UUID, int],
        now: datetime,
    ) -> tuple[Edge, ...]:
        """Add the relations between unchanged memories and return the new ones.

        `versions` are the expected versions of the memories that were not absorbed.
        """
        try:
            async with self._uow.write(principal) as tx:
                user_pk = await self._storage.lock_user(tx, principal, user_id)
                if user_pk is None:
                    return ()
                current = await self._storage.lock_memories(tx, principal, versions)
                changed = {id_ for id_, version in versions.items() if current.get(id_) != version}
                unchanged = [edge for edge in links if changed.isdisjoint((edge.from_id, edge.to_id))]
                added = await self._storage.filter_unrelated(tx, principal, unchanged)
                if added:
                    events = [_link_event(user_id, edge) for edge in added]
                    await self._journal.record_relations(tx, principal, added, events)
                valid = [verdict for verdict in verdicts if changed.isdisjoint(verdict.pair.ids)]
                await self._storage.record_checked(tx, principal, user_pk, valid, now)
        except CHANGED_MEANWHILE:
            await self._record_event(principal, Observation("worker", "link", "skipped", user_id))
            return ()
        return tuple(added)

    async def record_refused(self, principal: Principal, user_id: str, pairs: Sequence[Pair], now: datetime) -> None:
        """Record the pairs that the model was asked about in vain: they count as asked today."""
        if not pairs:
            return
        async with self._uow.write(principal) as tx:
            user_pk = await self._storage.lock_user(tx, principal, user_id)
            if user_pk is not None:
                await self._storage.record_refused(tx, principal, user_pk, pairs, now)

    async def _record_event(self, principal: Principal, event: Observation) -> None:
        await self._journal.record_event(principal, [event])


def merge_changes(principal: Principal, merge: Merge, related: Iterable[Related], now: datetime) -> list[MemoryChange]:
    """Return the changes of a merge: the survivor takes over values and relations, the absorbed point to it.

    `related` are the memories related to the absorbed ones. The changes are ordered by id to prevent deadlocks.
    """
    survivor = merge.survivor
    threads = [absorbed.memory.thread_id for absorbed in merge.absorbed]
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
        actor=principal.actor_name,
        fields=fields,
        threads=threads_of(survivor.thread_id, *threads),
        expect_version=survivor.version,
        expect_states=("active",),
        delta_meta={"combined": len(_member_ids(merge))},
        history_meta={"absorbed": [{"id": str(a.memory.id), **_merge_reason(a)} for a in merge.absorbed]},
        old_ref=str(merge.absorbed[0].memory.id),
        new_ref=str(survivor.id),
        replaces=tuple(absorbed.memory.id for absorbed in merge.absorbed),
        edges=_inherited_edges(merge, related),
        observations=(_merge_event(merge, "ok"),),
    )
    superseded = [_supersede_change(principal, absorbed, survivor, now) for absorbed in merge.absorbed]
    return sorted([merged, *superseded], key=lambda change: change.memory_id)


def _supersede_change(principal: Principal, absorbed: AbsorbedMemory, survivor: Memory, now: datetime) -> MemoryChange:
    return MemoryChange(
        kind=ChangeKind.superseded,
        memory_id=absorbed.memory.id,
        user_id=absorbed.memory.user_id,
        actor=principal.actor_name,
        fields=superseding_fields(
            now,
            successor=survivor.id,
            ends_at=survivor.valid_from or survivor.created_at,
            valid_from=absorbed.memory.valid_from,
            valid_to=absorbed.memory.valid_to,
        ),
        expect_version=absorbed.memory.version,
        expect_states=source_states(Transition.supersede),
        history_meta={
            "reason": "consolidation",
            **_merge_reason(absorbed),
            **transition_meta(Transition.supersede),
        },
        old_ref=str(absorbed.memory.id),
        new_ref=str(survivor.id),
    )


def _merge_reason(absorbed: AbsorbedMemory) -> dict[str, Any]:
    return {"rule": absorbed.rule, "similarity": None if absorbed.score is None else round(absorbed.score, 4)}


def _inherited_edges(merge: Merge, related: Iterable[Related]) -> tuple[Edge, ...]:
    """Return the survivor's relations to `related`, each from the newer memory to the older one."""
    edges = []
    for other in related:
        newer = merge.created_at >= other.created_at
        ends = (merge.survivor.id, other.id) if newer else (other.id, merge.survivor.id)
        edges.append(Edge(*ends, category=other.category, strength=other.strength))
    return tuple(edges)


def _member_ids(merge: Merge) -> frozenset[UUID]:
    return frozenset((merge.survivor.id, *(absorbed.memory.id for absorbed in merge.absorbed)))


def _merge_event(merge: Merge, status: Literal["ok", "error", "skipped"]) -> Observation:
    survivor = merge.survivor
    sim = max((absorbed.score for absorbed in merge.absorbed if absorbed.score is not None), default=None)
    return Observation(
        "worker", "merge", status, survivor.user_id, survivor.thread_id, survivor.id, survivor.category, sim
    )


def _link_event(user_id: str, edge: Edge) -> Observation:
    return Observation(
        "worker", "link", user_id=user_id, memory_id=edge.from_id, category=edge.category, sim=edge.strength
    )
