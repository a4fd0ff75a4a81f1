"""Storing facts: from a text, or as given values, and changing one of them."""

import asyncio
import contextlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from app.config.tenant_policies import TenantPolicies
from app.domain.client_prompts import is_client_prompt
from app.domain.errors import EmptyText, InvalidInput, NotFound, RankOutOfRange, TextTooLong
from app.domain.facts.fact import Entry, Fact, FactKind, FactOperation, FactOutcome, FactStatement, StatedFact
from app.domain.facts.policy import FactPolicy
from app.domain.idempotency import OptionalKey
from app.domain.ids import past_moment
from app.domain.outages import WriteContention
from app.domain.principal import Principal
from app.domain.text_rules import normalise_text, shows_nothing
from app.ports import Clock
from app.storage.facts.facts import FactStorage
from app.storage.journal import Journal, KeyRecord
from app.storage.uow import UnitOfWork
from app.usecases.facts.read import NO_SUCH_FACT, known_key
from app.usecases.facts.turns import EmbedFactMemories, ReadTurnFacts, read_operations
from app.usecases.tenancy.limits import Limits

ATTEMPTS = 10
_FOR_EVER = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class FactPlace:
    """The user of a statement, and where and when it was made. `stated_at` None is now."""

    user_id: str
    thread_id: str | None = None
    source_message_id: str | None = None
    stated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class NewFact:
    """A value to store. `rank` counts from 1 and is None if the kind is `single`."""

    topic_key: str
    kind: FactKind
    rank: int | None
    value: str


