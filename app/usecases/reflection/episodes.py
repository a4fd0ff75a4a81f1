"""Episodic capture: after some turns, what they came to becomes one memory of the past (SPEC §7)."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Literal

from app.domain.changes import MemoryChange, Observation
from app.domain.memory.memory import Memory, MemoryType, NewMemory
from app.domain.outages import UnusableAnswer
from app.domain.principal import Scope
from app.domain.reflection.episodes import dated, undated
from app.domain.reflection.transcript import Message, Talk
from app.prompts.episode import MAX_TALK, VERSION, Episode, episode, read_episode
from app.usecases.reflection.generated_memories import Bounds, KeepReflections, Made, cosine, source_of
from app.usecases.reflection.model_gateway import AskModel

EARLIER = 3
COMPARED = 50
"""Episodes that one is held against at most, the nearest: several times what two days bring of our own."""


class CaptureEpisodes:
    """Of the turns of one category, one user and one thread at a time."""

    def __init__(self, ask: AskModel, keep: KeepReflections) -> None:
        self._ask = ask
        self._keep = keep
        self._policy = keep.policies.episodes
        self._without = keep.policies.categories.agents_without(self._policy.category)
        of = self._policy
        self.bounds = Bounds(of.cooldown, of.rounds, of.window, of.category, of.per_user_day)

    async def thread(
        self, scope: Scope, user_id: str, thread_id: str, *, dry_run: bool = False, again: bool = False
    ) -> Made:
        """Read what was not read yet, if enough was said or time has passed, or `again`; dry, nothing is stored.

        Raises ChatModelUnavailable, TokensSpent, EmbedderUnavailable: then nothing counts as read.
        """
        made, keep = Made("episode", user_id, thread_id), self._keep
        if not self._ask.able:
            return replace(made, why="no_model")
        talk = await keep.unread(scope, made, self.bounds, dry_run=dry_run, again=again)
        if not isinstance(talk, Talk):
            return replace(made, why=talk)
        async with keep.uow.read(scope) as tx:
            told = scope, user_id, MemoryType.episodic, self._since(), self._without
            earlier = await keep.storage.newest(tx, *told, EARLIER)
            today = await keep.storage.taken(tx, scope, user_id, keep.midnight())
        if today >= self._policy.per_user_day:
            return replace(made, why="cap")
        try:
            return await self._read(scope, made, talk, earlier, dry_run)
        except UnusableAnswer:
            return await keep.stumbled(scope, made, talk, self.bounds, dry_run=dry_run)

    async def _read(self, scope: Scope, made: Made, talk: Talk, earlier: Sequence[Memory], dry_run: bool) -> Made:
        keep, (talk, told) = self._keep, talk.fitting(MAX_TALK, self._keep.policies.marks)
        made, found = await self._ask_of(scope, made, talk, told, earlier) if told else (made, None)
        if found is None:
            skipped = Observation("episodic", "create", "skipped", made.user_id, made.thread_id)
            return await keep.passed(scope, made, talk, skipped, dry_run=dry_run)
        draft = self._draft(talk, found)
        change = await self._change(scope, draft)
        fresh = change.new is not None
        made = replace(made, texts=[draft.text], created=int(fresh), updated=int(not fresh))
        if dry_run:
            return made
        return await keep.keep_talk(scope, made, talk, change, self._policy.per_user_day if fresh else None)

    async def _ask_of(
        self, scope: Scope, made: Made, talk: Talk, told: Sequence[Message], earlier: Sequence[Memory]
    ) -> tuple[Made, Episode | None]:
        limits, at = self._keep.policies.write.text_limits, talk.last.created_at
        room = limits.limit_for(MemoryType.episodic) - len(dated("", at))
        prompt = episode(told, at.date(), [undated(one.text) for one in earlier][::-1])
        asked = await self._ask.require(scope, prompt, partial(read_episode, told, replace(limits, episodic=room)))
        return replace(made, tokens=asked.usage.tokens), asked.value

    async def _change(self, scope: Scope, draft: NewMemory) -> MemoryChange:
        """A new episode, or a late one that says the same with what is new of it; what is pinned stays as it is."""
        whole, bare = await self._keep.encode([draft.text, undated(draft.text)])
        async with self._keep.uow.read(scope) as tx:
            near = await self._keep.storage.near(tx, scope, draft, whole.vector, self._since(), self._without, COMPARED)
        others = await self._keep.encode([undated(one.text) for one in near]) if near else []
        pairs = [(cosine(bare, other), one) for other, one in zip(others, near, strict=True)]
        best, same = max(pairs, key=lambda pair: pair[0], default=(None, None))
        if same is None or best is None or best < self._policy.join_at:
            return self._keep.created(scope, draft, whole, _event(draft, "create", best))
        return self._keep.updated(scope, same, draft, whole, _event(draft, "merge", best))

    def _since(self) -> datetime:
        return self._keep.clock.now() - timedelta(hours=self._policy.join_hours)

    def _draft(self, talk: Talk, found: Episode) -> NewMemory:
        last = talk.last
        agents = {turn.agent_id for turn in talk.turns}
        return NewMemory(
            user_id=last.user_id,
            category=self._policy.category,
            text=dated(found.text, last.created_at),
            type=MemoryType.episodic,
            thread_id=last.thread_id,
            agent_id=agents.pop() if len(agents) == 1 else None,
            importance=found.importance,
            tags=tuple(found.tags),
            source=source_of(last, talk.turns),
            metadata={"prompt": VERSION},
        )


def _event(draft: NewMemory, op: Literal["create", "merge"], sim: float | None) -> Observation:
    return Observation("episodic", op, "ok", draft.user_id, draft.thread_id, None, draft.category, sim)
