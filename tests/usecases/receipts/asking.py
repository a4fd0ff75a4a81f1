"""Queries, and the rows that their receipts leave."""

from typing import Any
from uuid import UUID

import asyncpg

from app.bootstrap import Application
from app.domain.filters import Filters
from app.domain.receipts.receipt import QueryReceipt, ToldItem
from app.storage.identity import new_id
from app.usecases.recall.answer import Answer
from app.usecases.recall.request import Query
from tests.factories import Caller

TABLES = ("receipts", "receipt_items", "usage_days")


async def ask(app: Application, caller: Caller, query: str, *, user_id: str | None = "maya", **fields: Any) -> Answer:
    """Answer a query of the agent `supervisor`, and write its receipt."""
    asked = Query(**{"agent": "supervisor", "query": query, "filters": Filters(user_id=user_id)} | fields)
    answer = await app.recall.query.answer_query(caller.scope, asked)
    await app.parts.access.flush_pending(caller.scope)
    return answer


async def told(sql: asyncpg.Connection, query_id: UUID | None) -> list[tuple[str, UUID, int | None]]:
    """Return the part, the memory and the version of each item of a receipt."""
    rows = await sql.fetch(
        "SELECT part, memory_id, version FROM receipt_items WHERE receipt_id = $1 ORDER BY place", query_id
    )
    return [tuple(row) for row in rows]


async def row_counts(sql: asyncpg.Connection) -> dict[str, int]:
    """Return the number of rows of each table of the capability."""
    return {table: await sql.fetchval(f"SELECT count(*) FROM {table}") for table in TABLES}


async def mentions(sql: asyncpg.Connection, word: str) -> list[str]:
    """Return the tables of the capability in which a row contains the word."""
    counts = {
        table: await sql.fetchval(f"SELECT count(*) FROM {table} t WHERE t::text ILIKE $1", f"%{word}%")
        for table in TABLES
    }
    return [table for table, count in counts.items() if count]


def receipt(user_id: str | None, *items: ToldItem, **fields: Any) -> QueryReceipt:
    """Return a receipt of a query about a user, in thread `t`."""
    known = {"via": "query", "agent": "supervisor", "key_id": None, "thread_id": "t", "tokens": 7}
    return QueryReceipt(**{"id": new_id(), "user_id": user_id, "items": items} | known | fields)
