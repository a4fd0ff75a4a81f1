"""Insights (theory of mind): a few guesses about a user, drawn once a day from new episodes and facts."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final

from app.domain.changes import MemoryChange, Observation
from app.domain.consent.profile_fields import ProfileField, benign_fields
from app.domain.memory.memory import MemoryType, NewMemory, Origin
from app.domain.outages import UnusableAnswer
from app.domain.principal import Principal
from app.domain.reflection.insights import Insight, InsightMaterial, InsightPolicy
from app.domain.reflection.transcript import ReadPosition
from app.prompts.insights import VERSION, insights_prompt, read_insights
from app.storage.reflection.transcripts import WHOLE_USER
from app.usecases.consent.proposals import ProposeProfileFields
from app.usecases.reflection.generated_memories import GeneratedMemoryWriter, cosine_similarity
from app.usecases.reflection.model_gateway import ModelGateway
from app.usecases.reflection.results import ReadStep, ReflectionResult

OWN_JOB: Final = {"job": "insight"}
"""The history entry of an insight that this job drew. No caller can write it, so consent trusts it."""
MAX_TRIES = 3
"""The tries for the same material before it counts as read, when the model gives no usable answer."""


class DrawInsights:
    """The use-case that draws the insights of one user at a time."""

    def __init__(self, gateway: ModelGateway, writer: GeneratedMemoryWriter, consent: ProposeProfileFields) -> None:
        self._gateway = gateway
        self._writer = writer
        self._cursor = writer.cursor
        self._consent = consent

    async def draw_for_user(self, principal: Principal, user_id: str, *, dry_run: bool = False) -> ReflectionResult:
        """Draw insights from the episodes since the last time. Without new episodes no model is called.

        `dry_run` stores nothing. Raise ChatModelUnavailable, TokensSpent or EmbedderUnavailable; then the attempt does
        not count.
        """
        result = ReflectionResult("insight", user_id)
        if not self._gateway.has_model:
            return replace(result, why="no_model")
        policies = self._cursor.policies.of(principal)
        if not policies.draws_insights:
            return replace(result, why="off")
        now = self._cursor.clock.now()
        material = await self._load_material(principal, user_id, now)
        if material is None:
            return replace(result, why="nothing_new")
        question = material.build_question(policies.insights.talk_characters, policies.echo_marks)
        read = partial(read_insights, question, policies.write.text_limits)
        step = ReadStep(user_id, WHOLE_USER, "insight", material.mark, ReadPosition(0, now))
        try:
            answer = await self._gateway.require_answer(principal, insights_prompt(question), read, user_id=user_id)
        except UnusableAnswer:
            result = replace(result, why="unusable")
            if not dry_run and await self._cursor.count_failed_try(principal, step) >= MAX_TRIES:
                await self._writer.store_changes(principal, step)
            return result
        result = replace(result, tokens=answer.usage.total_tokens)
        found, sensitive = self._consent.split_sensitive(
            principal, answer.value or [], lambda insight: (insight.text, "", "")
        )
        changes = await self._build_changes(principal, material, found) if found else []
        texts = [change.new.text for change in changes if change.new]
        result = replace(result, texts=texts, created=len(changes), why=None if changes else "nothing")
        if dry_run:
            return result
        why = await self._writer.store_changes(principal, step, changes)
        if why is None:
            await self._propose_fields(principal, user_id, changes, sensitive)
        if not changes and why is None:
            await self._writer.record_event(principal, Observation("worker", "insight", "skipped", user_id))
        return result if why is None else replace(result, why=why)

    async def _load_material(self, principal: Principal, user_id: str, now: datetime) -> InsightMaterial | None:
        """Return the material of new insights, or None without new episodes of agents that may see the insights."""
        policy = self._cursor.policies.of(principal).insights
        categories = self._cursor.policies.of(principal).categories
        hidden = categories.agents_without_category(policy.category)
        sources = categories.categories_of_all_viewers(policy.category)
        async with self._cursor.uow.read(principal) as tx:
            if not await self._cursor.storage.list_insight_users(tx, principal, user_id, policy.due_before(now), 1):
                return None
            material = await self._cursor.storage.load_material(tx, principal, user_id, policy, hidden, sources)
        return material if material.activity else None

    async def _propose_fields(
        self, principal: Principal, user_id: str, changes: Sequence[MemoryChange], sensitive: Sequence[ProfileField]
    ) -> None:
        """Propose the sensitive fields that the model found, and the tone and goals of stored insights."""
        await self._consent.propose_fields(principal, user_id, sensitive)
        for change in changes:
            if change.new is not None:
                benign = benign_fields(change.new.text)
                await self._consent.propose_fields(principal, user_id, benign, evidence=change.memory_id)

    async def _build_changes(
        self, principal: Principal, material: InsightMaterial, found: Sequence[Insight]
    ) -> list[MemoryChange]:
        """Return the creation of each insight that repeats no fact, no stored insight and no other new one."""
        policy = self._cursor.policies.of(principal).insights
        known_texts = [memory.text for memory in (*material.facts, *material.known)]
        vectors = await self._writer.encode_texts([*(insight.text for insight in found), *known_texts])
        taken = vectors[len(found) :]
        changes = []
        for insight, embedding in zip(found, vectors, strict=False):
            best = max((cosine_similarity(embedding, other) for other in taken), default=None)
            if best is not None and best >= policy.same_at:
                continue
            taken.append(embedding)
            draft = _build_draft(policy, material, insight)
            event = Observation("worker", "insight", "ok", draft.user_id, None, None, draft.category, best)
            change = self._writer.build_creation(principal, draft, embedding, event)
            changes.append(replace(change, history_meta=OWN_JOB))
        return changes


def _build_draft(policy: InsightPolicy, material: InsightMaterial, insight: Insight) -> NewMemory:
    last = material.activity[0]
    return NewMemory(
        user_id=last.user_id,
        category=policy.category,
        text=insight.text,
        type=MemoryType.insight,
        importance=policy.importance,
        tags=insight.tags,
        source={
            "turn_id": (last.source or {}).get("turn_id"),
            "memories": [str(memory.id) for memory in (*material.activity, *material.facts)],
        },
        metadata={"prompt": VERSION, "confidence": insight.confidence},
        origin=Origin.reflection,
    )
