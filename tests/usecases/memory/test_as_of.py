"""Questions in time: the memories as Mnema knew them, in every reader (`docs/time.md`)."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.errors import AsOfInFuture, AsOfNeedsUser, InvalidCursor, InvalidInput, NotFound
from app.domain.filters import Filters
from app.domain.memory.listing import MemoryListing
from app.domain.memory.moments import Moments
from app.domain.outages import PastIncomplete
from app.usecases.recall.request import Query
from app.usecases.recall.search import SearchQuery
from tests.factories import Caller, draft

MAYA = Filters(user_id="maya")
KEPT = "SELECT count(*) FROM past_minilm_l6_v2 WHERE tenant_id = $1"


async def present(sql: asyncpg.Connection) -> Moments:
    """Return this moment of the database's clock."""
    return Moments(await sql.fetchval("SELECT clock_timestamp()"))


async def write(app: Application, caller: Caller, text: str, **fields: object) -> UUID:
    """Write a memory and return its id."""
    written = await app.memory.write.write_memory(caller.scope, draft(text, **fields))
    assert written.id is not None
    return written.id


async def listed(app: Application, caller: Caller, moments: Moments, state: str = "active") -> list[str]:
    """Return the texts of maya's list, sorted."""
    listing = MemoryListing(MAYA, state=state, moments=moments)
    page = await app.memory.read.list_memories(caller.scope, listing, None, 50)
    return sorted(memory.text for memory in page.items)


async def answered(app: Application, caller: Caller, moments: Moments) -> list[str]:
    """Return the texts of an answer about maya with room for all, sorted."""
    query = Query(
        agent="supervisor",
        query="What does Maya drink?",
        filters=MAYA,
        top_k=50,
        budget_tokens=8000,
        min_relevance=0.0,
        full=True,
        moments=moments,
    )
    answer = await app.recall.query.answer_query(caller.scope, query)
    return sorted(item.memory.text for item in answer.items)


async def exported(app: Application, caller: Caller, moments: Moments) -> list[str]:
    """Return the texts of the memories in maya's export that were active, sorted."""
    records = await app.retention.export.export_records(caller.scope, "maya", moments)
    return sorted([r["text"] async for r in records if r["kind"] == "memory" and r["state"] == "active"])


