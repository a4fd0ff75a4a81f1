"""The methods of both clients that show what a tenant holds."""

from datetime import UTC, datetime, timedelta

from tests.factories import Caller
from tests.sdk.conftest import Either


async def test_a_tenant_is_listed(either: Either, caller: Caller) -> None:
    told = await either.describe_key()
    assert (told.tenant_id, told.key_id) == (caller.scope.tenant_id, caller.scope.key_id)
    assert (told.scopes, told.agents, told.categories) == (["admin"], None, None)
    for number in range(3):
        fields = {"user_id": f"maya {number}", "category": "tasks", "thread_id": f"launch {number}"}
        await either.remember(f"Maya books room {number}.", agent_id="planner", **fields)
    users = await either.list_users(prefix="maya", limit=2)
    assert [(user.user_id, user.memories, user.threads) for user in users] == [(f"maya {n}", 1, 1) for n in range(3)]
    first = await either.user_page(limit=1)
    second = await either.user_page(limit=1, cursor=first.next_cursor)
    assert [user.user_id for user in (*first.items, *second.items)] == ["maya 0", "maya 1"]
    [thread] = await either.list_threads(user_id="maya 1")
    assert (thread.thread_id, thread.memories, thread.turns, thread.user_ids) == ("launch 1", 1, 0, ["maya 1"])
    assert len((await either.thread_page(prefix="launch", limit=2)).items) == 2
    agents = {agent.agent: agent for agent in await either.list_agents(limit=1)}
    assert (agents["planner"].memories, agents["planner"].written) == (3, 3)
    categories = {category.name: category for category in await either.list_categories(limit=3)}
    assert categories["tasks"].memories == 3
    assert "planner" in categories["tasks"].agents


async def test_events_and_relations_are_read(either: Either) -> None:
    start = datetime.now(UTC) - timedelta(minutes=1)
    fields = {"user_id": "maya", "category": "tasks"}
    older = await either.remember("Maya presents the launch plan on Monday.", **fields)
    newer = await either.remember("Maya presents the launch plan on Monday with slides.", **fields)
    found = await either.list_events(op="create", user_id="maya", since=start, limit=1)
    assert [event.memory_id for event in found] == [str(newer.id), str(older.id)]
    assert (await either.event_page(node="hotpath", limit=1)).next_cursor is not None
    graph = await either.relations("maya", min_strength=0.1, limit=10)
    assert [node.id for node in graph.nodes] == [older.id, newer.id]
    assert [(edge.from_id, edge.to_id) for edge in graph.edges] == [(newer.id, older.id)]
    assert graph.truncated is False
