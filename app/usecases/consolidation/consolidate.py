"""Daily consolidation: merge memories of the same fact, relate near ones (`docs/contract.md`, Consolidation).

It works user by user: read, judge outside any transaction, write. After an interrupted run, the next one goes on with
the pairs without a fingerprint. An absorbed memory that somebody restores is never merged into that survivor again.
"""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from uuid import UUID

from app.config.tenant_policies import TenantPolicies
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
from app.domain.consolidation.plan import IdPair, Plan, Report, count_duplicates, make_plan, plan_report
from app.domain.days import start_of_day
from app.domain.principal import Principal
from app.ports import Clock, SameFactJudge
from app.storage.consolidation.comparison import ConsolidationStorage
from app.storage.journal import Journal
from app.storage.uow import UnitOfWork
from app.usecases.consolidation.apply_plan import ApplyPlan


@dataclass(frozen=True, slots=True)
class _UserPairs:
    """One user's pairs of near memories, and the results of earlier runs that concern them."""

    pairs: Sequence[Pair]
    in_pool: frozenset[UUID]
    checked: dict[Fingerprint, datetime]
    refused: frozenset[Fingerprint]
    asked_today: int
    kept_apart: frozenset[IdPair]


@dataclass(frozen=True, slots=True)
class _Scope:
    """The memories of a check after a write: the new ones, and the neighbours that they are compared with."""

    new: Collection[UUID]
    neighbours: Collection[UUID]

    @property
    def ids(self) -> frozenset[UUID]:
        """All of them."""
        return frozenset((*self.new, *self.neighbours))


@dataclass(slots=True)
class _RunState:
    """The state of a run: the reason why the judge stopped, and the pairs without a verdict."""

    stopped: StopReason | None = None
    unjudged_pairs: set[IdPair] = field(default_factory=set)


