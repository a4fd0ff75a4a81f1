"""Threads, people, bin, facts and graph with data in a real browser."""

import json
import os
from pathlib import Path

import pytest
from mnema_client import AsyncMnema
from playwright.async_api import Browser, ConsoleMessage, Page

from tests.console.browser import (
    LOOKS,
    NEEDS_BROWSER,
    open_page,
    serious_findings,
    sign_in,
    visit,
)
from tests.factories import Caller

pytestmark = NEEDS_BROWSER
SHOTS = os.environ.get("MNEMA_TEST_SHOTS", "")
SCRIPT = '<img src=x onerror="document.title=1"> [x](javascript:alert(1)) \u202eevil\u202c'
PAGES = {
    "threads": ("/threads", "talk"),
    "thread": ("/threads?thread_id=talk", "On Friday."),
    "people": ("/people", "maya"),
    "person": ("/people?user_id=maya", "Evidence (1)"),
    "bin": ("/bin", "Maya owns a kite."),
    "facts": ("/facts?user_id=maya", "blue"),
    "graph": ("/graph?user_id=maya", "The same as a table"),
}


@pytest.fixture
async def held(memory: AsyncMnema) -> None:
    """Fill the tenant."""
    turn = await memory.add_turn("Please call me Ana.", user_id="maya", thread_id="talk", role="user", seq=1)
    await memory.add_turn("On Friday.", user_id="maya", thread_id="talk", role="assistant", seq=2)
    await memory.remember("Launch on Friday.", user_id="maya", category="tasks", thread_id="talk")
    for _ in range(2):
        await memory.query("When is the launch?", agent="planner", thread_id="talk", filters={"user_id": "maya"})
        await memory.query_page(limit=1)  # which stores the receipt
    await memory.add_turn(SCRIPT, user_id="maya", thread_id="talk", role="user", seq=3)
    await memory.propose("maya", "preferred_name", "Ana", evidence=turn.id, thread_id="talk")
    tone = await memory.propose("maya", "tone", "friendly and brief")
    await memory.approve("maya", tone.id)
    await memory.store_facts("maya", text="My favorite colors are red, white and blue.", thread_id="talk")
    for number, ending in enumerate((".", " in the big hall.", ", with slides.", " at noon.", " for an hour.")):
        text = f"Maya presents the launch plan to Victor on Monday{ending}"
        category = "projects" if number == 4 else "tasks"
        await memory.remember(text, user_id="maya", category=category, importance=1 + number, pinned=number == 2)
    kite = await memory.remember("Maya owns a kite.", user_id="maya", category="interests")
    assert kite.id is not None
    await memory.delete(kite.id)


def collect_problems(page: Page) -> list[str]:
    """Return a list that gets every error of the page's scripts."""
    problems: list[str] = []

    def collect(message: ConsoleMessage) -> None:
        if message.type == "error":
            problems.append(message.text)

    page.on("console", collect)
    page.on("pageerror", lambda error: problems.append(f"{page.url}: {error.stack}"))
    return problems


@pytest.mark.parametrize(("size", "dark"), LOOKS)
@pytest.mark.usefixtures("held")
async def test_pages_with_data(browser: Browser, console: str, caller: Caller, size: str, dark: bool) -> None:
    page = await open_page(browser, size=size, dark=dark)
    problems = collect_problems(page)
    await sign_in(page, console, caller.key)
    for name, (address, shown) in PAGES.items():
        await visit(page, console + address)
        await page.get_by_text(shown).first.wait_for()
        if name == "thread":
            for button in await page.get_by_role("button", name="What it was told").all():
                await button.click()
            await page.get_by_text("relevance 0").first.wait_for()
        if SHOTS:
            await page.wait_for_timeout(500)
            shot = f"{name}-{size}-{'dark' if dark else 'light'}.png"
            await page.screenshot(path=Path(SHOTS) / shot, full_page=True)
        problems += [f"{name}: {finding}" for finding in await serious_findings(page)]
        width = await page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert width <= 0, f"{name} is {width} pixels too wide"
    assert not problems, "\n".join(problems)


@pytest.mark.usefixtures("held")
async def test_an_export_is_a_file(browser: Browser, console: str, caller: Caller, memory: AsyncMnema) -> None:
    page = await open_page(browser)
    problems = collect_problems(page)
    await sign_in(page, console, caller.key)
    await visit(page, f"{console}/people?user_id=maya")
    async with page.expect_download() as waiting:
        await page.get_by_role("button", name="Export").click()
    download = await waiting.value
    assert download.suggested_filename == "mnema-maya.ndjson"
    path = await download.path()
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [record["kind"] for record in records] == [record["kind"] async for record in memory.export("maya")]
    await page.get_by_text(f"Exported: {len(records)} records.").wait_for()
    assert not problems, "\n".join(problems)


@pytest.mark.usefixtures("held")
async def test_a_circle_of_the_graph_opens_its_memory(browser: Browser, console: str, caller: Caller) -> None:
    page = await open_page(browser)
    await sign_in(page, console, caller.key)
    await visit(page, f"{console}/graph?user_id=maya")
    await page.get_by_text("The same as a table").wait_for()
    await page.locator(".graph circle").first.click()
    await page.get_by_role("heading", name="Memory", exact=True).wait_for()
