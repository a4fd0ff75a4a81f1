"""Read access to stored facts: by id, by rank, by page, and their history."""

from dataclasses import replace
from uuid import UUID

from app.config.tenant_policies import TenantPolicies
from app.domain.errors import InvalidInput, NotFound
from app.domain.facts.fact import Fact, FactFilter
from app.domain.facts.topics import FactTopics
from app.domain.paging import Page, cut_page, decode_cursor, decode_fact_place, encode_cursor, encode_place
from app.domain.principal import Principal
from app.storage.facts.facts import FactStorage
from app.storage.memory.memories import HistoryRow
from app.storage.uow import ReadTx, UnitOfWork

NO_SUCH_FACT = "No such fact."


def known_key(topics: FactTopics, key: str) -> str:
    """Return the key under which a topic is stored. Raise InvalidInput for a key without a noun."""
    if (known := topics.canonical_key(key)) is None:
        raise InvalidInput(f"topic_key {key!r} names no topic; use one such as favorite_colors")
    return known


class ReadFacts:
    """The use-cases that read a tenant's facts. All raise CategoryNotAllowed for a key that may not see facts."""

    def __init__(self, uow: UnitOfWork, facts: FactStorage, policies: TenantPolicies) -> None:
        self._uow = uow
        self._facts = facts
        self._policies = policies

    async def get_fact(self, principal: Principal, fact_id: UUID) -> Fact:
        """Return the fact. Raise NotFound if there is none, or it was removed."""
        principal.require_categories([self._policies.of(principal).facts.category])
        async with self._uow.read_anywhere(principal) as tx:
            fact = await self._facts.get_fact(tx, principal, fact_id)
        if fact is None:
            raise NotFound(NO_SUCH_FACT)
        return fact

    async def get_fact_at(
        self, principal: Principal, user_id: str, thread_id: str | None, topic_key: str, rank: int
    ) -> Fact:
        """Return the fact at a rank of a list of the thread.

        Raise NotFound, or InvalidInput for a key without a topic.
        """
        principal.require_categories([self._policies.of(principal).facts.category])
        topic_key = known_key(self._policies.of(principal).facts.topics, topic_key)
        async with self._uow.read_anywhere(principal) as tx:
            fact = await self._facts.get_fact_at(tx, principal, user_id, thread_id, topic_key, rank)
        if fact is None:
            raise NotFound(f"no fact {topic_key} at rank {rank}")
        return fact

    async def list_facts(self, principal: Principal, filters: FactFilter, cursor: str | None, limit: int) -> Page[Fact]:
        """Return a page of at most `limit` facts. Raise InvalidCursor, or InvalidInput for a key without a topic."""
        principal.require_categories([self._policies.of(principal).facts.category])
        after = decode_fact_place(cursor)
        if filters.topic_key is not None:
            topics = self._policies.of(principal).facts.topics
            filters = replace(filters, topic_key=known_key(topics, filters.topic_key))
        async with self._uow.read_anywhere(principal) as tx:
            rows = await self._facts.list_facts(tx, principal, filters, after, limit + 1)
        return cut_page(rows, limit, lambda fact: encode_place(_place_of(fact)))

    async def list_history(
        self, principal: Principal, fact_id: UUID, cursor: str | None, limit: int
    ) -> tuple[list[HistoryRow], str | None]:
        """Return a page of a fact's history, newest first, and the next cursor. Raise NotFound or InvalidCursor."""
        principal.require_categories([self._policies.of(principal).facts.category])
        after = decode_cursor(cursor)
        async with self._uow.read_anywhere(principal) as tx:
            rows = await self._facts.list_history(tx, principal, fact_id, after, limit + 1)
            if not rows and not await self._is_visible(tx, principal, fact_id):
                raise NotFound(NO_SUCH_FACT)
        items = [HistoryRow(**row) for row in rows[:limit]]
        return items, encode_cursor((items[-1].ts, items[-1].id)) if len(rows) > limit else None

    async def _is_visible(self, tx: ReadTx, principal: Principal, fact_id: UUID) -> bool:
        """Return whether the fact is there, removed or not, in the principal's categories."""
        fact = (await self._facts.get_facts(tx, principal, [fact_id])).get(fact_id)
        return fact is not None and (principal.categories is None or fact.category in principal.categories)


def _place_of(fact: Fact) -> tuple[str, str, str, str]:
    return fact.topic_key, fact.thread_id or "", str(fact.rank or 0), str(fact.id)
