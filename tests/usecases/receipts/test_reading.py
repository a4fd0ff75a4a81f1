"""Receipts as they are read later: texts and header as they were, pages, uses, and what a bound key sees."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from app.bootstrap import Application
from app.domain.errors import InvalidCursor, NotFound
from app.domain.receipts.stored import WHERE_FIELDS, ReceiptFilter
from app.domain.where.parsing import parse_where
from app.storage.identity import new_id
from app.usecases.facts.store import FactPlace
from tests.factories import Caller, draft, make_caller
from tests.usecases.receipts.asking import ask

EVERY = ReceiptFilter()


def where_filter(where: dict[str, Any]) -> ReceiptFilter:
    """Return a filter of receipts with this tree."""
    return ReceiptFilter(where=parse_where(where, fields=WHERE_FIELDS))


def known(query_id: UUID | None) -> UUID:
    """Return the id of an answer that left a receipt."""
    assert query_id is not None
    return query_id


async def test_texts_and_header_are_as_they_were(app: Application, caller: Caller) -> None:
    milk = await app.memory.write.write_memory(
        caller.scope, draft("Maya drinks oat milk.", thread_id="t", importance=4)
    )
    await app.memory.write.write_memory(caller.scope, draft("Maya owns a red kayak.", thread_id="t", importance=5))
    answer = await ask(app, caller, "What does Maya drink and own?", thread_id="t")
    assert len(answer.header.splitlines()) == 3
    before = await app.receipts.read.get_receipt(caller.scope, known(answer.query_id))
    assert before.header == answer.header
    assert {i.text for i in before.items} == {"Maya drinks oat milk.", "Maya owns a red kayak."}
    for text in ("Maya drinks soy milk.", "Maya drinks rice milk."):
        await app.memory.edit.patch_memory(caller.scope, milk.id, {"text": text}, version=None)
    after = await app.receipts.read.get_receipt(caller.scope, known(answer.query_id))
    assert (after.header, [i.text for i in after.items]) == (before.header, [i.text for i in before.items])
    assert {(i.version, i.version_now) for i in after.items if i.memory_id == milk.id} == {(1, 3)}
    changed = await ask(app, caller, "What does Maya drink?", thread_id="t")
    told = await app.receipts.read.get_receipt(caller.scope, known(changed.query_id))
    assert told.header == changed.header
    assert "↑updated" in told.header
    assert {i.text for i in told.items if i.memory_id == milk.id} == {"Maya drinks rice milk."}


async def test_every_kind_of_line_of_a_header_is_rendered_again(app: Application, caller: Caller) -> None:
    words = ("kayak", "violin", "greenhouse", "telescope", "loom", "beehive")
    ids = [
        (
            await app.memory.write.write_memory(
                caller.scope, draft(f"Maya owns a {word}.", thread_id="t", importance=5)
            )
        ).id
        for word in words
    ]
    rendered: list[tuple[UUID, str]] = []

    async def look() -> None:
        answer = await ask(app, caller, "What does Maya own?", thread_id="t")
        rendered.append((known(answer.query_id), answer.header))

    await look()
    await app.memory.edit.soft_delete_memory(caller.scope, ids[0])
    await app.memory.edit.purge_memory(caller.scope, ids[1])
    await app.facts.store.store_text(caller.scope, FactPlace("maya", "t"), "My favorite color is green.")
    await look()
    await app.memory.edit.restore_memory(caller.scope, ids[0])
    await app.facts.store.store_text(caller.scope, FactPlace("maya", "t"), "My favorite color is blue.")
    await look()
    signs = "".join(header for _id, header in rendered)
    for sign in ("+created", "~soft_deleted", "−deleted", "↺restored", "↑updated", "favorite colors: green"):
        assert sign in signs
    for query_id, header in rendered[1:]:
        assert (await app.receipts.read.get_receipt(caller.scope, query_id)).header == header
    first = (await app.receipts.read.get_receipt(caller.scope, rendered[0][0])).header.splitlines()
    assert [line for line in rendered[0][1].splitlines() if words[1] not in line] == first, "a purged text is gone"


async def test_the_text_of_a_fact_is_that_of_the_time(app: Application, caller: Caller) -> None:
    await app.facts.store.store_text(caller.scope, FactPlace("maya"), "My favorite color is green.")
    answer = await ask(app, caller, "What is my favorite color?")
    await app.facts.store.store_text(caller.scope, FactPlace("maya"), "My favorite color is blue.")
    told = await app.receipts.read.get_receipt(caller.scope, known(answer.query_id))
    assert [i.text for i in told.items if i.part == "fact"] == ["favorite colors: green"]


async def test_a_purged_text_is_gone_from_receipts_too(app: Application, caller: Caller) -> None:
    milk = await app.memory.write.write_memory(caller.scope, draft("Maya drinks oat milk.", thread_id="t"))
    answer = await ask(app, caller, "What does Maya drink?", thread_id="t")
    await app.memory.edit.purge_memory(caller.scope, milk.id)
    told = await app.receipts.read.get_receipt(caller.scope, known(answer.query_id))
    assert [(i.part, i.memory_id, i.version, i.text, i.version_now) for i in told.items] == [
        (part, milk.id, 1, None, None) for part in ("header", "item")
    ]
    assert told.header == ""


async def test_pages_are_complete_and_newest_first(app: Application, caller: Caller) -> None:
    await app.memory.write.write_memory(caller.scope, draft("Maya drinks oat milk."))
    await app.memory.write.write_memory(caller.scope, draft("Bo drinks tea.", user_id="bo"))
    asked = []
    for number in range(7):
        user, thread = ("maya", "t1") if number % 2 else ("bo", "t2")
        asked.append((await ask(app, caller, "Who drinks what?", user_id=user, thread_id=thread)).query_id)

    async def every(filters: ReceiptFilter) -> list[UUID]:
        found, cursor = [], None
        while True:
            page = await app.receipts.read.list_receipts(caller.scope, filters, cursor, 2)
            found += [receipt.id for receipt in page.items]
            if (cursor := page.next_cursor) is None:
                return found

    assert await every(EVERY) == asked[::-1]
    assert await every(ReceiptFilter(user_id="maya")) == asked[1::2][::-1]
    assert await every(ReceiptFilter(thread_id="t2")) == asked[::2][::-1]
    assert await every(ReceiptFilter(agent="supervisor", until=datetime.now(UTC) + timedelta(hours=1))) == asked[::-1]
    assert await every(where_filter({"user_id": "maya", "via": "query"})) == asked[1::2][::-1]
    assert await every(where_filter({"or": [{"thread_id": "t2"}, {"query_id": str(asked[1])}]})) == sorted(
        [*asked[::2], asked[1]], reverse=True
    )
    assert await every(where_filter({"ts": {"lt": "2020-01-01"}})) == []
    for nothing in (ReceiptFilter(agent="planner"), ReceiptFilter(since=datetime.now(UTC) + timedelta(hours=1))):
        assert await every(nothing) == []
    for bad in ("x", "W10", "WyIxIiwiMiJd"):
        with pytest.raises(InvalidCursor):
            await app.receipts.read.list_receipts(caller.scope, EVERY, bad, 2)
        with pytest.raises(InvalidCursor):
            await app.receipts.read.list_uses(caller.scope, new_id(), bad, 2)


async def test_the_uses_of_a_memory_are_the_answers_that_told_it(app: Application, caller: Caller) -> None:
    milk = await app.memory.write.write_memory(caller.scope, draft("Maya drinks oat milk.", thread_id="t"))
    await app.memory.write.write_memory(caller.scope, draft("Maya owns a red kayak."))
    first = await ask(app, caller, "Does Maya drink oat milk?", thread_id="t")
    await app.memory.edit.patch_memory(caller.scope, milk.id, {"tags": ["x"]}, version=None)
    second = await ask(app, caller, "Does Maya drink oat milk?")
    await ask(app, caller, "Does Maya own a kayak?", min_relevance=0.9)
    uses, cursor = [], None
    while True:
        page = await app.receipts.read.list_uses(caller.scope, milk.id, cursor, 1)
        uses += [(use.query_id, use.part, use.version) for use in page.items]
        if (cursor := page.next_cursor) is None:
            break
    assert uses == [(second.query_id, "item", 2), (first.query_id, "header", 1), (first.query_id, "item", 1)]
    with pytest.raises(NotFound):
        await app.receipts.read.list_uses(caller.scope, new_id(), None, 10)
    await app.memory.edit.purge_memory(caller.scope, milk.id)
    assert len((await app.receipts.read.list_uses(caller.scope, milk.id, None, 10)).items) == 3


async def test_a_bound_key_sees_receipts_of_its_agents_and_memories_of_its_categories(
    app: Application, caller: Caller
) -> None:
    planner = await make_caller(app, ["query"], ["planner"], tenant=caller)
    task = await app.memory.write.write_memory(caller.scope, draft("Maya packs the kayak.", category="tasks"))
    moved = await app.memory.write.write_memory(caller.scope, draft("Maya paints the kayak.", category="tasks"))
    hidden = await app.memory.write.write_memory(caller.scope, draft("Maya hides the kayak.", category="relationships"))
    others = await ask(app, caller, "What about the kayak?", min_relevance=0.0)
    own = await ask(app, planner, "What about the kayak?", agent="planner", min_relevance=0.0)
    assert {i.memory.id for i in (*own.items, *own.related)} == {task.id, moved.id}
    await app.memory.edit.patch_memory(caller.scope, moved.id, {"category": "relationships"}, version=None)
    hears = await app.receipts.read.list_receipts(planner.scope, where_filter({"user_id": "maya"}), None, 10)
    page = await app.receipts.read.list_receipts(planner.scope, EVERY, None, 10)
    assert hears.items == [receipt for receipt in page.items if receipt.user_id == "maya"]
    assert [(receipt.id, receipt.memories) for receipt in page.items] == [(own.query_id, 1)]
    told = await app.receipts.read.get_receipt(planner.scope, known(own.query_id))
    assert {i.memory_id for i in told.items} == {task.id}, "a memory that was hidden since is hidden here, too"
    with pytest.raises(NotFound):
        await app.receipts.read.get_receipt(planner.scope, known(others.query_id))
    uses = await app.receipts.read.list_uses(planner.scope, task.id, None, 10)
    assert [use.query_id for use in uses.items] == [own.query_id]
    for out_of_sight in (hidden.id, moved.id):
        with pytest.raises(NotFound):
            await app.receipts.read.list_uses(planner.scope, out_of_sight, None, 10)
    everything = await app.receipts.read.get_receipt(caller.scope, known(own.query_id))
    assert {i.memory_id for i in everything.items} == {task.id, moved.id}
    assert everything.receipt.memories == 2


async def test_a_bound_key_does_not_learn_who_is_stored(app: Application, caller: Caller) -> None:
    planner = await make_caller(app, ["query"], ["planner"], tenant=caller)
    await app.memory.write.write_memory(caller.scope, draft("Maya packs.", category="tasks", thread_id="shown"))
    secret = draft("Nadia sleepwalks.", category="profile", user_id="nadia", thread_id="hidden")
    await app.memory.write.write_memory(caller.scope, secret)

    async def named(user_id: str | None, thread_id: str) -> tuple[str | None, str | None]:
        asked = await ask(app, planner, "What?", agent="planner", user_id=user_id, thread_id=thread_id)
        told = (await app.receipts.read.get_receipt(planner.scope, known(asked.query_id))).receipt
        for filters, shown in (
            (ReceiptFilter(user_id=user_id or "any"), told.user_id),
            (ReceiptFilter(thread_id=thread_id), told.thread_id),
        ):
            found = await app.receipts.read.list_receipts(planner.scope, filters, None, 10)
            assert (asked.query_id in {receipt.id for receipt in found.items}) == (shown is not None)
        return told.user_id, told.thread_id

    assert await named("nadia", "hidden") == await named("nobody", "new") == (None, None)
    assert await named(None, "hidden") == await named(None, "new") == (None, None)
    assert await named("maya", "new") == ("maya", "new")
    assert await named(None, "shown") == (None, "shown")
    everything = (await app.receipts.read.list_receipts(caller.scope, ReceiptFilter(user_id="nadia"), None, 10)).items
    assert [(r.user_id, r.thread_id) for r in everything] == [("nadia", "hidden")]


async def test_another_tenant_sees_nothing(app: Application, caller: Caller) -> None:
    other = await make_caller(app)
    milk = await app.memory.write.write_memory(caller.scope, draft("Maya drinks oat milk."))
    answer = await ask(app, caller, "What does Maya drink?")
    assert (await app.receipts.read.list_receipts(other.scope, EVERY, None, 10)).items == []
    with pytest.raises(NotFound):
        await app.receipts.read.get_receipt(other.scope, known(answer.query_id))
    with pytest.raises(NotFound):
        await app.receipts.read.list_uses(other.scope, milk.id, None, 10)
