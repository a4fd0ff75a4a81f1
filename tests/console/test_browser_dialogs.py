"""Every dialog of the console, open, in light and dark: axe finds nothing serious, and each text stands out.

Contrast is measured here: axe mistakes the page behind an open dialog for the ground of its buttons.
"""

from collections.abc import Awaitable, Callable

import pytest
from mnema_client import AsyncMnema
from playwright.async_api import Browser, Page, expect

from tests.console.browser import NEEDS_BROWSER, open_page, serious_findings, sign_in, visit
from tests.factories import Caller

pytestmark = [NEEDS_BROWSER, pytest.mark.long]


async def press(page: Page, name: str) -> None:
    """Press the first button whose name has this text."""
    await page.get_by_role("button", name=name).first.click()


async def select_all(page: Page) -> None:
    """Select the memories of the list: the kite and the colour."""
    await press(page, "Select all shown")
    await expect(page.get_by_text("2 selected")).to_be_visible()


async def edit_selected(page: Page) -> None:
    """Open the dialog that edits and moves memories."""
    await select_all(page)
    await press(page, "Edit or move")


async def delete_selected(page: Page) -> None:
    """Open the question before a deletion."""
    await select_all(page)
    await press(page, "Delete")


async def show_keys(page: Page) -> None:
    """Open the list of shortcuts."""
    await page.locator("h1").click()
    await page.keyboard.press("?")


LEAST_CONTRAST = 4.5
"""The contrast that WCAG 2.2 asks of a text of usual size (1.4.3)."""
WEAK_TEXTS = """least => {
  const read = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = ([red, green, blue]) => [red, green, blue]
    .map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0);
  const ground = (element) => {
    const color = read(getComputedStyle(element).backgroundColor);
    return color[3] === undefined || color[3] === 1 ? color : ground(element.parentElement);
  };
  const found = [];
  const texts = document.createTreeWalker(document.querySelector(".dialog"), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !element.checkVisibility() || element.closest(":disabled")) continue;
    const [dark, bright] = [light(read(getComputedStyle(element).color)), light(ground(element))].sort((a, b) => a - b);
    const contrast = (bright + 0.05) / (dark + 0.05);
    found.push([texts.currentNode.data.trim(), Math.round(contrast * 100) / 100]);
  }
  return { texts: found.length, weak: found.filter(([, contrast]) => contrast < least) };
}"""
"""A function that returns the number of an open dialog's texts, and those whose contrast to their ground is too low."""
DIALOGS: dict[str, tuple[str, Callable[[Page], Awaitable[None]]]] = {
    "shortcuts": ("/", show_keys),
    "add": ("/memories", lambda page: press(page, "Add a memory")),
    "edit and move": ("/memories", edit_selected),
    "delete": ("/memories", delete_selected),
    "edit one": ("/memories/{memory}", lambda page: press(page, "Edit")),
    "edit a fact": ("/facts?user_id=maya", lambda page: press(page, "Edit")),
    "history of a fact": ("/facts?user_id=maya", lambda page: press(page, "History")),
    "erase": ("/people?user_id=maya", lambda page: press(page, "Erase")),
}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_an_open_dialog_is_accessible(
    browser: Browser, console: str, caller: Caller, memory: AsyncMnema, dark: bool
) -> None:
    written = await memory.remember("Maya owns a kite.", user_id="maya", category="interests")
    await memory.store_facts("maya", text="My favorite color is blue.")
    page = await open_page(browser, dark=dark)
    await page.emulate_media(reduced_motion="reduce")  # colours that fade have no contrast yet
    await sign_in(page, console, caller.key)
    found = {}
    for name, (path, open_dialog) in DIALOGS.items():
        await visit(page, console + path.format(memory=written.id))
        await open_dialog(page)
        await expect(page.get_by_role("dialog")).to_be_visible()
        measured = await page.evaluate(WEAK_TEXTS, LEAST_CONTRAST)
        assert measured["texts"] > 2
        found[name] = [*await serious_findings(page, in_dialog=True), *measured["weak"]]
    assert not any(found.values()), found
