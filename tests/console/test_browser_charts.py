"""The pictures of Graph and Events in a real browser: what they hold, the keyboard, both themes, sizes of messages."""

import os
from pathlib import Path
from uuid import UUID

import pytest
from mnema_client import AsyncMnema
from playwright.async_api import Browser, Locator

from tests.api.calls import sql
from tests.conftest import Database, Installation
from tests.console.browser import (
    LOOKS,
    NEEDS_BROWSER,
    open_page,
    serious_findings,
    sign_in,
    visit,
    watch_messages,
)
from tests.factories import Caller

pytestmark = NEEDS_BROWSER
SHOTS = os.environ.get("MNEMA_TEST_SHOTS", "")
MOST_BYTES = 200_000
CATEGORIES = ("tasks", "projects", "preferences", "interests")
TEXTS = ("oat milk", "the violin", "a red kite", "the launch plan", "chess on Sunday", "tea without sugar")
SCRIPT = "<img src=x onerror=alert(1)>"
WIDE = "\ue000" * 240
"""A text of characters that the console shows as eight each."""


async def fill(memory: AsyncMnema, database: Database, caller: Caller, count: int, extra: str = "") -> list[UUID]:
    """Write memories of one user and relate each with the next ones; return their ids."""
    ids = []
    for number in range(count):
        written = await memory.remember(
            f"{extra}Maya likes {TEXTS[number % len(TEXTS)]}, number {number}.",
            user_id="maya",
            category=CATEGORIES[number % len(CATEGORIES)],
            importance=1 + number % 5,
            pinned=number % 5 == 2,
        )
        assert written.id is not None
        ids.append(written.id)
    tenant = caller.scope.tenant_id
    await sql(database, "DELETE FROM relations WHERE tenant_id = $1", tenant)
    await sql(
        database,
        "INSERT INTO relations (tenant_id, id, from_id, to_id, relation_type, strength) "
        "SELECT $1, gen_random_uuid(), a, b, 'related_to', strength FROM unnest($2::text[], $3::text[], $4::real[]) "
        "AS made (a, b, strength) ON CONFLICT DO NOTHING",
        tenant,
        [str(ids[number]) for number in range(count)],
        [str(ids[(number + (1 if number % 2 else count // 3)) % count]) for number in range(count)],
        [0.3 + 0.7 * number / count for number in range(count)],
    )
    return ids


async def spread_events(database: Database, caller: Caller) -> None:
    """Move the tenant's events to the days before."""
    await sql(
        database,
        "UPDATE events SET ts = ts - (abs(hashtext(id::text)) % 28) * interval '1 day' WHERE tenant_id = $1",
        caller.scope.tenant_id,
    )


async def namespaces(shapes: Locator) -> set[str]:
    """Return the namespaces of these elements and of all in them."""
    found: list[str] = await shapes.evaluate_all(
        "all => all.flatMap(one => [one, ...one.querySelectorAll('*')].map(part => part.namespaceURI))"
    )
    return set(found)


@pytest.mark.parametrize(("size", "dark"), LOOKS)
async def test_pictures_are_seen(
    browser: Browser,
    console: str,
    caller: Caller,
    memory: AsyncMnema,
    installation: Installation,
    size: str,
    dark: bool,
) -> None:
    count = int(os.environ.get("MNEMA_TEST_CIRCLES", "12"))
    await fill(memory, installation.database, caller, count)
    await spread_events(installation.database, caller)
    page = await open_page(browser, size=size, dark=dark)
    await sign_in(page, console, caller.key)
    for path, picture in (("/graph?user_id=maya", ".graph"), ("/events", ".plot")):
        await visit(page, console + path)
        shapes = page.locator(f"{picture} :is(circle, path.series, rect.day)")
        await shapes.first.wait_for(state="attached")
        assert await namespaces(page.locator(picture)) == {"http://www.w3.org/2000/svg"}
        fills = await shapes.evaluate_all("all => all.map(one => getComputedStyle(one).fill)")
        assert len({fill for fill in fills if fill.startswith("rgb")}) > 2
        if SHOTS:
            await page.wait_for_timeout(300)
            shot = f"{picture[1:]}-{count}-{size}-{'dark' if dark else 'light'}.png"
            await page.screenshot(path=Path(SHOTS) / shot, full_page=True)
        assert not await serious_findings(page), path
        assert await page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0, path
        box = await page.locator(picture).first.bounding_box()
        assert box is not None
        assert box["height"] > 200
        assert box["width"] > 250


async def test_a_memory_in_the_graph_opens_by_keyboard(
    browser: Browser, console: str, caller: Caller, memory: AsyncMnema, installation: Installation
) -> None:
    await fill(memory, installation.database, caller, 6, SCRIPT)
    page = await open_page(browser)
    await sign_in(page, console, caller.key)
    await visit(page, f"{console}/graph?user_id=maya")
    link = page.get_by_role("group", name="Graph of 6 memories").get_by_role("link").first
    await link.wait_for()
    assert not await page.locator("main img").count()
    assert "onerror" in await link.locator("title").inner_html()
    before = await link.locator(".dot").evaluate("one => getComputedStyle(one).strokeWidth")
    await page.get_by_label("User").first.focus()
    for _ in range(12):
        await page.keyboard.press("Tab")
        if await link.evaluate("one => one === document.activeElement"):
            break
    assert await link.locator(".dot").evaluate("one => getComputedStyle(one).strokeWidth") != before
    await page.keyboard.press("Enter")
    await page.get_by_role("heading", name="Memory", exact=True).wait_for()


async def test_messages_of_the_pictures_are_small(
    browser: Browser, console: str, caller: Caller, memory: AsyncMnema, installation: Installation
) -> None:
    await fill(memory, installation.database, caller, 100, WIDE)
    await spread_events(installation.database, caller)
    page = await open_page(browser)
    sizes = watch_messages(page)
    await sign_in(page, console, caller.key)
    for path, picture in (("/graph?user_id=maya", ".graph"), ("/events", ".plot")):
        sizes.clear()
        await visit(page, console + path)
        await page.locator(picture).first.wait_for()
        assert max(sizes) <= MOST_BYTES, path
