"""The search with citations ranks as memory.query does, without an agent's limits."""

from datetime import UTC, datetime
from typing import Any

import pytest

from app.bootstrap import Application
from app.domain.errors import InvalidInput
from app.domain.filters import Filters
from app.domain.memory.memory import MemoryType
from app.ports import Embedder
from app.storage.uow import UnitOfWork
from app.usecases.recall.request import Query
from app.usecases.recall.search import SearchAnswer, SearchQuery
from tests.factories import Caller, KeepOpen, draft, make_caller
from tests.usecases.conftest import Configured

OF_MAYA = Filters(user_id="maya")
START = datetime(2025, 1, 10, 9, tzinfo=UTC)
TALK = (
    "Where did you buy the boat, Maya?",
    "In Porto, for next to nothing!",
    "The boat needs a new sail.",
    "I sail on Sundays only.",
    "Ben repairs the harbour wall.",
    "The choir sings on Monday.",
)


@pytest.fixture
async def talk(app: Application, caller: Caller) -> None:
    """Store turns of two threads, and facts in several categories."""
    for number, text in enumerate(TALK):
        turn = draft(
            text,
            type=MemoryType.turn,
            category="activity",
            thread_id=f"t{number // 4}",
            seq=number,
            actor_id=("Ben", "Maya")[number % 2],
            created_at=START,
        )
        await app.memory.write.write_memory(caller.scope, turn)
    for category, text in (("tasks", "Maya paints the boat."), ("goals", "Maya wants to sail to Porto.")):
        await app.memory.write.write_memory(caller.scope, draft(text, category=category, created_at=START))


async def search(app: Application, caller: Caller, query: str, **fields: Any) -> SearchAnswer:
    """Search maya's memories without a minimum of relevance."""
    request = SearchQuery(query, **{"filters": OF_MAYA, "min_relevance": 0.0} | fields)
    return await app.recall.search.search_memories(caller.scope, request)


@pytest.mark.long
@pytest.mark.usefixtures("talk")
@pytest.mark.parametrize("question", ["Where did Maya buy the boat?", "sail", "Who sings, and when?"])
async def test_the_order_is_that_of_the_query(app: Application, caller: Caller, question: str) -> None:
    ranked = ("activity", "tasks", "goals")  # `profile` comes whole in a query
    asked = Query("supervisor", question, ranked, OF_MAYA, 8, 8192, min_relevance=0.0, thread_id="t0", since_rev=99)
    expected = [item for item in (await app.recall.query.answer_query(caller.scope, asked)).items if item.ranked]
    found = await search(app, caller, question, top_k=8, thread_id="t0")
    assert [result.memory.id for result in found.results] == [item.memory.id for item in expected]
    assert [result.ranked.scored.relevance for result in found.results] == pytest.approx(
        [item.ranked.scored.relevance for item in expected if item.ranked], rel=1e-6
    )
    assert len(expected) >= 6


@pytest.mark.usefixtures("talk")
async def test_a_thread_decides_between_equals_and_never_filters(app: Application, caller: Caller) -> None:
    for thread in ("a", "b"):
        turn = draft("The tide is low.", type=MemoryType.turn, category="activity", thread_id=thread, created_at=START)
        await app.memory.write.write_memory(caller.scope, turn)
    for thread in ("a", "b", "a"):
        found = await search(app, caller, "How is the tide?", thread_id=thread)
        assert [r.memory.thread_id for r in found.results if r.text == "The tide is low."] == [thread]
        assert found.results[0].memory.thread_id == thread
        assert len(found.results) == 5


@pytest.mark.long
async def test_as_many_are_found_as_match_whatever_an_agent_is_given_of_a_category(
    app: Application, caller: Caller
) -> None:
    for number in range(60):
        turn = draft(f"Lap {number} of the race.", type=MemoryType.turn, category="event", seq=number, thread_id="race")
        await app.memory.write.write_memory(caller.scope, turn)
    assert app.parts.policies.defaults.categories.get_category("event").rag_length < 50
    found = await search(app, caller, "the race", top_k=50)
    assert len(found.results) == 50
    assert [result.mark for result in found.results] == [f"M{n}" for n in range(1, 51)]
    assert len((await search(app, caller, "the race")).results) == app.parts.policies.defaults.query.top_k


async def test_a_category_that_comes_whole_to_agents_is_ranked_here(app: Application, caller: Caller) -> None:
    assert app.parts.policies.defaults.categories.get_category("profile").context == "all"
    for text in ("Maya is a carpenter.", "Maya is left-handed.", "Maya has two sisters."):
        await app.memory.write.write_memory(caller.scope, draft(text, category="profile"))
    found = await search(app, caller, "What is Maya's job? A carpenter?", top_k=1)
    assert [result.text for result in found.results] == ["Maya is a carpenter."]


async def test_a_superseded_memory_is_not_found(configured: Configured) -> None:
    app = await configured(policies={"write": {"merge_mode": "recreate"}})
    caller = await make_caller(app)
    for text in ("Maya plays chess.", "Maya plays chess, tennis and golf."):
        await app.memory.write.write_memory(caller.scope, draft(text))
    assert [r.text for r in (await search(app, caller, "chess")).results] == ["Maya plays chess, tennis and golf."]


async def test_the_configured_snippet_cuts_unless_the_request_names_one(configured: Configured) -> None:
    app = await configured(policies={"query": {"snippet": 40}})
    caller = await make_caller(app)
    text = "The first sentence is rather short. The second one is cut off here."
    await app.memory.write.write_memory(caller.scope, draft(text, type=MemoryType.turn, category="activity"))
    assert [r.text for r in (await search(app, caller, "sentence")).results] == ["The first sentence is rather short."]
    assert [r.text for r in (await search(app, caller, "sentence", snippet=400)).results] == [text]


@pytest.fixture
def embedder(local_model: Embedder) -> Embedder:
    """An embedder of this module, which a test may stop."""
    return KeepOpen(local_model)


@pytest.mark.usefixtures("talk")
async def test_without_the_embedder_words_alone_find(app: Application, caller: Caller, embedder: KeepOpen) -> None:
    embedder.failing = True
    found = await search(app, caller, "choir")
    assert found.degraded == "embedder_unavailable"
    assert found.results[0].text == "The choir sings on Monday."
    embedder.failing = False
    assert (await search(app, caller, "choir")).degraded is None


@pytest.mark.usefixtures("talk")
async def test_a_search_takes_two_calls_on_one_connection(
    app: Application, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, calls = [], UnitOfWork.calls
    monkeypatch.setattr(UnitOfWork, "calls", lambda *given: opened.append(given) or calls(*given))
    monkeypatch.setattr(UnitOfWork, "read", None)
    monkeypatch.setattr(UnitOfWork, "write", None)
    assert (await search(app, caller, "boat")).results
    assert len(opened) == 1


async def test_a_key_without_a_category_finds_nothing_and_a_blank_query_is_refused(
    app: Application, caller: Caller
) -> None:
    await app.memory.write.write_memory(caller.scope, draft())
    idle = Caller(caller.key, type(caller.scope)(caller.scope.tenant_id, categories=frozenset({"procedural"})))
    assert (await search(app, idle, "oat milk")).results == []
    for who in (caller, idle):
        with pytest.raises(InvalidInput, match="query is empty"):
            await search(app, who, " \n ")