async def test_each_reader_answers_as_mnema_knew_it_then(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    before = await present(sql)
    tea = await write(app, caller, "Maya drinks green tea.")
    milk = await write(app, caller, "Maya drinks oat milk.")
    first = await present(sql)
    await app.memory.edit.patch_memory(caller.scope, tea, {"text": "Maya drinks black coffee."}, version=None)
    await app.memory.edit.soft_delete_memory(caller.scope, milk)
    second = await present(sql)
    await app.memory.edit.restore_memory(caller.scope, milk)
    now = await present(sql)
    expected = {
        before: [],
        first: ["Maya drinks green tea.", "Maya drinks oat milk."],
        second: ["Maya drinks black coffee."],
        now: ["Maya drinks black coffee.", "Maya drinks oat milk."],
    }
    for moments, texts in expected.items():
        assert await listed(app, caller, moments) == texts
        assert await answered(app, caller, moments) == texts
        assert await exported(app, caller, moments) == texts
    found = await app.recall.search.search_memories(caller.scope, SearchQuery("tea", MAYA, moments=first))
    assert found.results[0].text == "Maya drinks green tea."
    assert (await app.memory.read.get_memory(caller.scope, tea, first)).text == "Maya drinks green tea."
    with pytest.raises(NotFound):
        await app.memory.read.get_memory(caller.scope, tea, before)


async def test_each_state_is_listed_in_time_as_it_is_now(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    rented = await write(app, caller, "Maya rents a bicycle.")
    binned = await write(app, caller, "Maya lived in Rome.", valid_to=datetime(2020, 1, 1, tzinfo=UTC))
    await app.memory.edit.soft_delete_memory(caller.scope, binned)
    before = await present(sql)
    await sql.execute("SET session_replication_role = replica")
    await sql.execute("UPDATE memories SET expires_at = clock_timestamp() WHERE id = $1", rented)
    after = await present(sql)
    assert await listed(app, caller, Moments(), "expired") == ["Maya rents a bicycle."]
    assert await listed(app, caller, after, "expired") == ["Maya rents a bicycle."]
    assert await listed(app, caller, before, "expired") == []
    assert await listed(app, caller, after, "soft_deleted") == ["Maya lived in Rome."]
    in_rome = Moments(valid_at=datetime(2019, 1, 1, tzinfo=UTC))
    assert await listed(app, caller, in_rome, "soft_deleted") == ["Maya lived in Rome."]
    assert await listed(app, caller, Moments(valid_at=datetime(2021, 1, 1, tzinfo=UTC)), "soft_deleted") == []


async def test_a_former_text_is_ranked_by_its_own_vector_and_words(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    boat = await write(app, caller, "Maya sails a small wooden boat.")
    await write(app, caller, "Maya drinks oat milk.")
    then = await present(sql)
    await app.memory.edit.patch_memory(caller.scope, boat, {"text": "Maya repairs vintage clocks."}, version=None)
    query = SearchQuery("Who sails a wooden boat?", MAYA, moments=then)
    best = (await app.recall.search.search_memories(caller.scope, query)).results[0]
    assert best.memory.id == boat
    parts = best.ranked.scored.candidate
    assert (parts.similarity or 0.0) > 0.5
    assert (parts.lexical or 0.0) > 0


async def test_a_purged_or_erased_text_comes_back_for_no_time(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    secret = await write(app, caller, "Maya hides the key under the mat.")
    kept = await write(app, caller, "Maya drinks oat milk.")
    await app.memory.edit.patch_memory(caller.scope, secret, {"text": "Maya moved the key."}, version=None)
    await app.memory.edit.patch_memory(caller.scope, kept, {"text": "Maya drinks cow milk."}, version=None)
    then = await present(sql)
    await app.memory.edit.purge_memory(caller.scope, secret)
    assert await listed(app, caller, then) == ["Maya drinks cow milk."]
    assert await answered(app, caller, then) == ["Maya drinks cow milk."]
    with pytest.raises(NotFound):
        await app.memory.read.get_memory(caller.scope, secret, then)
    assert await sql.fetchval(KEPT, caller.scope.tenant_id) == 1
    await app.retention.erase.erase_user(caller.scope, "maya")
    assert await listed(app, caller, then) == []
    assert await answered(app, caller, then) == []
    assert await sql.fetchval(KEPT, caller.scope.tenant_id) == 0


async def test_a_key_needs_the_category_of_then_and_of_now(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    hidden = await write(app, caller, "Maya saves for a house.", category="interests")
    moved = await write(app, caller, "Maya plans a garden.", category="goals")
    then = await present(sql)
    await app.memory.edit.patch_memory(caller.scope, hidden, {"category": "goals"}, version=None)
    await app.memory.edit.patch_memory(caller.scope, moved, {"category": "interests"}, version=None)
    now = await present(sql)
    bound = caller.scope.bound_to("planner", ["goals"])
    for moments in (then, now):
        page = await app.memory.read.list_memories(bound, MemoryListing(MAYA, moments=moments), None, 50)
        seen = {memory.id for memory in page.items}
        assert seen == ({hidden} if moments == now else set())
        records = await app.retention.export.export_records(bound, "maya", moments)
        assert {r["id"] async for r in records if r["kind"] == "memory"} == seen
        found = await app.recall.search.search_memories(bound, SearchQuery("house garden", MAYA, moments=moments))
        assert {result.memory.id for result in found.results} == seen


async def test_the_cursor_of_a_list_keeps_its_times(app: Application, caller: Caller, sql: asyncpg.Connection) -> None:
    ids = [await write(app, caller, f"Maya owns a {thing}.") for thing in ("kayak", "tent", "piano")]
    then = await present(sql)
    await app.memory.edit.patch_memory(caller.scope, ids[0], {"text": "Maya drinks water."}, version=None)
    read = app.memory.read.list_memories
    first = await read(caller.scope, MemoryListing(MAYA, moments=then), None, 2)
    second = await read(caller.scope, MemoryListing(MAYA), first.next_cursor, 2)
    assert [memory.text for memory in second.items] == ["Maya owns a kayak."]
    assert second.next_cursor is None
    other = Moments(then.as_of and then.as_of - timedelta(seconds=1))
    with pytest.raises(InvalidCursor):
        await read(caller.scope, MemoryListing(MAYA, moments=other), first.next_cursor, 2)


async def test_bad_times_are_refused(app: Application, caller: Caller) -> None:
    future = Moments(datetime.now(UTC) + timedelta(days=1))
    past = Moments(datetime(2020, 1, 1, tzinfo=UTC))
    with pytest.raises(AsOfInFuture):
        await listed(app, caller, future)
    with pytest.raises(AsOfInFuture):
        await answered(app, caller, future)
    with pytest.raises(AsOfNeedsUser):
        await app.memory.read.list_memories(caller.scope, MemoryListing(moments=past), None, 50)
    with pytest.raises(AsOfNeedsUser):
        await app.recall.query.answer_query(caller.scope, Query(agent="supervisor", query="tea", moments=past))
    with pytest.raises(InvalidInput):
        Query(agent="supervisor", query="tea", filters=MAYA, since_rev=0, moments=past)
    assert await listed(app, caller, past) == []


async def test_the_past_is_filled_from_history(app: Application, caller: Caller, sql: asyncpg.Connection) -> None:
    tea = await write(app, caller, "Maya drinks green tea.")
    await app.memory.edit.patch_memory(caller.scope, tea, {"text": "Maya drinks black coffee."}, version=None)
    await app.memory.edit.patch_memory(caller.scope, tea, {"category": "interests"}, version=None)
    then = await present(sql)
    await app.memory.edit.soft_delete_memory(caller.scope, tea)
    kept = (
        "SELECT user_pk, memory_id, since, until, category, today, state, tsv::text FROM past_minilm_l6_v2"
        " WHERE tenant_id = $1 ORDER BY until"
    )
    before = await sql.fetch(kept, caller.scope.tenant_id)
    assert len(before) == 3
    await sql.execute("DELETE FROM past_minilm_l6_v2 WHERE tenant_id = $1", caller.scope.tenant_id)
    await sql.execute(
        "INSERT INTO history_fills (tenant_id, space) VALUES ($1, 'minilm_l6_v2')", caller.scope.tenant_id
    )
    await sql.execute("SELECT fill_past_minilm_l6_v2($1)", caller.scope.tenant_id)
    assert await sql.fetch(kept, caller.scope.tenant_id) == before
    found = await app.recall.search.search_memories(caller.scope, SearchQuery("coffee", MAYA, moments=then))
    assert [result.text for result in found.results] == ["Maya drinks black coffee."]


async def test_the_past_is_filled_in_parts_beside_changes(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    tenant = caller.scope.tenant_id
    tea = await write(app, caller, "Maya drinks green tea.")
    await write(app, caller, "Maya drinks apple juice.")
    times = [await present(sql)]
    for text in ("Maya drinks black coffee.", "Maya drinks oat milk."):
        await app.memory.edit.patch_memory(caller.scope, tea, {"text": text}, version=None)
        times.append(await present(sql))
    await sql.execute("DELETE FROM past_minilm_l6_v2 WHERE tenant_id = $1", tenant)  # as before the upgrade
    await sql.execute("INSERT INTO history_fills (tenant_id, space) VALUES ($1, 'minilm_l6_v2')", tenant)
    with pytest.raises(PastIncomplete):
        await app.recall.search.search_memories(caller.scope, SearchQuery("coffee", MAYA, moments=times[0]))
    await app.memory.edit.patch_memory(caller.scope, tea, {"text": "Maya drinks water."}, version=None)
    times.append(await present(sql))
    parts = []
    while count := await sql.fetchval("SELECT fill_past_minilm_l6_v2($1, 1)", tenant):
        parts.append(count)
    assert parts == [1, 1]
    for then in times:
        query = SearchQuery("What does Maya drink?", MAYA, moments=then, min_relevance=0.0)
        found = sorted(r.text for r in (await app.recall.search.search_memories(caller.scope, query)).results)
        assert found == await listed(app, caller, then)
        assert len(found) == 2
