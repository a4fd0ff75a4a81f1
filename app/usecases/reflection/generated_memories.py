"""Storing what a model made of a conversation, together with how far it was read: both or neither."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Literal, TypeAlias

from app.config.loader import Policies
from app.domain.changes import ChangeKind, MemoryChange, Observation
from app.domain.errors import ErasedText, NotFound, VersionConflict, WrongState
from app.domain.memory.memory import Memory, NewMemory
from app.domain.principal import Principal
from app.domain.reflection.transcript import Cooldown, ReadPosition, ReflectionKind, Transcript
from app.domain.text_rules import check_text
from app.ports import Clock, Embedder, Embedding
from app.storage.engine import LONG_S
from app.storage.identity import new_id
from app.storage.journal import Journal
from app.storage.reflection.transcripts import WHOLE_USER, ReflectionStorage
from app.storage.uow import UnitOfWork
from app.usecases.memory.relations import delta_meta, threads_of

SkipReason: TypeAlias = Literal[
    "no_model", "off", "resting", "nothing_new", "nothing", "cap", "known", "erased", "overtaken", "unusable"
]


@dataclass(frozen=True, slots=True)
class ReflectionResult:
    """What came of one reading. `why`: the reason nothing was kept; `texts`: what was, or dry would have been.

    `rest`: how many of a user's turns can be read on with at once.
    """

    kind: ReflectionKind
    user_id: str
    thread_id: str | None = None
    why: SkipReason | None = None
    created: int = 0
    updated: int = 0
    texts: Sequence[str] = ()
    tokens: int = 0
    rest: int = 0

    def as_json(self) -> dict[str, Any]:
        """Counts, without anything anybody said."""
        if self.why is not None:
            return {"why": self.why, **({"tokens": self.tokens} if self.tokens else {})}
        return {"created": self.created, "updated": self.updated, "tokens": self.tokens}


@dataclass(frozen=True, slots=True)
class Bounds:
    """When a thread is read, how often in one job, and how many turns each time.

    `category`: of what becomes of it; turns of agents that may not see it are left out. `per_user_day`: None: no limit.
    """

    cooldown: Cooldown
    rounds: int
    window: int
    category: str
    per_user_day: int | None = None


@dataclass(frozen=True, slots=True)
class ReadStep:
    """How far `kind` had read a user's thread (None: nowhere yet), and how far it has now."""

    user_id: str
    thread_id: str
    kind: ReflectionKind
    old: ReadPosition | None
    new: ReadPosition


def summed_results(rounds: Sequence[ReflectionResult]) -> ReflectionResult:
    """Several readings of a thread, at least one, as one."""
    kept = [one for one in rounds if one.why is None] or rounds
    created, updated = sum(one.created for one in kept), sum(one.updated for one in kept)
    return replace(kept[-1], created=created, updated=updated, tokens=sum(one.tokens for one in rounds))


class _DailyCapReached(Exception):
    """The day has as many as it may have."""


