"""Episodic capture: some turns of a conversation become one memory of the past (docs/contract.md, Reflection)."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Literal

from app.domain.changes import MemoryChange, Observation
from app.domain.memory.memory import Memory, MemoryType, NewMemory, Origin
from app.domain.outages import UnusableAnswer
from app.domain.principal import Principal
from app.domain.reflection.episodes import EpisodePolicy, add_date_prefix, strip_date_prefix
from app.domain.reflection.transcript import Message, Transcript
from app.prompts.episode import MAX_TRANSCRIPT, VERSION, Episode, episode_prompt, read_episode
from app.usecases.reflection.generated_memories import GeneratedMemoryWriter, cosine_similarity, memory_source
from app.usecases.reflection.model_gateway import ModelGateway
from app.usecases.reflection.results import Bounds, ReflectionResult

EARLIER_EPISODES = 3
MAX_COMPARED = 50
"""The nearest earlier episodes that a new one is compared with: several times what two days bring."""


class CaptureEpisodes:
    """The use-case that makes episodes from the turns of one user and thread at a time."""

    def __init__(self, gateway: ModelGateway, writer: GeneratedMemoryWriter) -> None:
        self._gateway = gateway
        self._writer = writer
        self._cursor = writer.cursor

    def read_bounds(self, principal: Principal) -> Bounds:
        """Return the bounds of the tenant's episodes."""
        policy = self._cursor.policies.of(principal).episodes
        return Bounds(policy.cooldown, policy.rounds, policy.window, policy.category, policy.per_user_day)

    async def read_thread(
        self, principal: Principal, user_id: str, thread_id: str, *, dry_run: bool = False, again: bool = False
    ) -> ReflectionResult:
        """Read the unread turns of a thread if its cooldown is over or `again` is set. `dry_run` stores nothing.

        Raise ChatModelUnavailable, TokensSpent or EmbedderUnavailable; then nothing counts as read.
        """
        result = ReflectionResult("episode", user_id, thread_id)
        if not self._gateway.has_model:
            return replace(result, why="no_model")
        bounds = self.read_bounds(principal)
        transcript = await self._cursor.load_unread(principal, result, bounds, dry_run=dry_run, again=again)
        if not isinstance(transcript, Transcript):
            return replace(result, why=transcript)
        async with self._cursor.uow.read(principal) as tx:
            since, without = self._joinable(principal)
            earlier = await self._cursor.storage.load_newest(
                tx, principal, user_id, MemoryType.episodic, since, without, EARLIER_EPISODES
            )
            today = await self._cursor.storage.load_episode_count(tx, principal, user_id, self._cursor.start_of_day())
        if today >= self._cursor.policies.of(principal).episodes.per_user_day:
            return replace(result, why="cap")
        try:
            return await self._read_transcript(principal, result, transcript, earlier, dry_run)
        except UnusableAnswer:
            return await self._writer.record_unusable_answer(principal, result, transcript, bounds, dry_run=dry_run)

    async def _read_transcript(
        self,
        principal: Principal,
        result: ReflectionResult,
        transcript: Transcript,
        earlier: Sequence[Memory],
        dry_run: bool,
    ) -> ReflectionResult:
        transcript, messages = transcript.trim_to_fit(MAX_TRANSCRIPT, self._cursor.policies.of(principal).echo_marks)
        episode = None
        if messages:
            result, episode = await self._ask_for_episode(principal, result, transcript, messages, earlier)
        if episode is None:
            skipped = Observation("episodic", "create", "skipped", result.user_id, result.thread_id)
            return await self._writer.skip_transcript(principal, result, transcript, skipped, dry_run=dry_run)
        policy = self._cursor.policies.of(principal).episodes
        draft = _build_draft(policy, transcript, episode)
        change = await self._build_change(principal, draft)
        is_new = change.new is not None
        result = replace(result, texts=[draft.text], created=int(is_new), updated=int(not is_new))
        if dry_run:
            return result
        daily_cap = policy.per_user_day if is_new else None
        return await self._writer.store_from_transcript(principal, result, transcript, change, daily_cap)

    async def _ask_for_episode(
        self,
        principal: Principal,
        result: ReflectionResult,
        transcript: Transcript,
        messages: Sequence[Message],
        earlier: Sequence[Memory],
    ) -> tuple[ReflectionResult, Episode | None]:
        limits = self._cursor.policies.defaults.write.text_limits
        at = transcript.newest_turn.created_at
        room = limits.limit_for(MemoryType.episodic) - len(add_date_prefix("", at))
        prompt = episode_prompt(messages, at.date(), [strip_date_prefix(memory.text) for memory in earlier][::-1])
        answer = await self._gateway.require_answer(
            principal,
            prompt,
            partial(read_episode, messages, replace(limits, episodic=room)),
            user_id=result.user_id,
        )
        return replace(result, tokens=answer.usage.total_tokens), answer.value

    async def _build_change(self, principal: Principal, draft: NewMemory) -> MemoryChange:
        """Return the change that creates an episode, or updates a recent one that says the same. Pinned ones stay."""
        whole, bare = await self._writer.encode_texts([draft.text, strip_date_prefix(draft.text)])
        since, without = self._joinable(principal)
        async with self._cursor.uow.read(principal) as tx:
            near = await self._cursor.storage.find_nearest(
                tx, principal, draft, whole.vector, since, without, MAX_COMPARED
            )
        others = await self._writer.encode_texts([strip_date_prefix(memory.text) for memory in near]) if near else []
        pairs = [(cosine_similarity(bare, other), memory) for other, memory in zip(others, near, strict=True)]
        best, same = max(pairs, key=lambda pair: pair[0], default=(None, None))
        if same is None or best is None or best < self._cursor.policies.of(principal).episodes.join_at:
            return self._writer.build_creation(principal, draft, whole, _build_event(draft, "create", best))
        return self._writer.build_update(principal, same, draft, whole, _build_event(draft, "merge", best))

    def _joinable(self, principal: Principal) -> tuple[datetime, list[str]]:
        """Return the time since which episodes may be joined, and the agents whose episodes may not be joined."""
        policies = self._cursor.policies.of(principal)
        since = self._cursor.clock.now() - timedelta(hours=policies.episodes.join_hours)
        return since, policies.categories.agents_without_category(policies.episodes.category)


def _build_draft(policy: EpisodePolicy, transcript: Transcript, episode: Episode) -> NewMemory:
    last = transcript.newest_turn
    agents = {turn.agent_id for turn in transcript.turns}
    return NewMemory(
        user_id=last.user_id,
        category=policy.category,
        text=add_date_prefix(episode.text, last.created_at),
        type=MemoryType.episodic,
        thread_id=last.thread_id,
        agent_id=agents.pop() if len(agents) == 1 else None,
        importance=episode.importance,
        tags=tuple(episode.tags),
        source=memory_source(last, transcript.turns),
        metadata={"prompt": VERSION},
        origin=Origin.reflection,
    )


def _build_event(draft: NewMemory, op: Literal["create", "merge"], sim: float | None) -> Observation:
    return Observation("episodic", op, "ok", draft.user_id, draft.thread_id, None, draft.category, sim)
