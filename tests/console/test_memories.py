"""The page Memories: the list with its filters and pages; add, select, edit, delete and undo."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from urllib.parse import urlencode
from uuid import UUID

import pytest
from mnema_client import AsyncMnema
from nicegui import ui
from nicegui.testing import User, UserInteraction

from app.bootstrap import Application
from console.texts import reveal_text
from console.widgets.moments import STEPS
from console.words import MEMORY_STATES
from tests.console.people import People, buttons, press, sees
from tests.factories import Caller, make_caller

ATTACK = "<script>alert(1)</script> [link](javascript:alert(1)) \u202egnissim\u200b"
REVEALED = "<script>alert(1)</script> [link](javascript:alert(1)) [U+202E]gnissim[U+200B]"
HIDDEN = frozenset("\u202e\u200b")


def search_for(person: User, name: str, value: str) -> None:
    """Fill in one filter and start the search."""
    person.find(f"filter-{name}").type(value)
    person.find(f"filter-{name}").trigger("keydown.enter")


async def test_it_finds_by_filters_and_its_address_holds_them(person: User, memory: AsyncMnema) -> None:
    await memory.remember("Maya drinks oat milk.", user_id="maya", category="preferences", tags=["food"])
    await memory.remember("Noor plays the violin.", user_id="noor", category="interests")
    await person.open("/memories")
    await sees(person, "Noor plays the violin.")
    search_for(person, "user_id", "maya")
    await person.should_not_see("Noor plays the violin.", retries=100)
    await sees(person, "Maya drinks oat milk.")
    await person.open("/memories?user_id=noor")
    await sees(person, "Noor plays the violin.")
    await sees(person, "1 shown, all of them")
    await person.should_not_see("Maya drinks oat milk.")


async def test_it_finds_words_and_sorts(person: User, memory: AsyncMnema) -> None:
    await memory.remember("Maya drinks oat milk.", user_id="maya", category="preferences", importance=2)
    await memory.remember("The milk float comes on Monday.", user_id="maya", category="tasks", importance=5)
    await memory.remember("Noor plays the violin.", user_id="noor", category="interests")
    await person.open("/memories?q=milk&sort=importance-desc")
    await sees(person, "2 shown, all of them")
    links = [e.text for e in person.find(ui.label).elements if "milk" in e.text]
    assert sorted(links) == ["Maya drinks oat milk.", "The milk float comes on Monday."]
    first = min((e for e in person.find(ui.label).elements if "milk" in e.text), key=lambda e: e.id)
    assert first.text == "The milk float comes on Monday."
    await person.open("/memories?sort=nothing&state=nothing")
    await sees(person, "3 shown, all of them")


async def test_conditions_find_the_few_that_match_among_more_than_a_page(person: User, memory: AsyncMnema) -> None:
    lines = [
        {
            "text": f"Note {number}.",
            "user_id": "maya",
            "category": "history",
            "type": "episodic",
            "metadata": {"n": number},
        }
        for number in range(60)
    ]
    assert not [result.error async for result in memory.remember_many(lines) if result.error]
    await person.open("/memories?" + urlencode({"where": '{"metadata.n": {"lt": 3}}'}))
    await sees(person, "3 shown, all of them")
    for number in range(3):
        await sees(person, f"Note {number}.")


async def test_it_says_what_to_do_if_nothing_matches(person: User) -> None:
    await person.open("/memories?user_id=nobody")
    await sees(person, "Nothing matches")


async def test_filters_that_match_nothing_can_be_cleared(person: User, memory: AsyncMnema) -> None:
    await person.open("/memories?user_id=nobody&state=superseded&sort=created_at-asc")
    await sees(person, "Nothing matches")
    await memory.remember("Maya drinks oat milk.", user_id="maya", category="preferences")
    await press(person, "Clear the filters")
    await sees(person, "Maya drinks oat milk.")
    await person.should_not_see("Nothing matches")


async def test_an_order_alone_is_no_filter(person: User) -> None:
    await person.open("/memories?sort=created_at-asc")
    await sees(person, "No memories yet")


@pytest.mark.long
async def test_it_loads_page_by_page(person: User, memory: AsyncMnema) -> None:
    texts = [f"Fact number {number} of the list" for number in range(30)]
    lines = [{"text": text, "user_id": "maya", "category": "history", "type": "episodic"} for text in texts]
    assert not [result.error async for result in memory.remember_many(lines) if result.error]
    await person.open("/memories")
    await sees(person, "25 shown")
    await press(person, "Load more")
    await sees(person, "30 shown, all of them")
    for text in texts:
        await person.should_see(text)


async def test_an_invalid_filter_is_explained_in_place(person: User) -> None:
    await person.open("/memories?user_id=" + "x" * 300)
    await sees(person, "The request is not valid")
    await person.should_see("Try again")


async def test_texts_of_callers_stay_texts(person: User, memory: AsyncMnema) -> None:
    written = await memory.add_turn(ATTACK, user_id="maya", thread_id="t", role="user", metadata={"note": ATTACK})
    assert written.id is not None
    shown = reveal_text((await memory.get(written.id)).text)
    assert "<script>alert(1)</script>" in shown
    for address in ("/memories", f"/memories/{written.id}"):
        client = await person.open(address)
        await sees(person, shown)
        assert not [e for e in client.elements.values() if isinstance(e, ui.html | ui.markdown)]
        labels = "".join(e.text for e in client.elements.values() if isinstance(e, ui.label))
        assert not HIDDEN & set(labels)
    await sees(person, REVEALED)  # of the metadata


async def test_a_key_bound_to_an_agent_sees_only_its_categories(
    app: Application, people: People, caller: Caller, memory: AsyncMnema
) -> None:
    await memory.remember("Deploy on Friday.", user_id="maya", category="tasks")
    await memory.remember("Maya likes jazz.", user_id="maya", category="interests")
    bound = await people.sign_in((await make_caller(app, ["query"], ["planner"], caller)).key)
    await bound.open("/memories")
    await sees(bound, "Deploy on Friday.")
    await bound.should_not_see("Maya likes jazz.")


async def test_it_lists_what_was_known_at_a_time_and_says_the_states(person: User, memory: AsyncMnema) -> None:
    written = await memory.remember("Maya drinks green tea.", user_id="maya", category="preferences")
    assert written.id is not None
    then = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}"
    await memory.edit(written.id, text="Maya drinks black coffee.")
    await memory.supersede(written.id)
    await person.open(f"/memories?user_id=maya&as_of={then}")
    await sees(person, "Maya drinks green tea.")
    await sees(person, MEMORY_STATES["active"].text)
    await person.open("/memories?user_id=maya&state=superseded")
    await sees(person, "Maya drinks black coffee.")
    await person.open(f"/memories?as_of={then}")
    await sees(person, "The request is not valid")


async def test_the_slider_puts_the_time_of_its_place_into_the_field(person: User, memory: AsyncMnema) -> None:
    old = "2025-01-01T00:00:00Z"
    await memory.remember("Maya drinks tea.", user_id="maya", category="preferences", created_at=old)
    client = await person.open("/memories?user_id=maya")
    await sees(person, "Maya drinks tea.")
    sliders = [element for element in client.elements.values() if element.props.get("type") == "range"]
    fields = [e for e in client.elements.values() if isinstance(e, ui.input) and "UTC" in str(e.props.get("label"))]
    assert len(sliders) == len(fields) == 2
    move = partial(move_slider, person)
    move(sliders[0], 0)
    await becomes(lambda: fields[0].value, "2025-01-01T00:00:00")
    move(sliders[0], STEPS)
    await becomes(lambda: fields[0].value, "")


def move_slider(person: User, slider: ui.element, place: int) -> None:
    """Move a slider as a person does."""
    UserInteraction(person, {slider}, None).trigger("change", str(place))


async def becomes(read: Callable[[], object], expected: object) -> None:
    """Wait until a value is the expected one."""
    async with asyncio.timeout(60):
        while read() != expected:  # noqa: ASYNC110 - the page has no event for it
            await asyncio.sleep(0.05)


async def test_the_slider_needs_a_user(person: User) -> None:
    client = await person.open("/ask")
    sliders = [element for element in client.elements.values() if element.props.get("type") == "range"]
    move_slider(person, sliders[0], 10)
    await sees(person, "Name a user who has memories: the slider begins at the first one.")
    assert sliders[0].props["value"] == STEPS


async def test_an_added_memory_can_be_taken_back(person: User, memory: AsyncMnema) -> None:
    await person.open("/memories?user_id=maya")
    await press(person, "Add a memory")
    await sees(person, "0 of 280 characters")
    person.find(marker="add-text").type("Maya drinks oat milk.")
    await sees(person, "21 of 280 characters")
    await press(person, "Add")
    await sees(person, "Give a text, a user and a category.")
    await becomes(lambda: "preferences" in options(person, "Category"), True)
    choose(person, "Category", "preferences")
    await press(person, "Add")
    await sees(person, "The memory is added.")
    [written] = (await memory.page()).items
    assert (written.text, written.user_id, written.category) == ("Maya drinks oat milk.", "maya", "preferences")
    await press(person, "Undo")
    await sees(person, "Undone.")
    assert (await memory.get(written.id)).state == "soft_deleted"


async def test_a_text_above_the_limit_says_so_and_is_kept(person: User) -> None:
    await person.open("/memories")
    await press(person, "Add a memory")
    person.find(marker="add-text").type("x" * 281)
    await sees(person, "281 of 280 characters: too long")
    choose(person, "Type", "procedural")
    await sees(person, "281 of 8,000 characters")


async def test_selected_memories_are_edited_deleted_and_put_back(person: User, memory: AsyncMnema) -> None:
    texts = ["Maya drinks oat milk.", "Noor plays the violin.", "Victor paints the boat."]
    for text in texts:
        await memory.remember(text, user_id="maya", category="preferences", importance=2, tags=["old"])
    await person.open("/memories")
    await sees(person, "3 shown, all of them")
    await sees(person, "None selected")
    await press(person, "Select all shown")
    await sees(person, "3 selected")
    await press(person, "Edit or move")
    await sees(person, "Edit 3 memories")
    await press(person, "Save")
    await sees(person, "Choose what to change.")
    await becomes(lambda: "interests" in options(person, "Move to the category"), True)
    choose(person, "Move to the category", "interests")
    choose(person, "Importance", 5)
    person.find(marker="add-tags").type("new")
    person.find(marker="remove-tags").type("old")
    await press(person, "Save")
    await sees(person, "Changed 3 memories.")
    changed = (await memory.page()).items
    assert {(m.category, m.importance, tuple(m.tags)) for m in changed} == {("interests", 5, ("new",))}
    await press(person, "Undo")
    await sees(person, "Undone.")
    put_back = (await memory.page()).items
    assert {(m.category, m.importance, tuple(m.tags)) for m in put_back} == {("preferences", 2, ("old",))}
    await sees(person, "old")
    await press(person, "Select all shown")
    await sees(person, "3 selected")
    await press(person, "Delete")
    await sees(person, "Move 3 memories to the bin?")
    person.find(marker="confirm").click()
    await sees(person, "Moved to the bin: 3 memories.")
    assert not (await memory.page()).items
    await press(person, "Undo")
    await sees(person, "3 shown, all of them")
    assert {m.text for m in (await memory.page()).items} == set(texts)


async def test_a_key_that_may_not_write_selects_and_adds_nothing(
    app: Application, people: People, caller: Caller, memory: AsyncMnema
) -> None:
    await memory.remember("Maya drinks oat milk.", user_id="maya", category="preferences")
    reader = await people.sign_in((await make_caller(app, ["query"], None, caller)).key)
    await reader.open("/memories")
    await sees(reader, "Maya drinks oat milk.")
    assert buttons(reader).isdisjoint({"Add a memory", "Select all shown", "Delete"})
    await reader.should_see("Export the list")


async def test_users_that_are_no_person_say_so(person: User, memory: AsyncMnema) -> None:
    await memory.remember("The office opens at nine.", user_id="_shared", category="projects")
    await memory.remember("Tea is at four.", user_id=f"key-{UUID(int=7)}", category="projects")
    await person.open("/memories")
    await sees(person, "shared by all users")
    await person.should_see("chats of a key without a user")
    await person.open("/people?user_id=_shared")
    await sees(person, "This is no person: shared by all users.")


def options(person: User, label: str) -> list[object]:
    """Return the choices of the newest drop-down with this label."""
    fields = [field for field in person.find(ui.select).elements if field.props.get("label") == label]
    return list(max(fields, key=lambda field: field.id).options)


def choose(person: User, label: str, value: object) -> None:
    """Choose in the newest drop-down with this label."""
    fields = [field for field in person.find(ui.select).elements if field.props.get("label") == label]
    max(fields, key=lambda field: field.id).set_value(value)
