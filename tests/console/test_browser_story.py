"""One story in a real browser: find a memory, correct it, see what agents hear, decide, restore, replay and erase."""

import re
from uuid import UUID

import pytest
from mnema_client import AsyncMnema, NotFound
from playwright.async_api import Browser, Page, expect

from tests.api.calls import sql
from tests.conftest import Installation
from tests.console.browser import NEEDS_BROWSER, open_page, sign_in, visit
from tests.factories import Caller

pytestmark = NEEDS_BROWSER
OLD, NEW = "Maya flies to Oslo on Monday.", "Maya flies to Bergen on Monday."


@pytest.fixture
async def dead_job(memory: AsyncMnema, caller: Caller, installation: Installation) -> UUID:
    """Store a person's memories, a proposal and a deleted memory; return a job that failed for good."""
    turn = await memory.add_turn("Please call me Ana.", user_id="maya", thread_id="trip", role="user")
    died = "UPDATE jobs SET state = 'dead', attempts = 8, last_error = 'ValueError: lost' WHERE tenant_id = $1"
    await sql(installation.database, died, caller.scope.tenant_id)
    await memory.remember(OLD, user_id="maya", category="tasks", thread_id="trip", agent_id="planner")
    await memory.query("When is the flight?", agent="planner", thread_id="trip", filters={"user_id": "maya"})
    await memory.propose("maya", "preferred_name", "Ana", evidence=turn.id, thread_id="trip")
    kite = await memory.remember("Maya owns a kite.", user_id="maya", category="interests")
    assert kite.id is not None
    await memory.delete(kite.id)
    return turn.jobs[0]


async def test_a_person_finds_corrects_decides_and_erases(
    browser: Browser, console: str, caller: Caller, memory: AsyncMnema, dead_job: UUID
) -> None:
    page = await open_page(browser)
    await sign_in(page, console, caller.key)
    await find_memory(page, console)
    await correct_memory(page)
    await watch_header(page, console)
    await approve_name(page, console)
    assert [known.value for known in (await memory.context("maya")).values] == ["Ana"]
    await restore_kite(page, console)
    await replay_job(page, console)
    assert (await memory.job(dead_job)).state != "dead"
    await erase_person(page, console)
    assert [user async for user in memory.list_users()] == []
    with pytest.raises(NotFound):
        await memory.job(dead_job)


async def find_memory(page: Page, console: str) -> None:
    """Ask as an agent, look at the score, and open the memory."""
    await visit(page, f"{console}/ask?agent=planner")
    await page.get_by_label("User", exact=True).fill("maya")
    await page.get_by_label("Question").fill("When is the flight?")
    await page.get_by_role("button", name="Ask", exact=True).click()
    answer = page.get_by_role("region", name="Answer")
    await answer.get_by_text("The score in numbers").first.click()
    await expect(answer.get_by_text("total").first).to_be_visible()
    await expect(answer.locator(".code.block")).to_contain_text(OLD)
    await answer.get_by_role("link", name=OLD).click()
    await expect(page.get_by_role("heading", name="Memory", level=1)).to_be_visible()


async def correct_memory(page: Page) -> None:
    """Change the text and look at the timeline."""
    await page.get_by_role("button", name="Edit").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Text").fill(NEW)
    await dialog.get_by_role("button", name="Save").click()
    await expect(page.locator(".memory-text").first).to_have_text(NEW)
    await expect(page.locator("del", has_text="Oslo").first).to_be_visible()
    await expect(page.locator("ins", has_text="Bergen").first).to_be_visible()


async def watch_header(page: Page, console: str) -> None:
    """Look at the header that the agent would get now: it tells of the correction."""
    await visit(page, f"{console}/threads?thread_id=trip&user_id=maya")
    await expect(page.get_by_role("button", name="Show the header")).to_be_visible()
    await page.wait_for_function("!document.querySelector('.state.loading')")
    await page.get_by_role("combobox", name="Agent").click()
    await page.get_by_role("option", name="planner").click()
    await page.get_by_role("button", name="Show the header").click()
    await expect(page.get_by_role("region", name="The next header of an agent")).to_contain_text("Bergen")


async def approve_name(page: Page, console: str) -> None:
    """Approve the proposal, with its evidence in view."""
    await visit(page, f"{console}/people?user_id=maya")
    await expect(page.get_by_role("link", name="Please call me Ana.")).to_be_visible()
    await page.get_by_role("button", name=re.compile("^Approve preferred_name")).click()
    await expect(page.get_by_role("region", name="Context")).to_contain_text("Ana")


async def restore_kite(page: Page, console: str) -> None:
    """Take a memory out of the bin."""
    await visit(page, f"{console}/bin")
    await page.get_by_role("button", name="Restore Maya owns a kite.").click()
    await expect(page.get_by_text("The bin is empty")).to_be_visible()


async def replay_job(page: Page, console: str) -> None:
    """Replay the dead job."""
    await visit(page, f"{console}/jobs?state=dead")
    await expect(page.get_by_text("ValueError: lost")).to_be_visible()
    await page.get_by_role("button", name=re.compile("^Replay")).first.click()
    await expect(page.get_by_text("No jobs here")).to_be_visible()


async def erase_person(page: Page, console: str) -> None:
    """Erase the person; the button works only when the name is typed."""
    await visit(page, f"{console}/people?user_id=maya")
    await page.get_by_role("button", name="Erase").click()
    dialog = page.get_by_role("dialog")
    erase = dialog.get_by_role("button", name=re.compile("^Erase"))
    await expect(erase).to_be_disabled()
    await dialog.get_by_role("textbox").fill("maya")
    await erase.click()
    await expect(page.get_by_text(re.compile("^Erased at"))).to_be_visible()
