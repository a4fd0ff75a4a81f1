"""Texts of the longest allowed size in a real browser: no message above 200 KB, and the focus after "Load more"."""

import asyncio

from mnema_client import AsyncMnema
from playwright.async_api import Browser

from tests.console.browser import (
    NEEDS_BROWSER,
    open_page,
    sign_in,
    visit,
    watch_messages,
)
from tests.factories import Caller

pytestmark = NEEDS_BROWSER
MOST_BYTES = 200_000
TURN = 32_000
ANSWERS = 50
LONG = 4_000
"""Characters of a text that is shown shortened too, and stored in less time."""
WIDE = "\ue000"
"""A character that the console shows as eight."""


def long_text(number: int, unit: str, length: int = TURN) -> str:
    """Return a text of this length, by default the longest of a turn."""
    return (f"Turn {number}: the launch " + unit * length)[: length - 8] + " the end"


async def test_no_message_is_large(browser: Browser, console: str, caller: Caller, memory: AsyncMnema) -> None:
    told = await fill_thread(memory, WIDE)
    page = await open_page(browser)
    sizes = watch_messages(page)
    await sign_in(page, console, caller.key)
    for path in ("/threads?thread_id=talk", *told, "/memories"):
        sizes.clear()
        await visit(page, console + path)
        for name in ("Show all", "Show more", "What it was told", "Load more"):
            # handles, not locators: a pressed button changes its name, and those after it would move up
            for button in (await page.get_by_role("button", name=name).element_handles())[:3]:
                await button.click()
                await asyncio.sleep(0.5)  # each answer in a message of its own
        assert sizes, path
        assert max(sizes) <= MOST_BYTES, path


async def fill_thread(memory: AsyncMnema, unit: str) -> list[str]:
    """Write more long turns than a page has, one of them with more versions; return the paths of what they lead to."""
    tags = [f"{number}{'日' * 60}" for number in range(20)]
    ids = []
    for number in range(26):
        turn = await memory.add_turn(
            long_text(number, unit, LONG if number else TURN),
            user_id="日" * 200,
            thread_id="talk",
            role="user",
            seq=number,
        )
        assert turn.id is not None
        ids.append(turn.id)
        await memory.edit(turn.id, tags=tags, category="tasks")
    for number in range(21):
        await memory.edit(ids[0], text=long_text(number, unit, LONG if number < 20 else TURN))
    for _ in range(ANSWERS):
        answer = await memory.query(
            "When is the launch?", agent="planner", thread_id="talk", budget_tokens=8192, top_k=50
        )
    assert answer.items
    assert answer.query_id is not None
    await memory.get_query(answer.query_id)  # the receipt is stored when this returns
    return [f"/memories/{ids[0]}", f"/answers/{answer.query_id}"]


async def test_the_focus_goes_to_the_first_new_entry(
    browser: Browser, console: str, caller: Caller, memory: AsyncMnema
) -> None:
    lines = [
        {"text": f"Fact number {number} of the list", "user_id": "maya", "category": "history", "type": "episodic"}
        for number in range(30)
    ]
    assert not [result.error async for result in memory.remember_many(lines) if result.error]
    page = await open_page(browser)
    await sign_in(page, console, caller.key)
    await visit(page, f"{console}/memories")
    await page.get_by_role("button", name="Load more").focus()
    await page.keyboard.press("Enter")
    await page.get_by_text("30 shown, all of them").wait_for()
    await page.wait_for_function("document.activeElement === document.querySelectorAll('tbody tr')[25]")
    live = await page.evaluate(
        "[...document.querySelectorAll('[aria-live]')].filter(e => e.querySelector('tr, li')).length"
    )
    assert live == 0
