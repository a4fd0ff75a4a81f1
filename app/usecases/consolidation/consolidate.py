"""Daily consolidation: stored memories of one fact become one, near ones become related (seed 003 §4, SPEC §7).

User by user: read, judge outside any transaction, write. A run that breaks off has lost nothing: the next one takes up
what has no fingerprint yet. What somebody restores after it gave way to another stays apart from that other for good.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from uuid import UUID

from app.config.loader import Policies
from app.domain.consolidation.comparison import (
    Fingerprint,
    Judgement,
    Pair,
    Stop,
    judge,
    pool,
    worth_checking,
    young_enough,
)
from app.domain.consolidation.plan import Ids, Plan, Report, make_plan, report
from app.domain.principal import Scope
from app.ports import Clock, SameFactJudge
from app.storage.consolidation.comparison import ConsolidationStorage
from app.storage.journal import Journal
from app.storage.uow import UnitOfWork
from app.usecases.consolidation.apply_plan import CarryOut


@dataclass(frozen=True, slots=True)
class _Found:
    """One user's pairs near enough, and what of the past bears on them."""

    pairs: Sequence[Pair]
    in_pool: frozenset[UUID]
    checked: dict[Fingerprint, datetime]
    spent: int
    apart: frozenset[Ids]


@dataclass(slots=True)
class _Run:
    """What one run remembers of its judge: why it is asked no more, and which pairs it gave no verdict on."""

    stopped: Stop | None = None
    left: set[Ids] = field(default_factory=set)


class Consolidate:
    """Works through one tenant. Without a judge, and where it is asked no more, the deterministic rule decides: then
    what it says no to is left for another day."""

    def __init__(
        self,
        uow: UnitOfWork,
        storage: ConsolidationStorage,
        journal: Journal,
        policies: Policies,
        clock: Clock,
        judge: SameFactJudge | None = None,
    ) -> None:
        self._uow = uow
        self._storage = storage
        self._carry_out = CarryOut(uow, storage, journal)
        self._policy = policies.consolidation
        self._bands = policies.bands
        self._numeric = tuple(c.name for c in policies.categories.categories.values() if c.numeric_update)
        self._clock = clock
        self._judge = judge

    async def run(self, scope: Scope, *, dry_run: bool = False, user_id: str | None = None) -> Report:
        """Every user, or one; at most `pairs_per_user_day` pairs of each, whatever was checked today already.

        A dry run writes nothing, and its report tells every decision with the texts; that of a run can be kept.
        """
        now, total, this = self._clock.now(), Report(), _Run()
        async with self._uow.read(scope) as tx:
            users = await self._storage.users(tx, scope, self._policy, now, user_id)
        for user in users:
            total += await (self._foresee(scope, user, this) if dry_run else self._consolidate(scope, user, this))
        if not dry_run:
            async with self._uow.write(scope) as tx:
                await self._storage.forget(tx, scope, self._policy.checked_since(now))
        return total

    async def _foresee(self, scope: Scope, user_id: str, this: _Run) -> Report:
        now = self._clock.now()
        found = await self._read(scope, user_id, now)
        plan, judged, over = await self._think(scope, user_id, found, now, this)
        figures = report(plan, pairs_seen=len(found.pairs), tokens=judged.tokens, dry_run=True)
        return _judged(figures, judged) + Report(left=over)

    async def _consolidate(self, scope: Scope, user_id: str, this: _Run) -> Report:
        """Until nothing merges any more: a merge makes room for other neighbours, and changes what is in the pool."""
        total, first = Report(), True
        while True:
            now = self._clock.now()
            found = await self._read(scope, user_id, now)
            plan, judged, over = await self._think(scope, user_id, found, now, this)
            done = await self._carry_out.plan(scope, user_id, plan, now)
            made = replace(plan, merges=done.merges, links=done.links)
            figures = report(made, pairs_seen=len(found.pairs) if first else 0, tokens=judged.tokens)
            total, first = total + replace(_judged(figures, judged), skipped=done.skipped), False
            if not done.merges or done.skipped:
                return total + Report(left=over)

    async def _read(self, scope: Scope, user_id: str, now: datetime) -> _Found:
        policy = self._policy
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        async with self._uow.read(scope) as tx:
            checked = await self._storage.checked(tx, scope, user_id, policy.checked_since(now))
            spent = sum(at >= midnight for at in checked.values())
            memories = await self._storage.memories(tx, scope, user_id)
            in_pool = pool(memories, policy, now)
            young, low = young_enough(memories, policy, now), self._bands.fallback_low
            pairs = await self._storage.pairs(tx, scope, young, in_pool, low=low, neighbours=policy.neighbours)
            apart = await self._storage.apart(tx, scope, {id_ for pair in pairs for id_ in pair.ids})
        return _Found(pairs, in_pool, checked, spent, apart)

    async def _think(
        self, scope: Scope, user_id: str, found: _Found, now: datetime, this: _Run
    ) -> tuple[Plan, Judgement, int]:
        """The plan, what it comes from, and the count of pairs that the day has no room for. Reading words takes the
        processor: it is done beside the event loop."""
        candidates = [pair for pair in found.pairs if pair.ids not in found.apart and pair.ids not in this.left]
        bounds = self._policy, self._bands, now, {user_id: found.spent}
        pairs, over = await asyncio.to_thread(worth_checking, candidates, found.in_pool, found.checked, *bounds)
        judged = await self._verdicts(scope, pairs, this)
        this.stopped = this.stopped or judged.stopped
        this.left |= {pair.ids for pair in pairs} - {one.pair.ids for one in judged.verdicts}
        planned = partial(make_plan, judged.verdicts, self._bands, self._numeric, found.apart)
        return await asyncio.to_thread(planned), judged, over

    async def _verdicts(self, scope: Scope, pairs: Sequence[Pair], this: _Run) -> Judgement:
        if self._judge is not None and pairs and not this.stopped:
            return await self._judge.judge(scope, pairs)
        verdicts = await asyncio.to_thread(judge, pairs, self._numeric)
        if self._judge is None:
            return Judgement(verdicts)
        sure = [one for one in verdicts if one.rule]
        return Judgement(sure, left=len(verdicts) - len(sure), stopped=this.stopped)


def _judged(figures: Report, judged: Judgement) -> Report:
    if judged.stopped != "unavailable":
        return replace(figures, left=judged.left)
    return replace(figures, left=judged.left, unanswered=judged.left, fault=judged.fault)
