"""Conversations: reading one in order, and deleting one with everything that came from it."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.facts.fact import FactFilter, FactKind
from app.domain.memory.memory import MemoryState, MemoryType
from app.usecases.chat.conversations import ConversationPage, DeletedConversation
from app.usecases.facts.store import FactPlace, NewFact
from tests.factories import Caller, draft, make_caller
from tests.usecases.conftest import Configured
from tests.usecases.stored import history_of

START = datetime(2025, 1, 10, 9, tzinfo=UTC)


async def say(app: Application, caller: Caller, text: str, at: int = 0, **fields: Any) -> None:
    """Store a user's turn of the conversation c1 with the facts that it states."""
    turn = {"type": MemoryType.turn, "category": "activity", "thread_id": "c1", "role": "user"}
    moment = START + timedelta(minutes=at)
    await app.memory.turns.store_turn(caller.scope, draft(text, **turn | {"created_at": moment} | fields))


async def keep(app: Application, caller: Caller, text: str, type_: MemoryType, at: int = 0, **fields: Any) -> None:
    """Store another memory of the conversation c1."""
    usual = {
        "thread_id": "c1",
        "category": app.parts.policies.defaults.turn_category,
        "created_at": START + timedelta(minutes=at),
    }
    await app.memory.write.write_memory(caller.scope, draft(text, type=type_, **usual | fields))


async def read(app: Application, caller: Caller, memory_id: str = "c1", **page: Any) -> ConversationPage:
    """Read maya's conversation."""
    usual = {"cursor": None, "limit": 50} | page
    return await app.chat.conversations.read_conversation(caller.scope, "maya", memory_id, **usual)


async def delete(app: Application, caller: Caller, memory_id: str = "c1", **how: Any) -> DeletedConversation:
    """Delete maya's conversation."""
    return await app.chat.conversations.delete_conversation(caller.scope, "maya", memory_id, **how)


async def facts_of(app: Application, caller: Caller, thread_id: str = "c1", user_id: str = "maya") -> list[str]:
    """Return the values of the facts of a thread."""
    found = await app.facts.read.list_facts(caller.scope, FactFilter(user_id, thread_id), None, 50)
    return sorted(fact.value for fact in found.items)


def texts(page: ConversationPage) -> list[str]:
    """Return the texts of a page."""
    return [memory.text for memory in page.items]


async def test_entries_come_by_time_and_the_summary_is_apart(app: Application, caller: Caller) -> None:
    await say(app, caller, "Second.", 2)
    await say(app, caller, "First.", 1)
    await say(app, caller, "Third.", 3, role="assistant", metadata={"model": "m"})
    await keep(app, caller, "Maya counts.", MemoryType.semantic, 2, category="knowledge")
    await keep(app, caller, "They counted.", MemoryType.summary, 3)
    await say(app, caller, "Elsewhere.", 1, thread_id="c2")
    await say(app, caller, "Somebody else.", 1, user_id="ben")
    page = await read(app, caller)
    assert texts(page) == ["First.", "Second.", "Maya counts.", "Third."]
    assert (page.summary, page.next_cursor) == ("They counted.", None)
    assert dict(page.items[3].metadata) == {"model": "m"}
    assert await read(app, caller, "c3") == ConversationPage([], None, None)
    assert await read(app, await make_caller(app)) == ConversationPage([], None, None)


