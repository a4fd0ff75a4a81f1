"""The page Threads: the list with counts, the turns of a thread, what was told between them, and the next header."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from mnema_client import AsyncMnema
from mnema_wire.recall import Answer, ThreadTurn
from mnema_wire.receipts import QueryReceipt
from nicegui import ui
from nicegui.testing import User

from app.bootstrap import Application
from console.pages.thread_story import place_answers
from console.texts import reveal_text
from tests.console.people import People, press, sees
from tests.factories import Caller, make_caller

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
async def talk(memory: AsyncMnema) -> str:
    """Return the id of a thread with two turns and a memory."""
    await memory.add_turn("When do we launch?", user_id="maya", thread_id="talk", role="user", seq=1)
    await memory.add_turn("On Friday.", user_id="maya", thread_id="talk", role="assistant", seq=2)
    await memory.remember("Launch on Friday.", user_id="maya", category="tasks", thread_id="talk")
    return "talk"


async def test_threads_are_listed_with_counts(person: User, memory: AsyncMnema, talk: str) -> None:
    await memory.remember("Ben plays chess.", user_id="ben", category="interests", thread_id="club")
    await person.open("/threads")
    for shown in ("talk", "club", "ben", "2 shown, all of them"):
        await sees(person, shown)
    await person.open("/threads?user_id=ben")
    await sees(person, "1 shown, all of them")
    await person.should_not_see("talk")


async def test_a_tenant_without_threads_is_told_how_to_begin(person: User) -> None:
    await person.open("/threads")
    await sees(person, "No threads")


async def ask(memory: AsyncMnema, thread_id: str) -> Answer:
    """Ask as the planner. The receipt is stored when this returns, so that later turns are later."""
    answer = await memory.query(
        "When is the launch?", agent="planner", thread_id=thread_id, filters={"user_id": "maya"}
    )
    assert answer.query_id is not None
    await memory.get_query(answer.query_id)
    return answer


def shown_texts(person: User) -> list[str]:
    """Return the visible labels in the order of the page."""
    assert person.client is not None
    return [element.text for element in person.client.layout.descendants() if isinstance(element, ui.label)]


async def test_a_thread_shows_its_turns_in_order(person: User, talk: str) -> None:
    await person.open(f"/threads?thread_id={talk}")
    await sees(person, "On Friday.")
    await sees(person, "memories, with turns")
    texts = shown_texts(person)
    assert texts.index("When do we launch?") < texts.index("On Friday.")
    assert "user" in texts
    assert "assistant" in texts


@pytest.mark.long
async def test_a_thread_of_many_turns_loads_page_by_page(person: User, memory: AsyncMnema) -> None:
    for number in range(1, 28):
        await memory.add_turn(f"Turn {number}.", user_id="maya", thread_id="long", role="user", seq=number)
    await person.open("/threads?thread_id=long")
    await sees(person, "Turn 25.")
    await person.should_not_see("Turn 26.")
    await press(person, "Load more")
    await sees(person, "Turn 27.")


async def test_the_header_is_that_of_the_chosen_agent(person: User, memory: AsyncMnema, talk: str) -> None:
    await memory.remember("Maya likes blue.", user_id="maya", category="preferences", thread_id=talk)
    await person.open(f"/threads?thread_id={talk}")
    await sees(person, "Show the header")
    for choice in person.find(kind=ui.select, marker="header-agent").elements:
        choice.value = "planner"
    await press(person, "Show the header")
    expected = (await memory.delta(talk, since_rev=0, agent="planner")).header
    assert "Launch on Friday." in expected
    assert "blue" not in expected, "the planner may not see preferences"
    await sees(person, reveal_text(expected))


@pytest.mark.long
async def test_answers_stand_between_the_turns_and_tell_what_was_told(
    person: User, memory: AsyncMnema, talk: str
) -> None:
    first, second = [await ask(memory, talk) for _ in range(2)]
    assert "Launch on Friday." in first.header
    [told] = [item for item in second.items if "Launch on Friday." in item.text]
    await memory.edit(told.id, text="Launch on Monday.")
    await memory.add_turn("Thank you.", user_id="maya", thread_id=talk, role="user", seq=3)
    await person.open(f"/threads?thread_id={talk}")
    await sees(person, "Thank you.")
    texts = shown_texts(person)
    assert texts.index("On Friday.") < texts.index("to planner") < texts.index("Thank you.")
    assert texts.count("to planner") == 2
    await press(person, "What it was told")  # the newest button: that of the second answer
    await sees(person, "now version 2")
    assert "Launch on Friday." in shown_texts(person), "as it was then"
    await press(person, "What it was told")
    await person.should_not_see("now version 2")
    person.find("What it was told").click()
    await sees(person, reveal_text(first.header))


async def test_the_next_header_begins_where_the_last_answer_ended(person: User, memory: AsyncMnema, talk: str) -> None:
    await ask(memory, talk)
    await memory.remember("Order the cake.", user_id="maya", category="tasks", thread_id=talk)
    await person.open(f"/threads?thread_id={talk}")
    await sees(person, "Show the header")
    for choice in person.find(kind=ui.select, marker="header-agent").elements:
        choice.value = "planner"
    await press(person, "Show the header")
    await sees(person, "Its last answer here about maya")
    [shown] = [text for text in shown_texts(person) if "Order the cake." in text]
    assert "Launch on Friday." not in shown
    again = await ask(memory, talk)
    assert shown == reveal_text(again.header), "looking moved no cursor"


@pytest.mark.long
async def test_answers_of_each_page_of_turns_are_shown_once(person: User, memory: AsyncMnema) -> None:
    for number in range(1, 28):
        await memory.add_turn(f"Turn {number}.", user_id="maya", thread_id="long", role="user", seq=number)
        if number in (10, 25, 27):
            await ask(memory, "long")
    await person.open("/threads?thread_id=long")
    await sees(person, "Turn 25.")
    assert shown_texts(person).count("to planner") == 1
    await press(person, "Load more")
    await sees(person, "Turn 27.")
    texts = shown_texts(person)
    found = [place for place, text in enumerate(texts) if text == "to planner"]
    turns = [texts.index(f"Turn {number}.") for number in (10, 11, 25, 26, 27)]
    assert sorted(found + turns) == [turns[0], found[0], *turns[1:3], found[1], *turns[3:], found[2]]


def test_an_answer_stands_after_all_turns_that_were_stored_before_it() -> None:
    begin = datetime(2026, 11, 1, tzinfo=UTC)

    def turn(minute: int) -> ThreadTurn:
        empty: dict[str, Any] = {"role": "user", "content": "", "actor_id": None, "seq": None, "metadata": {}}
        return ThreadTurn(id=uuid4(), user_id="maya", created_at=begin + timedelta(minutes=minute), **empty)

    def answer(minute: int) -> QueryReceipt:
        absent = dict.fromkeys(QueryReceipt.model_fields)
        told = {"query_id": uuid4(), "ts": begin + timedelta(minutes=minute), "via": "query", "memories": 0}
        return QueryReceipt.model_validate(absent | told)

    turns = [turn(1), turn(5), turn(3)]  # the order of a thread is that of seq, not of time
    early, between, late = answer(0), answer(4), answer(9)
    placed = place_answers(turns, [late, between, early])
    assert placed == [early, turns[0], turns[1], turns[2], between, late]
    assert place_answers([], [late, early]) == [early, late]


async def test_only_one_user_of_a_shared_thread(person: User, memory: AsyncMnema, talk: str) -> None:
    await memory.add_turn("Ben is here too.", user_id="ben", thread_id=talk, role="user", seq=3)
    await person.open(f"/threads?thread_id={talk}&user_id=ben")
    await sees(person, "Ben is here too.")
    await person.should_not_see("When do we launch?")
    await sees(person, "This thread with all its users")


async def test_an_unknown_thread_is_explained(person: User, talk: str) -> None:
    await person.open("/threads?thread_id=tal")
    await sees(person, "No active memories")
    await sees(person, "No turns")


async def test_a_key_bound_to_an_agent_sees_no_turns_of_other_categories(
    app: Application, people: People, caller: Caller, memory: AsyncMnema, talk: str
) -> None:
    bound = await people.sign_in((await make_caller(app, ["query"], ["planner"], caller)).key)
    await bound.open(f"/threads?thread_id={talk}")
    await sees(bound, "No turns")
    await bound.should_not_see("When do we launch?")


async def test_texts_of_callers_stay_texts(person: User, memory: AsyncMnema) -> None:
    text = f"{SCRIPT} [link](javascript:alert(1)) \u202eevil\u202c"
    stored = await memory.add_turn(text, user_id=SCRIPT, thread_id=SCRIPT, role="user")
    assert stored.id is not None
    await person.open("/threads")
    await sees(person, SCRIPT)
    client = await person.open(f"/threads?{urlencode({'thread_id': SCRIPT})}")
    await sees(person, reveal_text((await memory.get(stored.id)).text))
    assert "\u202e" not in "".join(shown_texts(person))
    assert not [element for element in client.elements.values() if isinstance(element, ui.html | ui.markdown)]
