"""Reading facts, and deleting removed ones for good. The journal writes them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from app.domain.facts.fact import Fact, FactFilter
from app.domain.facts.retractions import KnownFact
from app.domain.filters import Filters
from app.domain.memory.moments import Moments
from app.domain.paging import Position
from app.domain.principal import Principal
from app.storage.fact_rows import fact_from_json, fact_from_row
from app.storage.statements import load_statements
from app.storage.uow import ReadTx, Row, UnitOfWork

_SQL = load_statements("facts/facts.sql")


class FactStorage:
    """Statements that read facts within the principal's categories. Removed facts are not read."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    async def find_answers(
        self, principal: Principal, user_id: str, thread_id: str | None, topics: Sequence[str | None], *, across: bool
    ) -> list[list[Fact]]:
        """Return the facts of each topic by rank, in one round trip.

        None among `topics` is the topic stated last in the thread. With `across`, a topic that the thread does not have
        comes from the thread in which the user stated it last.
        """
        rows = await self._uow.call_anywhere(
            principal, _SQL["answer"], user_id, thread_id, list(topics), across, principal.category_list
        )
        found: list[list[Fact]] = [[] for _topic in topics]
        for row in rows:
            found[row["place"] - 1].append(fact_from_row(row))
        return found

    async def list_touchable(
        self, principal: Principal, user_id: str, thread_id: str | None, *, across: bool, limit: int
    ) -> list[KnownFact]:
        """Return at most `limit` facts that a message in a thread may take back, in one round trip.

        With `across`, those of the user's other threads come after those of the thread.
        """
        rows = await self._uow.call(
            principal, _SQL["touchable"], user_id, thread_id, across, principal.category_list, limit
        )
        return [KnownFact(r["thread_id"], r["topic_key"], r["rank"], r["value"], r["latest"]) for r in rows]

    async def get_fact(self, tx: ReadTx, principal: Principal, fact_id: UUID) -> Fact | None:
        """Return the fact, None if it does not exist, was removed or this key may not see it."""
        row = await tx.fetchrow(_SQL["get"], principal.tenant_id, fact_id, principal.category_list)
        return fact_from_json(row["fact"]) if row else None

    async def get_facts(self, tx: ReadTx, principal: Principal, fact_ids: Sequence[UUID]) -> dict[UUID, Fact]:
        """Return facts by id, removed ones too."""
        rows = await tx.fetch(_SQL["get_many"], principal.tenant_id, list(fact_ids))
        return {fact.id: fact for fact in (fact_from_json(row["fact"]) for row in rows)}

    async def get_fact_at(
        self, tx: ReadTx, principal: Principal, user_id: str, thread_id: str | None, topic_key: str, rank: int
    ) -> Fact | None:
        """Return the fact at a rank of a list, None if there is none."""
        row = await tx.fetchrow(
            _SQL["at_rank"], principal.tenant_id, principal.category_list, user_id, thread_id, topic_key, rank
        )
        return fact_from_json(row["fact"]) if row else None

    async def list_facts(
        self, tx: ReadTx, principal: Principal, filters: FactFilter, after: Sequence[str] | None, limit: int
    ) -> list[Fact]:
        """Return a page of facts by topic, thread and rank. `after`: the place of the previous page's last fact."""
        conditions = Filters(where=filters.where).row_conditions() or None
        rows = await tx.fetch(
            _SQL["page"],
            principal.tenant_id,
            principal.category_list,
            filters.user_id,
            filters.thread_id,
            filters.topic_key,
            limit,
            after,
            filters.rank,
            conditions,
        )
        return [fact_from_json(row["fact"]) for row in rows]

    async def list_former(
        self,
        tx: ReadTx,
        principal: Principal,
        filters: FactFilter,
        moments: Moments,
        after: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[Fact]:
        """Return facts as they were at `moments`, by topic, thread and rank; those of before a doubt without it."""
        conditions = Filters(where=filters.where).row_conditions() or None
        rows = await self._fetch_former(
            tx,
            principal,
            moments,
            filters.user_id,
            None,
            filters.thread_id,
            filters.in_place,
            filters.topic_key,
            filters.rank,
            after,
            limit,
            conditions,
        )
        return [fact_from_row(row) for row in rows]

    async def get_former(self, tx: ReadTx, principal: Principal, fact_id: UUID, moments: Moments) -> Fact | None:
        """Return a fact as it was at `moments`, None if it was not there."""
        rows = await self._fetch_former(tx, principal, moments, None, fact_id, None, False, None, None, None, 1, None)
        return fact_from_row(rows[0]) if rows else None

    async def _fetch_former(self, tx: ReadTx, principal: Principal, moments: Moments, *where: Any) -> list[Row]:
        return await tx.fetch(
            _SQL["former"], principal.tenant_id, principal.category_list, moments.as_of, moments.valid_at, *where
        )

    async def list_history(
        self, tx: ReadTx, principal: Principal, fact_id: UUID, after: Position | None, limit: int
    ) -> list[Row]:
        """Return a page of a fact's history, newest first."""
        position: tuple[Any, Any] = after or (None, None)
        return await tx.fetch(_SQL["history"], principal.tenant_id, fact_id, principal.category_list, *position, limit)

    async def purge_removed(
        self,
        principal: Principal,
        before: datetime,
        limit: int,
        *,
        fact_id: UUID | None = None,
        dry_run: bool = False,
    ) -> int:
        """Delete facts that were removed before a time, with their values in history. Return their number.

        At most `limit` facts, or the one with `fact_id`. With `dry_run`, only count all of them.
        """
        rows = await self._uow.call(principal, _SQL["purge"], fact_id, before, limit, principal.actor_name, dry_run)
        count: int = rows[0]["count"]
        return count
