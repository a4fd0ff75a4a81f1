"""The writer of generated memories: a change and the new read position commit together, or neither does."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from app.domain.changes import ChangeKind, MemoryChange, Observation
from app.domain.errors import ErasedText, NotFound, VersionConflict, WrongState
from app.domain.memory.memory import Memory, NewMemory
from app.domain.principal import Principal
from app.domain.reflection.transcript import Transcript
from app.domain.text_rules import check_text
from app.ports import Embedder, Embedding
from app.storage.identity import new_id
from app.storage.journal import Journal
from app.usecases.memory.relations import delta_meta, threads_of
from app.usecases.reflection.read_cursor import ReadCursor
from app.usecases.reflection.results import Bounds, ReadStep, ReflectionResult, SkipReason


class _DailyCapReached(Exception):
    """The user has as many generated memories of this day as the policy allows."""


class GeneratedMemoryWriter:
    """The writer of generated memories. It stores each one together with the position that was read."""

    def __init__(self, cursor: ReadCursor, journal: Journal, embedder: Embedder) -> None:
        self.cursor = cursor
        self._journal = journal
        self._embedder = embedder

    async def encode_texts(self, texts: Sequence[str]) -> list[Embedding]:
        """Return one embedding for each text. Raise EmbedderUnavailable."""
        return await self._embedder.encode_texts(texts)

    def build_creation(
        self, principal: Principal, draft: NewMemory, embedding: Embedding, event: Observation
    ) -> MemoryChange:
        """Return the change that creates a memory, its text trimmed to the limit of its type."""
        now = self.cursor.clock.now()
        memory_id = new_id()
        text = check_text(draft.text, draft.type, self.cursor.policies.defaults.write.text_limits, True)
        new = replace(draft, text=text, created_at=now)
        return MemoryChange(
            kind=ChangeKind.created,
            memory_id=memory_id,
            user_id=new.user_id,
            actor=principal.actor_name,
            new=new,
            vector=embedding.vector,
            tokens=embedding.tokens,
            threads=threads_of(new.thread_id),
            delta_meta=delta_meta(text, new.importance),
            observations=(replace(event, memory_id=memory_id),),
        )

    def build_update(
        self, principal: Principal, old: Memory, draft: NewMemory, embedding: Embedding, event: Observation
    ) -> MemoryChange:
        """Return the change that gives a memory the draft's text and source. History keeps the old text."""
        fields = {
            "text": check_text(draft.text, old.type, self.cursor.policies.defaults.write.text_limits, True),
            "importance": max(old.importance, draft.importance),
            "tags": tuple(dict.fromkeys((*old.tags, *draft.tags))),
            "source": draft.source,
            "metadata": {**old.metadata, **draft.metadata},
            "updated_at": self.cursor.clock.now(),
        }
        return MemoryChange(
            kind=ChangeKind.updated,
            memory_id=old.id,
            user_id=old.user_id,
            actor=principal.actor_name,
            fields=fields,
            vector=embedding.vector,
            tokens=embedding.tokens,
            threads=threads_of(old.thread_id, draft.thread_id),
            expect_version=old.version,
            expect_states=("active",),
            observations=(replace(event, memory_id=old.id),),
        )

    async def store_changes(
        self, principal: Principal, step: ReadStep, changes: Sequence[MemoryChange] = (), daily_cap: int | None = None
    ) -> SkipReason | None:
        """Store the changes and the read position in one transaction; return the reason if nothing was stored.

        `overtaken`: somebody else read the same turns, or changed the memory to update. `cap`: `daily_cap` is reached;
        another day reads the turns again. `erased`: a text was erased, so only the position is stored.
        """
        try:
            return await self._store_changes(principal, step, changes, daily_cap)
        except ErasedText:  # the text came from a person who had it erased: it must not come back
            return await self._store_changes(principal, step, (), None) or "erased"
        except (VersionConflict, WrongState, NotFound):
            return "overtaken"
        except _DailyCapReached:
            return "cap"

    async def store_from_transcript(
        self,
        principal: Principal,
        result: ReflectionResult,
        transcript: Transcript,
        change: MemoryChange | None,
        daily_cap: int | None = None,
    ) -> ReflectionResult:
        """Store a change (None: only the position) and return the result with the number of turns left to read."""
        changes = [] if change is None else [change]
        why = await self.store_changes(principal, self.cursor.step_past(result, transcript), changes, daily_cap)
        rest = transcript.count_remaining if why in (None, "erased") else 0
        return replace(result, why=why or (None if changes else "nothing"), rest=rest)

    async def skip_transcript(
        self,
        principal: Principal,
        result: ReflectionResult,
        transcript: Transcript,
        event: Observation,
        *,
        dry_run: bool,
    ) -> ReflectionResult:
        """Count a transcript without a new memory as read, and record the event."""
        if dry_run:
            return replace(result, why="nothing")
        result = await self.store_from_transcript(principal, result, transcript, None)
        if result.why == "nothing":
            await self.record_event(principal, event)
        return result

    async def record_unusable_answer(
        self, principal: Principal, result: ReflectionResult, transcript: Transcript, bounds: Bounds, *, dry_run: bool
    ) -> ReflectionResult:
        """Read half of the transcript next time; count a single turn as read, since no half of it is left."""
        result, half = replace(result, why="unusable"), len(transcript.turns) // 2
        if dry_run:
            return result
        step = self.cursor.step_past(result, transcript)
        if not half:
            is_stored = await self.store_changes(principal, step) is None
            return replace(result, rest=transcript.count_remaining if is_stored else 0)
        tries = next(tries for tries in count() if bounds.window >> tries <= half)
        await self.cursor.count_failed_try(principal, step, tries)
        return result

    async def record_event(self, principal: Principal, event: Observation) -> None:
        """Record an event in a transaction of its own."""
        await self._journal.record_event(principal, [event])

    async def _store_changes(
        self, principal: Principal, step: ReadStep, changes: Sequence[MemoryChange], daily_cap: int | None
    ) -> SkipReason | None:
        cursor = self.cursor
        async with cursor.uow.write(principal) as tx:
            if not await cursor.advance_position(tx, principal, step):
                return "overtaken"
            if changes and daily_cap is not None:
                today = cursor.start_of_day()
                if not await cursor.storage.count_episode(tx, principal, step.user_id, today, daily_cap):
                    raise _DailyCapReached
            if changes:
                await self._journal.record(principal, changes, tx=tx)
        return None


def memory_source(turn: Memory, turns: Sequence[Memory]) -> dict[str, Any]:
    """Return the source of a generated memory: the user's last turn, the first turn, and the number of turns."""
    return {"turn_id": str(turn.id), "first_turn_id": str(turns[0].id), "turns": len(turns)}


def cosine_similarity(one: Embedding, other: Embedding) -> float:
    """Return the cosine of two unit vectors."""
    return float(one.vector @ other.vector)
