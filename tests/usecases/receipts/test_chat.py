"""Receipts of chat: what was put before a message."""

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.chat.memories import ChatMemories, RetrievalOptions
from app.domain.errors import NotFound
from app.domain.receipts.stored import ReceiptFilter
from tests.factories import Caller, draft, make_caller
from tests.usecases.conftest import Configured
from tests.usecases.receipts.asking import row_counts

EVERY = ReceiptFilter()
TEXT = "Maya drinks oat milk."


async def retrieve(app: Application, caller: Caller, text: str = "What does Maya drink?") -> ChatMemories:
    """Retrieve for a message of maya in the conversation `talk`."""
    options = RetrievalOptions(score_threshold=0.0)
    return await app.chat.retrieve.retrieve_memories(caller.scope, "maya", "talk", text, options)


async def test_a_chat_leaves_a_receipt_of_its_hits(app: Application, caller: Caller, sql: asyncpg.Connection) -> None:
    written = await app.memory.write.write_memory(caller.scope, draft(TEXT))
    found = await retrieve(app, caller)
    assert [hit.id for hit in found.hits] == [written.id]
    [receipt] = (await app.receipts.read.list_receipts(caller.scope, EVERY, None, 10)).items
    assert (receipt.via, receipt.agent, receipt.user_id, receipt.thread_id) == ("chat", None, "maya", "talk")
    assert (receipt.tokens, receipt.memories, receipt.key_id) == (None, 1, caller.scope.key_id)
    [item] = (await app.receipts.read.get_receipt(caller.scope, receipt.id)).items
    assert (item.part, item.memory_id, item.version, item.text) == ("item", written.id, 1, TEXT)
    row = await sql.fetchrow("SELECT user_id, queries, tokens FROM usage_days")
    assert row is not None
    assert tuple(row) == ("maya", 1, 0)


async def test_a_bound_key_sees_the_receipts_of_its_own_chats_alone(app: Application, caller: Caller) -> None:
    await app.memory.write.write_memory(caller.scope, draft("Maya packs the kayak.", category="tasks"))
    bound, other = [await make_caller(app, ["query", "chat"], ["planner", "stylist"], caller) for _ in range(2)]
    await retrieve(app, bound, "What does Maya pack?")
    [receipt] = (await app.receipts.read.list_receipts(bound.scope, EVERY, None, 10)).items
    assert (await app.receipts.read.get_receipt(bound.scope, receipt.id)).items
    assert (await app.receipts.read.list_receipts(other.scope, EVERY, None, 10)).items == []
    with pytest.raises(NotFound):
        await app.receipts.read.get_receipt(other.scope, receipt.id)


async def test_receipts_of_chat_are_switched_off_with_the_others(
    configured: Configured, caller: Caller, sql: asyncpg.Connection
) -> None:
    quiet = await configured(policies={"query": {"receipts": False}})
    await quiet.memory.write.write_memory(caller.scope, draft(TEXT))
    assert (await retrieve(quiet, caller)).hits
    await quiet.parts.access.flush_pending()
    assert await row_counts(sql) == {"receipts": 0, "receipt_items": 0, "usage_days": 0}
