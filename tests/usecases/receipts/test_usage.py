"""Usage by day and by user: queries and tokens of receipts, writes of events, tokens of the chat model's calls."""

from datetime import UTC, date, datetime, timedelta

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.errors import InvalidCursor
from app.domain.receipts.usage import Usage, UsageFilter
from app.usecases.receipts.usage import UsageBy
from tests.factories import Caller, draft, make_caller
from tests.usecases.receipts.asking import ask

EVERY = UsageFilter()
TODAY = datetime.now(UTC).date()
CALL = """INSERT INTO llm_calls (tenant_id, id, ts, prompt, version, model, attempt, input_tokens, output_tokens,
    duration_ms, items, items_ok, first_pass_ok, status)
    VALUES ($1, gen_random_uuid(), $2, 'p', 1, 'm', 1, $3, 10, 1, 0, 0, true, 'ok')"""


async def every(app: Application, caller: Caller, by: UsageBy, filters: UsageFilter = EVERY) -> list[Usage]:
    """Return the rows of all pages."""
    found: list[Usage] = []
    cursor = None
    while True:
        page = await app.receipts.usage.list_usage(caller.scope, by, filters, cursor, 1)
        found += page.items
        if (cursor := page.next_cursor) is None:
            return found


async def test_usage_counts_queries_tokens_writes_and_model_tokens(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    milk = await app.write.write_memory(caller.scope, draft("Maya drinks oat milk."))
    await app.edit.patch_memory(caller.scope, milk.id, {"tags": ["x"]}, version=None)
    await app.edit.soft_delete_memory(caller.scope, milk.id)
    await app.edit.restore_memory(caller.scope, milk.id)
    await app.write.write_memory(caller.scope, draft("Bo drinks tea.", user_id="bo", type="episodic", category="event"))
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


@pytest.mark.parametrize(("by", "cursor"), [("day", "x"), ("day", "WyJ4Il0"), ("day", "WzFd"), ("user", "W10")])
async def test_a_wrong_cursor_is_refused(app: Application, caller: Caller, by: UsageBy, cursor: str) -> None:
    with pytest.raises(InvalidCursor):
        await app.receipts.usage.list_usage(caller.scope, by, EVERY, cursor, 1)


async def test_the_first_and_the_last_day_of_the_calendar_are_taken(app: Application, caller: Caller) -> None:
    assert await every(app, caller, "day", UsageFilter(since=date.min, until=date.max)) == []
