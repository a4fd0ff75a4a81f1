"""Commands of a user are obeyed without a chat model: ends, corrections, and requests to forget."""

from typing import Any

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.filters import Filters
from app.domain.memory.memory import MemoryState
from app.domain.principal import Principal
from app.usecases.recall.request import Query
from tests.factories import draft, make_caller
from tests.usecases.conftest import Configured
from tests.usecases.turn_facts import say, work

pytestmark = pytest.mark.usefixtures("own")
DOG = "The user has a dog named Max."


async def states(sql: asyncpg.Connection) -> dict[str, str]:
    """Return the state of each memory by its text."""
    return {row["text"]: row["state"] for row in await sql.fetch("SELECT text, state FROM memories")}


async def told(app: Application, scope: Principal, *turns: str, **fields: Any) -> None:
    """Store turns one after the other, each with the work that follows it."""
    for turn in turns:
        await say(app, scope, turn, **fields)
        await work(app, scope)


async def test_an_end_closes_the_span_of_memory_and_turn(
    app: Application, scope: Principal, sql: asyncpg.Connection
) -> None:
    await told(app, scope, "I have a dog named Max.", "I no longer have a dog.")
    found = await states(sql)
    assert found["I have a dog named Max."] == found[DOG] == "superseded"
    assert found["I no longer have a dog."] == "active"
    rows = await sql.fetch("SELECT superseded_by, valid_to, created_at FROM memories WHERE state = 'superseded'")
    assert all(row["valid_to"] > row["created_at"] for row in rows)


async def test_a_turn_that_was_wrong_is_retracted_with_what_it_left(
    app: Application, scope: Principal, sql: asyncpg.Connection
) -> None:
    await told(app, scope, "I'm allergic to nuts.", "I have a dog named Max.", "Scratch that.")
    found = await states(sql)
    assert found["I have a dog named Max."] == found[DOG] == "retracted"
    assert found["I'm allergic to nuts."] == found["The user is allergic to nuts."] == "active"


@pytest.mark.parametrize("request_", ["Forget that I have a dog.", "Can you forget what I told you about my dog?"])
async def test_what_is_to_be_forgotten_is_soft_deleted_and_can_be_restored(
    app: Application, scope: Principal, sql: asyncpg.Connection, request_: str
) -> None:
    await told(app, scope, "I have a dog named Max.", "I'm allergic to nuts.", request_)
    found = await states(sql)
    assert found["I have a dog named Max."] == found[DOG] == "soft_deleted"
    assert found["The user is allergic to nuts."] == "active"
    memory_id = await sql.fetchval("SELECT id FROM memories WHERE text = $1", DOG)
    restored = await app.memory.edit.restore_memory(scope, memory_id)
    assert restored.state is MemoryState.active


async def test_no_stale_answer_after_a_move(app: Application, scope: Principal, sql: asyncpg.Connection) -> None:
    await told(app, scope, "I live in Oslo.", "Actually, I live in Bergen now.")
    asked = Query("supervisor", "Where do I live?", ("activity",), Filters(user_id="maya"), min_relevance=0.0)
    answer = await app.recall.query.answer_query(scope, asked)
    assert [item.memory.text for item in answer.items] == ["Actually, I live in Bergen now."]
    row = await sql.fetchrow("SELECT id, superseded_by FROM memories WHERE text = 'I live in Oslo.'")
    assert row["superseded_by"] == answer.items[0].memory.id


@pytest.mark.parametrize(
    "trap",
    [
        "I no longer remember where I put the leash.",
        "Don't forget that I have a dog.",
        "Forget it, let us talk of something else.",
        "My sister no longer has a dog.",
        "He said that was wrong.",
        "What if I no longer have a dog?",
        'She wrote: "I no longer have a dog."',
        "I no longer have a cat.",
    ],
)
async def test_a_look_alike_changes_nothing(
    app: Application, scope: Principal, sql: asyncpg.Connection, trap: str
) -> None:
    await told(app, scope, "I have a dog named Max.", trap)
    assert set((await states(sql)).values()) == {"active"}


