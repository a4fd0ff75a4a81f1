"""Read access to stored facts: by id, by rank, by page, and their history."""

from dataclasses import replace
from uuid import UUID

from app.config.tenant_policies import TenantPolicies
from app.domain.errors import InvalidInput, NotFound
from app.domain.facts.fact import Fact, FactFilter
from app.domain.facts.topics import FactTopics
from app.domain.memory.moments import NOW, Moments
from app.domain.paging import Page, cut_page, decode_cursor, decode_fact_place, encode_cursor, encode_place
from app.domain.principal import Principal
from app.ports import Clock
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

    def __init__(self, uow: UnitOfWork, facts: FactStorage, policies: TenantPolicies, clock: Clock) -> None:
        self._uow = uow
        self._facts = facts
        self._policies = policies
        self._clock = clock

    async def get_fact(self, principal: Principal, fact_id: UUID, moments: Moments = NOW) -> Fact:
        """Return the fact. Raise NotFound if there is none at that time, or it was removed; AsOfInFuture."""
        self._check_access(principal, moments)
        async with self._uow.read_anywhere(principal) as tx:
            if moments.is_now:
                fact = await self._facts.get_fact(tx, principal, fact_id)
            else:
                fact = await self._facts.get_former(tx, principal, fact_id, moments)
        if fact is None:
            raise NotFound(NO_SUCH_FACT)
        return fact

    async def get_fact_at(
        self,
        principal: Principal,
        user_id: str,
        thread_id: str | None,
        topic_key: str,
        rank: int,
        moments: Moments = NOW,
    ) -> Fact:
        """Return the fact at a rank of a list of the thread.

        Raise NotFound, InvalidInput for a key without a topic, or AsOfInFuture.
        """
        self._check_access(principal, moments)
        topic_key = known_key(self._policies.of(principal).facts.topics, topic_key)
        async with self._uow.read_anywhere(principal) as tx:
            if moments.is_now:
                fact = await self._facts.get_fact_at(tx, principal, user_id, thread_id, topic_key, rank)
            else:
                place = FactFilter(user_id, thread_id, topic_key, rank, in_place=True)
                fact = next(iter(await self._facts.list_former(tx, principal, place, moments, limit=1)), None)
        if fact is None:
            raise NotFound(f"no fact {topic_key} at rank {rank}")
        return fact

    async def list_facts(
        self, principal: Principal, filters: FactFilter, cursor: str | None, limit: int, moments: Moments = NOW
    ) -> Page[Fact]:
        """Return a page of at most `limit` facts. A cursor keeps the times of its list.

        Raise InvalidCursor, InvalidInput for a key without a topic, or AsOfInFuture.
        """
        moments, cursor = moments.resume_at(cursor)
        self._check_access(principal, moments)
        after = decode_fact_place(cursor)
        if filters.topic_key is not None:
            topics = self._policies.of(principal).facts.topics
            filters = replace(filters, topic_key=known_key(topics, filters.topic_key))
        async with self._uow.read_anywhere(principal) as tx:
            if moments.is_now:
                rows = await self._facts.list_facts(tx, principal, filters, after, limit + 1)
            else:
                rows = await self._facts.list_former(tx, principal, filters, moments, after, limit + 1)
        return cut_page(rows, limit, lambda fact: moments.mark_cursor(encode_place(_place_of(fact))))

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

    def _check_access(self, principal: Principal, moments: Moments) -> None:
        principal.require_categories([self._policies.of(principal).facts.category])
        moments.require_past(self._clock.now())

    async def _is_visible(self, tx: ReadTx, principal: Principal, fact_id: UUID) -> bool:
        """Return whether the fact is there, removed or not, in the principal's categories."""
        fact = (await self._facts.get_facts(tx, principal, [fact_id])).get(fact_id)
        return fact is not None and (principal.categories is None or fact.category in principal.categories)


def _place_of(fact: Fact) -> tuple[str, str, str, str]:
    return fact.topic_key, fact.thread_id or "", str(fact.rank or 0), str(fact.id)
