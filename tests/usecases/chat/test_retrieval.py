"""Retrieval for chat: scopes, pools, thresholds, recency, diversity, and what the request has already."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from app.bootstrap import Application, Doubles, build_application
from app.bootstrap.spaces import build_embed_missing
from app.config.settings import Settings
from app.domain.chat.memories import ChatMemories, RetrievalOptions
from app.domain.errors import InvalidInput
from app.domain.memory.memory import MemoryType
from app.ports import Embedder
from tests.factories import Caller, Clock, KeepOpen, draft, make_caller
from tests.rerank_server import RerankServer, rerank_server
from tests.usecases.conftest import Configured
from tests.usecases.stored import VECTORS, events_of

START = datetime(2025, 1, 10, 9, tzinfo=UTC)
TEA = "What tea does Maya like to drink?"
ANY = RetrievalOptions(top_k=5, recency_weight=0.0, score_threshold=0.0)
"""Options that leave the order to the relevance alone."""


async def remember(app: Application, caller: Caller, *texts: str, **fields: Any) -> None:
    """Store the texts as they are, oldest first: no two of them become one memory."""
    usual = {"type": MemoryType.episodic, "category": "knowledge", "created_at": START}
    for text in texts:
        await app.memory.write.write_memory(caller.scope, draft(text, **usual | fields))


async def say(app: Application, caller: Caller, text: str, role: str = "user", **fields: Any) -> None:
    """Store a turn of the conversation c1."""
    turn = {"type": MemoryType.turn, "category": "activity", "thread_id": "c1", "role": role, "created_at": START}
    await app.memory.write.write_memory(caller.scope, draft(text, **turn | fields))


async def recall(
    app: Application,
    caller: Caller,
    text: str = TEA,
    memory_id: str = "c1",
    options: RetrievalOptions = ANY,
    present: Sequence[str] = (),
    user_id: str = "maya",
) -> ChatMemories:
    """Retrieve the memories of a conversation."""
    return await app.chat.retrieve.retrieve_memories(caller.scope, user_id, memory_id, text, options, present=present)


def contents(found: ChatMemories) -> list[str]:
    """Return the texts of the hits in order."""
    return [hit.content for hit in found.hits]


async def test_the_conversation_and_what_is_global_are_searched_and_nothing_else(
    app: Application, caller: Caller
) -> None:
    await say(app, caller, "I like green tea.")
    await remember(app, caller, "Maya's favourite tea is oolong.", thread_id="global")
    await remember(app, caller, "Maya likes black tea at breakfast.")
    await say(app, caller, "Peppermint tea is what I drink.", thread_id="c2")
    found = await recall(app, caller)
    assert set(contents(found)) == {
        *("I like green tea.", "Maya's favourite tea is oolong.", "Maya likes black tea at breakfast.")
    }
    assert {hit.content: hit.role for hit in found.hits}["I like green tea."] == "user"
    assert {hit.role for hit in found.hits if hit.content.startswith("Maya")} == {"memory"}
    assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)
    assert all(hit.created_at == START and round(hit.score, 4) == hit.score for hit in found.hits)
    assert (found.degraded, found.summary) == (None, None)
    everywhere = await recall(app, caller, memory_id="global")
    assert set(contents(everywhere)) == {"Maya's favourite tea is oolong.", "Maya likes black tea at breakfast."}


async def test_what_another_conversation_taught_is_known_in_this_one(app: Application, caller: Caller) -> None:
    for type_ in (MemoryType.semantic, MemoryType.episodic, MemoryType.insight):
        await remember(app, caller, f"Maya drinks {type_} tea.", thread_id="c2", type=type_)
    await remember(app, caller, "Maya likes to drink black tea.", thread_id="c1")
    told = contents(await recall(app, caller))
    assert sorted(told) == [
        "Maya drinks episodic tea.",
        "Maya drinks insight tea.",
        "Maya drinks semantic tea.",
        "Maya likes to drink black tea.",
    ], "each once, also what this conversation taught"
    await say(app, caller, "I drink white tea.", thread_id="c2")
    assert "I drink white tea." not in contents(await recall(app, caller))


async def test_a_plain_fact_answers_a_question_in_the_first_person(app: Application, caller: Caller) -> None:
    await remember(app, caller, "The user lives in Lisbon.", "The user works as a paramedic.")
    assert contents(await recall(app, caller, "Where do I live?", options=RetrievalOptions())) == [
        "The user lives in Lisbon."
    ]


async def test_a_turn_that_only_asks_is_less_relevant_than_one_that_tells(app: Application, caller: Caller) -> None:
    await say(app, caller, "Which tea do I like to drink?")
    await say(app, caller, "Green tea is what I like to drink.")
    assert contents(await recall(app, caller, "What tea do I drink?"))[0] == "Green tea is what I like to drink."


async def test_the_turn_of_an_assistant_keeps_its_role(app: Application, caller: Caller) -> None:
    await say(app, caller, "Green tea calms you.", "assistant")
    await say(app, caller, "Tea is ready.", None)  # type: ignore[arg-type] # a turn without a role
    assert {hit.content: hit.role for hit in (await recall(app, caller)).hits} == {
        "Green tea calms you.": "assistant",
        "Tea is ready.": "memory",
    }


async def test_each_scope_has_a_pool_of_its_own(app: Application, caller: Caller) -> None:
    await remember(app, caller, *(f"Maya likes to drink tea number {n}." for n in range(12)))
    await say(app, caller, "We spoke about the harbour.")
    options = RetrievalOptions(top_k=2, recency_weight=0.9, score_threshold=0.0)
    before = await recall(app, caller, options=RetrievalOptions(2, 0.0, 0.0))
    assert "We spoke about the harbour." not in contents(before)
    await say(app, caller, "The choir sings today.", created_at=datetime.now(UTC))
    found = await recall(app, caller, options=options)
    assert contents(found)[0] == "The choir sings today."  # far from the question: in the pool of its scope alone
    assert len(found.hits) == 2


async def test_a_pool_has_three_times_as_many_memories_as_are_wanted(app: Application, caller: Caller) -> None:
    now = datetime.now(UTC)
    await remember(app, caller, *(f"Maya likes to drink tea number {n}." for n in range(3)), created_at=START)
    await remember(app, caller, "The harbour wall is wet.", created_at=now)
    options = RetrievalOptions(top_k=1, recency_weight=1.0, score_threshold=0.0)
    assert contents(await recall(app, caller, options=options)) != ["The harbour wall is wet."]  # fourth nearest
    wider = RetrievalOptions(top_k=2, recency_weight=1.0, score_threshold=0.0)
    assert contents(await recall(app, caller, options=wider))[0] == "The harbour wall is wet."


async def test_the_threshold_of_the_request_replaces_the_configured_one(app: Application, caller: Caller) -> None:
    await remember(app, caller, "Maya likes green tea.", "The harbour wall is wet.")
    assert app.parts.policies.defaults.chat.score_threshold == 0.35
    assert contents(await recall(app, caller, options=RetrievalOptions())) == ["Maya likes green tea."]
    assert len((await recall(app, caller, options=ANY)).hits) == 2
    assert not (await recall(app, caller, options=RetrievalOptions(score_threshold=0.99))).hits


async def test_the_weight_of_recency_decides_between_old_and_new(app: Application, caller: Caller) -> None:
    await remember(app, caller, "Maya likes to drink green tea.", created_at=START)
    await remember(app, caller, "Tea grows in Assam.", created_at=datetime.now(UTC))
    new = RetrievalOptions(recency_weight=0.9, score_threshold=0.0)
    assert contents(await recall(app, caller))[0] == "Maya likes to drink green tea."
    assert contents(await recall(app, caller, options=new))[0] == "Tea grows in Assam."
    hit = (await recall(app, caller, options=RetrievalOptions(recency_weight=1.0, score_threshold=0.0))).hits[0]
    assert hit.score == pytest.approx(1.0, abs=0.001)


async def test_the_score_is_that_of_the_formula(configured: Configured) -> None:
    app = await configured(policies={"chat": {"recency_weight": 0.5, "score_threshold": 0.1}})
    caller = await make_caller(app)
    await remember(app, caller, "Maya likes green tea.", created_at=datetime.now(UTC) - timedelta(days=30))
    alone = (await recall(app, caller)).hits[0].score
    both = (await recall(app, caller, options=RetrievalOptions())).hits[0].score
    assert both == pytest.approx(0.5 * alone + 0.5 * 0.3679, abs=0.001)


async def test_hits_differ_from_each_other(app: Application, caller: Caller) -> None:
    await remember(
        app,
        caller,
        "Maya likes to drink green tea.",
        "Maya likes to drink green teas.",
        "Maya likes to drink green tea!",
        "Black tea is drunk in winter.",
    )
    twins, other = "Maya likes to drink green tea", "Black tea is drunk in winter."
    four = contents(await recall(app, caller, "green tea", options=RetrievalOptions(4, 0.0, 0.0)))
    assert [text[: len(twins)] for text in four] == [twins, other, twins], "and an equal text comes once"


async def test_what_the_request_has_gives_its_place_to_the_next_best(app: Application, caller: Caller) -> None:
    for number in range(4):
        await say(app, caller, "I like green tea.", seq=number)
    await say(app, caller, "Black tea is fine, too.", seq=5)
    present = ("  i like GREEN tea ", TEA)
    found = await recall(app, caller, options=RetrievalOptions(1, 0.0, 0.0), present=present)
    assert contents(found) == ["Black tea is fine, too."]
    assert not (await recall(app, caller, present=(*present, "Black tea is fine, too"))).hits


async def test_a_pool_full_of_what_the_request_has_is_searched_again(app: Application, caller: Caller) -> None:
    await say(app, caller, "The harbour wall is wet.")
    for number in range(12):
        await say(app, caller, TEA, "user", seq=number)
    found = await recall(app, caller, options=RetrievalOptions(1, 0.0, 0.0), present=(TEA,))
    assert contents(found) == ["The harbour wall is wet."]


async def test_a_turn_that_repeats_the_message_is_no_hit_but_a_memory_is(app: Application, caller: Caller) -> None:
    await say(app, caller, "Green tea")
    assert not (await recall(app, caller, "green tea?")).hits
    await remember(app, caller, "Green tea.")
    assert contents(await recall(app, caller, "green tea?")) == ["Green tea."]


async def test_texts_that_cannot_be_stored_are_no_obstacle(app: Application, caller: Caller) -> None:
    await remember(app, caller, "Maya likes green tea.")
    found = await recall(app, caller, present=("a\udc00b", "\0", "", "x" * 100_000))
    assert contents(found) == ["Maya likes green tea."]


async def test_only_this_user_of_this_tenant_is_searched(app: Application, caller: Caller) -> None:
    await remember(app, caller, "Ben likes green tea.", user_id="ben")
    await remember(app, await make_caller(app), "Maya likes green tea.")
    assert not (await recall(app, caller)).hits
    assert contents(await recall(app, caller, user_id="ben")) == ["Ben likes green tea."]


async def test_a_bound_key_finds_only_its_categories(app: Application, caller: Caller) -> None:
    await remember(app, caller, "Maya likes green tea.", category="preferences")
    await remember(app, caller, "Maya planned a tea party.", category="goals")
    await say(app, caller, "I like black tea.")
    name, seen = next(
        (agent, names)
        for agent, names in app.parts.policies.defaults.categories.allowlists.items()
        if "goals" in names and "preferences" not in names and "activity" not in names
    )
    bound = await make_caller(app, ("chat",), [name], tenant=caller)
    assert contents(await recall(app, bound)) == ["Maya planned a tea party."], seen


async def test_deleted_memories_procedures_and_summaries_are_no_hits(app: Application, caller: Caller) -> None:
    await remember(app, caller, "Maya likes green tea.")
    gone = await app.memory.write.write_memory(caller.scope, draft("Maya likes black tea.", type=MemoryType.episodic))
    assert gone.id is not None
    await app.memory.edit.soft_delete_memory(caller.scope, gone.id)
    steps = {"type": MemoryType.procedural, "category": "procedural", "steps_text": "1. Boil water.\n2. Add tea."}
    await app.memory.write.write_memory(caller.scope, draft("How Maya makes tea.", **steps))
    summary = {"type": MemoryType.summary, "category": app.parts.policies.defaults.turn_category}
    await app.memory.write.write_memory(caller.scope, draft("Maya spoke of tea.", thread_id="c1", **summary))
    await app.memory.write.write_memory(caller.scope, draft("Maya spoke of tea elsewhere.", thread_id="c2", **summary))
    found = await recall(app, caller)
    assert contents(found) == ["Maya likes green tea."]
    assert found.summary == "Maya spoke of tea."
    assert (await recall(app, caller, memory_id="c2")).summary == "Maya spoke of tea elsewhere."
    assert (await recall(app, caller, memory_id="c3")).summary is None
    assert (await recall(app, caller, user_id="ben")).summary is None


async def test_a_key_that_may_not_see_turns_gets_no_summary(app: Application, caller: Caller) -> None:
    summary = {"type": MemoryType.summary, "category": app.parts.policies.defaults.turn_category, "thread_id": "c1"}
    await app.memory.write.write_memory(caller.scope, draft("Maya spoke of tea.", **summary))
    lists = app.parts.policies.defaults.categories.allowlists
    name = next(agent for agent, names in lists.items() if app.parts.policies.defaults.turn_category not in names)
    bound = await make_caller(app, ("chat",), [name], tenant=caller)
    assert (await recall(app, bound)).summary is None
    assert (await recall(app, caller)).summary == "Maya spoke of tea."


async def test_no_summary_is_read_if_summaries_are_off(configured: Configured) -> None:
    app = await configured(policies={"summaries": {"enable_summarization": False}})
    caller = await make_caller(app)
    summary = {"type": MemoryType.summary, "category": app.parts.policies.defaults.turn_category, "thread_id": "c1"}
    await app.memory.write.write_memory(caller.scope, draft("Maya spoke of tea.", **summary))
    assert (await recall(app, caller)).summary is None


async def test_a_message_without_text_has_the_summary_alone(app: Application, caller: Caller) -> None:
    await remember(app, caller, "Maya likes green tea.")
    summary = {"type": MemoryType.summary, "category": app.parts.policies.defaults.turn_category, "thread_id": "c1"}
    await app.memory.write.write_memory(caller.scope, draft("Maya spoke of tea.", **summary))
    assert await recall(app, caller, " \n ") == ChatMemories(summary="Maya spoke of tea.")


@pytest.mark.parametrize("wrong", [{"top_k": 51}, {"recency_weight": 1.1}, {"score_threshold": -0.1}])
def test_options_out_of_range_are_refused(wrong: Mapping[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=f"memory_{next(iter(wrong))} is"):
        RetrievalOptions(**wrong)


@pytest.mark.parametrize("top_k", [0, -1])
async def test_no_memories_wanted_reads_nothing(app: Application, caller: Caller, top_k: int) -> None:
    await remember(app, caller, "Maya likes green tea.")
    assert await recall(app, caller, options=RetrievalOptions(top_k=top_k)) == ChatMemories()


@pytest.fixture
def embedder(local_model: Embedder, request: pytest.FixtureRequest) -> Embedder:
    """An embedder of the test's own, which it may stop, if it asks for `own`."""
    return KeepOpen(local_model) if "own" in request.fixturenames else local_model


