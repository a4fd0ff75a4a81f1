"""GET /changes as a stream: events as they come, resumable, and ended with the key."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx
import pytest

from app.api.transport import change_stream
from app.bootstrap import Application
from app.domain.errors import TooManyStreams
from app.domain.memory.change_feed import ChangePage
from app.storage.memory.change_feed import ChangeFeedStorage
from app.usecases.memory.change_feed import ChangeFeed
from tests.api.calls import refused, remember
from tests.api.changes import read_changes
from tests.factories import Caller, make_caller
from tests.hearing import HEARD_S

EVENTS = {"Accept": "text/event-stream"}


class Reader:
    """A reader of one stream."""

    def __init__(self, response: httpx.Response) -> None:
        self._lines = response.aiter_lines()

    async def next_event(self) -> dict[str, Any]:
        """Return the next event: its name, its id and its data."""
        found: dict[str, Any] = {}
        async for line in self._lines:
            name, _, value = line.partition(": ")
            if not line:
                return found
            found[name] = json.loads(value) if name == "data" else value
        raise EOFError

    async def next_change(self) -> dict[str, Any]:
        """Return the next event that is no heartbeat."""
        while (found := await self.next_event())["event"] == "heartbeat":
            pass
        return found


@asynccontextmanager
async def stream(http: httpx.AsyncClient, last: str | None = None, **params: Any) -> AsyncIterator[Reader]:
    """Open a stream."""
    headers = EVENTS | ({"Last-Event-ID": last} if last else {})
    async with http.stream("GET", "/changes", headers=headers, params=params) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["Content-Type"].startswith("text/event-stream")
        yield Reader(response)


async def test_changes_come_as_they_happen_and_go_on_behind_the_last_id(http: httpx.AsyncClient) -> None:
    async with stream(http) as reader:
        begun = await reader.next_event()
        assert (begun["event"], begun["data"]) == ("heartbeat", {"id": begun["id"]})
        written = await remember(http, "Maya rows.")
        told = await reader.next_change()
        assert (told["event"], told["data"]["memory_id"], told["data"]["memory"]) == ("ADD", written["id"], None)
        assert told["id"] == told["data"]["id"]
    edited = await http.patch(f"/memory/{written['id']}", json={"text": "Maya rows on Sundays."})
    async with stream(http, begun["id"], user_id="maya", memory=True) as reader:
        again, later = await reader.next_change(), await reader.next_change()
    assert (again["id"], again["data"]["version"]) == (told["id"], 1)
    assert (later["event"], later["data"]["memory"]) == ("UPDATE", edited.json())


@pytest.mark.long
async def test_a_stream_that_waits_keeps_nothing_of_the_pages_that_it_sent(
    http: httpx.AsyncClient, caller: Caller
) -> None:
    await remember(http, "Maya rows.")
    async with stream(http, after="start", memory=True) as reader:
        await reader.next_change()
        await remember(http, "Maya sails.")
        await reader.next_change()
        async with asyncio.timeout(HEARD_S):
            while True:
                gc.collect()
                pages = [one for one in gc.get_objects() if isinstance(one, ChangePage) and one.events]
                if not any(page.tenant_id == caller.scope.tenant_id for page in pages):
                    break
                del pages
                await asyncio.sleep(0.1)


async def test_a_change_that_is_seen_during_a_read_is_told(
    http: httpx.AsyncClient, app: Application, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page of that read may be older than the change, so the stream reads again."""
    feed, old_pages = app.memory.changes, 0

    async def read_slowly(read: Callable[..., Awaitable[ChangePage]], *args: Any, **named: Any) -> ChangePage:
        nonlocal old_pages
        page = await read(*args, **named)
        if args[0].tenant_id == caller.scope.tenant_id and old_pages < 2:  # the first page, and the next one
            old_pages += 1
            async with app.memory.changes.subscribe(caller.scope) as others:
                version = others.version
                await remember(http, f"Maya rows {old_pages} miles.")
                assert await others.wait_beyond(version, HEARD_S)
        return page

    async with stream(http) as before:  # keeps the watch of the tenant
        await before.next_event()
        for name in ("read_page", "read_news"):
            monkeypatch.setattr(feed, name, partial(read_slowly, getattr(feed, name)))
        async with stream(http) as reader, asyncio.timeout(HEARD_S):
            told = set[str]()
            while len(told) < 2:  # the second memory may be linked to the first, which is a change too
                change = await reader.next_change()
                told |= {change["data"]["memory_id"]} if change["event"] == "ADD" else set()


async def test_a_bound_key_hears_of_its_categories_alone(server: str, app: Application, caller: Caller) -> None:
    bound, other = await make_caller(app, ["query"], ["planner"], caller), await make_caller(app)
    async with (
        caller.client(server) as admin,
        bound.client(server) as planner,
        other.client(server) as stranger,
        stream(planner) as reader,
        stream(stranger) as apart,
    ):
        await reader.next_event()
        await apart.next_event()
        hidden = await remember(admin, category="preferences")
        shown = await remember(admin, "Maya fixes the roof.", category="tasks")
        own = await remember(stranger, "Maya sails.")
        assert (await reader.next_change())["data"]["memory_id"] == shown["id"] != hidden["id"]
        assert (await apart.next_change())["data"]["memory_id"] == own["id"]


async def test_a_heartbeat_carries_the_cursor_of_what_was_left_out(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_stream, "HEARTBEAT_S", 0.05)
    async with stream(http, user_id="ben") as reader:
        begun = await reader.next_event()
        await remember(http, "Maya rows.")
        while (beat := await reader.next_event())["id"] == begun["id"]:
            assert beat["event"] == "heartbeat"
    assert (await read_changes(http))["next_cursor"] == beat["id"]


async def test_refusals_come_before_the_stream(http: httpx.AsyncClient, app: Application, caller: Caller) -> None:
    refused(await http.get("/changes", headers=EVENTS | {"Last-Event-ID": "x"}), 422, "invalid_cursor")
    feed = ChangeFeed(app.parts.uow, ChangeFeedStorage(), max_streams=2)
    async with feed.subscribe(caller.scope):
        with pytest.raises(TooManyStreams):
            async with feed.subscribe(caller.scope):
                pass
    async with feed.subscribe(caller.scope):
        assert feed.open_streams == 1


@pytest.mark.long
async def test_the_stream_of_a_revoked_key_ends(server: str, app: Application, caller: Caller) -> None:
    reader_key = await make_caller(app, ["query"], None, caller)
    async with reader_key.client(server) as client, stream(client) as reader:
        await reader.next_event()
        assert reader_key.scope.key_id is not None
        await app.tenancy.tenants.revoke_key(caller.scope.tenant_id, reader_key.scope.key_id)
        async with asyncio.timeout(5):
            with pytest.raises((EOFError, httpx.RemoteProtocolError)):
                await reader.next_change()
