"""Reflection: what a chat model makes of conversations, after each turn and every hour for quiet threads."""

from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import UUID

from app.domain.outages import TokensSpent, UserTokensSpent
from app.domain.principal import Principal
from app.domain.reflection.transcript import ReflectionKind
from app.usecases.reflection.episodes import CaptureEpisodes
from app.usecases.reflection.fact_extraction import ExtractFacts
from app.usecases.reflection.insights import DrawInsights
from app.usecases.reflection.model_gateway import ModelGateway
from app.usecases.reflection.read_cursor import ReadCursor
from app.usecases.reflection.results import ReflectionResult, summed_results
from app.usecases.reflection.summaries import SummariseThreads
from app.usecases.reflection.workflows import LearnWorkflows

AT_ONCE = 200
"""The threads, or users, of one run."""


@dataclass(frozen=True)
class Reflect:
    """Facts, episodes, summaries, insights and workflows in one run. If one raises, the rest waits for the next run."""

    KINDS: ClassVar[tuple[ReflectionKind, ...]] = ("episode", "summary", "insight")

    gateway: ModelGateway
    facts: ExtractFacts
    episodes: CaptureEpisodes
    summaries: SummariseThreads
    insights: DrawInsights
    workflows: LearnWorkflows
    cursor: ReadCursor

    @property
    def has_model(self) -> bool:
        """True if a chat model is configured."""
        return self.gateway.has_model

    @property
    def model_name(self) -> str:
        """The name of the chat model."""
        return self.gateway.model_name

    async def probe_model(self, principal: Principal) -> None:
        """Send the model a test question. Raise ChatModelUnavailable or TokensSpent."""
        await self.gateway.probe_model(principal)

    async def reflect_turn(
        self, principal: Principal, user_id: str, thread_id: str, turn_id: UUID, round_number: int = 0
    ) -> Mapping[str, Any]:
        """Reflect on a turn and its thread; return the report. A later round is for facts that one deferred.

        Raise TokensSpent, ChatModelUnavailable or EmbedderUnavailable.
        """
        facts = await self.facts.extract_from_turn(principal, turn_id, round_number=round_number)
        if facts.why == "spent":
            raise TokensSpent()
        report = {"multi_fact": facts.as_json()}
        for part in (self.episodes, self.summaries):
            result = summed_results([result async for result in self._read_rounds(part, principal, user_id, thread_id)])
            report[result.kind] = result.as_json()
        drawn = await self.insights.draw_for_user(principal, user_id)
        learnt = await self.workflows.learn_from_turn(principal, turn_id)
        return {**report, drawn.kind: drawn.as_json(), "workflow": learnt.as_json()}

    async def reflect_waiting(
        self, principal: Principal, kind: ReflectionKind, *, user_id: str | None = None, dry_run: bool = False
    ) -> AsyncIterator[ReflectionResult]:
        """Reflect on at most AT_ONCE waiting threads or users, of one user or all. Raise as `reflect_turn`.

        A user whose share of the tokens is spent is passed over.
        """
        cursor = self.cursor
        policies = cursor.policies.of(principal)
        if kind == "insight":
            if not policies.draws_insights:
                return
            before = policies.insights.due_before(cursor.clock.now())
            async with cursor.uow.read(principal) as tx:
                users = await cursor.storage.list_insight_users(tx, principal, user_id, before, AT_ONCE)
            for user in users:
                with suppress(UserTokensSpent):
                    yield await self.insights.draw_for_user(principal, user, dry_run=dry_run)
            return
        if kind == "summary" and not policies.summaries.enable_summarization:
            return
        part = self.episodes if kind == "episode" else self.summaries
        for user, thread in await cursor.list_waiting(principal, kind, part.read_bounds(principal), user_id, AT_ONCE):
            with suppress(UserTokensSpent):
                async for result in self._read_rounds(part, principal, user, thread, dry_run=dry_run):
                    yield result

    async def _read_rounds(
        self,
        part: CaptureEpisodes | SummariseThreads,
        principal: Principal,
        user_id: str,
        thread_id: str,
        *,
        dry_run: bool = False,
    ) -> AsyncIterator[ReflectionResult]:
        """Read a thread until none of the user's turns is left, for at most the rounds of its bounds."""
        for number in range(part.read_bounds(principal).rounds):
            result = await part.read_thread(principal, user_id, thread_id, dry_run=dry_run, again=number > 0)
            yield result
            if not result.rest:
                return