@pytest.mark.usefixtures("own")
async def test_without_the_embedder_the_words_decide(
    app: Application, caller: Caller, embedder: KeepOpen, sql: asyncpg.Connection
) -> None:
    await remember(app, caller, "Maya likes green tea.", "The harbour wall is wet.")
    await say(app, caller, "Tea, please!")
    await say(app, caller, "The wall is wet.")
    embedder.failing = True
    found = await recall(app, caller, options=RetrievalOptions(), present=("tea, PLEASE",))
    assert contents(found) == ["Maya likes green tea."]
    assert found.degraded == "embedder_unavailable"
    assert await recall(app, caller, options=RetrievalOptions(top_k=0)) == ChatMemories()
    await app.parts.access.flush_pending()
    assert ("context", "search", "error") in await events_of(sql)


@pytest.mark.usefixtures("own")
async def test_what_is_found_counts_as_accessed(app: Application, caller: Caller, sql: asyncpg.Connection) -> None:
    await remember(app, caller, "Maya likes green tea.", "The harbour wall is wet.")
    [hit] = (await recall(app, caller, options=RetrievalOptions())).hits
    await app.parts.access.flush_pending()
    assert await sql.fetch("SELECT memory_id, hits FROM memory_access") == [(hit.id, 1)]
    row = await sql.fetchrow("SELECT op, status, user_id, thread_id, sim FROM events WHERE node = 'context'")
    assert row is not None
    assert tuple(row)[:4] == ("search", "ok", "maya", "c1")
    assert row["sim"] > 0.35


