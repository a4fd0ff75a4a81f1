"""The memory that tells a topic's facts: in step with them, found like any memory, and changed by nothing else."""

import asyncio
from typing import Any

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.errors import FactMemory
from app.domain.facts.fact import FactKind
from app.domain.filters import Filters
from app.domain.memory.batches import BatchEdit
from app.domain.memory.listing import MemoryListing
from app.domain.memory.memory import MemoryType
from app.domain.principal import Principal
from app.usecases.facts.store import FactPlace, NewFact
from app.usecases.memory.batch_plans import MatchingBatch
from app.usecases.memory.bulk import BulkLine
from app.usecases.recall.request import Query
from tests.factories import Caller, draft, make_caller
from tests.storage.building import change, journal_of

COLORS = "The user's favorite colors, in order: red, white, blue."
TALK, OTHER = FactPlace("maya", "talk"), FactPlace("maya", "other")


@pytest.fixture
def scope(caller: Caller) -> Principal:
    """The principal that owns the facts."""
    return caller.scope


async def texts(sql: asyncpg.Connection, scope: Principal, user: str = "maya") -> list[str]:
    """Return the texts of the active memories of facts, by topic."""
    rows = await sql.fetch(
        "SELECT text FROM memories WHERE tenant_id = $1 AND user_id = $2 AND state = 'active' "
        "AND fact_topic IS NOT NULL ORDER BY fact_topic",
        scope.tenant_id,
        user,
    )
    return [row["text"] for row in rows]


async def tell(app: Application, scope: Principal, text: str, place: FactPlace = TALK) -> Any:
    """Store what a message states."""
    return await app.facts.store.store_text(scope, place, text)


async def stored(sql: asyncpg.Connection, scope: Principal) -> asyncpg.Record:
    """Return the only memory of facts."""
    return await sql.fetchrow(
        "SELECT m.*, v.type AS vector_type FROM memories m LEFT JOIN vec_minilm_l6_v2 v "
        "ON v.tenant_id = m.tenant_id AND v.memory_id = m.id WHERE m.tenant_id = $1 AND m.fact_topic IS NOT NULL",
        scope.tenant_id,
    )


async def test_every_form_of_statement_keeps_the_memory_in_step(
    app: Application, scope: Principal, sql: asyncpg.Connection
) -> None:
    for said, told in [
        ("My favorite color is green.", "The user's favorite color is green."),
        ("My favorite colors are red, white and blue.", COLORS),
        ("Also add teal to my favorite colors.", "The user's favorite colors, in order: red, white, blue, teal."),
        ("Swap my first and second favorite colors.", "The user's favorite colors, in order: white, red, blue, teal."),
        ("Remove red from my favorite colors.", "The user's favorite colors: 1) white, 3) blue, 4) teal."),
        ("My second favorite color is pink.", "The user's favorite colors, in order: white, pink, blue, teal."),
        ("Remove #2.", "The user's favorite colors: 1) white, 3) blue, 4) teal."),
        ("My favorite colors are red, white and blue.", COLORS),
    ]:
        await tell(app, scope, said)
        assert await texts(sql, scope) == [told], said
    memory = await stored(sql, scope)
    assert (memory["type"], memory["category"], memory["thread_id"], memory["importance"]) == (
        *("semantic", "preferences", None, 3),
    )
    assert (memory["fact_topic"], memory["vector_type"]) == ("favorite_colors", "fact")
    await tell(app, scope, "My favorite tea is sencha.")
    assert await texts(sql, scope) == [COLORS, "The user's favorite tea is sencha."]


async def test_the_routes_of_one_fact_keep_the_memory_in_step(
    app: Application, scope: Principal, sql: asyncpg.Connection
) -> None:
    values = [NewFact("color", FactKind.ranked, rank, value) for rank, value in ((1, "red"), (2, "white"))]
    first, second = (await app.facts.store.store_values(scope, TALK, values)).stated
    assert await texts(sql, scope) == ["The user's favorite colors, in order: red, white."]
    await app.facts.store.change_value(scope, second.fact.id, "E.T.")
    assert await texts(sql, scope) == ["The user's favorite colors, in order: red, E.T."]
    await app.facts.store.remove_fact(scope, first.fact.id)
    assert await texts(sql, scope) == ["The user's favorite colors: 2) E.T."]
    await app.facts.store.purge_fact(scope, second.fact.id)
    assert await texts(sql, scope) == []
    for table in ("memories", "history", "change_log"):
        found = await sql.fetchval(
            f"SELECT count(*) FROM {table} t WHERE tenant_id = $1 AND t::text LIKE '%E.T.%'", scope.tenant_id
        )
        assert (table, found) == (table, 0)
    await app.facts.store.purge_fact(scope, first.fact.id)
    assert await sql.fetchval("SELECT count(*) FROM memories WHERE tenant_id = $1", scope.tenant_id) == 0


