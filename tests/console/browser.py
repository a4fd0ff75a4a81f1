"""A real Chromium before a console in a process of its own. Opt-in: MNEMA_TEST_BROWSER=/usr/bin/chromium."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, WebSocket, async_playwright

from app.embedded.postgres import free_port

ROOT = Path(__file__).resolve().parents[2]
BROWSER = os.environ.get("MNEMA_TEST_BROWSER", "")
NEEDS_BROWSER = pytest.mark.skipif(not BROWSER, reason="MNEMA_TEST_BROWSER names no browser")
SIZES = {"wide": (1280, 900), "phone": (390, 844)}
LOOKS = [
    pytest.param("wide", False, id="wide-light"),
    pytest.param("phone", True, id="phone-dark"),
    pytest.param("wide", True, id="wide-dark", marks=pytest.mark.long),
    pytest.param("phone", False, id="phone-light", marks=pytest.mark.long),
]
"""Sizes and themes. The quick lane sees each size and each theme once."""
SERIOUS = frozenset({"serious", "critical"})
READY_S = 180


@asynccontextmanager
async def console_process(api_url: str, **settings: str) -> AsyncIterator[str]:
    """Run `python -m console` on a free port until the block ends; yield its address."""
    port = free_port()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MNEMA_")}
    paths = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "sdk")])}
    given = {"MNEMA_CONSOLE_API_URL": api_url, "MNEMA_CONSOLE_PORT": str(port), **settings}
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "console", env=kept | paths | given, cwd=ROOT)
    url = f"http://127.0.0.1:{port}/console"
    try:
        async with asyncio.timeout(READY_S), httpx.AsyncClient(trust_env=False) as client:
            while True:
                try:
                    await client.get(f"{url}/health")
                    break
                except httpx.TransportError:
                    assert process.returncode is None, "the console ended"
                    await asyncio.sleep(0.1)
        yield url
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Run the browser without a window."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()


async def open_page(browser: Browser, *, size: str = "wide", dark: bool = False) -> Page:
    """Return a page of a browser session of its own."""
    width, height = SIZES[size]
    context = await browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
    )
    return await context.new_page()


async def visit(page: Page, url: str) -> None:
    """Open a page of the console and wait until it takes input: earlier input may reach the server out of order."""
    await page.goto(url)
    await wait_until_ready(page)


async def wait_until_ready(page: Page) -> None:
    """Wait until the page is connected with the server and shows what it loads."""
    await page.wait_for_function("window.did_handshake && !document.querySelector('.state.loading')")


async def sign_in(page: Page, console: str, key: str) -> None:
    """Sign in by the form."""
    await page.goto(f"{console}/sign-in")
    await page.get_by_label("API key").fill(key)
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_role("heading", name="Home", level=1).wait_for()
    await wait_until_ready(page)


async def serious_findings(page: Page, *, in_dialog: bool = False) -> list[str]:
    """Return axe's serious and critical findings about the page as it is, or about an open dialog.

    In a dialog, contrast does not count: axe takes the backdrop, which lies behind, for the background of its buttons.
    """
    options = {"rules": {"color-contrast": {"enabled": False}}} if in_dialog else None
    results = await Axe().run(page, ".dialog" if in_dialog else None, options)
    return [
        f"{finding['id']}: {node['html'][:200]}"
        for finding in results.response["violations"]
        if finding["impact"] in SERIOUS
        for node in finding["nodes"]
    ]


def watch_messages(page: Page) -> list[int]:
    """Return a list that gets the size in bytes of each message that the page's websockets receive from now on."""
    sizes: list[int] = []

    def note(message: str | bytes) -> None:
        sizes.append(len(message.encode() if isinstance(message, str) else message))

    def watch(socket: WebSocket) -> None:
        socket.on("framereceived", note)

    page.on("websocket", watch)
    return sizes
