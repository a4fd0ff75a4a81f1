"""Facts that a user states plainly are stored without a chat model, once, with their words as evidence."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import asyncpg
import pytest

from app.bootstrap import Application, Doubles, build_application
from app.config.settings import Settings
from app.domain.principal import Principal
from app.ports import Embedder
from tests.factories import Caller, Clock, draft, make_caller
from tests.fake_llm import FakeLlm
from tests.usecases.conftest import Configured
from tests.usecases.crowd import SeededEmbedder
from tests.usecases.reflecting import with_model
from tests.usecases.turn_facts import facts, say, work

SAID = "I'm allergic to nuts and my sister Ana is vegan."
STORED = ["The user is allergic to nuts.", "The user's sister Ana is vegan."]


@pytest.fixture
def embedder() -> Embedder:
    """Random vectors: no two different texts are near."""
    return SeededEmbedder()


async def reports(app: Application, scope: Principal) -> list[Mapping[str, Any]]:
    """Return what the jobs say of capture, oldest first."""
    jobs = (await app.jobs.manage.list_jobs(scope, None, None, None, 50)).items
    found = [(await app.jobs.manage.get_job(scope, job.id)).report or {} for job in reversed(jobs)]
    return [report["capture"] for report in found if "capture" in report]


async def test_plain_statements_become_memories_with_evidence_and_history(
    app: Application, scope: Principal, sql: asyncpg.Connection
) -> None:
    turn = await say(app, scope, f"Thanks! {SAID}")
    await work(app, scope)
    assert await facts(sql) == STORED
    rows = await sql.fetch("SELECT * FROM memories WHERE type = 'semantic' ORDER BY id")
    assert [row["category"] for row in rows] == ["constraints", "relationships"]
    assert [row["source"] for row in rows] == [
        {"turn_id": str(turn), "quote": "I'm allergic to nuts"},
        {"turn_id": str(turn), "quote": "my sister Ana is vegan."},
    ]
    assert [row["thread_id"] for row in rows] == ["talk", "talk"]
    events = await sql.fetch("SELECT event FROM history WHERE memory_id = ANY ($1)", [str(row["id"]) for row in rows])
    assert [row["event"] for row in events] == ["ADD", "ADD"]
    assert await sql.fetchval("SELECT count(*) FROM change_log WHERE thread_id = 'talk' AND event = 'created'") == 3
    assert await reports(app, scope) == [{"facts": 2}]


async def test_a_job_that_runs_again_stores_nothing_again(
    app: Application, scope: Principal, sql: asyncpg.Connection
) -> None:
    await say(app, scope, SAID)
    await work(app, scope)
    [job] = (await app.jobs.manage.list_jobs(scope, None, None, None, 10)).items
    await sql.execute("UPDATE jobs SET state = 'dead'")
    await app.jobs.manage.replay_job(scope, job.id)
    await work(app, scope)
    assert await reports(app, scope) == [{"why": "done"}]
    await sql.execute("DELETE FROM idempotency_keys WHERE key NOT LIKE '%:0'")  # the worker ended after the first fact
    await sql.execute("UPDATE jobs SET state = 'dead'")
    await app.jobs.manage.replay_job(scope, job.id)
    await work(app, scope)
    assert await facts(sql) == STORED
    assert "facts" in (await reports(app, scope))[0]


async def test_the_same_said_twice_is_one_memory(app: Application, scope: Principal, sql: asyncpg.Connection) -> None:
    await say(app, scope, SAID)
    await say(app, scope, "By the way, I'm allergic to nuts.")
    await work(app, scope)
    assert await facts(sql) == STORED


async def test_a_favorite_has_one_memory_and_goes_with_it(
    app: Application, scope: Principal, sql: asyncpg.Connection
) -> None:
    await say(app, scope, "My favorite color is teal.")
    await work(app, scope)
    told = "SELECT text FROM memories WHERE type <> 'turn' AND state = 'active'"
    assert [row["text"] for row in await sql.fetch(told)] == ["The user's favorite color is teal."]
    await say(app, scope, "I don't like teal anymore.")
    await work(app, scope)
    assert not [row["text"] for row in await sql.fetch(told) if " is teal" in row["text"]]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"role": "assistant"}, "not_a_users"),
        ({"role": "system"}, "not_a_users"),
        ({"actor_id": "ben"}, "not_a_users"),
        ({"text": "Am I allergic to nuts?"}, "nothing"),
        ({"text": "- +created: [Personal] I am allergic to nuts (imp=2)"}, "nothing"),
        ({"text": "[tasks] I am allergic to nuts."}, "nothing"),
        ({"agent_id": "stylist"}, "no_category"),
    ],
)
async def test_what_is_no_source_leaves_nothing(
    app: Application, scope: Principal, sql: asyncpg.Connection, fields: dict[str, Any], why: str
) -> None:
    await say(app, scope, **{"text": SAID} | fields)
    await work(app, scope)
    assert await facts(sql) == []
    assert await reports(app, scope) == [{"why": why}]


async def test_an_agents_turn_leaves_only_what_that_agent_may_see(
    app: Application, scope: Principal, sql: asyncpg.Connection
) -> None:
    await say(app, scope, SAID, agent_id="executor")
    await work(app, scope)
    assert await facts(sql) == STORED[:1]


@pytest.mark.long
async def test_the_days_limit_holds_and_the_next_day_has_room(
    configured: Configured, clock: Clock, sql: asyncpg.Connection
) -> None:
    app = await configured(capture={"per_user_day": 1})
    scope = (await make_caller(app)).scope
    await say(app, scope, SAID)
    await say(app, scope, "I hate coriander.")
    await work(app, scope)
    assert await facts(sql) == STORED[:1]
    assert {"why": "cap", "facts": 0, "deferred": 1} in await reports(app, scope)
    assert await sql.fetchval("SELECT count(*) FROM events WHERE op = 'capture' AND status = 'skipped'") == 2
    clock.move(days=1)
    await say(app, scope, "I love basil.")
    await work(app, scope)
    assert await facts(sql) == [STORED[0], "The user loves basil."]


async def test_a_table_without_rules_captures_nothing(configured: Configured, sql: asyncpg.Connection) -> None:
    app = await configured(capture={"rules": []})
    scope = (await make_caller(app)).scope
    await say(app, scope, SAID)
    await work(app, scope)
    assert await facts(sql) == []


async def test_a_sensitive_field_waits_for_the_user(
    app: Application, scope: Principal, sql: asyncpg.Connection
) -> None:
    turn = await say(app, scope, "My name is Yusuf and I live in Porto.")
    await work(app, scope)
    assert await facts(sql) == []
    patches = (await app.consent.list_patches(scope, "maya", None, None, 10)).items
    assert {(patch.field, patch.value, str(patch.state)) for patch in patches} == {
        ("preferred_name", "Yusuf", "pending"),
        ("city", "Porto", "pending"),
    }
    assert {signal.root for patch in patches for signal in patch.signals} == {str(turn)}
    assert await reports(app, scope) == [{"facts": 0, "proposed": 2, "why": "nothing"}]


@pytest.mark.long
async def test_an_erased_text_does_not_come_back(app: Application, scope: Principal, sql: asyncpg.Connection) -> None:
    await app.memory.write.write_memory(scope, draft(STORED[0], category="constraints"))
    await app.retention.erase.erase_user(scope, "maya")
    await say(app, scope, "By the way: nothing.")  # the user is back
    await say(app, scope, SAID)
    await work(app, scope)
    assert await facts(sql) == STORED[1:]


@pytest.fixture
async def reading(settings: Settings, embedder: Embedder, clock: Clock, llm: FakeLlm) -> AsyncIterator[Application]:
    """An application with the scripted chat model."""
    async with build_application(with_model(settings, llm), Doubles(embedder=embedder, clock=clock)) as app:
        yield app


async def read_with(app: Application, llm: FakeLlm, answer: Any, text: str = SAID) -> Mapping[str, Any]:
    """Store a turn that the model reads with this answer. Return the report of the extraction."""
    scope: Principal = (await make_caller(app)).scope
    llm.scripts.append(lambda _: answer)
    await say(app, scope, text)
    return await work(app, scope)


@pytest.mark.long
@pytest.mark.parametrize("answer", [{"facts": []}, {"facts": [{"text": "The user is nice."}]}])
async def test_a_silent_or_weak_model_leaves_what_the_rules_have_captured(
    reading: Application, llm: FakeLlm, sql: asyncpg.Connection, answer: Any
) -> None:
    report = await read_with(reading, llm, answer)
    assert await facts(sql) == STORED
    assert (report["facts"], report["candidates"]) == (0, 0)


@pytest.mark.long
async def test_a_model_that_answers_nothing_valid_leaves_what_the_rules_have_captured(
    reading: Application, llm: FakeLlm, sql: asyncpg.Connection
) -> None:
    scope: Principal = (await make_caller(reading)).scope
    llm.always = lambda _: "I would rather talk about the weather."
    await say(reading, scope, SAID)
    await work(reading, scope, "retry")
    assert await facts(sql) == STORED
    assert await reports(reading, scope) == [{"facts": 2}]


async def test_a_model_adds_what_the_rules_have_not_captured_and_repeats_nothing(
    reading: Application, llm: FakeLlm, sql: asyncpg.Connection
) -> None:
    found = [
        {"text": "The user has a nut allergy.", "category": "profile", "importance": 3, "quote": "allergic to nuts"},
        {"text": STORED[1], "category": "relationships", "importance": 3, "quote": "my sister Ana is vegan"},
        {
            "text": "The user cooks for Ana on Sundays.",
            "category": "relationships",
            "importance": 3,
            "quote": "Sundays are when I cook",
        },
    ]
    text = f"{SAID} She visits often, and Sundays are when I cook for her."
    report = await read_with(reading, llm, {"facts": found}, text)
    assert await facts(sql) == [*STORED, "The user cooks for Ana on Sundays."]
    assert (report["facts"], report["candidates"], report["known"]) == (1, 3, 2)


async def test_a_turn_that_the_model_does_not_read_is_captured(
    settings: Settings, embedder: Embedder, clock: Clock, llm: FakeLlm, configured: Configured, sql: asyncpg.Connection
) -> None:
    edited = await configured(policies={"multi_fact": {"per_user_day": 0}}, llm=llm)
    scope = (await make_caller(edited)).scope
    await say(edited, scope, SAID)
    await work(edited, scope)
    assert await facts(sql) == STORED
    assert not [one for one in llm.asked if one.version.startswith("multi_fact")]


async def test_other_callers_know_nothing_of_it(app: Application, caller: Caller, scope: Principal) -> None:
    await say(app, scope, SAID)
    await work(app, scope)
    other = await make_caller(app)
    assert (await app.jobs.manage.list_jobs(other.scope, None, None, None, 10)).items == []
