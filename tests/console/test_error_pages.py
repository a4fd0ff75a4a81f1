"""Pages that are missing or broken, and an API that never answers: each is explained, and none loads for ever."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import httpx
import pytest
from nicegui.testing import User

from console import layout
from console.session import COOKIE, SessionCookies
from console.settings import ConsoleSettings
from tests.console.conftest import SECRET
from tests.console.people import People


@pytest.fixture
async def silent_api(console_settings: ConsoleSettings) -> AsyncIterator[str]:
    """Run a server that takes connections and never answers, as the console's API."""
    ended = asyncio.Event()

    async def wait(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(wait, "127.0.0.1", 0)
    console_settings.api_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield console_settings.api_url
    ended.set()
    server.close()


def is_plain(answer: httpx.Response) -> bool:
    """Tell whether an answer is a page without scripts, for people."""
    policy = answer.headers["content-security-policy"]
    return "<script" not in answer.text and "script-src" not in policy and "Open the first page" in answer.text


async def test_an_unknown_address_is_a_plain_page(person: User) -> None:
    answer = await person.http_client.get("/nothing-<b>?q=secret")
    assert answer.status_code == 404
    assert is_plain(answer), answer.text
    assert "This page does not exist" in answer.text
    assert "nothing-" not in answer.text
    assert answer.headers["x-frame-options"] == "DENY"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pages take less than a second, in a console that is built afterwards."""
    monkeypatch.setattr(layout, "RESPONSE_S", 0.5)


async def test_a_page_that_is_not_ready_in_time_is_a_plain_page(
    impatient: None, people: People, person: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_self: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("console.registry.OpenSession.describe", never)
    monkeypatch.setattr(layout, "DESCRIBE_S", 1000)
    answer = await person.http_client.get("/")
    assert answer.status_code == 500
    assert is_plain(answer), answer.text


async def test_an_api_that_never_answers_is_shown_as_an_error(
    silent_api: str, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "DESCRIBE_S", 0.3)
    cookies, browser = SessionCookies(SECRET), people.open_browser()
    session = cookies.create_session("mnema_key", datetime.now(UTC))
    browser.cookies.set(COOKIE, cookies.seal_session(session), domain="console.test", path="/console")
    answer = await asyncio.wait_for(browser.get("/jobs"), 30)
    assert answer.status_code == 200
    assert "The API does not answer" in answer.text