RECITAL = "My daughter's recital is on the 8th of June."
MOVED = "Actually it's on the 18th."


@pytest.mark.parametrize("places", [(1, 2, 3, 4), (None, None, None, None), (1, 2, None, None)])
async def test_a_message_comes_with_the_next_one_of_its_user(
    app: Application, caller: Caller, places: Sequence[int | None]
) -> None:
    spoken = [("user", RECITAL), ("assistant", "Noted!"), ("user", MOVED), ("user", "Is it in the town hall?")]
    for minute, (place, (role, text)) in enumerate(zip(places, spoken, strict=True)):
        await say(app, caller, text, role, seq=place, created_at=START + timedelta(minutes=minute))
    await say(app, caller, "Cancelled.", seq=2, thread_id="c2")
    two = RetrievalOptions(top_k=2, recency_weight=0.0, score_threshold=0.0)
    question = "When is my daughter's recital?"
    assert contents(await recall(app, caller, question, options=two)) == [MOVED, RECITAL]
    assert contents(await recall(app, caller, question, options=replace(two, top_k=1))) == [RECITAL]
    assert MOVED not in contents(await recall(app, caller, question, options=two, present=(MOVED,)))
    other = await make_caller(app)
    assert not (await recall(app, other, question, options=two)).hits


async def test_the_next_message_of_another_user_or_category_stays_out(app: Application, caller: Caller) -> None:
    await say(app, caller, RECITAL, seq=1)
    await say(app, caller, "Sing louder.", seq=2, user_id="ben")
    await say(app, caller, MOVED, seq=3, category="goals")
    bound = replace(caller, scope=replace(caller.scope, categories=frozenset({"activity"})))
    two = RetrievalOptions(top_k=2, recency_weight=0.0, score_threshold=0.0)
    assert contents(await recall(app, bound, "When is the recital?", options=two)) == [RECITAL]
    assert set(contents(await recall(app, caller, "When is the recital?", options=two))) == {MOVED, RECITAL}


