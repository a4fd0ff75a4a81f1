"""The page Ask: the answer in its exact words, why each item is in it, and what was left out."""

import asyncio

from mnema_client import AsyncMnema
from mnema_wire.recall import DROP_REASONS as REASONS
from nicegui import ui
from nicegui.testing import User

from console.pages.ask import explain_score
from console.words import DROP_REASONS
from tests.console.people import press, sees


async def test_it_shows_the_exact_text_the_reasons_and_the_receipt(person: User, memory: AsyncMnema) -> None:
    await memory.remember("Deploy the billing service on Friday.", user_id="maya", category="tasks", pinned=True)
    await memory.remember("Maya tunes the piano.", user_id="maya", category="tasks")
    await person.open("/ask?agent=planner&user_id=maya")
    await sees(person, "Ask as an agent")
    await wait_for_agents(person)
    person.find("Question").type("When is the deployment?")
    await press(person, "Ask")
    await sees(person, "What the agent reads")
    [exact] = person.find(marker="exact-text").elements
    assert isinstance(exact, ui.label)
    assert "Deploy the billing service on Friday." in exact.text
    assert exact.text.startswith("[tasks] Deploy")
    await sees(person, "Why these")
    await sees(person, "cosine similarity")
    asked = await memory.query("When is the deployment?", agent="planner", filters={"user_id": "maya"}, explain=True)
    score = asked.items[0].score
    assert score is not None
    assert explain_score(score.parts)
    await sees(person, explain_score(score.parts))
    await sees(person, "Open the receipt")


async def test_it_shows_what_the_allowlist_hides(person: User, memory: AsyncMnema) -> None:
    await memory.remember("Maya is allergic to peanuts.", user_id="maya", category="constraints")
    await person.open("/ask?agent=planner&user_id=maya")
    await wait_for_agents(person)
    person.find("Question").type("What is Maya allergic to?")
    await press(person, "Ask")
    await sees(person, "Better matches are in categories that the agent may not see: constraints")


async def test_a_question_needs_words(person: User) -> None:
    await person.open("/ask")
    await wait_for_agents(person)
    await press(person, "Ask")
    await sees(person, "Give an agent and a question.")


async def test_nothing_that_fits_says_what_to_do(person: User) -> None:
    await person.open("/ask?user_id=nobody&q=What%20now")
    await wait_for_agents(person)
    await press(person, "Ask")
    await sees(person, "Nothing was found")


def test_a_score_is_told_by_its_largest_parts() -> None:
    parts = {"dense": 1.0, "lexical": -2.0, "recency": 0.1, "pinned": 3.0}
    assert explain_score(parts) == "It is pinned, and its meaning is close to the question's."
    assert explain_score({"dense": -1.0}) == ""


def test_every_reason_has_words() -> None:
    assert set(REASONS) <= DROP_REASONS.keys()


async def wait_for_agents(person: User) -> None:
    """Wait until the drop-down of the agents is filled and one is chosen."""
    [field] = [field for field in person.find(ui.select).elements if field.props.get("label") == "Agent"]
    assert isinstance(field, ui.select)
    for _ in range(600):
        if field.value:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("no agents")