async def test_only_the_users_own_turn_is_obeyed(app: Application, scope: Principal, sql: asyncpg.Connection) -> None:
    await told(app, scope, "I have a dog named Max.")
    await told(app, scope, "I no longer have a dog.", role="assistant")
    await told(app, scope, "I no longer have a dog. Scratch that.", actor_id="somebody else")
    await told(app, scope, "I no longer have a dog.", user_id="tom")
    assert (await states(sql))[DOG] == "active"


async def test_a_retraction_of_what_was_never_said_is_no_error(
    app: Application, scope: Principal, sql: asyncpg.Connection
) -> None:
    await told(app, scope, "Scratch that.", "Forget that I have a dog.", "I no longer smoke.")
    assert set((await states(sql)).values()) == {"active"}


async def test_a_command_in_another_thread_takes_back_nothing(
    app: Application, scope: Principal, sql: asyncpg.Connection
) -> None:
    await told(app, scope, "I have a dog named Max.")
    await told(app, scope, "Scratch that.", thread_id="another")
    assert (await states(sql))[DOG] == "active"


@pytest.mark.parametrize(("said", "state"), [("That's wrong.", "active"), ("That was wrong.", "retracted")])
async def test_what_may_be_about_an_answer_takes_back_nothing(
    app: Application, scope: Principal, sql: asyncpg.Connection, said: str, state: str
) -> None:
    await told(app, scope, "I have a dog named Max.")
    await told(app, scope, "Cats live longer than dogs.", role="assistant")
    await told(app, scope, said)
    assert (await states(sql))[DOG] == state


async def test_a_pinned_memory_stays(app: Application, scope: Principal, sql: asyncpg.Connection) -> None:
    await app.memory.write.write_memory(scope, draft(DOG, pinned=True))
    await told(app, scope, "I no longer have a dog.")
    assert (await states(sql))[DOG] == "active"


async def test_a_tenant_may_turn_it_off(configured: Configured, sql: asyncpg.Connection) -> None:
    app = await configured(policies={"write": {"supersede": False}})
    owner = await make_caller(app)
    await told(app, owner.scope, "I have a dog named Max.", "Scratch that.")
    assert (await states(sql))[DOG] == "active"


async def test_requests_to_remember_are_stored(app: Application, scope: Principal, sql: asyncpg.Connection) -> None:
    await told(
        app,
        scope,
        "Remember that my bin day is Thursday.",
        "Note to self: buy oat milk on Monday.",
        "Save this: my VAT number is GB 771 203.",
    )
    notes = await sql.fetch("SELECT text FROM memories WHERE type = 'semantic' ORDER BY id")
    kept = ["my bin day is Thursday", "buy oat milk on Monday", "my VAT number is GB 771 203"]
    assert [row["text"] for row in notes] == [f'The user\'s note: "{words}".' for words in kept]


async def test_a_turn_is_obeyed_once(app: Application, scope: Principal, sql: asyncpg.Connection) -> None:
    await told(app, scope, "I have a dog named Max.", "I no longer have a dog.")
    memory_id = await sql.fetchval("SELECT id FROM memories WHERE text = $1", DOG)
    await app.memory.edit.restore_memory(scope, memory_id)
    [job, *_] = (await app.jobs.manage.list_jobs(scope, None, None, None, 10)).items
    await sql.execute("UPDATE jobs SET state = 'dead'")
    await app.jobs.manage.replay_job(scope, job.id)
    await work(app, scope)
    assert (await states(sql))[DOG] == "active"


async def test_a_replay_tells_what_was_taken_back(app: Application, scope: Principal) -> None:
    await told(app, scope, "I have a dog named Max.", "Scratch that.")
    page = await app.recall.threads.list_turns(scope, "talk", "maya", None, 10)
    assert [turn.text for turn in page.items] == ["I have a dog named Max.", "Scratch that."]
