"""Search with citations and the replay of a thread, by both clients."""

from typing import Any
from uuid import UUID

import pytest
from mnema_client import CannotBeSent, Citation, InvalidRequest, NotFound, SearchAnswer

from app.bootstrap import Application
from tests.factories import Caller
from tests.sdk.conftest import Either

TURN: dict[str, Any] = {"user_id": "maya", "thread_id": "trips", "role": "user"}


async def test_what_is_found_has_a_mark_that_leads_to_its_source(either: Either) -> None:
    turn = await either.add_turn("The night train to Lisbon is booked.", seq=1, actor_id="maya", **TURN)
    place = {"path": "guides/lisbon.md", "start": 10, "end": 52}
    chunk = await either.remember(
        "Lisbon's trams run until one at night.", user_id="maya", category="knowledge", type="chunk", metadata=place
    )
    await either.add_turn("Ben never saw Lisbon.", user_id="ben", thread_id="trips", role="user")
    answer = await either.search("Lisbon", user_id="maya", thread_id="elsewhere", top_k=5, min_relevance=0)
    assert isinstance(answer, SearchAnswer)
    assert {result.id for result in answer.results} == {turn.id, chunk.id}
    assert answer.text.splitlines() == [f"[{result.mark}] {result.text}" for result in answer.results]
    sources = {source.memory_id: source for source in answer.citations.values()}
    said, cited = sources[turn.id], sources[chunk.id]
    assert isinstance(said, Citation)
    assert (said.thread_id, said.chat_id, said.seq, said.role, said.message_id) == (
        *("trips", "trips", 1, "user"),
        str(turn.id),
    )
    assert (cited.path, cited.start, cited.end) == ("guides/lisbon.md", 10, 52)
    assert (answer.tokens, answer.degraded) == (None, None)
    [only] = (await either.search("Lisbon", types=["chunk"], min_relevance=0, budget_tokens=100, limit=3)).results
    assert (only.mark, only.id, only.type) == ("M1", chunk.id, "chunk")
    assert (await either.search("Lisbon", exclude_ids=[turn.id, chunk.id], user_id="maya", min_relevance=0)).text == ""


async def test_the_older_names_and_refusals(either: Either, app: Application, caller: Caller) -> None:
    await either.add_turn("The night train to Lisbon is booked.", **TURN)
    project = str(caller.scope.tenant_id)
    assert (await either.search("Lisbon", project_id=project, chat_id="trips", min_relevance=0)).results
    with pytest.raises(NotFound) as unknown:
        await either.search("Lisbon", project_id="another")
    assert unknown.value.code == "unknown_project"
    with pytest.raises(InvalidRequest):
        await either.search("Lisbon", chat_id="a", thread_id="b")
    with pytest.raises(CannotBeSent, match=r"types\.0"):
        await either.search("Lisbon", types=["procedural"])


async def test_a_thread_is_replayed_through_all_its_pages(either: Either) -> None:
    ids: list[UUID] = []
    for number in range(7):
        ids.append((await either.add_turn(f"Turn {number}.", seq=number, metadata={"n": number}, **TURN)).id)
    await either.add_turn("Another user.", user_id="ben", thread_id="trips", role="user", seq=3)
    turns = await either.thread_turns("trips", user_id="maya", limit=3)
    assert [turn.id for turn in turns] == ids
    assert [(turn.content, turn.seq, turn.metadata) for turn in turns[:2]] == [
        ("Turn 0.", 0, {"n": 0}),
        ("Turn 1.", 1, {"n": 1}),
    ]
    assert len(await either.thread_turns("trips")) == 8
    assert await either.thread_turns("a/b ../é?#%..") == []