async def test_the_default_profile_may_rank_for_chat(configured: Configured) -> None:
    app = await configured(policies={"chat": {"profile": "default"}})
    caller = await make_caller(app)
    await say(app, caller, "I like green tea.", actor_id="maya")
    await remember(app, caller, "Maya's favourite tea is oolong.", "The harbour wall is wet.")
    found = await recall(app, caller, options=RetrievalOptions(), present=("I like green tea!",))
    assert contents(found)[:1] == ["Maya's favourite tea is oolong."]
    assert not (await recall(app, caller, options=RetrievalOptions(score_threshold=1.0))).hits


@pytest.fixture
async def model() -> AsyncIterator[RerankServer]:
    """A cross-encoder behind HTTP."""
    async with rerank_server("tei") as running:
        yield running


@pytest.mark.usefixtures("own")
async def test_a_cross_encoder_reads_both_pools_and_orders_them(
    settings: Settings, model: RerankServer, embedder: Embedder, clock: Clock
) -> None:
    given = {"reranker": "http", "reranker_base_url": model.base_url, "reranker_timeout_s": 60.0, "pool_max": 1}
    async with build_application(settings.model_copy(update=given), Doubles(embedder=embedder, clock=clock)) as app:
        caller = await make_caller(app)
        await remember(app, caller, *(f"Tea {n} is drunk." for n in range(9)))
        for number in range(9):
            await say(app, caller, f"What tea {number} does Maya like to drink", seq=number)
        found = await recall(app, caller, options=RetrievalOptions(2, 0.0, 0.5))
        assert sum(len(request["texts"]) for request in model.requests) == 2 * 2 * 3
        assert [content[:8] for content in contents(found)] == ["What tea"] * 2
        assert found.hits[0].score > 0.9


