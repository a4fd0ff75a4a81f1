"""Relations between semantic memories, from the newer to the older one (`docs/contract.md`, Memory)."""

import asyncio
from datetime import timedelta
from itertools import combinations
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.filters import Filters
from app.domain.memory.memory import MemoryType
from app.usecases.recall.request import Query
from bench.realistic_users import load_user
from tests.factories import Caller, Clock, draft, make_caller
from tests.usecases.conftest import Configured
from tests.usecases.stored import edges, history_of

CHESS = "Maya plays chess on Sundays."
GOAL = "Maya wants to win a chess tournament."
RAIN = "The parcel from Ghent arrived broken."


async def test_a_new_memory_points_to_its_older_neighbours_in_every_category(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    goal = await app.memory.write.write_memory(caller.scope, draft(GOAL, category="goals"))
    await app.memory.write.write_memory(caller.scope, draft(RAIN, category="goals"))
    chess = await app.memory.write.write_memory(caller.scope, draft(CHESS))
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
    chess = await app.memory.write.write_memory(caller.scope, draft(CHESS))
    old = draft(GOAL, category="goals", created_at=clock.now() - timedelta(days=300))
    goal = await app.memory.write.write_memory(caller.scope, old)
    assert goal.related == 1
    assert await edges(sql) == {(chess.id, goal.id)}
    assert (await history_of(sql, goal.id))[-1]["meta"]["edges"][0]["id"] == str(chess.id)


async def test_writing_again_doubles_no_relation_in_either_direction(
    app: Application, caller: Caller, sql: asyncpg.Connection, clock: Clock
) -> None:
    moment = clock.now() - timedelta(days=1)
    goal = await app.memory.write.write_memory(caller.scope, draft(GOAL, category="goals", created_at=moment))
    chess = await app.memory.write.write_memory(caller.scope, draft("Maya plays chess.", created_at=moment))
    fuller = await app.memory.write.write_memory(caller.scope, draft("Maya plays chess, tennis and golf."))
    assert (chess.related, fuller.id, fuller.related) == (1, chess.id, 1)
    await app.memory.edit.patch_memory(
        caller.scope, goal.id, {"text": "Maya wants to win the chess tournament."}, version=None
    )
    assert await edges(sql) == {(chess.id, goal.id)}


async def test_a_changed_text_is_linked_to_its_new_neighbours(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    goal = await app.memory.write.write_memory(caller.scope, draft(GOAL, category="goals"))
    other = await app.memory.write.write_memory(caller.scope, draft(RAIN))
    assert await edges(sql) == set()
    await app.memory.edit.patch_memory(caller.scope, other.id, {"text": CHESS}, version=None)
    assert await edges(sql) == {(other.id, goal.id)}
    assert [row["event"] for row in await history_of(sql, other.id)] == ["ADD", "UPDATE", "LINK"]


@pytest.mark.long
async def test_memories_that_share_only_the_users_name_are_not_related(app: Application, caller: Caller) -> None:
    stored = [m for m in load_user("development").memories.values() if m.type is MemoryType.semantic][:90]
    for memory in stored:
        await app.memory.write.write_memory(caller.scope, draft(memory.text, category=memory.category))
    contract = await app.memory.write.write_memory(caller.scope, draft("Nora must sign the contract by 19 December."))
    assert contract.similarity is not None
    assert contract.similarity > 0.5
    assert contract.related == 0
    lessons = await app.memory.write.write_memory(
        caller.scope, draft("Nora's German lessons moved to Wednesday evenings.")
    )
    assert lessons.related >= 1


async def strengths(sql: asyncpg.Connection) -> dict[frozenset[UUID], float]:
    """Return the strength of every relation by its two memories, in any direction."""
    rows = await sql.fetch("SELECT from_id, to_id, strength FROM relations")
    return {frozenset((UUID(row["from_id"]), UUID(row["to_id"]))): row["strength"] for row in rows}


async def test_a_text_about_something_else_leaves_no_relation_of_the_old_one(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    goal = await app.memory.write.write_memory(caller.scope, draft(GOAL, category="goals"))
    chess = await app.memory.write.write_memory(caller.scope, draft(CHESS))
    club = await app.memory.write.write_memory(caller.scope, draft("Maya is in a chess club.", category="goals"))
    assert {(chess.id, goal.id), (club.id, chess.id), (club.id, goal.id)} == await edges(sql)
    await app.memory.edit.patch_memory(caller.scope, chess.id, {"text": RAIN}, version=None)
    assert await edges(sql) == {(club.id, goal.id)}
    assert [row["event"] for row in await history_of(sql, chess.id)] == ["ADD", "LINK", "UPDATE"]
    parcel = Query(agent="supervisor", query=RAIN, filters=Filters(category="preferences"), top_k=1)
    answer = await app.recall.query.answer_query(caller.scope, parcel)
    assert ([item.memory.id for item in answer.items], answer.related) == ([chess.id], [])


async def test_a_relation_that_stays_gets_the_strength_of_the_new_text(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    goal = await app.memory.write.write_memory(caller.scope, draft(GOAL, category="goals"))
    chess = await app.memory.write.write_memory(caller.scope, draft(CHESS))
    pair, text = frozenset((goal.id, chess.id)), "Maya plays chess and wants to win a tournament."
    before = await strengths(sql)
    await app.memory.edit.patch_memory(caller.scope, chess.id, {"text": text}, version=None)
    expected = [c.neighbour.similarity for c in await _compared(app, caller, text) if c.neighbour.id == goal.id]
    after = await strengths(sql)
    assert after == {pair: pytest.approx(expected[0], abs=1e-3)}
    assert after[pair] > before[pair] + 0.05
    linked = (await history_of(sql, chess.id))[-1]
    assert [edge["strength"] for edge in linked["meta"]["edges"]] == [pytest.approx(after[pair], abs=1e-5)]
    await app.memory.edit.patch_memory(
        caller.scope, goal.id, {"text": "Maya wants to win at chess."}, version=None
    )  # the other end of the relation
    assert list(await strengths(sql)) == [pair]
    assert (await strengths(sql))[pair] != after[pair]


async def test_a_merge_with_a_new_text_renews_relations_too(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    goal = await app.memory.write.write_memory(caller.scope, draft(GOAL, category="goals"))
    chess = await app.memory.write.write_memory(caller.scope, draft("Maya plays chess.", category="goals"))
    far = await app.memory.write.write_memory(caller.scope, draft(RAIN))
    await sql.execute("UPDATE relations SET strength = 0.99")
    stale = (
        "INSERT INTO relations (tenant_id, id, from_id, to_id, strength) VALUES ($1, gen_random_uuid(), $2, $3, 0.9)"
    )
    await sql.execute(stale, caller.scope.tenant_id, str(far.id), str(chess.id))
    fuller = await app.memory.write.write_memory(
        caller.scope, draft("Maya plays chess, tennis and golf.", category="goals")
    )
    assert (fuller.action, fuller.id, fuller.related) == ("updated", chess.id, 1)
    [(pair, strength)] = (await strengths(sql)).items()
    assert pair == frozenset((goal.id, chess.id))
    assert strength < 0.9


@pytest.mark.parametrize("again", [{"importance": 5}, {"category": "tasks"}, {"pinned": True}])
async def test_without_a_new_text_relations_stay_as_they_are(
    app: Application, caller: Caller, sql: asyncpg.Connection, again: dict[str, Any]
) -> None:
    goal = await app.memory.write.write_memory(caller.scope, draft(GOAL, category="goals"))
    await app.memory.write.write_memory(caller.scope, draft(CHESS))
    before = await sql.fetch("SELECT xmin::text, * FROM relations")
    await app.memory.edit.patch_memory(caller.scope, goal.id, again, version=None)
    await app.memory.write.write_memory(caller.scope, draft(CHESS, importance=4))
    assert await sql.fetch("SELECT xmin::text, * FROM relations") == before


@pytest.mark.long
async def test_many_new_texts_of_related_memories_at_once(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    texts = [f"Maya plays chess with {name} on Sundays." for name in ("Ana", "Ben", "Cleo", "Dan", "Eve")]
    ids = [(await app.memory.write.write_memory(caller.scope, draft(text))).id for text in texts]
    for day in ("Mondays", "Fridays"):
        patches = [
            app.memory.edit.patch_memory(caller.scope, id_, {"text": text.replace("Sundays", day)}, version=None)
            for id_, text in zip(ids, texts, strict=True)
        ]
        await asyncio.gather(*patches)
    assert {frozenset(pair) for pair in await edges(sql)} <= {frozenset(two) for two in combinations(ids, 2)}
    assert len(await edges(sql)) >= len(ids)
    assert await sql.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == 0


async def test_at_most_the_configured_number_of_the_strongest_is_linked(
    configured: Configured, sql: asyncpg.Connection
) -> None:
    app = await configured(bands={"link_top_k": 2})
    caller = await make_caller(app)
    texts = ("Maya likes wine.", "Maya likes red wine.", "Maya likes white wine.", "Maya buys wine at the market.")
    *known, last = [await app.memory.write.write_memory(caller.scope, draft(text)) for text in texts]
    assert last.related == 2
    strengths = await sql.fetch("SELECT strength FROM relations WHERE from_id = $1", str(last.id))
    others = [c.neighbour.similarity for c in await _compared(app, caller, texts[-1]) if c.neighbour.id != last.id]
    assert sorted(row["strength"] for row in strengths) == pytest.approx(sorted(others)[-2:], abs=1e-3)
    assert len(known) == 3


async def test_nothing_below_the_least_strength_is_linked(configured: Configured, sql: asyncpg.Connection) -> None:
    app = await configured(bands={"link_min": 0.9})
    caller = await make_caller(app)
    for text in (GOAL, CHESS):
        assert (await app.memory.write.write_memory(caller.scope, draft(text))).related == 0
    assert await edges(sql) == set()


async def test_only_active_semantic_memories_of_the_same_user_are_linked(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    gone = await app.memory.write.write_memory(caller.scope, draft(CHESS))
    await app.memory.edit.soft_delete_memory(caller.scope, gone.id)
    await app.memory.write.write_memory(caller.scope, draft(CHESS, user_id="ben"))
    await app.memory.write.write_memory((await make_caller(app)).scope, draft(CHESS))
    for kind in (MemoryType.turn, MemoryType.episodic, MemoryType.summary):
        await app.memory.write.write_memory(caller.scope, draft(CHESS, type=kind))
    assert (await app.memory.write.write_memory(caller.scope, draft(GOAL))).related == 0
    assert await edges(sql) == set()


async def test_a_bound_key_links_only_within_its_agents_categories(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    tasks = await app.memory.write.write_memory(
        caller.scope, draft("Maya registers for the chess tournament.", category="tasks")
    )
    likes = await app.memory.write.write_memory(caller.scope, draft(CHESS, category="preferences"))
    before = await edges(sql)
    planner = await make_caller(app, ("write",), ["planner"], tenant=caller)
    goal = await app.memory.write.write_memory(planner.scope, draft(GOAL, category="goals"))
    assert goal.related == 1
    assert await edges(sql) - before == {(goal.id, tasks.id)}
    free = await app.memory.write.write_memory(
        caller.scope, draft("Maya plays in a chess tournament on Sundays.", category="goals")
    )
    assert {(free.id, tasks.id), (free.id, likes.id), (free.id, goal.id)} <= await edges(sql)


async def test_relations_are_read_in_both_directions_under_the_same_filters(app: Application, caller: Caller) -> None:
    goal = await app.memory.write.write_memory(caller.scope, draft(GOAL, category="goals", actor_id="maya"))
    chess = await app.memory.write.write_memory(caller.scope, draft(CHESS, category="tasks", actor_id="ben"))
    for wanted, other in ((goal, chess), (chess, goal)):
        memory = await app.memory.read.get_memory(caller.scope, wanted.id)
        query = Query(agent="supervisor", query=memory.text, filters=Filters(user_id="maya"), top_k=1)
        answer = await app.recall.query.answer_query(caller.scope, query)
        assert [item.memory.id for item in answer.items] == [wanted.id]
        assert [item.memory.id for item in answer.related] == [other.id]
        narrowed = Query(agent="supervisor", query=memory.text, filters=Filters(actor_id=memory.actor_id), top_k=1)
        assert (await app.recall.query.answer_query(caller.scope, narrowed)).related == []


@pytest.mark.parametrize("agents", [None, ["planner"]])
async def test_texts_that_are_compared_together_have_the_neighbours_that_each_has_alone(
    app: Application, caller: Caller, agents: list[str] | None
) -> None:
    stored = [m for m in load_user("development").memories.values() if m.type is MemoryType.semantic][:40]
    for memory in stored:
        await app.memory.write.write_memory(caller.scope, draft(memory.text, category=memory.category))
    asks = [stored[0].text, "Nora must sign the contract by 19 December.", CHESS, stored[7].text, RAIN]
    categories = [stored[0].category, "tasks", "tasks", "tasks", "goals"]
    vectors = await app.parts.embedder.embed_texts(asks)
    reader = (await make_caller(app, ("write",), agents, tenant=caller)).scope if agents else caller.scope
    storage, bands = app.memory.write._memories, app.parts.policies.defaults.bands
    texts = list(zip(categories, asks, vectors, strict=True))
    together = await storage.find_all_neighbours(reader, "maya", texts, bands)
    alone = [await storage.find_neighbours(reader, "maya", *text, bands) for text in texts]
    assert together == alone
    if not agents:
        assert any(c.link for found in alone for c in found)
        assert [c.neighbour.equal for c in alone[0]].count(True) == 1
    assert await storage.find_all_neighbours(reader, "nobody", texts, bands) == [[]] * len(texts)


async def _compared(app: Application, caller: Caller, text: str) -> list:
    [vector] = await app.parts.embedder.embed_texts([text])
    storage = app.memory.write._memories
    return await storage.find_neighbours(
        caller.scope, "maya", "preferences", text, vector, app.parts.policies.defaults.bands
    )
