"""Merge mode `recreate`: a new memory replaces the old one, which points to it."""

from datetime import timedelta
from itertools import pairwise

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.errors import DuplicateText
from app.domain.filters import Filters
from app.domain.memory.memory import MemoryState
from app.usecases.recall.request import Query
from tests.factories import Caller, Clock, draft, make_caller
from tests.usecases.conftest import Configured
from tests.usecases.stored import active_texts, edges, history_of

SHORT = "Maya plays chess."
FULL = "Maya plays chess, tennis and golf."


@pytest.fixture
async def recreating(configured: Configured) -> Application:
    """An application in merge mode `recreate`."""
    return await configured(policies={"write": {"merge_mode": "recreate"}})


@pytest.fixture
async def owner(recreating: Application) -> Caller:
    """A tenant with an admin key."""
    return await make_caller(recreating)


async def test_the_old_memory_is_superseded_and_points_to_the_new_one(
    recreating: Application, owner: Caller, clock: Clock, sql: asyncpg.Connection
) -> None:
    first = await recreating.memory.write.write_memory(owner.scope, draft(SHORT, importance=4, tags=("game",)))
    clock.move(days=2)
    second = await recreating.memory.write.write_memory(
        owner.scope, draft(FULL, importance=2, pinned=True, tags=("sport",))
    )
    assert (second.action, second.matched_id) == ("updated", first.id)
    assert second.id != first.id
    old = await recreating.memory.read.get_memory(owner.scope, first.id)
    new = await recreating.memory.read.get_memory(owner.scope, second.id)
    assert (old.state, old.superseded_by, old.text) == (MemoryState.superseded, new.id, SHORT)
    assert (new.state, new.text, new.superseded_by, new.version) == (MemoryState.active, FULL, None, 1)
    assert (new.importance, new.pinned, new.tags) == (4, True, ("game", "sport"))
    assert new.created_at == old.created_at
    assert new.updated_at - new.created_at >= timedelta(days=2)
    assert await active_texts(sql) == [FULL]


async def test_the_delta_tells_of_an_update_and_of_nothing_else(recreating: Application, owner: Caller) -> None:
    await recreating.memory.write.write_memory(owner.scope, draft(SHORT, thread_id="t1"))
    before = await recreating.recall.delta.read_delta(owner.scope, "t1", 0, "supervisor")
    assert before.header is not None
    assert before.header.text.text.splitlines()[1:] == [f"- +created: [Preferences] {SHORT} (imp=2)"]
    written = await recreating.memory.write.write_memory(owner.scope, draft(FULL, thread_id="t1"))
    after = await recreating.recall.delta.read_delta(owner.scope, "t1", before.rev, "supervisor")
    assert after.header is not None
    assert after.header.text.text.splitlines() == [
        f"Memory updates since rev {before.rev}:",
        f"- ↑updated: [Preferences] {FULL}",
    ]
    assert (after.rev, after.more, after.truncated) == (before.rev + 1, 0, False)
    assert written.revision == after.rev


async def test_the_thread_of_the_old_memory_is_told_as_well(recreating: Application, owner: Caller) -> None:
    await recreating.memory.write.write_memory(owner.scope, draft(SHORT, thread_id="t1"))
    written = await recreating.memory.write.write_memory(owner.scope, draft(FULL, thread_id="t2"))
    assert written.revision == 1
    for thread, since in (("t1", 1), ("t2", 0)):
        delta = await recreating.recall.delta.read_delta(owner.scope, thread, since, "supervisor")
        assert delta.header is not None
        assert delta.header.text.text.splitlines()[1:] == [f"- ↑updated: [Preferences] {FULL}"]


async def test_both_histories_name_each_other(recreating: Application, owner: Caller, sql: asyncpg.Connection) -> None:
    first = await recreating.memory.write.write_memory(owner.scope, draft(SHORT))
    second = await recreating.memory.write.write_memory(owner.scope, draft(FULL))
    added, superseded = await history_of(sql, first.id)
    assert (added["event"], superseded["event"]) == ("ADD", "UPDATE")
    assert (superseded["old_ref"], superseded["new_ref"]) == (None, str(second.id))
    assert superseded["meta"]["before"]["text"] == SHORT
    assert superseded["meta"]["after"]["state"] == "superseded"
    [recreated] = await history_of(sql, second.id)
    assert (recreated["event"], recreated["old_ref"], recreated["new_ref"]) == ("ADD", str(first.id), None)
    assert recreated["meta"]["incoming"] == FULL


async def test_a_text_that_does_not_change_stays_where_it_is(recreating: Application, owner: Caller) -> None:
    first = await recreating.memory.write.write_memory(owner.scope, draft(FULL))
    for text in (FULL, SHORT):
        again = await recreating.memory.write.write_memory(owner.scope, draft(text, tags=(text,)))
        assert (again.action, again.id) == ("updated", first.id)
    assert (await recreating.memory.read.get_memory(owner.scope, first.id)).version == 3


async def test_only_the_newest_of_a_chain_is_found(
    recreating: Application, owner: Caller, sql: asyncpg.Connection
) -> None:
    texts = [
        SHORT,
        FULL,
        "Maya plays golf, chess and tennis.",
        "maya plays golf, chess and tennis",
    ]
    written = [await recreating.memory.write.write_memory(owner.scope, draft(text)) for text in texts]
    assert len({w.id for w in written}) == 4
    query = Query(agent="stylist", query="chess", filters=Filters(user_id="maya"), top_k=50)
    answer = await recreating.recall.query.answer_query(owner.scope, query)
    assert [item.memory.id for item in answer.items] == [written[-1].id]
    assert answer.related == []
    pointers = await sql.fetch("SELECT id, superseded_by FROM memories WHERE state = 'superseded' ORDER BY id")
    assert [tuple(row) for row in pointers] == [(a.id, b.id) for a, b in pairwise(written)]


async def test_the_new_memory_gets_relations_but_none_to_the_one_it_replaces(
    recreating: Application, owner: Caller, sql: asyncpg.Connection
) -> None:
    goal = await recreating.memory.write.write_memory(
        owner.scope, draft("Maya wants to win a chess tournament.", category="goals")
    )
    first = await recreating.memory.write.write_memory(owner.scope, draft(SHORT))
    second = await recreating.memory.write.write_memory(owner.scope, draft(FULL))
    assert second.related == 1
    assert await edges(sql) == {(first.id, goal.id), (second.id, goal.id)}


async def test_a_superseded_memory_can_come_back_unless_its_successor_says_the_same(
    recreating: Application, owner: Caller
) -> None:
    first = await recreating.memory.write.write_memory(owner.scope, draft(SHORT))
    second = await recreating.memory.write.write_memory(owner.scope, draft(FULL))
    third = await recreating.memory.write.write_memory(owner.scope, draft(FULL.lower()))
    with pytest.raises(DuplicateText):
        await recreating.memory.edit.restore_memory(owner.scope, second.id)
    back = await recreating.memory.edit.restore_memory(owner.scope, first.id)
    assert (back.state, back.superseded_by) == (MemoryState.active, None)
    assert (await recreating.memory.read.get_memory(owner.scope, third.id)).state is MemoryState.active