async def test_turns_and_bulk_lines_keep_the_memory_in_step(
    app: Application, scope: Principal, sql: asyncpg.Connection
) -> None:
    turn = {"type": MemoryType.turn, "category": "activity", "thread_id": "talk", "role": "user"}
    await app.memory.turns.store_turn(scope, draft("My favorite colors are red, white and blue.", **turn))
    assert await texts(sql, scope) == [COLORS]
    lines = [
        BulkLine(number, draft(text, **turn | {"seq": number}))
        for number, text in enumerate(["My favorite tea is sencha.", "My second favorite color is pink."], 1)
    ]
    assert [result.number async for result in app.memory.bulk.write_lines(scope, lines)] == [1, 2]
    assert await texts(sql, scope) == [
        "The user's favorite colors, in order: red, pink, blue.",
        "The user's favorite tea is sencha.",
    ]
    unembedded = await sql.fetchval(
        "SELECT count(*) FROM memories m WHERE m.tenant_id = $1 AND NOT EXISTS (SELECT FROM vec_minilm_l6_v2 v "
        "WHERE v.tenant_id = m.tenant_id AND v.memory_id = m.id)",
        scope.tenant_id,
    )
    assert unembedded == 0


async def test_it_tells_the_thread_in_which_the_topic_was_stated_last(
    app: Application, scope: Principal, sql: asyncpg.Connection
) -> None:
    await tell(app, scope, "My favorite colors are red, white and blue.")
    await tell(app, scope, "My favorite color is green.", OTHER)
    assert await texts(sql, scope) == ["The user's favorite color is green."]
    await tell(app, scope, "My favorite colors are red, white and blue.")  # the same again, and later
    assert await texts(sql, scope) == [COLORS]
    await app.chat.conversations.delete_conversation(scope, "maya", "talk", purge=True)
    assert await texts(sql, scope) == ["The user's favorite color is green."]
    assert (await stored(sql, scope))["vector_type"] == "fact"


async def test_a_transaction_that_fails_leaves_neither_facts_nor_memory(
    app: Application, scope: Principal, sql: asyncpg.Connection
) -> None:
    await sql.execute(
        "CREATE FUNCTION refuse_tea() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;"
        "CREATE CONSTRAINT TRIGGER refuse_tea AFTER INSERT ON memories DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
        "WHEN (new.fact_topic = 'favorite_teas') EXECUTE FUNCTION refuse_tea()"
    )
    with pytest.raises(asyncpg.RaiseError):
        await tell(app, scope, "My favorite tea is sencha.")
    for table in ("facts", "memories", "history"):
        assert await sql.fetchval(f"SELECT count(*) FROM {table} WHERE tenant_id = $1", scope.tenant_id) == 0


async def test_two_writers_of_one_topic_leave_the_memory_equal_to_the_facts(
    app: Application, scope: Principal, sql: asyncpg.Connection
) -> None:
    names = [f"shade {chr(97 + n)}" for n in range(8)]
    await asyncio.gather(*(tell(app, scope, f"Add {name} to my favorite colors.") for name in names))
    values = await sql.fetch("SELECT value FROM facts WHERE tenant_id = $1 ORDER BY rank", scope.tenant_id)
    assert sorted(row["value"] for row in values) == names
    assert await texts(sql, scope) == [
        f"The user's favorite colors, in order: {', '.join(row['value'] for row in values)}."
    ]
    versions = await sql.fetchval("SELECT version FROM memories WHERE tenant_id = $1", scope.tenant_id)
    kept = await sql.fetch(
        "SELECT event FROM history h JOIN memories m ON m.id::text = h.memory_id "
        "AND m.tenant_id = h.tenant_id WHERE m.tenant_id = $1",
        scope.tenant_id,
    )
    assert len(kept) == versions == 8


