"""Facts of servers that are set wrong: the time of a statement is the database's (`docs/contract.md`, Facts)."""

from collections.abc import AsyncIterator
from datetime import timedelta

import asyncpg
import pytest

from app.bootstrap import Application, Doubles, build_application
from app.config.settings import Settings
from app.domain.errors import InvalidInput
from app.domain.facts.fact import FactFilter, FactKind
from app.usecases.facts.store import FactPlace, NewFact
from tests.factories import Caller, Clock, draft
from tests.usecases.crowd import SeededEmbedder

PLACE = FactPlace("maya", "talk")


@pytest.fixture
def embedder() -> SeededEmbedder:
    """An embedder without a model: only equal texts are near each other."""
    return SeededEmbedder()


@pytest.fixture
async def ahead(settings: Settings, embedder: SeededEmbedder) -> AsyncIterator[Application]:
    """A second server on the same database; its machine is 400 days ahead from the start."""
    wrong = Clock()
    wrong.set_process_wrong(days=400)
    async with build_application(settings, Doubles(embedder=embedder, clock=wrong)) as app:
        yield app


def moved(city: str) -> list[NewFact]:
    """Return the statement of a city."""
    return [NewFact("home_city", FactKind.single, None, city)]


async def test_a_fact_of_a_server_that_is_ahead_does_not_beat_a_later_correction(
    app: Application, ahead: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    await ahead.facts.store.store_values(caller.scope, PLACE, moved("Oslo"))
    await app.facts.store.store_values(caller.scope, PLACE, moved("Bergen"))
    page = await app.facts.read.list_facts(caller.scope, FactFilter("maya"), None, 10)
    assert [fact.value for fact in page.items] == ["Bergen"]
    assert page.items[0].created_at <= await sql.fetchval("SELECT clock_timestamp()")


async def test_a_server_that_is_ahead_takes_no_statement_from_the_future_and_writes_none(
    ahead: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    now = await sql.fetchval("SELECT clock_timestamp()")
    tomorrow = FactPlace("maya", "talk", stated_at=now + timedelta(days=1))
    with pytest.raises(InvalidInput, match="created_at lies in the future"):
        await ahead.facts.store.store_values(caller.scope, tomorrow, moved("Oslo"))
    await ahead.memory.write.write_memory(caller.scope, draft("Maya drinks oat milk."))
    times = await sql.fetch("SELECT created_at, updated_at FROM memories WHERE tenant_id = $1", caller.scope.tenant_id)
    assert all(row["created_at"] <= now + timedelta(minutes=1) >= row["updated_at"] for row in times)
    assert len(times) == 1
