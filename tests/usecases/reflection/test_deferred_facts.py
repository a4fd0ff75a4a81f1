"""Facts beyond a limit of the turn or the day are stored by a job of another day."""

import asyncpg
import pytest

from app.domain.principal import Principal
from tests.factories import Clock
from tests.fake_llm import FakeLlm
from tests.usecases.conftest import Configured
from tests.usecases.turn_facts import due, facts, say, work

pytestmark = pytest.mark.usefixtures("own")

NAMES = ("Ada", "Bob", "Cid", "Dot", "Eli", "Fay", "Gus")
QUOTES = [f"My parrot {name} whistles tune number {at} of an old film." for at, name in enumerate(NAMES)]
FACTS = [quote.replace("My parrot", "The user's parrot") for quote in QUOTES]


def seven_facts(_question: object) -> dict[str, object]:
    """Return an answer with two facts too many."""
    return {
        "facts": [
            {"text": text, "category": "relationships", "importance": 3, "quote": quote}
            for text, quote in zip(FACTS, QUOTES, strict=True)
        ]
    }


@pytest.mark.long
async def test_of_seven_facts_three_are_stored_today_and_two_tomorrow(
    configured: Configured, llm: FakeLlm, scope: Principal, sql: asyncpg.Connection, clock: Clock
) -> None:
    app = await configured(capture={"per_turn": 0}, llm=llm)
    llm.always = seven_facts
    turn_id = await say(app, scope, " ".join(QUOTES))
    report = await work(app, scope)
    assert (report["facts"], report["deferred"], report["refused"]) == (3, 2, {"too_many": 2})
    assert await facts(sql) == FACTS[:3]
    assert "deferred" in (await app.operations.trace.trace_turn(scope, turn_id)).reasons
    clock.move(days=1)
    await due(sql)
    await work(app, scope)
    assert await facts(sql) == FACTS[:5]
    assert "deferred" not in (await app.operations.trace.trace_turn(scope, turn_id)).reasons


@pytest.mark.long
async def test_a_worker_that_ends_before_it_defers_facts_loses_none(
    configured: Configured, llm: FakeLlm, scope: Principal, sql: asyncpg.Connection, clock: Clock
) -> None:
    app = await configured(capture={"per_turn": 0}, llm=llm)
    llm.always = seven_facts
    await say(app, scope, " ".join(QUOTES))
    await work(app, scope)
    await sql.execute("DELETE FROM jobs WHERE payload ? 'round'")
    [job] = (await app.jobs.manage.list_jobs(scope, None, "reflect_turn", None, 10)).items
    await app.jobs.manage.replay_job(scope, job.id)
    assert (await work(app, scope))["why"] == "done"
    clock.move(days=1)
    await due(sql)
    await work(app, scope)
    assert await facts(sql) == FACTS[:5]


async def test_what_capture_may_not_store_today_it_stores_tomorrow_without_a_model(
    configured: Configured, scope: Principal, sql: asyncpg.Connection, clock: Clock
) -> None:
    app = await configured(capture={"per_user_day": 1})
    await say(app, scope, "I hate coriander.")
    await say(app, scope, "I love basil.")
    await work(app, scope)
    assert len(await facts(sql)) == 1
    clock.move(days=1)
    await due(sql)
    await work(app, scope)
    assert len(await facts(sql)) == 2