class Consolidate:
    """The use-case that consolidates one tenant.

    Without a judge the deterministic rule decides. If a judge stops, the rule decides too, and the pairs that it does
    not join are left for another day.
    """

    def __init__(
        self,
        uow: UnitOfWork,
        storage: ConsolidationStorage,
        journal: Journal,
        policies: TenantPolicies,
        clock: Clock,
        judge: SameFactJudge | None = None,
    ) -> None:
        self._uow = uow
        self._storage = storage
        self._apply_plan = ApplyPlan(uow, storage, journal)
        self._policies = policies
        self._bands = policies.defaults.bands
        self._clock = clock
        self._judge = judge

    async def consolidate_users(
        self, principal: Principal, *, dry_run: bool = False, user_id: str | None = None
    ) -> Report:
        """Consolidate all users, or only `user_id`. Check at most `pairs_per_user_day` pairs of a user and day.

        A dry run writes nothing, and its report has every decision with the texts. The report of a run has no texts.
        """
        now = self._clock.now()
        total = Report()
        run = _RunState()
        policy = self._policies.of(principal).consolidation
        async with self._uow.read(principal) as tx:
            users = await self._storage.find_users(tx, principal, policy, now, user_id)
        for user in users:
            total += await (
                self._preview_user(principal, user, run) if dry_run else self._consolidate_user(principal, user, run)
            )
        if not dry_run:
            async with self._uow.write(principal) as tx:
                await self._storage.delete_checked(tx, principal, policy.checked_since(now))
        return total

    async def check_memories(
        self, principal: Principal, user_id: str, memory_ids: Collection[UUID], neighbours: Collection[UUID]
    ) -> Report:
        """Consolidate new memories with the neighbours that their write found in the check band, and with no others.

        The pairs count against the day's limit of the user. Nightly consolidation checks those that are left.
        """
        return await self._consolidate_user(principal, user_id, _RunState(), _Scope(memory_ids, neighbours))

    async def _preview_user(self, principal: Principal, user_id: str, run: _RunState) -> Report:
        now = self._clock.now()
        user_pairs = await self._load_pairs(principal, user_id, now)
        plan, judgement, over = await self._judge_and_plan(principal, user_id, user_pairs, now, run)
        report = plan_report(plan, pairs_seen=len(user_pairs.pairs), tokens=judgement.tokens, dry_run=True)
        before = count_duplicates(user_pairs.pairs, self._bands)
        after = count_duplicates(user_pairs.pairs, self._bands, plan.absorbed_ids)
        return _add_judgement(report, judgement) + Report(left=over, duplicates_before=before, duplicates_after=after)

    async def _consolidate_user(
        self, principal: Principal, user_id: str, run: _RunState, scope: _Scope | None = None
    ) -> Report:
        """Repeat until nothing merges: a merge brings other memories among the neighbours and into the pool."""
        total = Report()
        first = True
        before = 0
        while True:
            now = self._clock.now()
            user_pairs = await self._load_pairs(principal, user_id, now, scope)
            before = count_duplicates(user_pairs.pairs, self._bands) if first else before
            plan, judgement, over = await self._judge_and_plan(principal, user_id, user_pairs, now, run)
            applied = await self._apply_plan.apply_plan(principal, user_id, plan, now)
            await self._apply_plan.record_refused(principal, user_id, judgement.refused, now)
            applied_plan = replace(plan, merges=applied.merges, links=applied.links)
            pairs_seen = len(user_pairs.pairs) if first else 0
            report = plan_report(applied_plan, pairs_seen=pairs_seen, tokens=judgement.tokens)
            total, first = total + replace(_add_judgement(report, judgement), skipped=applied.skipped), False
            if not applied.merges or applied.skipped:
                after = count_duplicates(user_pairs.pairs, self._bands, applied_plan.absorbed_ids)
                return total + Report(left=over, duplicates_before=before, duplicates_after=after)

    async def _load_pairs(
        self, principal: Principal, user_id: str, now: datetime, scope: _Scope | None = None
    ) -> _UserPairs:
        policy = self._policies.of(principal).consolidation
        midnight = start_of_day(now)
        async with self._uow.read(principal) as tx:
            asked = await self._storage.load_checked(tx, principal, user_id, policy.checked_since(now))
            memories = await self._storage.load_memories(tx, principal, user_id, scope.ids if scope else None)
            in_pool = frozenset(scope.new) if scope else comparison_pool(memories, policy, now)
            low = self._bands.check_low if scope else self._bands.fallback_low
            limits = {"low": low, "link_min": self._bands.link_min}
            young = comparable_memories(memories, policy, now)
            pairs = await self._storage.find_pairs(
                tx, principal, young, in_pool, neighbours=policy.neighbours, **limits
            )
            apart = await self._storage.find_restored_pairs(tx, principal, {id_ for pair in pairs for id_ in pair.ids})
        spent = sum(one.at >= midnight for one in asked.values())
        checked = {pair: one.at for pair, one in asked.items() if one.has_verdict or one.at >= midnight}
        return _UserPairs(pairs, in_pool, checked, frozenset(asked.keys() - checked.keys()), spent, apart)

    async def _judge_and_plan(
        self, principal: Principal, user_id: str, user_pairs: _UserPairs, now: datetime, run: _RunState
    ) -> tuple[Plan, Judgement, int]:
        """Return the plan, the judgement behind it, and the number of pairs beyond the day's limit.

        Comparing words takes processor time, so it runs in threads beside the event loop.
        """
        excluded = user_pairs.kept_apart | run.unjudged_pairs
        candidates = [pair for pair in user_pairs.pairs if pair.ids not in excluded]
        policies = self._policies.of(principal)
        pairs, over = await asyncio.to_thread(
            select_pairs_to_check,
            candidates,
            user_pairs.in_pool,
            user_pairs.checked,
            policies.consolidation,
            self._bands,
            now,
            {user_id: user_pairs.asked_today},
            user_pairs.refused,
        )
        judgement = await self._judge_pairs(principal, pairs, run)
        if judgement.stopped != "share_spent":
            run.stopped = run.stopped or judgement.stopped
        run.unjudged_pairs |= {pair.ids for pair in pairs} - {verdict.pair.ids for verdict in judgement.verdicts}
        build_plan = partial(
            make_plan, judgement.verdicts, self._bands, policies.categories.numeric_names, user_pairs.kept_apart
        )
        return await asyncio.to_thread(build_plan), judgement, over

    async def _judge_pairs(self, principal: Principal, pairs: Sequence[Pair], run: _RunState) -> Judgement:
        if self._judge is not None and pairs and not run.stopped:
            return await self._judge.judge_pairs(principal, pairs)
        numeric = self._policies.of(principal).categories.numeric_names
        verdicts = await asyncio.to_thread(judge_by_rule, pairs, numeric)
        if self._judge is None:
            return Judgement(verdicts)
        joined = [verdict for verdict in verdicts if verdict.rule]
        return Judgement(joined, left=len(verdicts) - len(joined), stopped=run.stopped)


def _add_judgement(report: Report, judgement: Judgement) -> Report:
    if judgement.stopped != "unavailable":
        return replace(report, left=judgement.left)
    return replace(report, left=judgement.left, unanswered=judgement.left, fault=judgement.fault)
