"""Theory of mind: seldom, and only from what is new, a few guesses about a user (seed 003 §3, SPEC §7)."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final

from app.domain.changes import MemoryChange, Observation
from app.domain.consent.profile_fields import ProfileField, benign_fields
from app.domain.memory.memory import MemoryType, NewMemory
from app.domain.outages import UnusableAnswer
from app.domain.principal import Principal
from app.domain.reflection.insights import Insight, InsightMaterial
from app.domain.reflection.transcript import ReadPosition
from app.prompts.insights import VERSION, insights_prompt, read_insights
from app.storage.reflection.transcripts import WHOLE_USER
from app.usecases.consent.generated_proposals import ProposeProfileFields
from app.usecases.reflection.generated_memories import ReadStep, ReflectionResult, ReflectionWriter, cosine_similarity
from app.usecases.reflection.model_gateway import ModelGateway

OWN_JOB: Final = {"job": "insight"}
"""What history says of an insight that this job drew: no caller can write it, so consent trusts it (SPEC §8)."""
MAX_TRIES = 3
"""So often the same is tried where the model has no answer."""


class DrawInsights:
    """One user at a time, once a day at most."""

    def __init__(self, ask: ModelGateway, keep: ReflectionWriter, consent: ProposeProfileFields) -> None:
        self._ask = ask
        self._keep = keep
        self._consent = consent
        self._policy = keep.policies.insights
        self._without = keep.policies.categories.agents_without_category(self._policy.category)
        self._sources = keep.policies.categories.categories_of_all_viewers(self._policy.category)

    async def draw_for_user(self, scope: Principal, user_id: str, *, dry_run: bool = False) -> ReflectionResult:
        """Draw insights from the episodes since the last time; without any, nothing is asked. Dry, nothing is stored.

        Raises ChatModelUnavailable, TokensSpent, EmbedderUnavailable: then it does not count.
        """
        made = ReflectionResult("insight", user_id)
        if not self._ask.has_model:
            return replace(made, why="no_model")
        if not self._keep.policies.draws_insights:
            return replace(made, why="off")
        now = self._keep.clock.now()
        material = await self._load_material(scope, user_id, now)
        if material is None:
            return replace(made, why="nothing_new")
        question = material.build_question(self._policy.talk_characters, self._keep.policies.echo_marks)
        read = partial(read_insights, question, self._keep.policies.write.text_limits)
        step = ReadStep(user_id, WHOLE_USER, "insight", material.mark, ReadPosition(0, now))
        try:
            asked = await self._ask.require_answer(scope, insights_prompt(question), read)
        except UnusableAnswer:
            made = replace(made, why="unusable")
            if not dry_run and await self._keep.count_failed_try(scope, step) >= MAX_TRIES:
                await self._keep.store_changes(scope, step)
            return made
        made = replace(made, tokens=asked.usage.total_tokens)
        found, told = self._consent.split_sensitive(asked.value or [], lambda one: (one.text, "", ""))
        changes = await self._build_changes(scope, material, found) if found else []
        texts = [change.new.text for change in changes if change.new]
        made = replace(made, texts=texts, created=len(changes), why=None if changes else "nothing")
        if dry_run:
            return made
        why = await self._keep.store_changes(scope, step, changes)
        if why is None:
            await self._propose_fields(scope, user_id, changes, told)
        if not changes and why is None:
            await self._keep.record_event(scope, Observation("worker", "insight", "skipped", user_id))
        return made if why is None else replace(made, why=why)

    async def _load_material(self, scope: Principal, user_id: str, now: datetime) -> InsightMaterial | None:
        """Read what insights may be drawn from; None without new episodes of agents that may see what becomes of it."""
        async with self._keep.uow.read(scope) as tx:
            if not await self._keep.storage.list_insight_users(tx, scope, user_id, self._policy.due_before(now), 1):
                return None
            material = await self._keep.storage.load_material(
                tx, scope, user_id, self._policy, self._without, self._sources
            )
        return material if material.activity else None

    async def _propose_fields(
        self, scope: Principal, user_id: str, changes: Sequence[MemoryChange], told: Sequence[ProfileField]
    ) -> None:
        """Propose the sensitive fields that insights told, and the tone and goals of those that are stored."""
        await self._consent.propose_fields(scope, user_id, told)
        for change in changes:
            if change.new is not None:
                benign = benign_fields(change.new.text)
                await self._consent.propose_fields(scope, user_id, benign, evidence=change.memory_id)

    async def _build_changes(
        self, scope: Principal, material: InsightMaterial, found: Sequence[Insight]
    ) -> list[MemoryChange]:
        """Those that say something new: beside the facts they were drawn from, what stands already, and each other."""
        known = [one.text for one in (*material.facts, *material.known)]
        vectors = await self._keep.encode_texts([*(one.text for one in found), *known])
        taken, changes = vectors[len(found) :], []
        for one, embedding in zip(found, vectors, strict=False):
            best = max((cosine_similarity(embedding, other) for other in taken), default=None)
            if best is not None and best >= self._policy.same_at:
                continue
            taken.append(embedding)
            draft = self._build_draft(material, one)
            event = Observation("worker", "insight", "ok", draft.user_id, None, None, draft.category, best)
            change = self._keep.build_creation(scope, draft, embedding, event)
            changes.append(replace(change, history_meta=OWN_JOB))
        return changes

    def _build_draft(self, material: InsightMaterial, found: Insight) -> NewMemory:
        last = material.activity[0]
        return NewMemory(
            user_id=last.user_id,
            category=self._policy.category,
            text=found.text,
            type=MemoryType.insight,
            importance=self._policy.importance,
            tags=found.tags,
            source={
                "turn_id": (last.source or {}).get("turn_id"),
                "memories": [str(one.id) for one in (*material.activity, *material.facts)],
            },
            metadata={"prompt": VERSION, "confidence": found.confidence},
        )
