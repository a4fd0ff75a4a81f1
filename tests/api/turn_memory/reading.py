"""A server whose turns are read by a scripted chat model, and the events of its streams."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import httpx

from tests.api.turn_memory.talking import MAYA, TALK
from tests.fake_llm import FakeLlm

SAID = "Always answer in French. Never use Redis. My budget is 400 euros."
Event = tuple[str, Any]


@dataclass(frozen=True)
class Room:
    """A client of a tenant, the model behind its server, and a superuser's connection."""

    http: httpx.AsyncClient
    llm: FakeLlm
    sql: asyncpg.Connection

    async def post(self, route: str, **fields: Any) -> httpx.Response:
        """Call a route of Maya's conversation for the turn `now`."""
        talk = fields.pop("talk", TALK)
        return await self.http.post(f"{talk}/{route}", json=MAYA | {"turn_id": "now"} | fields)

    async def read(self, route: str, **fields: Any) -> Any:
        """Call a route; return the answer."""
        answer = await self.post(route, **fields)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def stream(self, route: str, **fields: Any) -> list[Event]:
        """Call a route with `stream`; return its events. Comments have the name `:`."""
        async with self.open_stream(route, **fields) as events:
            return [event async for event in events]

    @asynccontextmanager
    async def open_stream(self, route: str, **fields: Any) -> AsyncIterator[AsyncIterator[Event]]:
        """Open a stream of events."""
        body = MAYA | {"turn_id": "now", "stream": True} | fields
        async with self.http.stream("POST", f"{TALK}/{route}", json=body) as answer:
            assert answer.status_code == 200, await answer.aread()
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert answer.headers["cache-control"] == "no-cache"
            yield _parse_events(answer)

    async def calls(self) -> list[tuple[str, int, str, str | None]]:
        """Return prompt, attempt, status and error of the model's calls, oldest first."""
        rows = await self.sql.fetch("SELECT prompt, attempt, status, error FROM llm_calls ORDER BY ts, attempt")
        return [tuple(row) for row in rows]

    async def wait_for_calls(self, count: int) -> list[tuple[str, int, str, str | None]]:
        """Return the calls as soon as there are so many."""
        async with asyncio.timeout(10):
            while len(found := await self.calls()) < count:  # noqa: ASYNC110 - another process knows when
                await asyncio.sleep(0.02)
        return found

    async def spend_tokens(self) -> None:
        """Spend all tokens of the day, for every tenant."""
        await self.sql.execute("INSERT INTO llm_budget SELECT id, now()::date, 199999 FROM tenants")


async def _parse_events(answer: httpx.Response) -> AsyncIterator[Event]:
    name = ""
    async for line in answer.aiter_lines():
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)
        elif line.startswith(":"):
            yield ":", line


def said_since_restart(events: list[Event]) -> str:
    """Return the text of the deltas after the last restart."""
    last = max((at for at, (name, _data) in enumerate(events) if name == "restart"), default=-1)
    return "".join(data["text"] for name, data in events[last + 1 :] if name == "delta")