@pytest.mark.usefixtures("own")
async def test_a_memory_stays_in_its_scope_however_its_vector_was_stored(
    app: Application, caller: Caller, embedder: KeepOpen, sql: asyncpg.Connection
) -> None:
    written = await app.memory.write.write_memory(
        caller.scope, draft("Maya likes green tea.", type=MemoryType.episodic, category="knowledge", thread_id="c1")
    )
    assert written.id is not None
    await app.memory.edit.patch_memory(caller.scope, written.id, {"text": "Maya likes black tea."}, version=None)
    turn = draft("I like mint tea.", type=MemoryType.turn, category="activity", thread_id="c1", role="user")
    embedder.failing = True
    await app.memory.turns.store_turn(caller.scope, turn)
    embedder.failing = False
    assert contents(await recall(app, caller)) == ["Maya likes black tea."]
    embed = build_embed_missing(app.parts.uow, VECTORS.removeprefix("vec_"), embedder, 100)
    await embed.embed_all(caller.scope)
    assert set(contents(await recall(app, caller))) == {"Maya likes black tea.", "I like mint tea."}
    for other in ("c2", "global"):  # the turn stays; what was learnt is known everywhere
        assert contents(await recall(app, caller, memory_id=other)) == ["Maya likes black tea."]
    keys = (
        f"SELECT count(*) FROM {VECTORS} v JOIN memories m ON m.id = v.memory_id WHERE v.thread_key = thread_key('c1')"
    )
    assert await sql.fetchval(keys) == 2