class ReflectionWriter:
    """Each method is one transaction."""

    def __init__(
        self,
        uow: UnitOfWork,
        storage: ReflectionStorage,
        journal: Journal,
        embedder: Embedder,
        policies: Policies,
        clock: Clock,
    ) -> None:
        self.uow = uow
        self.storage = storage
        self.policies = policies
        self.clock = clock
        self._journal = journal
        self._embedder = embedder

    async def load_unread(
        self, scope: Principal, made: ReflectionResult, bounds: Bounds, *, dry_run: bool, again: bool
    ) -> Transcript | SkipReason:
        """The oldest turns that this kind has not read of the thread, if it is time; else why there is nothing to do.

        `again`: it was time when the reading began that this one goes on with. An answer alone waits for what the user
        says next.
        """
        assert made.thread_id is not None
        now, without = self.clock.now(), self.policies.categories.agents_without_category(bounds.category)
        async with self.uow.write(scope) as tx:
            where = made.user_id, made.thread_id, made.kind
            read = self.policies.turn_category, bounds.window, without
            talk = await self.storage.load_transcript(tx, scope, *where, *read, now, begin=not dry_run)
        if talk is None or not talk.unread:
            return "nothing_new"
        return talk if again or bounds.cooldown.is_over(talk.unread, talk.mark.at, now) else "resting"

    async def list_waiting(
        self, scope: Principal, kind: ReflectionKind, bounds: Bounds, user_id: str | None, most: int
    ) -> list[tuple[str, str]]:
        """Users and threads with something that has waited to be read for as long as it may."""
        before = self.clock.now() - timedelta(minutes=bounds.cooldown.minutes)
        of = self.policies.turn_category, self.policies.categories.agents_without_category(bounds.category), most
        async with self.uow.read(scope, timeout_s=LONG_S) as tx:  # it looks at all that was ever read
            where = scope, user_id, kind, before
            return await self.storage.list_waiting(tx, *where, *of, self.start_of_day(), bounds.per_user_day)

    def build_step(self, made: ReflectionResult, talk: Transcript) -> ReadStep:
        """The talk is read now, all of it."""
        new = ReadPosition(talk.revs[-1], self.clock.now())
        return ReadStep(made.user_id, made.thread_id or WHOLE_USER, made.kind, talk.mark, new)

    async def store_from_transcript(
        self,
        scope: Principal,
        made: ReflectionResult,
        talk: Transcript,
        change: MemoryChange | None,
        most_a_day: int | None = None,
    ) -> ReflectionResult:
        """As `keep`: what was made of a talk, None: nothing; and what is left of the thread."""
        changes = [] if change is None else [change]
        why = await self.store_changes(scope, self.build_step(made, talk), changes, most_a_day)
        rest = talk.count_remaining if why in (None, "erased") else 0
        return replace(made, why=why or (None if changes else "nothing"), rest=rest)

    async def encode_texts(self, texts: Sequence[str]) -> list[Embedding]:
        """One embedding a text; raises EmbedderUnavailable."""
        return await self._embedder.encode_texts(texts)

    def start_of_day(self) -> datetime:
        """When the present day began, UTC."""
        return self.clock.now().replace(hour=0, minute=0, second=0, microsecond=0)

    def build_creation(
        self, scope: Principal, draft: NewMemory, embedding: Embedding, event: Observation
    ) -> MemoryChange:
        """A memory of its own."""
        now, memory_id = self.clock.now(), new_id()
        text = check_text(draft.text, draft.type, self.policies.write.text_limits, True)
        new = replace(draft, text=text, created_at=now)
        return MemoryChange(
            kind=ChangeKind.created,
            memory_id=memory_id,
            user_id=new.user_id,
            actor=scope.actor_name,
            new=new,
            vector=embedding.vector,
            tokens=embedding.tokens,
            threads=threads_of(new.thread_id),
            delta_meta=delta_meta(text, new.importance),
            observations=(replace(event, memory_id=memory_id),),
        )

    def build_update(
        self, scope: Principal, old: Memory, draft: NewMemory, embedding: Embedding, event: Observation
    ) -> MemoryChange:
        """The memory with a new text and source; what it said before stands in history."""
        text = check_text(draft.text, old.type, self.policies.write.text_limits, True)
        importance = max(old.importance, draft.importance)
        fields = {
            "text": text,
            "importance": importance,
            "tags": tuple(dict.fromkeys((*old.tags, *draft.tags))),
            "source": draft.source,
            "metadata": {**old.metadata, **draft.metadata},
            "updated_at": self.clock.now(),
        }
        return MemoryChange(
            kind=ChangeKind.updated,
            memory_id=old.id,
            user_id=old.user_id,
            actor=scope.actor_name,
            fields=fields,
            vector=embedding.vector,
            tokens=embedding.tokens,
            threads=threads_of(old.thread_id, draft.thread_id),
            expect_version=old.version,
            expect_states=("active",),
            observations=(replace(event, memory_id=old.id),),
        )

    async def store_changes(
        self, scope: Principal, step: ReadStep, changes: Sequence[MemoryChange] = (), most_a_day: int | None = None
    ) -> SkipReason | None:
        """Store the changes, as one of `most_a_day` if that is given, and how far was read; why not, if not.

        Nothing is stored at all when it is `overtaken`, by somebody who read the same or changed what was to be
        updated, or when the day has its `cap`: then another day reads it.
        """
        try:
            return await self._store_changes(scope, step, changes, most_a_day)
        except ErasedText:  # what was said came from somebody whose words are not to come back
            return await self._store_changes(scope, step, (), None) or "erased"
        except (VersionConflict, WrongState, NotFound):
            return "overtaken"
        except _DailyCapReached:
            return "cap"

    async def skip_transcript(
        self, scope: Principal, made: ReflectionResult, talk: Transcript, skipped: Observation, *, dry_run: bool
    ) -> ReflectionResult:
        """Nothing came of a talk: it counts as read."""
        if dry_run:
            return replace(made, why="nothing")
        made = await self.store_from_transcript(scope, made, talk, None)
        if made.why == "nothing":
            await self.record_event(scope, skipped)
        return made

    async def record_unusable_answer(
        self, scope: Principal, made: ReflectionResult, talk: Transcript, bounds: Bounds, *, dry_run: bool
    ) -> ReflectionResult:
        """The model has no answer to a talk: next time half of it is read, and a single turn counts as read."""
        made, half = replace(made, why="unusable"), len(talk.turns) // 2
        if dry_run:
            return made
        step = self.build_step(made, talk)
        if not half:
            return replace(made, rest=talk.count_remaining if await self.store_changes(scope, step) is None else 0)
        await self.count_failed_try(scope, step, next(tries for tries in count() if bounds.window >> tries <= half))
        return made

    async def count_failed_try(self, scope: Principal, step: ReadStep, least: int = 1) -> int:
        """Count a reading that the model had no answer to; how many there were in a row, or `least` if that is more."""
        async with self.uow.write(scope) as tx:
            where = step.user_id, step.thread_id, step.kind
            return await self.storage.count_failed_read(tx, scope, *where, step.old, least)

    async def _store_changes(
        self, scope: Principal, step: ReadStep, changes: Sequence[MemoryChange], most_a_day: int | None
    ) -> SkipReason | None:
        async with self.uow.write(scope) as tx:
            where = step.user_id, step.thread_id, step.kind
            if not await self.storage.advance_position(tx, scope, *where, step.old, step.new):
                return "overtaken"
            counted = changes and most_a_day is not None
            if counted and not await self.storage.count_episode(
                tx, scope, step.user_id, self.start_of_day(), most_a_day or 0
            ):
                raise _DailyCapReached
            if changes:
                await self._journal.record(scope, changes, tx=tx)
        return None

    async def record_event(self, scope: Principal, event: Observation) -> None:
        """Keep an event."""
        await self._journal.record_event(scope, [event])


def memory_source(turn: Memory, turns: Sequence[Memory]) -> dict[str, Any]:
    """Where a memory comes from: a turn of the user's, and how far back it reaches."""
    return {"turn_id": str(turn.id), "first_turn_id": str(turns[0].id), "turns": len(turns)}


def cosine_similarity(one: Embedding, other: Embedding) -> float:
    """Of two unit vectors."""
    return float(one.vector @ other.vector)
