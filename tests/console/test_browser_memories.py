"""Add, select, edit, delete, undo, export and saved filters in a real browser, by mouse and by keyboard."""

import json

from mnema_client import AsyncMnema
from playwright.async_api import Browser, Page, expect

from tests.console.browser import (
    NEEDS_BROWSER,
    open_page,
    serious_findings,
    sign_in,
    visit,
    wait_until_ready,
    watch_messages,
)
from tests.factories import Caller

pytestmark = NEEDS_BROWSER
MOST_BYTES = 200_000


async def open_memories(browser: Browser, console: str, caller: Caller, query: str = "", size: str = "wide") -> Page:
    """Sign in and open the page Memories."""
    page = await open_page(browser, size=size)
    await page.emulate_media(reduced_motion="reduce")  # colours that fade have no contrast yet
    await sign_in(page, console, caller.key)
    await visit(page, f"{console}/memories{query}")
    return page


async def test_a_memory_is_added_and_taken_back(
    browser: Browser, console: str, caller: Caller, memory: AsyncMnema
) -> None:
    await memory.remember("Maya owns a kite.", user_id="maya", category="interests")
    page = await open_memories(browser, console, caller)
    sizes = watch_messages(page)
    await page.get_by_role("button", name="Add a memory").click()
    dialog = page.get_by_role("dialog")
    text = dialog.get_by_label("Text", exact=True)
    await expect(text).to_be_focused()
    await text.fill("x" * 281)
    await expect(dialog.get_by_text("281 of 280 characters: too long")).to_be_visible()
    await text.fill("Maya drinks oat milk.")
    await expect(dialog.get_by_text("21 of 280 characters")).to_be_visible()
    await dialog.get_by_label("User", exact=True).fill("maya")
    await dialog.get_by_role("combobox", name="Category").click()
    await page.get_by_role("option", name="preferences").click()
    assert not await serious_findings(page, in_dialog=True)
    await dialog.get_by_role("button", name="Add", exact=True).click()
    undo = page.get_by_role("button", name="Undo")
    await expect(page.get_by_role("link", name="Maya drinks oat milk.")).to_be_visible()
    assert len((await memory.page()).items) == 2
    await undo.press("Enter")
    await expect(page.get_by_role("link", name="Maya drinks oat milk.")).to_be_hidden()
    assert len((await memory.page()).items) == 1
    assert max(sizes, default=0) < MOST_BYTES


async def test_selected_memories_change_together(
    browser: Browser, console: str, caller: Caller, memory: AsyncMnema
) -> None:
    for number in range(3):
        await memory.remember(f"Maya plans trip number {number}.", user_id="maya", category="tasks")
    page = await open_memories(browser, console, caller)
    box = page.get_by_role("checkbox", name="Select Maya plans trip number 1.")
    await box.focus()
    await page.keyboard.press("Space")
    await expect(page.get_by_text("1 selected")).to_be_visible()
    await page.get_by_role("button", name="Select all shown").click()
    await expect(page.get_by_text("3 selected")).to_be_visible()
    await page.get_by_role("button", name="Edit or move").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("combobox", name="Importance").click()
    await page.get_by_role("option", name="5", exact=True).click()
    await dialog.get_by_label("Tags to add, one a line").fill("travel\nspring")
    assert not await serious_findings(page, in_dialog=True)
    await dialog.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("Changed 3 memories.")).to_be_visible()
    changed = (await memory.page()).items
    assert {(one.importance, tuple(one.tags)) for one in changed} == {(5, ("travel", "spring"))}
    await expect(page.get_by_text("spring").first).to_be_visible()
    await page.get_by_role("button", name="Select all shown").click()
    await expect(page.get_by_text("3 selected")).to_be_visible()
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_role("dialog").get_by_role("button", name="Move to the bin").click()
    await expect(page.get_by_text("Moved to the bin: 3 memories.")).to_be_visible()
    assert not (await memory.page()).items
    await page.get_by_role("button", name="Undo").click()
    await expect(page.get_by_text("3 shown, all of them")).to_be_visible()
    assert len((await memory.page()).items) == 3


async def test_the_filtered_list_is_a_file(browser: Browser, console: str, caller: Caller, memory: AsyncMnema) -> None:
    lines = [
        {"text": f"Trip number {number}", "user_id": "maya", "category": "history", "type": "episodic"}
        for number in range(230)
    ]
    assert not [result.error async for result in memory.remember_many(lines) if result.error]
    await memory.remember("Noor plays the violin.", user_id="noor", category="interests")
    page = await open_memories(browser, console, caller, "?user_id=maya")
    async with page.expect_download() as waiting:
        await page.get_by_role("button", name="Export the list").click()
    path = await (await waiting.value).path()
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert {record["text"] for record in records} == {line["text"] for line in lines}
    assert len(records) == len(lines)
    await expect(page.get_by_text("Exported: 230 records.")).to_be_visible()


async def test_saved_filters_stay_in_the_browser_and_belong_to_the_key(
    browser: Browser, console: str, caller: Caller, memory: AsyncMnema
) -> None:
    await memory.remember("Maya owns a kite.", user_id="maya", category="interests", tags=["air"])
    await memory.remember("Noor plays the violin.", user_id="noor", category="interests")
    where = '{"tags": {"contains": "air"}}'
    page = await open_memories(browser, console, caller)
    await page.get_by_text("More filters and order").click()
    await page.get_by_label("Conditions as JSON").fill(where)
    await page.get_by_role("button", name="Search", exact=True).click()
    await expect(page.get_by_text("1 shown, all of them")).to_be_visible()
    await page.get_by_label("Name for these filters").fill("<b>in the air</b>")
    await page.keyboard.press("Enter")
    link = page.get_by_role("link", name="<b>in the air</b>", exact=True)
    await expect(link).to_be_visible()
    await visit(page, f"{console}/memories")
    await expect(page.get_by_text("2 shown, all of them")).to_be_visible()
    await link.click()
    await expect(page.get_by_text("1 shown, all of them")).to_be_visible()
    assert await page.get_by_label("Conditions as JSON").input_value() == where
    assert not await serious_findings(page)
    await page.get_by_role("button", name="Remove the saved filter <b>in the air</b>").click()
    await expect(link).to_be_hidden()
    await page.reload()
    await wait_until_ready(page)
    await expect(page.get_by_label("Name for these filters")).to_be_visible()
    await expect(link).to_be_hidden()


async def test_an_agent_is_asked_on_a_page_of_its_own(
    browser: Browser, console: str, caller: Caller, memory: AsyncMnema
) -> None:
    await memory.remember("Deploy the billing service on Friday.", user_id="maya", category="tasks")
    page = await open_page(browser, size="phone")
    await sign_in(page, console, caller.key)
    await visit(page, f"{console}/ask")
    await page.get_by_role("combobox", name="Agent").click()
    await page.get_by_role("option", name="planner").click()
    await page.get_by_label("User", exact=True).fill("maya")
    await page.get_by_label("Question").fill("When is the deployment?")
    await page.keyboard.press("Enter")
    answer = page.get_by_role("region", name="Answer")
    await expect(answer.locator(".code.block")).to_contain_text("[tasks] Deploy the billing service on Friday.")
    assert not await serious_findings(page)
    assert await page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    await answer.get_by_role("link", name="Open the receipt").click()
    await expect(page.get_by_role("heading", name="Answer", level=1)).to_be_visible()
