"""The page Bin: what was deleted, and the way back."""

from uuid import UUID

import pytest
from mnema_client import AsyncMnema, NotFound
from nicegui.testing import User

from app.bootstrap import Application
from tests.console.people import People, buttons, press, sees
from tests.factories import Caller, make_caller


@pytest.fixture
async def deleted(memory: AsyncMnema) -> UUID:
    """Return the id of a memory in the bin."""
    written = await memory.remember("Maya drinks oat milk.", user_id="maya", category="preferences")
    assert written.id is not None
    await memory.delete(written.id)
    return written.id


async def test_an_empty_bin_says_so(person: User, memory: AsyncMnema) -> None:
    await memory.remember("Maya lives in Lisbon.", user_id="maya", category="profile")
    await person.open("/bin")
    await sees(person, "The bin is empty")
    await person.should_not_see("Maya lives in Lisbon.")


async def test_a_memory_is_restored(person: User, memory: AsyncMnema, deleted: UUID) -> None:
    client = await person.open("/bin")
    await sees(person, "Maya drinks oat milk.")
    purge_at = (await memory.get(deleted)).purge_at
    assert purge_at is not None
    exact = [element.props["title"] for element in client.elements.values() if element.tag == "time"]
    assert f"{purge_at:%Y-%m-%d %H:%M} UTC" in exact
    await press(person, "Restore")
    await sees(person, "The bin is empty")
    assert (await memory.get(deleted)).state == "active"


async def test_a_memory_is_purged_after_a_question(person: User, memory: AsyncMnema, deleted: UUID) -> None:
    await person.open("/bin")
    await sees(person, "Maya drinks oat milk.")
    await press(person, "Delete for good")
    await sees(person, "Delete this memory for good now?")
    await press(person, "Cancel")
    assert (await memory.get(deleted)).state == "soft_deleted"
    await press(person, "Delete for good")
    await sees(person, "Delete this memory for good now?")
    person.find(marker="confirm").click()
    await sees(person, "The bin is empty")
    with pytest.raises(NotFound):
        await memory.get(deleted)


async def test_a_memory_that_somebody_else_purged_leaves_the_list(
    person: User, memory: AsyncMnema, deleted: UUID
) -> None:
    await person.open("/bin")
    await sees(person, "1 shown, all of them")
    await memory.purge(deleted)
    await press(person, "Restore")
    await sees(person, "Not found")
    await sees(person, "The bin is empty")


async def test_the_filter_is_in_the_address(person: User, memory: AsyncMnema, deleted: UUID) -> None:
    other = await memory.remember("Ben plays chess.", user_id="ben", category="interests")
    assert other.id is not None
    await memory.delete(other.id)
    await person.open("/bin?user_id=ben")
    await sees(person, "Ben plays chess.")
    await person.should_not_see("Maya drinks oat milk.")
    await person.open("/bin?user_id=nobody")
    await sees(person, "Nothing matches")


async def test_a_reader_of_one_agent_sees_its_categories_and_no_buttons(
    app: Application, people: People, caller: Caller, memory: AsyncMnema, deleted: UUID
) -> None:
    task = await memory.remember("Deploy on Friday.", user_id="maya", category="tasks")
    hidden = await memory.remember("Maya likes jazz.", user_id="maya", category="interests")
    assert task.id is not None
    assert hidden.id is not None
    await memory.delete(task.id)
    await memory.delete(hidden.id)
    bound = await people.sign_in((await make_caller(app, ["query"], ["planner"], caller)).key)
    await bound.open("/bin")
    await sees(bound, "Deploy on Friday.")
    await bound.should_not_see("Maya likes jazz.")
    assert not buttons(bound) & {"Restore", "Delete for good"}


async def test_a_writer_may_restore_but_not_purge(
    app: Application, people: People, caller: Caller, deleted: UUID
) -> None:
    writer = await people.sign_in((await make_caller(app, ["query", "write"], None, caller)).key)
    await writer.open("/bin")
    await sees(writer, "Restore")
    assert "Delete for good" not in buttons(writer)
