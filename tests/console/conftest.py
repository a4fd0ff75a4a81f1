"""The console before a real server of the API, and people who use it."""

import logging
from collections.abc import AsyncIterator

import pytest
from mnema_client import AsyncMnema
from nicegui.testing import User
from playwright.async_api import Browser
from pydantic import SecretStr

from console.main import build_console
from console.settings import ConsoleSettings
from tests.conftest import Installation
from tests.console.browser import chromium, console_process
from tests.console.people import People, fresh_nicegui, running
from tests.factories import Caller

NO_SCRIPTS = "JavaScript did not respond within 1.0 s"
"""The log of a websocket without a browser."""
CHECK_S = 1.0
"""Seconds between two checks of a key."""
SECRET = "the console's own in tests, long enough"


@pytest.fixture
def console_settings(server: str) -> ConsoleSettings:
    """Return the settings of a console of the test's server."""
    return ConsoleSettings(api_url=server, secret=SecretStr(SECRET), check_s=CHECK_S)


@pytest.fixture
async def people(
    console_settings: ConsoleSettings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> AsyncIterator[People]:
    """Run the console in this process; return its people, who are not signed in yet. No page may log an error."""
    monkeypatch.setenv("NICEGUI_USER_SIMULATION", "true")
    with fresh_nicegui():
        app = build_console(console_settings)
        async with running(app):
            made = People(app)
            yield made
            await made.close()
    errors = [record.getMessage() for record in caplog.get_records("call") if record.levelno >= logging.ERROR]
    assert set(errors) <= {NO_SCRIPTS}, errors


@pytest.fixture
async def person(people: People, caller: Caller) -> User:
    """Return a person who is signed in as the administrator of a new tenant."""
    return await people.sign_in(caller.key)


@pytest.fixture
async def memory(server: str, caller: Caller) -> AsyncIterator[AsyncMnema]:
    """Return a client of the API with the same key, to prepare and to check."""
    async with AsyncMnema(server, caller.key) as client:
        yield client


@pytest.fixture(scope="session")
async def console(shared_installation: Installation) -> AsyncIterator[str]:
    """Run a console of the shared server in a process of its own, once for each worker; return its address."""
    assert shared_installation.url is not None
    async with console_process(shared_installation.url) as url:
        yield url


@pytest.fixture(scope="session")
async def running_browser() -> AsyncIterator[Browser]:
    """Run Chromium, once for each worker."""
    async with chromium() as running:
        yield running


@pytest.fixture
async def browser(running_browser: Browser) -> AsyncIterator[Browser]:
    """Return Chromium; close the pages of the test at its end."""
    yield running_browser
    for context in running_browser.contexts:
        await context.close()
