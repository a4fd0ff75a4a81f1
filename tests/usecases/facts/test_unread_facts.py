"""A message that may take back a fact: a process that does not know whether the user has facts asks with the write."""

from typing import Any

import pytest

from app.bootstrap import Application
from app.domain.memory.memory import MemoryType, NewMemory
from app.usecases.facts.store import FactPlace
from tests.factories import Caller

CHANGE = "I don't like teal anymore."


def turn(text: str, **fields: Any) -> NewMemory:
    """Return a message of Maya."""
    values: dict[str, Any] = {"user_id": "maya", "thread_id": "t", "role": "user", "category": "activity"}
    return NewMemory(text=text, type=MemoryType.turn, **(values | fields))


@pytest.mark.parametrize("fact_thread", ["t", "another"])
async def test_a_fact_that_this_process_does_not_know_is_taken_back(
    app: Application, caller: Caller, fact_thread: str
) -> None:
    place = FactPlace("maya", fact_thread)
    await app.facts.store.store_text(caller.scope, place, "My favorite colors are teal and red.")
    for text in (CHANGE, "Actually, I don't like red either anymore."):
        await app.memory.turns.store_turn(caller.scope, turn(text))
    answer = await app.facts.answer.find_answer(caller.scope, "maya", "t", "What are my favorite colors?")
    assert [fact.value for fact in answer.facts] == []


async def test_a_refused_turn_of_a_user_with_facts_is_not_stored_twice(app: Application, caller: Caller) -> None:
    await app.facts.store.store_text(caller.scope, FactPlace("maya", "t"), "My favorite color is teal.")
    await app.memory.turns.store_turn(caller.scope, turn(CHANGE))
    page = await app.recall.threads.list_turns(caller.scope, "t", "maya", None, 10)
    assert [memory.text for memory in page.items] == [CHANGE]
