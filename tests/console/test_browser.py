"""The console in a real browser: every page opens, without an error of a script and without a serious finding."""

import os
from pathlib import Path

import pytest
from mnema_client import AsyncMnema
from playwright.async_api import Browser, ConsoleMessage, Page

from console.routes import ROUTES
from tests.console.browser import (
    LOOKS,
    NEEDS_BROWSER,
    open_page,
    serious_findings,
    sign_in,
    visit,
    wait_until_ready,
)
from tests.factories import Caller

pytestmark = NEEDS_BROWSER
SHOTS = os.environ.get("MNEMA_TEST_SHOTS", "")


@pytest.mark.parametrize(("size", "dark"), LOOKS)
async def test_every_page_opens(
    browser: Browser, console: str, caller: Caller, memory: AsyncMnema, size: str, dark: bool
) -> None:
    for number in range(3):
        await memory.remember(f"Maya plans trip number {number}.", user_id="maya", category="tasks")
    page = await open_page(browser, size=size, dark=dark)
    problems: list[str] = []

    def collect(message: ConsoleMessage) -> None:
        if message.type == "error":
            problems.append(message.text)

    page.on("console", collect)
    page.on("pageerror", lambda error: problems.append(str(error)))
    await sign_in(page, console, caller.key)
    for route in ROUTES:
        if not route.shortcut:
            continue
        await visit(page, console + route.path)
        await page.get_by_role("heading", name=route.title, level=1).wait_for()
        await take_shot(page, route.path.strip("/") or "home", size, dark)
        problems += [f"{route.path}: {finding}" for finding in await serious_findings(page)]
        width = await page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert width <= 0, f"{route.path} is {width} pixels too wide"
    await look_at_a_memory(page, console, memory, size, dark)
    problems += [f"a memory: {finding}" for finding in await serious_findings(page)]
    assert not problems, "\n".join(problems)


async def look_at_a_memory(page: Page, console: str, memory: AsyncMnema, size: str, dark: bool) -> None:
    """Open a memory with a timeline, and a question with the parts of the scores."""
    [first] = (await memory.page(limit=1)).items
    await memory.edit(first.id, text="Maya plans a trip to Lisbon in spring.", tags=["travel"])
    await visit(page, f"{console}/ask?agent=planner")
    await page.get_by_label("Question").fill("Which trip does Maya plan?")
    await page.get_by_role("button", name="Ask", exact=True).click()
    await page.get_by_text("tokens").wait_for()
    await take_shot(page, "question", size, dark)
    await look_back(page, console, size, dark)
    await visit(page, f"{console}/memories/{first.id}")
    await page.get_by_role("region", name="Timeline").get_by_text("created", exact=True).wait_for()
    await page.get_by_role("button", name="Edit").click()
    await page.get_by_role("button", name="Save").wait_for()
    await take_shot(page, "edit", size, dark)
    await page.get_by_role("button", name="Cancel").click()
    await page.get_by_role("button", name="Save").wait_for(state="hidden")
    await take_shot(page, "memory", size, dark)


async def look_back(page: Page, console: str, size: str, dark: bool) -> None:
    """Move the slider of the list by its keys, and look at the list of that time."""
    await visit(page, f"{console}/memories?user_id=maya&valid_at=2026-01-01T00:00:00")
    slider = page.get_by_role("slider").first
    await slider.focus()
    await slider.press("Home")
    await page.wait_for_function("document.querySelector('.moment input').value !== ''")
    await page.get_by_role("button", name="Search", exact=True).click()
    await page.wait_for_function("location.search.includes('as_of=2')")
    await wait_until_ready(page)
    await take_shot(page, "look-back", size, dark)
    assert not await serious_findings(page)


async def take_shot(page: Page, name: str, size: str, dark: bool) -> None:
    """Write a screenshot to the folder MNEMA_TEST_SHOTS, if it is set."""
    if SHOTS:
        theme = "dark" if dark else "light"
        await page.screenshot(path=Path(SHOTS) / f"{name}-{size}-{theme}.png", full_page=True)
