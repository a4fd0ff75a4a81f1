"""The page of one memory: actions with version checks, and the timeline."""

from uuid import UUID, uuid4

import pytest
from mnema_client import AsyncMnema
from nicegui import ui
from nicegui.testing import User

from app.bootstrap import Application
from tests.console.people import People, buttons, dismiss_dialog, press, sees
from tests.factories import Caller, make_caller


@pytest.fixture
async def written(memory: AsyncMnema) -> UUID:
    """Return the id of a memory."""
    done = await memory.remember("Maya drinks oat milk.", user_id="maya", category="preferences", importance=3)
    assert done.id is not None
    return done.id


def type_instead(person: User, marker: str, text: str) -> None:
    """Replace the value of a field."""
    for element in person.find(marker).elements:
        assert isinstance(element, ui.input | ui.textarea)
        element.value = text


async def open_editor(person: User, memory_id: UUID) -> None:
    """Open the page of a memory and its dialog for changes."""
    await person.open(f"/memories/{memory_id}")
    await sees(person, "Edit")
    await press(person, "Edit")


async def test_it_shows_fields_and_timeline(person: User, memory: AsyncMnema, written: UUID) -> None:
    await memory.edit(written, text="Maya drinks soy milk.")
    await person.open(f"/memories/{written}")
    await sees(person, "Maya drinks soy milk.")
    await sees(person, "version 2")
    await sees(person, "created")
    await sees(person, "oat")  # the removed word


async def test_pin_and_unpin(person: User, memory: AsyncMnema, written: UUID) -> None:
    await person.open(f"/memories/{written}")
    await sees(person, "version 1")
    await press(person, "Pin")
    await sees(person, "version 2")
    assert (await memory.get(written)).pinned
    await sees(person, "pinned: False → True")


async def test_edit_saves_what_was_changed(person: User, memory: AsyncMnema, written: UUID) -> None:
    await open_editor(person, written)
    type_instead(person, "edit-text", "Maya drinks barley milk.")
    await press(person, "Save")
    await sees(person, "version 2")
    stored = await memory.get(written)
    assert (stored.text, stored.importance) == ("Maya drinks barley milk.", 3)


async def test_an_edit_over_a_newer_version_shows_the_difference_first(
    person: User, memory: AsyncMnema, written: UUID
) -> None:
    await open_editor(person, written)
    await memory.edit(written, text="Maya drinks rice milk.")
    type_instead(person, "edit-text", "Maya drinks barley milk.")
    await press(person, "Save")
    await sees(person, "Somebody else changed this memory: it is version 2 now. Below is what your text changes in it.")
    assert (await memory.get(written)).text == "Maya drinks rice milk."
    await press(person, "Save")
    await sees(person, "version 3")
    assert (await memory.get(written)).text == "Maya drinks barley milk."


async def test_a_second_save_keeps_what_somebody_else_changed(person: User, memory: AsyncMnema, written: UUID) -> None:
    await open_editor(person, written)
    await memory.edit(written, text="Maya drinks rice milk.", importance=5)
    type_instead(person, "edit-tags", "milk")
    await press(person, "Save")
    await sees(person, "it is version 2 now. Save again to replace its tags.")
    await press(person, "Save")
    await sees(person, "version 3")
    stored = await memory.get(written)
    assert (stored.text, stored.importance, stored.tags) == ("Maya drinks rice milk.", 5, ["milk"])


@pytest.mark.parametrize(
    ("field", "typed", "text", "tags"),
    [
        ("edit-tags", "milk, plants\n\n drinks ", "Maya drinks oat milk.", ["milk, plants", "drinks"]),
        ("edit-text", "Maya drinks barley milk.", "Maya drinks barley milk.", ["milk, plants", "food"]),
    ],
)
async def test_tags_stand_one_a_line_and_keep_their_commas(
    person: User, memory: AsyncMnema, written: UUID, field: str, typed: str, text: str, tags: list[str]
) -> None:
    await memory.edit(written, tags=["milk, plants", "food"])
    await open_editor(person, written)
    type_instead(person, field, typed)
    await press(person, "Save")
    await sees(person, "version 3")
    stored = await memory.get(written)
    assert (stored.text, stored.tags) == (text, tags)


async def test_a_closed_dialog_is_gone(person: User, written: UUID) -> None:
    await open_editor(person, written)
    assert dismiss_dialog(person).is_deleted


async def test_an_edit_that_the_api_refuses_says_why(person: User, memory: AsyncMnema, written: UUID) -> None:
    await open_editor(person, written)
    type_instead(person, "edit-text", "x" * 500)
    await press(person, "Save")
    await sees(person, "280")
    assert (await memory.get(written)).version == 1


@pytest.mark.long
async def test_delete_asks_and_restore_brings_it_back(person: User, memory: AsyncMnema, written: UUID) -> None:
    await person.open(f"/memories/{written}")
    await sees(person, "Move to the bin")
    await press(person, "Move to the bin")
    await sees(person, "Move this memory to the bin?")
    await press(person, "Cancel")
    assert (await memory.get(written)).state == "active"
    await press(person, "Move to the bin")
    await sees(person, "Move this memory to the bin?")
    person.find(marker="confirm").click()
    await sees(person, "In the bin")
    await press(person, "Restore")
    await sees(person, "restored")
    assert (await memory.get(written)).state == "active"


@pytest.mark.long
async def test_a_page_that_is_not_up_to_date_loads_again(person: User, memory: AsyncMnema, written: UUID) -> None:
    await person.open(f"/memories/{written}")
    await sees(person, "Move to the bin")
    await memory.edit(written, text="Maya drinks rice milk.")
    await press(person, "Move to the bin")
    await sees(person, "Move this memory to the bin?")
    person.find(marker="confirm").click()
    await sees(person, "version 2")
    await memory.edit(written, text="Maya drinks soy milk.")
    await press(person, "Put the earlier text back")
    await sees(person, "Put this text back?")
    person.find(marker="confirm").click()
    await sees(person, "version 3")
    assert (await memory.get(written)).text == "Maya drinks soy milk."


async def test_an_earlier_text_can_be_put_back(person: User, memory: AsyncMnema, written: UUID) -> None:
    await memory.edit(written, text="Maya drinks soy milk.")
    await person.open(f"/memories/{written}")
    await sees(person, "Put the earlier text back")
    await press(person, "Put the earlier text back")
    await sees(person, "Put this text back?")
    person.find(marker="confirm").click()
    await sees(person, "version 3")
    assert (await memory.get(written)).text == "Maya drinks oat milk."


async def test_an_unknown_memory_is_explained(person: User) -> None:
    await person.open(f"/memories/{uuid4()}")
    await sees(person, "Not found")
    await person.open("/memories/nothing")
    await sees(person, "This is not a memory's id")


async def test_a_reader_gets_no_buttons(
    app: Application, people: People, caller: Caller, memory: AsyncMnema, written: UUID
) -> None:
    reader = await people.sign_in((await make_caller(app, ["query"], None, caller)).key)
    await reader.open(f"/memories/{written}")
    await sees(reader, "Maya drinks oat milk.")
    assert not buttons(reader) & {"Edit", "Pin", "Move to the bin"}
