"""Conversations: read one with its summary, and delete one with everything that came from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

from app.config.tenant_policies import TenantPolicies
from app.domain.changes import ChangeKind, MemoryChange, Observation
from app.domain.facts.fact import FactOperation, FactStatement
from app.domain.memory.memory import Memory, MemoryState
from app.domain.memory.transitions import Transition, deleting_fields, transition_meta
from app.domain.outages import WriteContention
from app.domain.paging import decode_cursor, encode_cursor
from app.domain.principal import Principal
from app.domain.turn_memory.artifacts import Conversation
from app.ports import Clock
from app.storage.chat.conversations import ConversationStorage, Place, PlacedFact
from app.storage.facts.facts import FactStorage
from app.storage.journal import Journal
from app.storage.turn_memory.artifacts import ArtifactRetention
from app.storage.uow import UnitOfWork
from app.usecases.chat.retrieval import ReadSummary
from app.usecases.facts.turns import EmbedFactMemories
from app.usecases.memory.relations import threads_of
from app.usecases.retention.forgetting import ForgetMemories

FACTS: Final = 100
"""Facts read at once."""
ATTEMPTS: Final = 10
ALL_STATES: Final = tuple(state.value for state in MemoryState)
_FOR_EVER: Final = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ConversationPage:
    """A page of a conversation's entries, oldest first, and its summary. `next_cursor` is None on the last page."""

    items: list[Memory]
    summary: str | None
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class DeletedConversation:
    """The number of memories, facts and artifacts that a deletion changed."""

    deleted: int
    facts: int
    artifacts: int = 0


@dataclass(frozen=True)
class Conversations:
    """The use-cases that read and delete conversations, in the categories that the key may see."""

    uow: UnitOfWork
    storage: ConversationStorage
    summaries: ReadSummary
    facts: FactStorage
    artifacts: ArtifactRetention
    forgetting: ForgetMemories
    journal: Journal
    fact_memories: EmbedFactMemories
    policies: TenantPolicies
    clock: Clock

    async def read_conversation(
        self, principal: Principal, user_id: str, memory_id: str, cursor: str | None, limit: int
    ) -> ConversationPage:
        """Return a page of the user's conversation: what was said, and what was stored with it. Raise InvalidCursor."""
        after = decode_cursor(cursor)
        async with self.uow.read_anywhere(principal) as tx:
            rows = await self.storage.list_entries(tx, principal, (user_id, memory_id), after, limit + 1)
            summary = await self.summaries.read_summary(tx, principal, user_id, memory_id)
        items = rows[:limit]
        last = rows[limit - 1] if len(rows) > limit else None
        return ConversationPage(items, summary, encode_cursor((last.created_at, last.id)) if last else None)

    async def delete_conversation(
        self, principal: Principal, user_id: str, memory_id: str, *, purge: bool = False
    ) -> DeletedConversation:
        """Soft-delete the user's memories of the conversation and remove its facts, or `purge` all of them for good.

        A purge begins with the conversation's artifacts, if the key may use the category of turn memory. What is stored
        after the call began stays. The deletion runs in batches, so a repeated call continues an interrupted one.
        Idempotent. Raise WriteContention.
        """
        place = user_id, memory_id
        artifacts = await self._purge_artifacts(principal, place) if purge else 0
        deleted = await self._delete_memories(principal, place, purge)
        facts = await self._remove_facts(principal, place)
        return DeletedConversation(deleted, await self._purge_facts(principal, place) if purge else facts, artifacts)

    async def _delete_memories(self, principal: Principal, place: Place, purge: bool) -> int:
        """Delete what is stored now; return how many memories."""
        async with self.uow.read(principal) as tx:
            until = await self.storage.read_moment(tx)
        states = ALL_STATES if purge else (MemoryState.active.value,)
        find = partial(self.storage.find_stored, place=place, states=states, until=until)
        deleted = 0
        for _attempt in range(ATTEMPTS):
            change = _purge_change if purge else self._delete_change
            deleted += await self.forgetting.change_found(principal, find, change)
            async with self.uow.read(principal) as tx:
                if not await find(tx, principal, limit=1):
                    return deleted
        raise WriteContention()

    def _delete_change(self, principal: Principal, memory: Memory) -> MemoryChange:
        now = self.clock.now()
        lifecycle = self.policies.of(principal).lifecycle
        return MemoryChange(
            kind=ChangeKind.soft_deleted,
            memory_id=memory.id,
            user_id=memory.user_id,
            actor=principal.actor_name,
            fields=deleting_fields(now, lifecycle.purge_at(now)),
            threads=threads_of(memory.thread_id),
            expect_version=memory.version,
            expect_states=("active",),
            history_meta={"reason": "conversation", **transition_meta(Transition.delete)},
            observations=(_delete_event(memory),),
        )

    async def _remove_facts(self, principal: Principal, place: Place) -> int:
        """Remove all facts that the key may see; return how many."""
        removed = failures = 0
        while facts := await self._find_facts(principal, place, with_removed=False):
            try:
                count = await self._remove_batch(principal, place, facts)
            except WriteContention:
                count = 0
            removed, failures = removed + count, failures + (not count)  # a newer statement may have decided them
            if failures == ATTEMPTS:
                raise WriteContention()
        return removed

    async def _remove_batch(self, principal: Principal, place: Place, facts: Sequence[PlacedFact]) -> int:
        """Remove the facts of these topics with one statement, dated no earlier than any of them; return how many."""
        policy = self.policies.of(principal).facts
        operations = tuple(FactOperation("remove", topic) for topic in sorted({f.topic_key for f in facts}))
        statement = FactStatement(
            *place,
            category=policy.category,
            operations=operations,
            stated_at=max(self.clock.now(), *(fact.created_at for fact in facts)),
            max_rank=policy.max_rank,
            names=policy.name_topics(operations),
        )
        outcome = await self.journal.record(principal, [], facts=[statement])
        await self.fact_memories.embed_memories(principal, outcome.fact_memories)  # of other conversations
        return sum(stated.action == "remove" for done in outcome.facts for stated in done.stated)

    async def _purge_facts(self, principal: Principal, place: Place) -> int:
        """Delete the removed facts for good; return how many."""
        purged = 0
        count = 1
        while count:
            found = await self._find_facts(principal, place, with_removed=True)
            ids = [fact.id for fact in found if fact.removed]
            count = sum([await self.facts.purge_removed(principal, _FOR_EVER, 1, fact_id=id_) for id_ in ids])
            purged += count
        return purged

    async def _purge_artifacts(self, principal: Principal, place: Place) -> int:
        """Delete the artifacts for good; return how many."""
        category = self.policies.of(principal).turn_memory.category
        if principal.categories is not None and category not in principal.categories:
            return 0
        return await self.artifacts.purge_conversation(principal, Conversation(*place))

    async def _find_facts(self, principal: Principal, place: Place, *, with_removed: bool) -> list[PlacedFact]:
        async with self.uow.read(principal) as tx:
            return await self.storage.find_facts(tx, principal, place, FACTS, with_removed=with_removed)


def _purge_change(principal: Principal, memory: Memory) -> MemoryChange:
    return MemoryChange(
        kind=ChangeKind.purged,
        memory_id=memory.id,
        user_id=memory.user_id,
        actor=principal.actor_name,
        threads=threads_of(memory.thread_id) if memory.state is MemoryState.active else (),
        delta_meta={"importance": memory.importance},
        expect_version=memory.version,
        observations=(_delete_event(memory),),
    )


def _delete_event(memory: Memory) -> Observation:
    return Observation("hotpath", "delete", "ok", memory.user_id, memory.thread_id, memory.id, memory.category)