async def test_nothing_but_its_facts_changes_it(app: Application, scope: Principal, sql: asyncpg.Connection) -> None:
    await tell(app, scope, "My favorite colors are red, white and blue.")
    memory = await stored(sql, scope)
    edit = app.memory.edit
    for work in (
        edit.patch_memory(scope, memory["id"], {"text": "Red."}, version=None),
        edit.patch_memory(scope, memory["id"], {"text": COLORS}, version=None),
        edit.pin_memory(scope, memory["id"], True),
        edit.soft_delete_memory(scope, memory["id"]),
        edit.restore_memory(scope, memory["id"]),
        edit.purge_memory(scope, memory["id"]),
    ):
        with pytest.raises(FactMemory, match="facts"):
            await work
    changed = change(scope, memory["id"], fields={"importance": 5})
    with pytest.raises(FactMemory):
        await journal_of(app.parts.uow).record(scope, [changed])  # whatever use-case asks for it
    listing = MemoryListing(filters=Filters(user_id="maya"))
    for batch_edit in (None, BatchEdit(importance=5)):
        result = await app.memory.batches.change_matching(scope, MatchingBatch(listing, batch_edit))
        assert (result.changed, result.skipped) == (0, {"fact_memory": 1})
    assert dict(await stored(sql, scope)) == dict(memory)


async def test_no_memory_is_merged_with_it_or_related_to_it(
    app: Application, scope: Principal, sql: asyncpg.Connection
) -> None:
    own = await app.memory.write.write_memory(scope, draft(COLORS))
    await tell(app, scope, "My favorite colors are red, white and blue.")
    again = await app.memory.write.write_memory(scope, draft(COLORS))
    assert (again.action, again.id) == ("unchanged", own.id)
    near = await app.memory.write.write_memory(scope, draft("The user's favorite colors are blue, red and white."))
    await tell(app, scope, "My favorite colors are red, white and green.")
    await tell(app, scope, "My favorite colors are red, white and blue.")
    memory = await stored(sql, scope)
    assert (memory["text"], memory["state"], near.matched_id == memory["id"]) == (COLORS, "active", False)
    related = "SELECT count(*) FROM relations WHERE tenant_id = $1 AND $2 IN (from_id, to_id)"
    assert await sql.fetchval(related, scope.tenant_id, str(memory["id"])) == 0


@pytest.mark.long
async def test_a_query_finds_it_with_and_without_a_vector(
    app: Application, caller: Caller, scope: Principal, sql: asyncpg.Connection
) -> None:
    await tell(app, scope, "My favorite colors are red, white and blue.")

    async def found(principal: Principal, agent: str, text: str, **filters: Any) -> list[str]:
        query = Query(agent=agent, query=text, filters=Filters(user_id="maya", **filters))
        return [item.memory.text for item in (await app.recall.query.answer_query(principal, query)).items]

    assert COLORS in await found(scope, "supervisor", "favorite colors")
    blind = await make_caller(app, ["query"], tenant=caller, agents=["planner"])
    assert COLORS not in await found(blind.scope, "planner", "favorite colors")
    stranger = await make_caller(app)
    assert await found(stranger.scope, "supervisor", "favorite colors") == []
    await sql.execute("DELETE FROM vec_minilm_l6_v2 WHERE tenant_id = $1", scope.tenant_id)
    assert COLORS in await found(scope, "supervisor", "favorite colors")


async def test_an_erasure_takes_its_text_away(app: Application, scope: Principal, sql: asyncpg.Connection) -> None:
    await tell(app, scope, "My favorite tea is zebrasencha.")
    await app.retention.erase.erase_user(scope, "maya")
    for table in ("memories", "facts", "history", "change_log"):
        found = await sql.fetchval(
            f"SELECT count(*) FROM {table} t WHERE tenant_id = $1 AND t::text LIKE '%zebrasencha%'", scope.tenant_id
        )
        assert (table, found) == (table, 0)
    await tell(app, scope, "My favorite tea is sencha.")
    assert await texts(sql, scope) == ["The user's favorite tea is sencha."]


async def test_a_long_list_is_cut_at_a_value(app: Application, scope: Principal, sql: asyncpg.Connection) -> None:
    values = [NewFact("color", FactKind.ranked, rank, f"{rank:03} " + "x" * 196) for rank in range(1, 11)]
    for _again in range(2):  # more than 2,000 characters with the opening words
        await app.facts.store.store_values(scope, TALK, values)
    [told] = await texts(sql, scope)
    assert len(told) <= 2020
    assert told.endswith(" and 1 more.")
