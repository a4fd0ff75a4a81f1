"""Usage by day and by user: queries and tokens of receipts, writes of events, tokens of the chat model's calls."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.errors import InvalidCursor
from app.domain.receipts.usage import Usage, UsageFilter
from app.storage.receipts.usage import UsageStorage
from app.usecases.receipts.usage import UsageBy
from tests.factories import Caller, draft, make_caller
from tests.usecases.receipts.asking import ask

EVERY = UsageFilter()
TODAY = datetime.now(UTC).date()
CALL = """INSERT INTO llm_calls (tenant_id, id, ts, prompt, version, model, attempt, input_tokens, output_tokens,
    duration_ms, items, items_ok, first_pass_ok, status)
    VALUES ($1, gen_random_uuid(), $2, 'p', 1, 'm', 1, $3, 10, 1, 0, 0, true, 'ok')"""


WRITE = """INSERT INTO events (tenant_id, id, user_id, node, op, status, memory_id)
    VALUES ($1, gen_random_uuid(), $2, 'hotpath', 'add', 'ok', 'm')"""


async def every(
    app: Application, caller: Caller, by: UsageBy, filters: UsageFilter = EVERY, limit: int = 1
) -> list[Usage]:
    """Return the rows of all pages."""
    found: list[Usage] = []
    cursor = None
    while True:
        page = await app.receipts.usage.list_usage(caller.scope, by, filters, cursor, limit)
        found += page.items
        if (cursor := page.next_cursor) is None:
            return found


@pytest.mark.long
async def test_usage_counts_queries_tokens_writes_and_model_tokens(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    milk = await app.memory.write.write_memory(caller.scope, draft("Maya drinks oat milk."))
    await app.memory.edit.patch_memory(caller.scope, milk.id, {"tags": ["x"]}, version=None)
    await app.memory.edit.soft_delete_memory(caller.scope, milk.id)
    await app.memory.edit.restore_memory(caller.scope, milk.id)
    await app.memory.write.write_memory(
        caller.scope, draft("Bo drinks tea.", user_id="bo", type="episodic", category="event")
    )
    answers = [await ask(app, caller, "What does Maya drink?") for _ in range(2)]
    everybody = await ask(app, caller, "Who drinks what?", user_id=None)
    await sql.execute(CALL, caller.scope.tenant_id, datetime.now(UTC), 90)
    own, all_tokens = sum(a.tokens for a in answers), sum(a.tokens for a in (*answers, everybody))
    assert await every(app, caller, "day") == [Usage(TODAY, None, 3, all_tokens, 5, 100)]
    assert await every(app, caller, "user") == [
        Usage(None, "", 1, everybody.tokens, 0, None),
        Usage(None, "bo", 0, 0, 1, None),
        Usage(None, "maya", 2, own, 4, None),
    ]
    of_maya = UsageFilter(user_id="maya")
    assert await every(app, caller, "day", of_maya) == [Usage(TODAY, None, 2, own, 4, None)]
    assert await every(app, caller, "user", of_maya) == [Usage(None, "maya", 2, own, 4, None)]
    assert await every(app, await make_caller(app), "day") == []
    assert await every(app, await make_caller(app), "user") == []


async def test_days_are_filtered_and_paged_newest_first(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    tenant = caller.scope.tenant_id
    for age in range(5):
        day = TODAY - timedelta(days=age)
        await sql.execute("INSERT INTO usage_days VALUES ($1, $2, 'maya', $3, 7)", tenant, day, age + 1)
        late = datetime.combine(day, datetime.min.time(), UTC) + timedelta(hours=23, minutes=59)
        await sql.execute(CALL, tenant, late, age)
    days = await every(app, caller, "day")
    assert [(row.day, row.queries, row.model_tokens) for row in days] == [
        (TODAY - timedelta(days=age), age + 1, age + 10) for age in range(5)
    ]
    middle = UsageFilter(since=TODAY - timedelta(days=3), until=TODAY - timedelta(days=1))
    assert await every(app, caller, "day", middle) == days[2:4]
    assert [row.queries for row in await every(app, caller, "user", middle)] == [3 + 4]
    assert await every(app, caller, "day", UsageFilter(since=TODAY + timedelta(days=1))) == []


async def count_days(sql: asyncpg.Connection, caller: Caller, ages: Iterable[int], user_id: str = "maya") -> None:
    """Count one query of a user on each of the days that are so many days ago."""
    days = [(caller.scope.tenant_id, TODAY - timedelta(days=age), user_id) for age in ages]
    await sql.executemany("INSERT INTO usage_days VALUES ($1, $2, $3, 1, 7)", days)


@pytest.mark.long
async def test_without_a_first_day_31_days_before_the_end_count(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    await count_days(sql, caller, range(80))
    assert [row.day for row in await every(app, caller, "day")] == [TODAY - timedelta(days=age) for age in range(31)]
    assert [row.queries for row in await every(app, caller, "user")] == [31]
    ends = {0: 31, 10: 31, 60: 20, 79: 1, -5: 31}
    for age, days in ends.items():
        until = UsageFilter(until=TODAY - timedelta(days=age - 1))
        found = await every(app, caller, "day", until)
        assert [row.day for row in found] == [TODAY - timedelta(days=max(age, 0) + n) for n in range(days)]
        assert [row.queries for row in await every(app, caller, "user", until)] == [days]
    assert len(await every(app, caller, "day", UsageFilter(since=date.min))) == 80
    assert await every(app, caller, "day", UsageFilter(until=date.min)) == []


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 50])
async def test_days_with_gaps_are_all_on_some_page(
    app: Application, caller: Caller, sql: asyncpg.Connection, limit: int
) -> None:
    ages = [0, 1, 5, 6, 7, 29, 30, 31, 60, 88]
    await count_days(sql, caller, ages)
    await count_days(sql, caller, [3, 70], "ben")
    since = UsageFilter(since=date.min)
    newest_first = [TODAY - timedelta(days=age) for age in sorted([*ages, 3, 70])]
    assert [row.day for row in await every(app, caller, "day", since, limit)] == newest_first
    of_ben = await every(app, caller, "day", UsageFilter("ben", date.min), limit)
    assert [row.day for row in of_ben] == [TODAY - timedelta(days=3), TODAY - timedelta(days=70)]


async def test_a_page_of_days_reads_its_days_alone(app: Application, caller: Caller, sql: asyncpg.Connection) -> None:
    await count_days(sql, caller, range(80))
    asked: list[tuple[date, date]] = []

    class Watched:
        """A transaction that notes the days of the statements that add up."""

        def __init__(self, tx: Any) -> None:
            self._tx = tx

        async def fetchrow(self, query: str, *args: Any) -> Any:
            return await self._tx.fetchrow(query, *args)

        async def fetch(self, query: str, *args: Any) -> Any:
            asked.append((args[2], args[3]))
            return await self._tx.fetch(query, *args)

    async with app.parts.uow.read(caller.scope) as tx:
        watched: Any = Watched(tx)
        before = TODAY - timedelta(days=20)
        found = await UsageStorage().list_days(watched, caller.scope, UsageFilter(since=date.min), before, 11)
    assert [row.day for row in found] == [before - timedelta(days=n) for n in range(1, 12)]
    assert asked == [(before - timedelta(days=11), before)]


@pytest.mark.parametrize("limit", [1, 2, 3, 50])
async def test_users_of_both_counts_are_in_one_order(
    app: Application, caller: Caller, sql: asyncpg.Connection, limit: int
) -> None:
    asking, writing = ["a", "c", "d", "f", "g", "Ä"], ["b", "c", "e", "f", "h", "z"]
    for user in asking:
        await count_days(sql, caller, [0], user)
    await count_days(sql, caller, [0], "")
    for user in (*writing, "c", None, None):
        await sql.execute(WRITE, caller.scope.tenant_id, user)
    expected = {user: [int(user in asking), writing.count(user)] for user in {*asking, *writing}}
    expected["c"][1], expected[""] = 2, [1, 2]
    found = await every(app, caller, "user", limit=limit)
    assert {row.user_id: [row.queries, row.writes] for row in found} == expected
    assert [row.user_id for row in found] == [row.user_id for row in await every(app, caller, "user", limit=200)]
    assert await every(app, caller, "user", UsageFilter("e"), limit) == [Usage(None, "e", 0, 0, 1, None)]


@pytest.mark.parametrize(("by", "cursor"), [("day", "x"), ("day", "WyJ4Il0"), ("day", "WzFd"), ("user", "W10")])
async def test_a_wrong_cursor_is_refused(app: Application, caller: Caller, by: UsageBy, cursor: str) -> None:
    with pytest.raises(InvalidCursor):
        await app.receipts.usage.list_usage(caller.scope, by, EVERY, cursor, 1)


async def test_the_first_and_the_last_day_of_the_calendar_are_taken(app: Application, caller: Caller) -> None:
    assert await every(app, caller, "day", UsageFilter(since=date.min, until=date.max)) == []
