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
    StopReason,
    comparable_memories,
    comparison_pool,
    judge_by_rule,
    select_pairs_to_check,
)
from app.domain.consolidation.plan import IdPair, Plan, Report, make_plan, plan_report
from app.domain.principal import Principal
from app.ports import Clock, SameFactJudge
from app.storage.consolidation.comparison import ConsolidationStorage
from app.storage.journal import Journal
from app.storage.uow import UnitOfWork
from app.usecases.consolidation.apply_plan import ApplyPlan


@dataclass(frozen=True, slots=True)
class _UserPairs:
    """One user's pairs near enough, and what of the past bears on them."""

    pairs: Sequence[Pair]
    in_pool: frozenset[UUID]
    checked: dict[Fingerprint, datetime]
    checked_today: int
    kept_apart: frozenset[IdPair]


@dataclass(slots=True)
class _RunState:
    """What one run remembers of its judge: why it is asked no more, and which pairs it gave no verdict on."""

    stopped: StopReason | None = None
    unjudged_pairs: set[IdPair] = field(default_factory=set)


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
        self._carry_out = ApplyPlan(uow, storage, journal)
        self._policy = policies.consolidation
        self._bands = policies.bands
        self._numeric = tuple(c.name for c in policies.categories.categories.values() if c.numeric_update)
        self._clock = clock
        self._judge = judge

    async def consolidate_users(self, scope: Principal, *, dry_run: bool = False, user_id: str | None = None) -> Report:
        """Every user, or one; at most `pairs_per_user_day` pairs of each, whatever was checked today already.

        A dry run writes nothing, and its report tells every decision with the texts; that of a run can be kept.
        """
        now, total, this = self._clock.now(), Report(), _RunState()
        async with self._uow.read(scope) as tx:
            users = await self._storage.find_users(tx, scope, self._policy, now, user_id)
        for user in users:
            total += await (
                self._preview_user(scope, user, this) if dry_run else self._consolidate_user(scope, user, this)
            )
        if not dry_run:
            async with self._uow.write(scope) as tx:
                await self._storage.delete_checked(tx, scope, self._policy.checked_since(now))
        return total

    async def _preview_user(self, scope: Principal, user_id: str, this: _RunState) -> Report:
        now = self._clock.now()
        found = await self._load_pairs(scope, user_id, now)
        plan, judged, over = await self._judge_and_plan(scope, user_id, found, now, this)
        figures = plan_report(plan, pairs_seen=len(found.pairs), tokens=judged.tokens, dry_run=True)
        return _add_judgement(figures, judged) + Report(left=over)

    async def _consolidate_user(self, scope: Principal, user_id: str, this: _RunState) -> Report:
        """Until nothing merges any more: a merge makes room for other neighbours, and changes what is in the pool."""
        total, first = Report(), True
        while True:
            now = self._clock.now()
            found = await self._load_pairs(scope, user_id, now)
            plan, judged, over = await self._judge_and_plan(scope, user_id, found, now, this)
            done = await self._carry_out.apply_plan(scope, user_id, plan, now)
            made = replace(plan, merges=done.merges, links=done.links)
            figures = plan_report(made, pairs_seen=len(found.pairs) if first else 0, tokens=judged.tokens)
            total, first = total + replace(_add_judgement(figures, judged), skipped=done.skipped), False
            if not done.merges or done.skipped:
                return total + Report(left=over)

    async def _load_pairs(self, scope: Principal, user_id: str, now: datetime) -> _UserPairs:
        policy = self._policy
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        async with self._uow.read(scope) as tx:
            checked = await self._storage.load_checked(tx, scope, user_id, policy.checked_since(now))
            spent = sum(at >= midnight for at in checked.values())
            memories = await self._storage.load_memories(tx, scope, user_id)
            in_pool = comparison_pool(memories, policy, now)
            young, low = comparable_memories(memories, policy, now), self._bands.fallback_low
            pairs = await self._storage.find_pairs(tx, scope, young, in_pool, low=low, neighbours=policy.neighbours)
            apart = await self._storage.find_restored_pairs(tx, scope, {id_ for pair in pairs for id_ in pair.ids})
        return _UserPairs(pairs, in_pool, checked, spent, apart)

    async def _judge_and_plan(
        self, scope: Principal, user_id: str, found: _UserPairs, now: datetime, this: _RunState
    ) -> tuple[Plan, Judgement, int]:
        """The plan, what it comes from, and the count of pairs that the day has no room for. Reading words takes the
        processor: it is done beside the event loop."""
        candidates = [
            pair for pair in found.pairs if pair.ids not in found.kept_apart and pair.ids not in this.unjudged_pairs
        ]
        bounds = self._policy, self._bands, now, {user_id: found.checked_today}
        pairs, over = await asyncio.to_thread(select_pairs_to_check, candidates, found.in_pool, found.checked, *bounds)
        judged = await self._judge_pairs(scope, pairs, this)
        this.stopped = this.stopped or judged.stopped
        this.unjudged_pairs |= {pair.ids for pair in pairs} - {one.pair.ids for one in judged.verdicts}
        planned = partial(make_plan, judged.verdicts, self._bands, self._numeric, found.kept_apart)
        return await asyncio.to_thread(planned), judged, over

    async def _judge_pairs(self, scope: Principal, pairs: Sequence[Pair], this: _RunState) -> Judgement:
        if self._judge is not None and pairs and not this.stopped:
            return await self._judge.judge_pairs(scope, pairs)
        verdicts = await asyncio.to_thread(judge_by_rule, pairs, self._numeric)
        if self._judge is None:
            return Judgement(verdicts)
        sure = [one for one in verdicts if one.rule]
        return Judgement(sure, left=len(verdicts) - len(sure), stopped=this.stopped)


def _add_judgement(figures: Report, judged: Judgement) -> Report:
    if judged.stopped != "unavailable":
        return replace(figures, left=judged.left)
    return replace(figures, left=judged.left, unanswered=judged.left, fault=judged.fault)
