"""The page Facts: lists and single values of a user, with edit, delete and history."""

from uuid import UUID

import pytest
from mnema_client import AsyncMnema
from nicegui import ui
from nicegui.testing import User

from app.bootstrap import Application
from console.texts import reveal_text
from tests.console.people import People, buttons, dismiss_dialog, press, sees
from tests.factories import Caller, make_caller

ATTACK = "<script>alert(1)</script> \u202egreen\u202c"


@pytest.fixture
async def colors(memory: AsyncMnema) -> list[UUID]:
    """Return the ids of a list of facts of maya, rank 1 first."""
    stored = await memory.store_facts("maya", text="My favorite colors are red and blue.", thread_id="talk")
    return [fact.id for fact in stored.facts]


async def test_without_a_user_it_asks_for_one(person: User, colors: list[UUID]) -> None:
    await person.open("/facts")
    await sees(person, "Choose a user")
    await sees(person, "maya")


async def test_a_tenant_without_users_is_told_how_to_begin(person: User) -> None:
    await person.open("/facts")
    await sees(person, "No users yet")


async def test_facts_are_listed_by_rank(person: User, memory: AsyncMnema, colors: list[UUID]) -> None:
    await memory.store_facts("maya", facts=[{"topic_key": "dog", "kind": "single", "value": "Rex"}])
    await person.open("/facts?user_id=maya")
    for shown in ("favorite_colors", "red", "blue", "single", "Rex", "talk", "3 shown, all of them"):
        await sees(person, shown)
    await person.open("/facts?user_id=maya&topic_key=dog")
    await sees(person, "1 shown, all of them")
    await person.open("/facts?user_id=ben")
    await sees(person, "No facts")


async def test_a_fact_gets_another_value_and_history_tells_it(
    person: User, memory: AsyncMnema, colors: list[UUID]
) -> None:
    await person.open("/facts?user_id=maya")
    await sees(person, "blue")
    spoken = {button.props.get("aria-label") for button in person.find(ui.button).elements}
    assert "Edit favorite_colors, rank 2" in spoken
    await press(person, "Edit")  # the newest button: that of rank 2
    await sees(person, "Edit favorite_colors, rank 2")
    for field in person.find(kind=ui.input, marker="fact-value").elements:
        field.value = "green"
    await press(person, "Save")
    await sees(person, "Saved")
    assert (await memory.fact(colors[1])).value == "green"
    await person.open("/facts?user_id=maya")
    await sees(person, "green")
    await press(person, "History")
    await sees(person, "→ green")


async def test_an_empty_list_names_its_filter(person: User, colors: list[UUID]) -> None:
    await person.open("/facts?user_id=maya&topic_key=cars")
    await sees(person, "Nothing matches")
    await person.open("/facts?user_id=noor")
    await sees(person, "No facts")


async def test_a_closed_dialog_is_gone(person: User, colors: list[UUID]) -> None:
    await person.open("/facts?user_id=maya")
    await sees(person, "blue")
    await press(person, "Edit")
    assert dismiss_dialog(person).is_deleted


async def test_an_edit_that_the_api_refuses_says_why(person: User, memory: AsyncMnema, colors: list[UUID]) -> None:
    await person.open("/facts?user_id=maya")
    await sees(person, "blue")
    await press(person, "Edit")
    for field in person.find(kind=ui.input, marker="fact-value").elements:
        field.value = "x" * 300
    await press(person, "Save")
    await sees(person, "The request is not valid")
    assert (await memory.fact(colors[1])).value == "blue"


async def test_a_fact_is_deleted_after_a_question(person: User, memory: AsyncMnema, colors: list[UUID]) -> None:
    await person.open("/facts?user_id=maya")
    await sees(person, "blue")
    await press(person, "Delete")
    await sees(person, "Delete favorite_colors, rank 2?")
    person.find(marker="confirm").click()
    await sees(person, "1 shown, all of them")
    assert [fact.value async for fact in memory.facts("maya")] == ["red"]


async def test_a_value_of_a_caller_is_shown_as_text(person: User, memory: AsyncMnema) -> None:
    await memory.store_facts("maya", facts=[{"topic_key": "dog", "kind": "single", "value": ATTACK}])
    stored = [fact.value async for fact in memory.facts("maya")]
    client = await person.open("/facts?user_id=maya")
    await sees(person, reveal_text(stored[0]))
    assert not [element for element in client.elements.values() if isinstance(element, ui.html | ui.markdown)]


async def test_a_reader_gets_no_buttons_that_change(
    app: Application, people: People, caller: Caller, colors: list[UUID]
) -> None:
    reader = await people.sign_in((await make_caller(app, ["query"], None, caller)).key)
    await reader.open("/facts?user_id=maya")
    await sees(reader, "blue")
    assert buttons(reader) >= {"History"}
    assert not buttons(reader) & {"Edit", "Delete"}