class StoreFacts:
    """The use-cases that store and change facts.

    All raise CategoryNotAllowed for a key that may not use the category of facts, and QuotaExceeded,
    IdempotencyMismatch or WriteContention.
    """

    def __init__(
        self,
        uow: UnitOfWork,
        facts: FactStorage,
        journal: Journal,
        memories: EmbedFactMemories,
        limits: Limits,
        policies: TenantPolicies,
        clock: Clock,
    ) -> None:
        self._uow = uow
        self._facts = facts
        self._read = ReadTurnFacts(facts, policies)
        self._journal = journal
        self._memories = memories
        self._limits = limits
        self._policies = policies
        self._clock = clock

    async def store_text(
        self, principal: Principal, place: FactPlace, text: str, key: OptionalKey = None
    ) -> FactOutcome:
        """Store what a user's own message states, and remove, correct or doubt what it takes back.

        A message without facts stores nothing. The facts of other threads are no part of the outcome.
        """
        policy = self._policies.of(principal).facts
        principal.require_categories([policy.category])
        message = normalise_text(text, keep_lines=True)
        if is_client_prompt(message):
            message = ""
        known = await self._read.load_known(principal, place.user_id, place.thread_id, message)
        found = read_operations(policy, place.thread_id, message, known)
        return await self._store_statements(principal, place, found, key)

    async def store_values(
        self, principal: Principal, place: FactPlace, facts: Sequence[NewFact], key: OptionalKey = None
    ) -> FactOutcome:
        """Store given values. Raise RankOutOfRange, EmptyText, TextTooLong or InvalidInput.

        A topic has one key: `color` and `favorite_color` are `favorite_colors`.
        """
        policy = self._policies.of(principal).facts
        by_topic = dict[str, list[Entry]]()
        for fact in facts:
            entries = by_topic.setdefault(known_key(policy.topics, fact.topic_key), [])
            entry = _checked_rank(policy, fact), _checked_value(policy, fact.value)
            if all(rank != entry[0] for rank, _value in entries):  # the first value of a rank wins, as in a text
                entries.append(entry)
        operations = tuple(FactOperation("put", topic, tuple(entries)) for topic, entries in by_topic.items())
        return await self._store_statement(principal, place, operations, key)

    async def store_project_fact(
        self, principal: Principal, place: FactPlace, fact: NewFact, key: OptionalKey = None
    ) -> tuple[UUID | None, Literal["store", "update"] | None]:
        """Store one value. Return its fact, and `store` for a new topic and rank, `update` for another value.

        The action is None if the value was stored already, or a newer statement decides its place; the fact is None if
        a newer list has no such place. Raise as `store_values` does.
        """
        outcome = await self.store_values(principal, place, [fact], key)
        if not outcome.stated:
            return None, None
        last = outcome.stated[-1]  # a single value that became rank 1 comes before it
        return last.fact.id, None if last.action == "remove" else last.action

    async def change_value(self, principal: Principal, fact_id: UUID, value: str, key: OptionalKey = None) -> Fact:
        """Give a fact another value and return it. Raise NotFound, EmptyText or TextTooLong."""
        entry_value = _checked_value(self._policies.of(principal).facts, value)

        def operation(fact: Fact) -> FactOperation:
            return FactOperation("put", fact.topic_key, ((fact.rank, entry_value),))

        return await self._change_fact(principal, fact_id, operation, key)

    async def remove_fact(self, principal: Principal, fact_id: UUID, key: OptionalKey = None) -> Fact:
        """Remove a fact and return it as it was. An older statement cannot bring it back. Raise NotFound."""

        def operation(fact: Fact) -> FactOperation:
            if fact.rank is not None:
                return FactOperation("remove", fact.topic_key, ranks=(fact.rank,))
            return FactOperation("remove", fact.topic_key, ((None, fact.value),))

        return await self._change_fact(principal, fact_id, operation, key)

    async def purge_fact(self, principal: Principal, fact_id: UUID) -> None:
        """Delete a fact for good, removed or not, with its values in history and delta. Raise NotFound."""
        with contextlib.suppress(NotFound):  # it may be removed already
            await self.remove_fact(principal, fact_id)
        if not await self._facts.purge_removed(principal, _FOR_EVER, 1, fact_id=fact_id):
            raise NotFound(NO_SUCH_FACT)

    async def _change_fact(
        self, principal: Principal, fact_id: UUID, operation: Callable[[Fact], FactOperation], key: OptionalKey
    ) -> Fact:
        principal.require_categories([self._policies.of(principal).facts.category])
        if key is not None and await self._journal.find_response(principal, key) is not None:
            return await self._load_any(principal, fact_id)
        for _attempt in range(ATTEMPTS):
            async with self._uow.read(principal) as tx:
                fact = await self._facts.get_fact(tx, principal, fact_id)
            if fact is None:
                raise NotFound(NO_SUCH_FACT)
            moment = max(self._clock.now(), fact.created_at)  # another server's clock may be ahead
            place = FactPlace(fact.user_id, fact.thread_id, stated_at=moment)
            outcome = await self._record(principal, place, (operation(fact),), moment, key, fact_id)
            for stated in outcome.stated:
                if stated.fact.id == fact_id:
                    return stated.fact
        raise WriteContention()

    async def _load_any(self, principal: Principal, fact_id: UUID) -> Fact:
        async with self._uow.read(principal) as tx:
            found = await self._facts.get_facts(tx, principal, [fact_id])
        if fact_id not in found:
            raise NotFound(NO_SUCH_FACT)
        return found[fact_id]

    async def _store_statement(
        self, principal: Principal, place: FactPlace, operations: tuple[FactOperation, ...], key: OptionalKey
    ) -> FactOutcome:
        return await self._store_statements(principal, place, [(place.thread_id, operations)], key)

    async def _store_statements(
        self,
        principal: Principal,
        place: FactPlace,
        found: Sequence[tuple[str | None, tuple[FactOperation, ...]]],
        key: OptionalKey,
    ) -> FactOutcome:
        """Store the operations of a message, by thread. The outcome is that of the message's own thread."""
        principal.require_categories([self._policies.of(principal).facts.category])
        moment = past_moment(place.stated_at, self._clock.now())
        own = tuple(operation for thread, some in found for operation in some if thread == place.thread_id)
        others = [(thread, some) for thread, some in found if thread != place.thread_id]
        if not own and not others and key is None:
            return FactOutcome()
        async with self._limits.reserve_write(principal):
            return await self._record(principal, place, own, moment, key, others=others)

    async def _record(
        self,
        principal: Principal,
        place: FactPlace,
        operations: tuple[FactOperation, ...],
        moment: datetime,
        key: OptionalKey,
        fact_id: UUID | None = None,
        others: Sequence[tuple[str | None, tuple[FactOperation, ...]]] = (),
    ) -> FactOutcome:
        policy = self._policies.of(principal).facts
        statement = FactStatement(
            user_id=place.user_id,
            thread_id=place.thread_id,
            category=policy.category,
            operations=operations,
            stated_at=moment,
            source_message_id=place.source_message_id,
            max_rank=policy.max_rank,
            names=policy.name_topics(operations),
        )
        elsewhere = [
            replace(statement, thread_id=thread, operations=some, names=policy.name_topics(some))
            for thread, some in others
        ]
        keys = [] if key is None else [KeyRecord(key, {"id": str(fact_id) if fact_id else None}, place.user_id)]
        for attempt in range(ATTEMPTS):
            await asyncio.sleep(random.uniform(0, 0.005) * attempt)
            try:
                outcome = await self._journal.record(principal, [], keys=keys, facts=[statement, *elsewhere])
            except WriteContention:
                continue
            await self._memories.embed_memories(principal, outcome.fact_memories)
            return outcome.facts[0] if outcome.replay is None else await self._replayed(principal, outcome.replay)
        raise WriteContention()

    async def _replayed(self, principal: Principal, first: dict[str, Any]) -> FactOutcome:
        """Return the outcome of the first request with a key. The facts are as they are now."""
        done: list[tuple[str, Literal["store", "update", "remove"] | None]] = first.get("facts") or []
        async with self._uow.read(principal) as tx:
            facts = await self._facts.get_facts(tx, principal, [UUID(fact_id) for fact_id, _action in done])
        stated = (StatedFact(action, facts[UUID(fact_id)]) for fact_id, action in done if UUID(fact_id) in facts)
        return FactOutcome(tuple(stated), first.get("facts_rev"))


def _checked_rank(policy: FactPolicy, fact: NewFact) -> int | None:
    if (fact.kind is FactKind.ranked) != (fact.rank is not None):
        raise InvalidInput("kind ranked needs a rank; kind single has none")
    if fact.rank is not None and not 1 <= fact.rank <= policy.max_rank:
        raise RankOutOfRange(f"rank {fact.rank}: a rank is from 1 to {policy.max_rank}")
    return fact.rank


def _checked_value(policy: FactPolicy, value: str) -> str:
    longest = policy.value_chars
    if len(value) > 4 * longest or len(clean := normalise_text(value, strict=True)) > longest:
        raise TextTooLong(f"A value may have {longest} characters; shorten it.", limit=longest, length=len(value))
    if shows_nothing(clean):
        raise EmptyText
    return clean