async def test_a_conversation_may_know_itself_and_global_alone(configured: Configured, caller: Caller) -> None:
    app = await configured(policies={"chat": {"across_conversations": False}})
    await say(app, caller, "I like green tea.")
    await remember(app, caller, "Maya's favourite tea is oolong.", thread_id="global")
    await remember(app, caller, "Maya likes black tea at breakfast.")
    await remember(app, caller, "Maya likes mint tea.", thread_id="c2", type=MemoryType.semantic)
    assert set(contents(await recall(app, caller))) == {"I like green tea.", "Maya's favourite tea is oolong."}
    assert contents(await recall(app, caller, memory_id="global")) == ["Maya's favourite tea is oolong."]


async def test_the_newest_instructions_of_all_scopes_come(app: Application, caller: Caller) -> None:
    for at, text in enumerate(("Never use emojis.", "Always cite your sources.", "Always answer in German.")):
        await say(app, caller, text, created_at=START + timedelta(days=at))
    late = {"type": MemoryType.semantic, "category": "preferences", "created_at": START + timedelta(days=9)}
    await remember(app, caller, "Always end your replies with a summary.", **late)
    found = await recall(app, caller, options=RetrievalOptions(top_k=1, score_threshold=0.99))
    assert "Always end your replies with a summary." in contents(found)
    assert "Never use emojis." not in contents(found)
