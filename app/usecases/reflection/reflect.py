"""All that a model makes of what is said: at each turn, and by the hour of what went quiet (SPEC §7)."""

from collections.abc import AsyncIterator, Mapping
from typing import Any
from uuid import UUID

from app.domain.outages import TokensSpent
from app.domain.principal import Principal
from app.domain.reflection.transcript import ReflectionKind
from app.usecases.reflection.episodes import CaptureEpisodes
from app.usecases.reflection.fact_extraction import ExtractFacts
from app.usecases.reflection.generated_memories import ReflectionResult, ReflectionWriter, summed_results
from app.usecases.reflection.insights import DrawInsights
from app.usecases.reflection.model_gateway import ModelGateway
from app.usecases.reflection.summaries import SummariseThreads

AT_ONCE = 200
"""Threads, or users, looked at in one run."""


class Reflect:
    """Each part does nothing when it is not its time; what one of them raises leaves the others for the next time."""

    KINDS: tuple[ReflectionKind, ...] = ("episode", "summary", "insight")

    def __init__(
        self,
        ask: ModelGateway,
        facts: ExtractFacts,
        episodes: CaptureEpisodes,
        summaries: SummariseThreads,
        insights: DrawInsights,
        keep: ReflectionWriter,
    ) -> None:
        self._ask = ask
        self._facts = facts
        self._episodes = episodes
        self._summaries = summaries
        self._insights = insights
        self._keep = keep

    @property
    def has_model(self) -> bool:
        """Whether there is a model at all."""
        return self._ask.has_model

    async def probe_model(self, scope: Principal) -> None:
        """Have the model answer a question of ours; raises ChatModelUnavailable, TokensSpent."""
        await self._ask.probe_model(scope)

    async def reflect_turn(self, scope: Principal, user_id: str, thread_id: str, turn_id: UUID) -> Mapping[str, Any]:
        """After a turn; the report. Raises TokensSpent, ChatModelUnavailable, EmbedderUnavailable."""
        facts = await self._facts.extract_from_turn(scope, turn_id)
        if facts.why == "spent":
            raise TokensSpent()
        report = {"multi_fact": facts.as_json()}
        for part in (self._episodes, self._summaries):
            made = summed_results([one async for one in self._read_rounds(part, scope, user_id, thread_id)])
            report[made.kind] = made.as_json()
        drawn = await self._insights.draw_for_user(scope, user_id)
        return {**report, drawn.kind: drawn.as_json()}

    async def reflect_waiting(
        self, scope: Principal, kind: ReflectionKind, *, user_id: str | None = None, dry_run: bool = False
    ) -> AsyncIterator[ReflectionResult]:
        """What went on and was not read since, of one user or all, AT_ONCE at most; raises as `turn`."""
        keep = self._keep
        if kind == "insight":
            if not keep.policies.draws_insights:
                return
            before = keep.policies.insights.due_before(keep.clock.now())
            async with keep.uow.read(scope) as tx:
                users = await keep.storage.list_insight_users(tx, scope, user_id, before, AT_ONCE)
            for user in users:
                yield await self._insights.draw_for_user(scope, user, dry_run=dry_run)
            return
        part = self._episodes if kind == "episode" else self._summaries
        for user, thread in await keep.list_waiting(scope, kind, part.bounds, user_id, AT_ONCE):
            async for made in self._read_rounds(part, scope, user, thread, dry_run=dry_run):
                yield made

    async def _read_rounds(
        self,
        part: CaptureEpisodes | SummariseThreads,
        scope: Principal,
        user_id: str,
        thread_id: str,
        *,
        dry_run: bool = False,
    ) -> AsyncIterator[ReflectionResult]:
        """Read in a thread, if it is time, until nothing that a user said is left, or for so many rounds."""
        for number in range(part.bounds.rounds):
            made = await part.read_thread(scope, user_id, thread_id, dry_run=dry_run, again=number > 0)
            yield made
            if not made.rest:
                return
