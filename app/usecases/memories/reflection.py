"""All that a model makes of what is said: at each turn, and by the hour of what went quiet (SPEC §7)."""

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from app.domain.errors import TokensSpent
from app.domain.scope import Scope
from app.domain.talk import Kind
from app.usecases.memories.episodes import CaptureEpisodes
from app.usecases.memories.insights import DrawInsights
from app.usecases.memories.multi_fact import ExtractFacts
from app.usecases.memories.reflection_writes import KeepReflections, Made
from app.usecases.memories.summaries import Summarise

AT_ONCE = 200
"""Threads, or users, looked at in one run."""


class Reflect:
    """Each part does nothing when it is not its time; what one of them raises leaves the others for the next time."""

    KINDS: tuple[Kind, ...] = ("episode", "summary", "insight")

    def __init__(
        self,
        facts: ExtractFacts,
        episodes: CaptureEpisodes,
        summaries: Summarise,
        insights: DrawInsights,
        keep: KeepReflections,
    ) -> None:
        self._facts = facts
        self._episodes = episodes
        self._summaries = summaries
        self._insights = insights
        self._keep = keep

    @property
    def able(self) -> bool:
        """Whether there is a model at all."""
        return self._facts.able

    async def turn(self, scope: Scope, user_id: str, thread_id: str, turn_id: UUID) -> Mapping[str, Any]:
        """After a turn; the report. Raises TokensSpent, ChatModelUnavailable, EmbedderUnavailable."""
        facts = await self._facts.turn(scope, turn_id)
        if facts.why == "spent":
            raise TokensSpent()
        report = {"multi_fact": facts.as_json()}
        for made in (
            await self._episodes.thread(scope, user_id, thread_id),
            await self._summaries.thread(scope, user_id, thread_id),
            await self._insights.user(scope, user_id),
        ):
            report[made.kind] = made.as_json()
        return report

    async def waiting(
        self, scope: Scope, kind: Kind, *, user_id: str | None = None, dry_run: bool = False
    ) -> AsyncIterator[Made]:
        """What went on and was not read since, of one user or all, AT_ONCE at most; raises as `turn`."""
        keep, now = self._keep, self._keep.clock.now()
        if kind == "insight":
            before = keep.policies.insights.before(now)
            async with keep.uow.read(scope) as tx:
                users = await keep.storage.guessable(tx, scope, user_id, before, AT_ONCE)
            for user in users:
                yield await self._insights.user(scope, user, dry_run=dry_run)
            return
        part = self._episodes if kind == "episode" else self._summaries
        policy = keep.policies.episodes if kind == "episode" else keep.policies.summaries
        quiet = now - timedelta(minutes=policy.minutes)
        async with keep.uow.read(scope) as tx:
            category = keep.policies.turn_category
            threads = await keep.storage.waiting(tx, scope, user_id, kind, quiet, category, AT_ONCE)
        for user, thread in threads:
            yield await part.thread(scope, user, thread, dry_run=dry_run)
