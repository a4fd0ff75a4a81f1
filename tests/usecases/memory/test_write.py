"""The merge bands of a write: create, update, or keep apart (`docs/contract.md`, Memory)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.errors import AgentNotAllowed, CategoryNotAllowed, EmptyText, InvalidInput, TextTooLong, UnknownCategory
from app.domain.memory.memory import MemoryState, MemoryType
from app.domain.outages import EmbedderUnavailable
from app.ports import Embedder
from tests.factories import Caller, Clock, draft, make_caller
from tests.usecases.conftest import Configured
from tests.usecases.stored import active_texts, events_of, history_of, vector_of

APART = [
    ("Maya likes wine.", "Maya does not like wine."),
    ("Maya prefers email.", "Maya prefers phone calls."),
    ("Maya likes red wine.", "Maya likes white wine."),
    ("Maya has a dentist appointment on Monday.", "Maya has a dentist appointment on Tuesday."),
    ("Maya's sister is called Ana.", "Maya's sister is called Eva."),
    ("Maya moved from Ghent to Coimbra.", "Maya moved from Coimbra to Ghent."),
    ("Maya's son is 3 years old.", "Maya's son is 4 years old."),
    ("Maya drinks coffee.", "Maya drinks coffee every morning."),
    ("Maya has two cats.", "Maya has a cat."),
    ("Maya drinks oat milk.", "Maya buys oat milk at the market."),
]


async def test_a_new_text_is_created_with_its_vector_and_history(
    app: Application, caller: Caller, sql: asyncpg.Connection, embedder: Embedder
) -> None:
    written = await app.memory.write.write_memory(caller.scope, draft(importance=3, tags=("diet",)))
    assert (written.action, written.matched_id, written.similarity, written.related) == ("created", None, None, 0)
    assert written.revision is None
    [added] = await history_of(sql, written.id)
    assert added["event"] == "ADD"
    assert "before" not in added["meta"]
    assert added["meta"]["after"]["text"] == "Maya drinks oat milk."
    [expected] = await embedder.embed_texts(["Maya drinks oat milk."])
    assert float(await vector_of(sql, written.id) @ expected) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("again", ["Maya drinks oat milk", "maya drinks oat milk", "  Maya drinks\noat milk!"])
async def test_an_equal_text_updates_the_memory_that_says_it(app: Application, caller: Caller, again: str) -> None:
    first = await app.memory.write.write_memory(caller.scope, draft())
    second = await app.memory.write.write_memory(caller.scope, draft(again))
    assert (second.action, second.id, second.matched_id) == ("updated", first.id, first.id)
    assert (await app.memory.read.get_memory(caller.scope, first.id)).version == 2


@pytest.mark.parametrize(
    ("known", "incoming", "kept"),
    [
        ("Maya plays chess.", "Maya plays chess, tennis and golf.", "Maya plays chess, tennis and golf."),
        ("Maya likes tea and chess.", "Maya likes chess and tea.", "Maya likes chess and tea."),
        ("Maya plays chess on weekends.", "On weekends, Maya plays chess.", "On weekends, Maya plays chess."),
    ],
)
async def test_the_same_fact_in_other_words_is_one_memory_with_the_fuller_text(
    app: Application, caller: Caller, sql: asyncpg.Connection, embedder: Embedder, known: str, incoming: str, kept: str
) -> None:
    first = await app.memory.write.write_memory(caller.scope, draft(known))
    second = await app.memory.write.write_memory(caller.scope, draft(incoming))
    assert (second.action, second.id) == ("updated", first.id)
    assert await active_texts(sql) == [kept]
    update = (await history_of(sql, first.id))[-1]
    assert (update["event"], update["meta"]["incoming"]) == ("UPDATE", incoming)
    assert (update["meta"]["before"]["text"], update["meta"]["after"]["text"]) == (known, kept)
    [expected] = await embedder.embed_texts([kept])
    assert float(await vector_of(sql, first.id) @ expected) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("said", [{"turn_id": "t2", "quote": "chess, tennis and golf"}, None])
async def test_a_text_that_is_replaced_takes_its_source_with_it(
    app: Application, caller: Caller, said: dict[str, str] | None
) -> None:
    told = {"turn_id": "t1", "quote": "I play chess"}
    first = await app.memory.write.write_memory(caller.scope, draft("Maya plays chess.", source=told))
    fuller = await app.memory.write.write_memory(caller.scope, draft("Maya plays chess, tennis and golf.", source=said))
    assert fuller.id == first.id
    assert (await app.memory.read.get_memory(caller.scope, first.id)).source == said


@pytest.mark.parametrize("again", ["Maya plays chess.", "Maya plays chess, tennis and golf."])
async def test_a_text_that_stays_keeps_its_source(app: Application, caller: Caller, again: str) -> None:
    told = {"turn_id": "t1", "quote": "chess, tennis and golf"}
    first = await app.memory.write.write_memory(caller.scope, draft("Maya plays chess, tennis and golf.", source=told))
    second = await app.memory.write.write_memory(caller.scope, draft(again, source={"turn_id": "t2", "quote": "chess"}))
    assert second.id == first.id
    assert (await app.memory.read.get_memory(caller.scope, first.id)).source == told


async def test_texts_that_only_look_alike_stay_two(configured: Configured, sql: asyncpg.Connection) -> None:
    app = await configured(policies={"write": {"supersede": False}})  # some of them tell of a change
    caller = await make_caller(app)
    merged = []
    for number, (one, other) in enumerate(APART):
        user = f"user {number}"
        for text in (one, other):
            await app.memory.write.write_memory(caller.scope, draft(text, user_id=user))
        if await active_texts(sql, user) != sorted([one, other]):
            merged.append((one, other))
    assert merged == []


async def test_an_update_joins_what_both_say_and_keeps_the_birthday(
    app: Application, caller: Caller, clock: Clock
) -> None:
    first = await app.memory.write.write_memory(caller.scope, draft(importance=4, pinned=True, tags=("diet", "drink")))
    before = await app.memory.read.get_memory(caller.scope, first.id)
    clock.move(days=3)
    await app.memory.write.write_memory(
        caller.scope, draft("Maya drinks oat milk, honey and tea.", importance=2, tags=("sweet", "diet"))
    )
    after = await app.memory.read.get_memory(caller.scope, first.id)
    assert (after.importance, after.pinned, after.tags) == (4, True, ("diet", "drink", "sweet"))
    assert (after.created_at, after.version) == (before.created_at, 2)
    assert after.updated_at - before.updated_at >= timedelta(days=3)
    await app.memory.write.write_memory(caller.scope, draft(importance=5))
    assert (await app.memory.read.get_memory(caller.scope, first.id)).importance == 5


async def test_only_numbers_differ_is_an_update_where_the_category_says_so(
    configured: Configured, sql: asyncpg.Connection
) -> None:
    app = await configured(categories={"goals": {"numeric_update": True}}, policies={"write": {"supersede": False}})
    caller = await make_caller(app)
    for category in ("goals", "preferences"):
        for amount in (400, 500):
            text = f"Maya wants to save {amount} euros for the trip."
            await app.memory.write.write_memory(caller.scope, draft(text, category=category, user_id=category))
    assert await active_texts(sql, "goals") == ["Maya wants to save 500 euros for the trip."]
    assert len(await active_texts(sql, "preferences")) == 2


async def test_below_the_least_importance_nothing_is_created_but_updates_are_taken(
    configured: Configured, sql: asyncpg.Connection
) -> None:
    app = await configured(policies={"write": {"min_importance": 3}})
    caller = await make_caller(app)
    skipped = await app.memory.write.write_memory(caller.scope, draft(importance=2))
    assert (skipped.id, skipped.action) == (None, "skipped")
    assert await events_of(sql) == [("hotpath", "classify", "skipped")]
    assert await sql.fetchval("SELECT count(*) FROM history") == 0
    created = await app.memory.write.write_memory(caller.scope, draft(importance=3))
    updated = await app.memory.write.write_memory(
        caller.scope, draft("Maya drinks oat milk, honey and tea.", importance=1)
    )
    assert (updated.action, updated.id) == ("updated", created.id)
    turn = await app.memory.write.write_memory(caller.scope, draft("Hello.", type=MemoryType.turn, importance=1))
    assert turn.action == "created"


@pytest.mark.long
async def test_the_fallback_band_asks_only_young_memories_of_categories_that_allow_it(
    configured: Configured, sql: asyncpg.Connection, clock: Clock
) -> None:
    low = {"auto_update": 0.99, "check_low": 0.97}
    app = await configured(bands=low | {"fallback_on_write": True})
    without = await configured(bands=low)
    caller = await make_caller(app)
    now = clock.now()
    for user, category, age, builder in [
        ("young", "goals", 80, app),
        ("old", "goals", 91, app),
        ("elsewhere", "preferences", 1, app),
        ("left to consolidation", "goals", 1, without),
    ]:
        known = draft("Maya plays chess.", user_id=user, category=category, created_at=now - timedelta(days=age))
        await builder.memory.write.write_memory(caller.scope, known)
        incoming = replace(known, text="Maya plays chess, tennis and golf.", created_at=None)
        await builder.memory.write.write_memory(caller.scope, incoming)
    assert await active_texts(sql, "young") == ["Maya plays chess, tennis and golf."]
    for user in ("old", "elsewhere", "left to consolidation"):
        assert len(await active_texts(sql, user)) == 2


async def test_calibrated_bands_update_on_similarity_alone(configured: Configured, sql: asyncpg.Connection) -> None:
    app = await configured(bands={"auto_update_equality_only": False, "auto_update": 0.9})
    caller = await make_caller(app)
    for text in ("Maya drinks oat milk.", "Maya drinks oat milk in the morning.", "Maya likes milk in coffee."):
        await app.memory.write.write_memory(caller.scope, draft(text))
    assert await active_texts(sql) == ["Maya drinks oat milk in the morning.", "Maya likes milk in coffee."]


async def test_nothing_is_compared_across_tenants_users_categories_types_or_states(
    app: Application, caller: Caller
) -> None:
    first = await app.memory.write.write_memory(caller.scope, draft())
    stranger = await make_caller(app)
    others = [
        await app.memory.write.write_memory(stranger.scope, draft()),
        await app.memory.write.write_memory(caller.scope, draft(user_id="ben")),
        await app.memory.write.write_memory(caller.scope, draft(category="tasks")),
        await app.memory.write.write_memory(caller.scope, draft(type=MemoryType.episodic)),
        await app.memory.write.write_memory(caller.scope, draft(type=MemoryType.turn)),
        await app.memory.write.write_memory(caller.scope, draft(type=MemoryType.turn)),
    ]
    await app.memory.edit.soft_delete_memory(caller.scope, first.id)
    others.append(await app.memory.write.write_memory(caller.scope, draft()))
    assert [written.action for written in others] == ["created"] * 7


async def test_the_event_of_a_failed_embedder_is_kept_and_nothing_else(
    app: Application, caller: Caller, sql: asyncpg.Connection, embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedder, "failing", True)
    with pytest.raises(EmbedderUnavailable):
        await app.memory.write.write_memory(caller.scope, draft(thread_id="t1"))
    with pytest.raises(EmbedderUnavailable):
        await app.memory.write.write_memory(caller.scope, draft(type=MemoryType.episodic))
    assert await events_of(sql) == [("hotpath", "create", "error"), ("episodic", "create", "error")]
    first = await sql.fetchrow("SELECT user_id, thread_id, category FROM events ORDER BY id LIMIT 1")
    assert tuple(first) == (None, None, "preferences"), "events never name a user for whom nothing is stored"
    for table in ("memories", "history", "change_log", "thread_revision"):
        assert await sql.fetchval(f"SELECT count(*) FROM {table}") == 0


async def test_the_hot_path_leaves_its_three_events(app: Application, caller: Caller, sql: asyncpg.Connection) -> None:
    await app.memory.write.write_memory(caller.scope, draft())
    await app.memory.write.write_memory(caller.scope, draft("Maya drinks oat milk, honey and tea."))
    await app.memory.write.write_memory(caller.scope, draft("Maya met Ben.", type=MemoryType.episodic))
    # the write's event commits with it; the events of the search come in batches, at the latest now
    done = [("hotpath", "create", "ok"), ("hotpath", "update", "ok"), ("episodic", "create", "ok")]
    looked = [("hotpath", op, "ok") for op in ("classify", "search", "classify", "search")]
    assert [event for event in await events_of(sql) if event not in looked] == done
    await app.parts.access.flush_pending()
    told = await events_of(sql)
    assert [event for event in told if event in looked] == looked
    assert len(told) == len(done + looked)
    best = await sql.fetch("SELECT sim FROM events WHERE op = 'search' ORDER BY id")
    assert [row["sim"] for row in best] == [None, pytest.approx(0.935, abs=0.03)]


async def test_a_bound_key_writes_as_its_agent_and_only_into_its_categories(app: Application, caller: Caller) -> None:
    stylist = (await make_caller(app, ("write",), ["stylist"], tenant=caller)).scope
    written = await app.memory.write.write_memory(stylist, draft())
    assert (await app.memory.read.get_memory(caller.scope, written.id)).agent_id == "stylist"
    with pytest.raises(CategoryNotAllowed, match="goals"):
        await app.memory.write.write_memory(stylist, draft(category="goals"))
    with pytest.raises(AgentNotAllowed, match="planner"):
        await app.memory.write.write_memory(stylist, draft(agent_id="planner"))


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"text": " \u200b "}, EmptyText),
        ({"text": "a" * 281}, TextTooLong),
        ({"category": "nowhere"}, UnknownCategory),
        ({"category": "procedural"}, InvalidInput),
        ({"type": MemoryType.procedural}, InvalidInput),
        ({"steps_text": "1. Ask."}, InvalidInput),
        ({"created_at": datetime(2999, 1, 1, tzinfo=UTC)}, InvalidInput),
        (
            {"created_at": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))},
            InvalidInput,
        ),  # this is in year 0 of UTC
    ],
)
async def test_what_cannot_be_remembered_is_refused(
    app: Application, caller: Caller, sql: asyncpg.Connection, fields: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        await app.memory.write.write_memory(caller.scope, draft(**{"text": "Maya drinks oat milk."} | fields))
    assert await sql.fetchval("SELECT count(*) FROM memories") == 0


async def test_a_procedure_keeps_its_steps_line_by_line(app: Application, caller: Caller) -> None:
    steps = "1. Fill the kettle.\n2. Boil the water."
    written = await app.memory.write.write_memory(
        caller.scope, draft("Make tea", category="procedural", type=MemoryType.procedural, steps_text=steps)
    )
    memory = await app.memory.read.get_memory(caller.scope, written.id)
    assert (memory.text, memory.steps_text, memory.state) == ("Make tea", steps, MemoryState.active)


async def test_a_long_text_is_trimmed_when_asked(app: Application, caller: Caller) -> None:
    written = await app.memory.write.write_memory(caller.scope, draft("Maya likes tea. " * 30), trim=True)
    text = (await app.memory.read.get_memory(caller.scope, written.id)).text
    assert len(text) <= 280
    assert text.endswith("tea.")
