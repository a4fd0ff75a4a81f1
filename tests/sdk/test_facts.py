"""Facts through the client: store, list, change, answer, and the record of every change."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from mnema_client import CannotBeSent, InvalidRequest, MemoryActions, Mnema, NewFact, NotFound

from tests.factories import Caller
from tests.sdk.conftest import Either, apart

COLORS = "My favorite colors are blue, green and black."
HERE: dict[str, Any] = {"thread_id": "launch"}


def values(facts: Any) -> list[tuple[int | None, str]]:
    return [(fact.rank, fact.value) for fact in facts]


async def test_a_message_is_read_for_facts_and_a_question_is_answered_from_them(either: Either) -> None:
    stored = await either.store_facts("maya", text=COLORS, source_message_id="m1", **HERE)
    assert values(stored.facts) == [(1, "blue"), (2, "green"), (3, "black")]
    assert {(fact.action, fact.topic_key, fact.source_message_id) for fact in stored.facts} == {
        ("store", "favorite_colors", "m1")
    }
    assert (stored.memory_actions, stored.revision) == (
        MemoryActions(S=3, U=0, R=0, F=False),
        3,
    )  # a revision for each fact
    assert stored.model_label == "Model: Memory-S(3) + GPT-5"
    reply = await either.answer_fact("What's my second favorite color?", user_id="maya", **HERE)
    assert (reply.answered, reply.text) == (True, "Your second favorite color is green.")
    assert values(reply.facts) == [(2, "green")]
    assert (reply.meta.usedMemory, reply.meta.usedWebSearch, reply.memory_actions.R) == (True, False, 1)
    before = {"as_of": datetime(2020, 1, 1, tzinfo=UTC)}
    assert list(await either.facts("maya", **before)) == []
    assert not (await either.answer_fact("What's my second favorite color?", user_id="maya", **HERE, **before)).answered
    with pytest.raises(NotFound):
        await either.fact(stored.facts[0].id, **before)
    with pytest.raises(NotFound):
        await either.fact_at("maya", "favorite_colors", 2, **HERE, **before)
    nothing = await either.store_facts("maya", text="Good morning.", **HERE)
    assert (nothing.facts, nothing.memory_actions) == ([], MemoryActions(S=0, U=0, R=0, F=False))
    other = await either.answer_fact("Why is the sky blue?", user_id="maya", **HERE)
    assert (other.answered, other.text, other.facts) == (False, None, [])


async def test_one_label_tells_what_was_stored_and_what_was_retrieved(either: Either) -> None:
    stored = await either.store_facts("maya", text=COLORS, model="m2", **HERE)
    assert stored.model_label == "Model: Memory-S(3) + m2"
    question = "What's my second favorite color?"
    for so_far in (stored.memory_actions, {"S": 3}):
        reply = await either.answer_fact(
            question, user_id="maya", model="m2", used_web_search=True, memory_actions=so_far, **HERE
        )
        assert reply.model_label == "Model: Memory-S(3) + Memory-R(1) + Brave + m2"
        assert (reply.memory_actions, reply.meta.usedWebSearch) == (MemoryActions(S=3, U=0, R=1, F=False), True)


async def test_given_facts_are_stored_changed_and_removed_with_a_record(either: Either) -> None:
    city = {"topic_key": "favorite_city", "kind": "single", "value": "Rome"}
    given = [NewFact(topic_key="favorite_teas", value="oolong", rank=1), city]
    stored = await either.store_facts("maya", facts=given)
    assert [(fact.topic_key, fact.kind, fact.rank) for fact in stored.facts] == [
        ("favorite_teas", "ranked", 1),
        ("favorite_cities", "single", None),
    ]
    tea = stored.facts[0].id
    assert (await either.fact(tea)).value == "oolong"
    assert (await either.fact_at("maya", "favorite_teas", 1)).id == tea
    changed = await either.set_fact(tea, "sencha", idempotency_key="once")
    again = await either.set_fact(str(tea), "sencha", idempotency_key="once")
    assert (changed.id, changed.value, again.value) == (tea, "sencha", "sencha")
    assert (await either.delete_fact(tea)).value == "sencha"
    with pytest.raises(NotFound):
        await either.fact(tea)
    with pytest.raises(NotFound):
        await either.fact_at("maya", "favorite_teas", 1)
    events = [entry.event for entry in await either.fact_history(tea, limit=1)]
    assert events == ["DELETE", "UPDATE", "ADD"]
    assert values(await either.facts("maya")) == [(None, "Rome")]


async def test_a_list_runs_through_its_pages_by_topic_thread_and_rank(either: Either) -> None:
    for thread in ("one", "two"):
        ranked = [NewFact(topic_key="favorite_teas", value=f"tea {n} of {thread}", rank=n) for n in (3, 1, 2)]
        await either.store_facts("maya", facts=ranked, thread_id=thread)
    await either.store_facts("maya", text=COLORS, thread_id="two")
    every = await either.facts("maya", limit=2)
    assert [(fact.topic_key, fact.thread_id, fact.rank) for fact in every] == [
        *(("favorite_colors", "two", n) for n in (1, 2, 3)),
        *(("favorite_teas", "one", n) for n in (1, 2, 3)),
        *(("favorite_teas", "two", n) for n in (1, 2, 3)),
    ]
    assert len(await either.facts("maya", thread_id="two")) == 6
    assert len(await either.facts("maya", thread_id="two", topic_key="favorite_teas", limit=1)) == 3
    assert await either.facts("ben") == []


async def test_an_older_statement_overwrites_nothing_and_a_repeated_one_is_done_once(either: Either) -> None:
    first = await either.store_facts("maya", text=COLORS, idempotency_key="once", **HERE)
    again = await either.store_facts("maya", text=COLORS, idempotency_key="once", **HERE)
    assert [fact.id for fact in again.facts] == [fact.id for fact in first.facts]
    assert again.memory_actions == MemoryActions(S=3, U=0, R=0, F=False)
    old = [NewFact(topic_key="favorite_colors", value="red", rank=1)]
    late = await either.store_facts("maya", facts=old, created_at=datetime(2020, 1, 1, tzinfo=UTC), **HERE)
    assert [(fact.value, fact.action) for fact in late.facts] == [("blue", None)]


async def test_refusals_name_what_is_wrong(either: Either) -> None:
    with pytest.raises(InvalidRequest, match="rank_out_of_range"):
        await either.store_facts("maya", facts=[NewFact(topic_key="favorite_teas", value="x", rank=11)])
    with pytest.raises(CannotBeSent, match="text or facts"):
        await either.store_facts("maya")
    with pytest.raises(InvalidRequest, match="empty_text"):
        await either.store_facts("maya", facts=[NewFact(topic_key="favorite_teas", value=" ", rank=1)])
    with pytest.raises(NotFound):
        await either.set_fact(uuid4(), "x")
    with pytest.raises(NotFound):
        await either.delete_fact(uuid4())
    with pytest.raises(CannotBeSent, match="did you mean 'topic_key'"):
        await either.store_facts("maya", facts=[{"topic": "favorite_teas", "value": "x"}])


async def test_a_turn_counts_its_facts_and_a_query_tells_the_answer_first(server: str, caller: Caller) -> None:
    def converse() -> None:
        with Mnema(server, caller.key) as memory:
            turn = memory.add_turn(COLORS, user_id="maya", role="user", **HERE)
            assert turn.memory_actions == MemoryActions(S=3, U=0, R=0, F=False)
            assert memory.add_turn("Good morning.", user_id="maya", role="user", **HERE).memory_actions is None
            asked: dict[str, Any] = {"agent": "supervisor", "filters": {"user_id": "maya"}, "thread_id": "launch"}
            answer = memory.query("What's my second favorite color?", **asked)
            assert answer.fact_answer is not None
            assert values(answer.fact_answer.facts) == [(2, "green")]
            lines = answer.prompt().splitlines()
            assert lines[len(answer.header.splitlines())] == "Your second favorite color is green."
            assert memory.query("the weather", **asked).fact_answer is None
            without = memory.query("What's my second favorite color?", **asked | {"filters": {"user_id": "ben"}})
            assert without.fact_answer is not None
            assert (without.fact_answer.answered, "stored" in without.prompt()) == (False, False)

    await apart(converse)
