"""People at the console: simulated users of NiceGUI behind the real gate, signed in with real keys."""

import asyncio
import gc
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
from nicegui import ui
from nicegui.functions.download import download
from nicegui.functions.navigate import Navigate
from nicegui.functions.notify import notify
from nicegui.testing import User, UserInteraction
from nicegui.testing.general import nicegui_reset_globals
from starlette.types import ASGIApp

ORIGIN = "http://console.test"
TOKEN = re.compile(r'name="token" value="([^"]+)"')


@contextmanager
def fresh_nicegui() -> Iterator[None]:
    """Reset NiceGUI, which is one for each process; keep the modules of the console loaded.

    It collects garbage at both ends and looks through all objects at each start. The objects that are there before the
    test are frozen meanwhile: to look through them took longer than most tests.
    """
    loaded = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "console"}
    gc.freeze()
    try:
        with nicegui_reset_globals():
            yield
    finally:
        gc.unfreeze()
        sys.modules.update(loaded)
        ui.navigate, ui.notify, ui.download = Navigate(), notify, download


@asynccontextmanager
async def running(app: ASGIApp) -> AsyncIterator[None]:
    """Run the lifespan of an application."""
    incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    task = asyncio.create_task(app({"type": "lifespan", "asgi": {"version": "3.0"}}, incoming.get, answers.put))
    incoming.put_nowait({"type": "lifespan.startup"})
    started = await answers.get()
    assert started["type"] == "lifespan.startup.complete", started
    try:
        yield
    finally:
        incoming.put_nowait({"type": "lifespan.shutdown"})
        await task


class People:
    """The people of one test. Each has a browser of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._browsers: list[httpx.AsyncClient] = []

    def open_browser(self, address: str = "127.0.0.1", origin: str = ORIGIN) -> httpx.AsyncClient:
        """Return a browser without a session, at this network address."""
        transport = httpx.ASGITransport(self.app, client=(address, 4000))
        browser = httpx.AsyncClient(transport=transport, base_url=f"{origin}/console", headers={"Origin": origin})
        self._browsers.append(browser)
        return browser

    async def send_key(self, browser: httpx.AsyncClient, key: str, **fields: str) -> httpx.Response:
        """Fill in the form to sign in and send it."""
        form = await browser.get("/sign-in")
        found = TOKEN.search(form.text)
        assert found, form.text
        return await browser.post("/sign-in", data={"token": found[1], "key": key, **fields})

    async def sign_in(self, key: str) -> User:
        """Return a person who is signed in with this key. `user.open("/memories")` opens a page."""
        browser = self.open_browser()
        answer = await self.send_key(browser, key)
        assert answer.status_code == 303, answer.text
        return User(browser)

    async def close(self) -> None:
        """Close the browsers."""
        for browser in self._browsers:
            await browser.aclose()


async def sees(user: User, text: str, seconds: float = 60) -> None:
    """Wait until the person sees this text."""
    await user.should_see(text, retries=int(seconds * 10))


async def press(user: User, label: str, seconds: float = 60) -> None:
    """Press the newest button with exactly this label, a dialog's before one of the page. Wait until there is one."""
    await user.should_see(kind=ui.button, content=label, retries=int(seconds * 10))
    buttons = [button for button in user.find(ui.button).elements if button.text == label]
    assert buttons, f"no button {label!r}"
    UserInteraction(user, {max(buttons, key=lambda button: button.id)}, None).click()


def buttons(user: User) -> set[str]:
    """Return the labels of the visible buttons."""
    return {button.text for button in user.find(ui.button).elements}


def dismiss_dialog(user: User) -> ui.dialog:
    """Close the newest dialog as Esc does in a browser, and return it."""
    dialog = max(user.find(ui.dialog).elements, key=lambda element: element.id)
    UserInteraction(user, {dialog}, None).trigger("hide")
    return dialog
