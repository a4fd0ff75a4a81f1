"""All that a model makes of what is said: at each turn, and by the hour of what went quiet (SPEC §7)."""

from collections.abc import AsyncIterator, Mapping
from typing import Any
from uuid import UUID

from app.domain.outages import TokensSpent
from app.domain.principal import Scope
from app.domain.reflection.transcript import Kind
from app.usecases.reflection.episodes import CaptureEpisodes
from app.usecases.reflection.fact_extraction import ExtractFacts
from app.usecases.reflection.generated_memories import KeepReflections, Made, summed
from app.usecases.reflection.insights import DrawInsights
from app.usecases.reflection.model_gateway import AskModel
from app.usecases.reflection.summaries import Summarise

AT_ONCE = 200
"""Threads, or users, looked at in one run."""


class Reflect:
    """Each part does nothing when it is not its time; what one of them raises leaves the others for the next time."""

    KINDS: tuple[Kind, ...] = ("episode", "summary", "insight")

    def __init__(
        self,
        ask: AskModel,
        facts: ExtractFacts,
        episodes: CaptureEpisodes,
        summaries: Summarise,
        insights: DrawInsights,
        keep: KeepReflections,
    ) -> None:
        self._ask = ask
        self._facts = facts
        self._episodes = episodes
        self._summaries = summaries
        self._insights = insights
        self._keep = keep

    @property
    def able(self) -> bool:
        """Whether there is a model at all."""
        return self._ask.able

    async def check(self, scope: Scope) -> None:
        """Have the model answer a question of ours; raises ChatModelUnavailable, TokensSpent."""
        await self._ask.check(scope)

    async def turn(self, scope: Scope, user_id: str, thread_id: str, turn_id: UUID) -> Mapping[str, Any]:
        """After a turn; the report. Raises TokensSpent, ChatModelUnavailable, EmbedderUnavailable."""
        facts = await self._facts.turn(scope, turn_id)
        if facts.why == "spent":
            raise TokensSpent()
        report = {"multi_fact": facts.as_json()}
        for part in (self._episodes, self._summaries):
            made = summed([one async for one in self._rounds(part, scope, user_id, thread_id)])
            report[made.kind] = made.as_json()
        drawn = await self._insights.user(scope, user_id)
        return {**report, drawn.kind: drawn.as_json()}

    async def waiting(
        self, scope: Scope, kind: Kind, *, user_id: str | None = None, dry_run: bool = False
    ) -> AsyncIterator[Made]:
        """What went on and was not read since, of one user or all, AT_ONCE at most; raises as `turn`."""
        keep = self._keep
        if kind == "insight":
            if not keep.policies.draws_insights:
                return
            before = keep.policies.insights.before(keep.clock.now())
            async with keep.uow.read(scope) as tx:
                users = await keep.storage.guessable(tx, scope, user_id, before, AT_ONCE)
            for user in users:
                yield await self._insights.user(scope, user, dry_run=dry_run)
            return
        part = self._episodes if kind == "episode" else self._summaries
        for user, thread in await keep.waiting(scope, kind, part.bounds, user_id, AT_ONCE):
            async for made in self._rounds(part, scope, user, thread, dry_run=dry_run):
                yield made

    async def _rounds(
        self, part: CaptureEpisodes | Summarise, scope: Scope, user_id: str, thread_id: str, *, dry_run: bool = False
    ) -> AsyncIterator[Made]:
        """Read in a thread, if it is time, until nothing that a user said is left, or for so many rounds."""
        for number in range(part.bounds.rounds):
            made = await part.thread(scope, user_id, thread_id, dry_run=dry_run, again=number > 0)
            yield made
            if not made.rest:
                return
