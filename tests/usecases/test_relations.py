"""Relations between semantic memories, from the newer to the older (seed 003 §2)."""

from datetime import timedelta

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.filters import Filters
from app.domain.memory import MemoryType
from app.usecases.memories.query import Query
from tests.factories import Caller, Clock, draft, make_caller
from tests.usecases.conftest import Configured
from tests.usecases.stored import edges, history_of

CHESS = "Maya plays chess on Sundays."
GOAL = "Maya wants to win a chess tournament."
RAIN = "The parcel from Ghent arrived broken."


async def test_a_new_memory_points_to_its_older_neighbours_in_every_category(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    goal = await app.write.remember(caller.scope, draft(GOAL, category="goals"))
    await app.write.remember(caller.scope, draft(RAIN, category="goals"))
    chess = await app.write.remember(caller.scope, draft(CHESS))
    assert (goal.related, chess.related) == (0, 1)
    assert await edges(sql) == {(chess.id, goal.id)}
    relation = await sql.fetchrow("SELECT relation_type, strength FROM relations")
    assert relation["relation_type"] == "related_to"
    assert relation["strength"] == pytest.approx(0.68, abs=0.03)
    linked = (await history_of(sql, chess.id))[-1]
    assert linked["event"] == "LINK"
    [edge] = linked["meta"]["edges"]
    assert (edge["id"], edge["category"]) == (str(goal.id), "goals")


async def test_an_imported_older_memory_is_pointed_at(
    app: Application, caller: Caller, sql: asyncpg.Connection, clock: Clock
) -> None:
    chess = await app.write.remember(caller.scope, draft(CHESS))
    old = draft(GOAL, category="goals", created_at=clock.now() - timedelta(days=300))
    goal = await app.write.remember(caller.scope, old)
    assert goal.related == 1
    assert await edges(sql) == {(chess.id, goal.id)}
    assert (await history_of(sql, goal.id))[-1]["meta"]["edges"][0]["id"] == str(chess.id)


async def test_writing_again_doubles_no_relation_in_either_direction(
    app: Application, caller: Caller, sql: asyncpg.Connection, clock: Clock
) -> None:
    moment = clock.now() - timedelta(days=1)
    goal = await app.write.remember(caller.scope, draft(GOAL, category="goals", created_at=moment))
    chess = await app.write.remember(caller.scope, draft("Maya plays chess.", created_at=moment))
    fuller = await app.write.remember(caller.scope, draft("Maya plays chess and tennis."))
    assert (chess.related, fuller.id, fuller.related) == (1, chess.id, 0)
    await app.edit.patch(caller.scope, goal.id, {"text": "Maya wants to win the chess tournament."}, version=None)
    assert await edges(sql) == {(chess.id, goal.id)}


async def test_a_changed_text_is_linked_to_its_new_neighbours(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    goal = await app.write.remember(caller.scope, draft(GOAL, category="goals"))
    other = await app.write.remember(caller.scope, draft(RAIN))
    assert await edges(sql) == set()
    await app.edit.patch(caller.scope, other.id, {"text": CHESS}, version=None)
    assert await edges(sql) == {(other.id, goal.id)}
    assert [row["event"] for row in await history_of(sql, other.id)] == ["ADD", "UPDATE", "LINK"]


async def test_at_most_the_configured_number_of_the_strongest_is_linked(
    configured: Configured, sql: asyncpg.Connection
) -> None:
    app = await configured(bands={"link_top_k": 2})
    caller = await make_caller(app)
    texts = ("Maya likes wine.", "Maya likes red wine.", "Maya likes white wine.", "Maya buys wine at the market.")
    *known, last = [await app.write.remember(caller.scope, draft(text)) for text in texts]
    assert last.related == 2
    strengths = await sql.fetch("SELECT strength FROM relations WHERE from_id = $1", str(last.id))
    others = [c.neighbour.similarity for c in await _compared(app, caller, texts[-1]) if c.neighbour.id != last.id]
    assert sorted(row["strength"] for row in strengths) == pytest.approx(sorted(others)[-2:], abs=1e-3)
    assert len(known) == 3


async def test_nothing_below_the_least_strength_is_linked(configured: Configured, sql: asyncpg.Connection) -> None:
    app = await configured(bands={"link_min": 0.9})
    caller = await make_caller(app)
    for text in (GOAL, CHESS):
        assert (await app.write.remember(caller.scope, draft(text))).related == 0
    assert await edges(sql) == set()


async def test_only_active_semantic_memories_of_the_same_user_are_linked(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    gone = await app.write.remember(caller.scope, draft(CHESS))
    await app.edit.soft_delete(caller.scope, gone.id)
    await app.write.remember(caller.scope, draft(CHESS, user_id="ben"))
    await app.write.remember((await make_caller(app)).scope, draft(CHESS))
    for kind in (MemoryType.turn, MemoryType.episodic, MemoryType.summary):
        await app.write.remember(caller.scope, draft(CHESS, type=kind))
    assert (await app.write.remember(caller.scope, draft(GOAL))).related == 0
    assert await edges(sql) == set()


async def test_a_bound_key_links_only_within_its_agents_categories(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    tasks = await app.write.remember(caller.scope, draft("Maya registers for the chess tournament.", category="tasks"))
    likes = await app.write.remember(caller.scope, draft(CHESS, category="preferences"))
    before = await edges(sql)
    planner = await make_caller(app, ("write",), ["planner"], tenant=caller)
    goal = await app.write.remember(planner.scope, draft(GOAL, category="goals"))
    assert goal.related == 1
    assert await edges(sql) - before == {(goal.id, tasks.id)}
    free = await app.write.remember(caller.scope, draft("Maya trains for a chess tournament.", category="goals"))
    assert {(free.id, tasks.id), (free.id, likes.id), (free.id, goal.id)} <= await edges(sql)


async def test_relations_are_read_in_both_directions_under_the_same_filters(app: Application, caller: Caller) -> None:
    goal = await app.write.remember(caller.scope, draft(GOAL, category="goals", actor_id="maya"))
    chess = await app.write.remember(caller.scope, draft(CHESS, category="tasks", actor_id="ben"))
    for wanted, other in ((goal, chess), (chess, goal)):
        memory = await app.read.get(caller.scope, wanted.id)
        query = Query(agent="supervisor", query=memory.text, filters=Filters(user_id="maya"), top_k=1)
        answer = await app.query.ask(caller.scope, query)
        assert [item.memory.id for item in answer.items] == [wanted.id]
        assert [item.memory.id for item in answer.related] == [other.id]
        narrowed = Query(agent="supervisor", query=memory.text, filters=Filters(actor_id=memory.actor_id), top_k=1)
        assert (await app.query.ask(caller.scope, narrowed)).related == []


async def _compared(app: Application, caller: Caller, text: str) -> list:
    [vector] = await app.embedder.embed([text])
    storage = app.write._memories
    return await storage.neighbours(caller.scope, "maya", "preferences", text, vector, app.policies.bands)