async def test_pages_follow_each_other_without_gaps(app: Application, caller: Caller) -> None:
    for number in range(5):
        await say(app, caller, f"Line {number}.", number // 3)  # several at one time
    seen, cursor = [], None
    while True:
        page = await read(app, caller, limit=2, cursor=cursor)
        seen += texts(page)
        if (cursor := page.next_cursor) is None:
            break
    assert seen == [f"Line {number}." for number in range(5)]


async def test_a_bound_key_reads_its_categories_alone(app: Application, caller: Caller) -> None:
    lists = app.parts.policies.defaults.categories.allowlists
    name = next(
        a for a, names in lists.items() if app.parts.policies.defaults.turn_category not in names and "goals" in names
    )
    await say(app, caller, "I want to sail.")
    await keep(app, caller, "Maya wants to sail.", MemoryType.semantic, category="goals")
    await keep(app, caller, "They spoke of sailing.", MemoryType.summary)
    bound = await make_caller(app, ("chat",), [name], tenant=caller)
    page = await read(app, bound)
    assert (texts(page), page.summary) == (["Maya wants to sail."], None)
    assert await delete(app, bound) == DeletedConversation(1, 0)
    assert texts(await read(app, caller)) == ["I want to sail."]


async def test_no_summary_is_read_if_summaries_are_off(configured: Configured) -> None:
    app = await configured(policies={"summaries": {"enable_summarization": False}})
    caller = await make_caller(app)
    await keep(app, caller, "They counted.", MemoryType.summary)
    assert (await read(app, caller)).summary is None


@pytest.mark.long
@pytest.mark.usefixtures("own")
async def test_a_deletion_takes_everything_of_the_conversation_and_nothing_else(
    configured: Configured, sql: asyncpg.Connection
) -> None:
    app = await configured(policies={"lifecycle": {"batch": 2}})  # several batches
    caller = await make_caller(app)
    for number in range(3):
        await say(app, caller, f"Line {number}.", number)
    await say(app, caller, "My favorite color is red, and my favorite tea is mint.", 4)
    await say(app, caller, "My favorite colors are green and blue.", 5)
    await keep(app, caller, "Maya counts.", MemoryType.semantic, category="knowledge")
    await keep(app, caller, "They counted.", MemoryType.summary)
    for other in ({"thread_id": "c2"}, {"user_id": "ben"}):
        await say(app, caller, "My favorite color is pink.", **other)
    stated = await facts_of(app, caller)
    assert len(stated) >= 3
    first = (await read(app, caller)).items[0]
    before = (await app.recall.delta.read_delta(caller.scope, "c1", 0, None, "maya")).rev
    done = await delete(app, caller)
    assert done == DeletedConversation(7, len(stated))
    assert await read(app, caller) == ConversationPage([], None, None)
    assert await facts_of(app, caller) == []
    assert await facts_of(app, caller, "c2") == ["pink"]
    assert await facts_of(app, caller, user_id="ben") == ["pink"]
    assert len((await read(app, caller, "c2")).items) == 1
    last = (await history_of(sql, first.id))[-1]
    assert (last["event"], last["actor"]) == ("DELETE", caller.scope.actor_name)
    assert last["meta"]["reason"] == "conversation"
    delta = await app.recall.delta.read_delta(caller.scope, "c1", before, None, "maya")
    assert delta.header is not None
    assert delta.header.text.text.count("~soft_deleted") == 3
    assert delta.more == 1  # turns and summaries have no bullet
    assert await delete(app, caller) == DeletedConversation(0, 0)
    restored = await app.memory.edit.restore_memory(caller.scope, first.id)
    assert restored.state is MemoryState.active
    assert await delete(app, caller) == DeletedConversation(1, 0)


@pytest.mark.usefixtures("own")
async def test_a_purge_leaves_no_text(app: Application, caller: Caller, sql: asyncpg.Connection) -> None:
    await say(app, caller, "My favorite color is xanadu.")
    await say(app, caller, "I like xanadu.", 1)
    assert await delete(app, caller) == DeletedConversation(2, 1)
    await say(app, caller, "My favorite tea is xanadu.", 2)
    await keep(app, caller, "They spoke of xanadu.", MemoryType.summary)
    assert await delete(app, caller, purge=True) == DeletedConversation(4, 2)
    assert await delete(app, caller, purge=True) == DeletedConversation(0, 0)
    for table in ("memories", "facts", "history", "change_log"):
        assert not await sql.fetchval(f"SELECT count(*) FROM {table} t WHERE t::text ILIKE '%xanadu%'"), table


@pytest.mark.long
async def test_what_is_written_meanwhile_stays_or_goes_whole(app: Application, caller: Caller) -> None:
    for number in range(30):
        await say(app, caller, f"Line {number}.", number)

    async def chat() -> None:
        for number in range(10):
            await say(app, caller, f"My favorite color is number {number}.", 100 + number)

    found = (await read(app, caller, limit=200)).items
    pins = [app.memory.edit.pin_memory(caller.scope, memory.id, pinned=True) for memory in found[:5]]
    done, again, *_ = await asyncio.gather(
        delete(app, caller), delete(app, caller), chat(), *pins, return_exceptions=True
    )
    assert isinstance(done, DeletedConversation)
    assert isinstance(again, DeletedConversation)
    left = texts(await read(app, caller, limit=200))
    assert not [text for text in left if text.startswith("Line")]
    assert done.deleted + again.deleted + len(left) == 40
    later = await delete(app, caller)
    assert later.deleted == len(left)
    assert await facts_of(app, caller) == []


@pytest.mark.long
@pytest.mark.usefixtures("own")
async def test_facts_whose_time_is_ahead_are_removed_too(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    far = app.parts.policies.defaults.lifecycle.purge_at(START + timedelta(days=365 * 5))
    values = [NewFact(f"topic_{number}", FactKind.ranked, 1, f"box {number}") for number in range(120)]
    for start in (0, 60):
        await app.facts.store.store_values(caller.scope, FactPlace("maya", "c1"), values[start : start + 60])
    await sql.execute("SET session_replication_role = replica")
    await sql.execute("UPDATE facts SET created_at = $1", far)
    assert await delete(app, caller) == DeletedConversation(0, 120)  # more than one page
    assert await facts_of(app, caller) == []
