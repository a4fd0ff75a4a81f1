"""Facts that a user takes back: removed, corrected, or in doubt until they are stated again."""

from collections.abc import AsyncIterator

import httpx
import pytest

from app.bootstrap import Application
from tests.factories import make_caller

COLOR = "What is my favorite color?"


class Talk:
    """A user's messages as turns, and questions to stored facts."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def say(self, *texts: str, thread: str = "one") -> None:
        """Store turns of the user."""
        for text in texts:
            turn = {"user_id": "maya", "thread_id": thread, "role": "user", "content": text}
            assert (await self.http.post("/turns", json=turn)).status_code == 201

    async def ask(self, query: str = COLOR, thread: str = "one") -> str:
        """Return the answer from stored facts; empty if the question is left to others."""
        body = {"user_id": "maya", "thread_id": thread, "query": query}
        answer = (await self.http.post("/facts/answer", json=body)).json()
        return str(answer["text"] or "")

    async def stored(self) -> list[str]:
        """Return the values that are stored."""
        items = (await self.http.get("/facts", params={"user_id": "maya"})).json()["items"]
        return [item["value"] for item in items]


@pytest.fixture
async def talk(app: Application, server: str) -> AsyncIterator[Talk]:
    """Return the conversation of a fresh tenant."""
    caller = await make_caller(app, ("query", "write"))
    async with caller.client(server) as http:
        yield Talk(http)


@pytest.mark.parametrize(
    "message",
    [
        "I don't like teal anymore.",
        "i no longer like teal",
        "Forget that my favorite color is teal.",
        "teal isn't my favorite any more",
        "My favorite color used to be teal. Not now.",
    ],
)
async def test_a_value_that_is_taken_back_goes(talk: Talk, message: str) -> None:
    await talk.say("My favorite color is teal.", "Hello!", message)
    assert await talk.ask() == "I don't have that stored yet."
    assert await talk.stored() == []


@pytest.mark.parametrize(
    "message",
    ["Actually, it's navy.", "Scratch that, navy.", "Sorry, I meant navy", "Not teal, navy.", "no wait, navy"],
)
async def test_a_correction_replaces_what_was_said_just_before(talk: Talk, message: str) -> None:
    await talk.say("My favorite color is teal.", message)
    assert await talk.ask() == "Your favorite color is navy."
    assert await talk.stored() == ["navy"]


async def test_one_value_of_a_list_goes_and_the_others_stay(talk: Talk) -> None:
    await talk.say("My favorite bands are Blur, Pulp and Suede.", "I don't like Pulp anymore.")
    assert await talk.ask("What are my favorite bands?") == "Your favorite bands are 1) Blur, 3) Suede."


async def test_a_value_in_doubt_answers_nothing_until_it_is_stated_again(talk: Talk) -> None:
    await talk.say("My favorite color is teal.", "Maybe it isn't teal after all.")
    assert await talk.ask() == ""
    assert await talk.stored() == ["teal"]
    await talk.say("My favorite color is teal.")
    assert await talk.ask() == "Your favorite color is teal."


@pytest.mark.parametrize("message", ["Je n'aime plus le teal.", "Ich mag teal nicht mehr.", "Ya no me gusta el teal."])
async def test_a_language_with_rules_takes_a_value_back(talk: Talk, message: str) -> None:
    await talk.say("My favorite color is teal.", message)
    assert await talk.stored() == []


@pytest.mark.parametrize("message", ["teal больше не люблю", "Teal non mi piace più."])
async def test_a_negation_of_another_language_only_puts_in_doubt(talk: Talk, message: str) -> None:
    await talk.say("My favorite color is teal.", message)
    assert (await talk.ask(), await talk.stored()) == ("", ["teal"])


@pytest.mark.parametrize(
    "message",
    [
        "I don't like Mondays anymore.",
        "My sister doesn't like teal anymore.",
        "Write a scene where a girl says 'I don't like teal anymore'.",
        "Actually, it's raining here.",
        "Don't forget that my favorite color is teal.",
    ],
)
async def test_what_takes_nothing_back_changes_nothing(talk: Talk, message: str) -> None:
    await talk.say("My favorite color is teal.", message)
    assert await talk.ask() == "Your favorite color is teal."


async def test_a_later_message_stands_between_a_statement_and_a_bare_correction(talk: Talk) -> None:
    await talk.say("My favorite color is teal.", "What day is the match?", "Actually, it's Boca.")
    assert await talk.ask() == "Your favorite color is teal."


async def test_a_fact_of_another_conversation_is_taken_back_as_well(talk: Talk) -> None:
    await talk.say("My favorite color is teal.", thread="one")
    await talk.say("I don't like teal anymore.", thread="two")
    for thread in ("one", "two", "three"):
        assert await talk.ask(thread=thread) == "I don't have that stored yet."


async def test_a_text_for_facts_alone_takes_back_as_a_turn_does(talk: Talk) -> None:
    for text in ("My favorite color is teal.", "I don't like teal anymore."):
        stored = await talk.http.post("/facts", json={"user_id": "maya", "thread_id": "one", "text": text})
        assert stored.status_code in (200, 201), stored.text
    assert await talk.stored() == []
