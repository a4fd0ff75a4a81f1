"""Pages about what an agent was told: the receipts of a memory, and the page of one answer."""

import asyncio
from uuid import uuid4

from mnema_client import AsyncMnema
from nicegui.testing import User

from tests.console.people import sees

QUESTION = "When is the deployment of billing?"


async def test_a_memory_shows_its_uses_and_an_answer_the_text_of_then(person: User, memory: AsyncMnema) -> None:
    written = await memory.remember("Deploy billing on Friday.", user_id="maya", category="tasks", thread_id="launch")
    assert written.id is not None
    answer = await memory.query(QUESTION, agent="planner", filters={"user_id": "maya"}, thread_id="launch")
    assert answer.items
    await memory.edit(written.id, text="Deploy billing on Monday.")
    for _ in range(200):
        if [use async for use in memory.memory_uses(written.id)]:
            break
        await asyncio.sleep(0.1)  # the receipt follows its answer
    await person.open(f"/memories/{written.id}")
    await sees(person, "planner")
    await person.open(f"/answers/{answer.query_id}")
    await sees(person, "Deploy billing on Friday.")
    await person.should_see("now version 2")
    await person.should_see("Its question is not kept.")
    await person.should_not_see(QUESTION)


async def test_an_unknown_answer_is_explained(person: User) -> None:
    await person.open(f"/answers/{uuid4()}")
    await sees(person, "Not found")
    await person.open("/answers/nothing")
    await sees(person, "This is not an answer's id")


async def test_a_memory_that_nobody_asked_for_says_so(person: User, memory: AsyncMnema) -> None:
    written = await memory.remember("Deploy on Friday.", user_id="maya", category="tasks")
    await person.open(f"/memories/{written.id}")
    await sees(person, "No answer contained it")
