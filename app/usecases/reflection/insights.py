"""Theory of mind: seldom, and only from what is new, a few guesses about a user (seed 003 §3, SPEC §7)."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final

from app.domain.changes import MemoryChange, Observation
from app.domain.consent.profile_fields import ToldField, benign_fields
from app.domain.memory.memory import MemoryType, NewMemory
from app.domain.outages import UnusableAnswer
from app.domain.principal import Scope
from app.domain.reflection.insights import Insight, Material
from app.domain.reflection.transcript import Mark
from app.prompts.insights import VERSION, insights, read_insights
from app.storage.reflection.transcripts import WHOLE
from app.usecases.consent.generated_proposals import ProposeTold
from app.usecases.reflection.generated_memories import KeepReflections, Made, Step, cosine
from app.usecases.reflection.model_gateway import AskModel

OWN_JOB: Final = {"job": "insight"}
"""What history says of an insight that this job drew: no caller can write it, so consent trusts it (SPEC §8)."""
TRIES = 3
"""So often the same is tried where the model has no answer."""


class DrawInsights:
    """One user at a time, once a day at most."""

    def __init__(self, ask: AskModel, keep: KeepReflections, consent: ProposeTold) -> None:
        self._ask = ask
        self._keep = keep
        self._consent = consent
        self._policy = keep.policies.insights
        self._without = keep.policies.categories.agents_without(self._policy.category)
        self._sources = keep.policies.categories.seen_by_all_who_see(self._policy.category)

    async def user(self, scope: Scope, user_id: str, *, dry_run: bool = False) -> Made:
        """Draw insights from the episodes since the last time; without any, nothing is asked. Dry, nothing is stored.

        Raises ChatModelUnavailable, TokensSpent, EmbedderUnavailable: then it does not count.
        """
        made = Made("insight", user_id)
        if not self._ask.able:
            return replace(made, why="no_model")
        if not self._keep.policies.draws_insights:
            return replace(made, why="off")
        now = self._keep.clock.now()
        material = await self._material(scope, user_id, now)
        if material is None:
            return replace(made, why="nothing_new")
        question = material.question(self._policy.talk_characters, self._keep.policies.marks)
        read = partial(read_insights, question, self._keep.policies.write.text_limits)
        step = Step(user_id, WHOLE, "insight", material.mark, Mark(0, now))
        try:
            asked = await self._ask.require(scope, insights(question), read)
        except UnusableAnswer:
            made = replace(made, why="unusable")
            if not dry_run and await self._keep.tries(scope, step) >= TRIES:
                await self._keep.keep(scope, step)
            return made
        made = replace(made, tokens=asked.usage.tokens)
        found, told = self._consent.without_sensitive(asked.value or [], lambda one: (one.text, "", ""))
        changes = await self._changes(scope, material, found) if found else []
        texts = [change.new.text for change in changes if change.new]
        made = replace(made, texts=texts, created=len(changes), why=None if changes else "nothing")
        if dry_run:
            return made
        why = await self._keep.keep(scope, step, changes)
        if why is None:
            await self._propose(scope, user_id, changes, told)
        if not changes and why is None:
            await self._keep.note(scope, Observation("worker", "insight", "skipped", user_id))
        return made if why is None else replace(made, why=why)

    async def _material(self, scope: Scope, user_id: str, now: datetime) -> Material | None:
        """Read what insights may be drawn from; None without new episodes of agents that may see what becomes of it."""
        async with self._keep.uow.read(scope) as tx:
            if not await self._keep.storage.guessable(tx, scope, user_id, self._policy.before(now), 1):
                return None
            material = await self._keep.storage.material(tx, scope, user_id, self._policy, self._without, self._sources)
        return material if material.activity else None

    async def _propose(
        self, scope: Scope, user_id: str, changes: Sequence[MemoryChange], told: Sequence[ToldField]
    ) -> None:
        """Propose the sensitive fields that insights told, and the tone and goals of those that are stored."""
        await self._consent.propose(scope, user_id, told)
        for change in changes:
            if change.new is not None:
                benign = benign_fields(change.new.text)
                await self._consent.propose(scope, user_id, benign, evidence=change.memory_id)

    async def _changes(self, scope: Scope, material: Material, found: Sequence[Insight]) -> list[MemoryChange]:
        """Those that say something new: beside the facts they were drawn from, what stands already, and each other."""
        known = [one.text for one in (*material.facts, *material.known)]
        vectors = await self._keep.encode([*(one.text for one in found), *known])
        taken, changes = vectors[len(found) :], []
        for one, embedding in zip(found, vectors, strict=False):
            best = max((cosine(embedding, other) for other in taken), default=None)
            if best is not None and best >= self._policy.same_at:
                continue
            taken.append(embedding)
            draft = self._draft(material, one)
            event = Observation("worker", "insight", "ok", draft.user_id, None, None, draft.category, best)
            change = self._keep.created(scope, draft, embedding, event)
            changes.append(replace(change, history_meta=OWN_JOB))
        return changes

    def _draft(self, material: Material, found: Insight) -> NewMemory:
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
