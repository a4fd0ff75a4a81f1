"""Episodic capture: after some turns, what they came to becomes one memory of the past (SPEC §7)."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Literal

from app.domain.changes import MemoryChange, Observation
from app.domain.memory.memory import Memory, MemoryType, NewMemory
from app.domain.outages import UnusableAnswer
from app.domain.principal import Principal
from app.domain.reflection.episodes import add_date_prefix, strip_date_prefix
from app.domain.reflection.transcript import Message, Transcript
from app.prompts.episode import MAX_TRANSCRIPT, VERSION, Episode, episode_prompt, read_episode
from app.usecases.reflection.generated_memories import (
    Bounds,
    ReflectionResult,
    ReflectionWriter,
    cosine_similarity,
    memory_source,
)
from app.usecases.reflection.model_gateway import ModelGateway

EARLIER_EPISODES = 3
MAX_COMPARED = 50
"""Episodes that one is held against at most, the nearest: several times what two days bring of our own."""


class CaptureEpisodes:
    """Of the turns of one category, one user and one thread at a time."""

    def __init__(self, ask: ModelGateway, keep: ReflectionWriter) -> None:
        self._ask = ask
        self._keep = keep
        self._policy = keep.policies.episodes
        self._without = keep.policies.categories.agents_without_category(self._policy.category)
        of = self._policy
        self.bounds = Bounds(of.cooldown, of.rounds, of.window, of.category, of.per_user_day)

    async def read_thread(
        self, scope: Principal, user_id: str, thread_id: str, *, dry_run: bool = False, again: bool = False
    ) -> ReflectionResult:
        """Read what was not read yet, if enough was said or time has passed, or `again`; dry, nothing is stored.

        Raises ChatModelUnavailable, TokensSpent, EmbedderUnavailable: then nothing counts as read.
        """
        made, keep = ReflectionResult("episode", user_id, thread_id), self._keep
        if not self._ask.has_model:
            return replace(made, why="no_model")
        talk = await keep.load_unread(scope, made, self.bounds, dry_run=dry_run, again=again)
        if not isinstance(talk, Transcript):
            return replace(made, why=talk)
        async with keep.uow.read(scope) as tx:
            told = scope, user_id, MemoryType.episodic, self._joinable_since(), self._without
            earlier = await keep.storage.load_newest(tx, *told, EARLIER_EPISODES)
            today = await keep.storage.load_episode_count(tx, scope, user_id, keep.start_of_day())
        if today >= self._policy.per_user_day:
            return replace(made, why="cap")
        try:
            return await self._read_transcript(scope, made, talk, earlier, dry_run)
        except UnusableAnswer:
            return await keep.record_unusable_answer(scope, made, talk, self.bounds, dry_run=dry_run)

    async def _read_transcript(
        self, scope: Principal, made: ReflectionResult, talk: Transcript, earlier: Sequence[Memory], dry_run: bool
    ) -> ReflectionResult:
        keep, (talk, told) = self._keep, talk.trim_to_fit(MAX_TRANSCRIPT, self._keep.policies.echo_marks)
        made, found = await self._ask_for_episode(scope, made, talk, told, earlier) if told else (made, None)
        if found is None:
            skipped = Observation("episodic", "create", "skipped", made.user_id, made.thread_id)
            return await keep.skip_transcript(scope, made, talk, skipped, dry_run=dry_run)
        draft = self._build_draft(talk, found)
        change = await self._build_change(scope, draft)
        fresh = change.new is not None
        made = replace(made, texts=[draft.text], created=int(fresh), updated=int(not fresh))
        if dry_run:
            return made
        return await keep.store_from_transcript(scope, made, talk, change, self._policy.per_user_day if fresh else None)

    async def _ask_for_episode(
        self,
        scope: Principal,
        made: ReflectionResult,
        talk: Transcript,
        told: Sequence[Message],
        earlier: Sequence[Memory],
    ) -> tuple[ReflectionResult, Episode | None]:
        limits, at = self._keep.policies.write.text_limits, talk.newest_turn.created_at
        room = limits.limit_for(MemoryType.episodic) - len(add_date_prefix("", at))
        prompt = episode_prompt(told, at.date(), [strip_date_prefix(one.text) for one in earlier][::-1])
        asked = await self._ask.require_answer(
            scope, prompt, partial(read_episode, told, replace(limits, episodic=room))
        )
        return replace(made, tokens=asked.usage.total_tokens), asked.value

    async def _build_change(self, scope: Principal, draft: NewMemory) -> MemoryChange:
        """A new episode, or a late one that says the same with what is new of it; what is pinned stays as it is."""
        whole, bare = await self._keep.encode_texts([draft.text, strip_date_prefix(draft.text)])
        async with self._keep.uow.read(scope) as tx:
            near = await self._keep.storage.find_nearest(
                tx, scope, draft, whole.vector, self._joinable_since(), self._without, MAX_COMPARED
            )
        others = await self._keep.encode_texts([strip_date_prefix(one.text) for one in near]) if near else []
        pairs = [(cosine_similarity(bare, other), one) for other, one in zip(others, near, strict=True)]
        best, same = max(pairs, key=lambda pair: pair[0], default=(None, None))
        if same is None or best is None or best < self._policy.join_at:
            return self._keep.build_creation(scope, draft, whole, _build_event(draft, "create", best))
        return self._keep.build_update(scope, same, draft, whole, _build_event(draft, "merge", best))

    def _joinable_since(self) -> datetime:
        return self._keep.clock.now() - timedelta(hours=self._policy.join_hours)

    def _build_draft(self, talk: Transcript, found: Episode) -> NewMemory:
        last = talk.newest_turn
        agents = {turn.agent_id for turn in talk.turns}
        return NewMemory(
            user_id=last.user_id,
            category=self._policy.category,
            text=add_date_prefix(found.text, last.created_at),
            type=MemoryType.episodic,
            thread_id=last.thread_id,
            agent_id=agents.pop() if len(agents) == 1 else None,
            importance=found.importance,
            tags=tuple(found.tags),
            source=memory_source(last, talk.turns),
            metadata={"prompt": VERSION},
        )


def _build_event(draft: NewMemory, op: Literal["create", "merge"], sim: float | None) -> Observation:
    return Observation("episodic", op, "ok", draft.user_id, draft.thread_id, None, draft.category, sim)
