"""A tenant whose chats go to a scripted upstream."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from app.bootstrap import Application
from app.bootstrap.upstreams import open_upstreams
from app.domain.chat.upstream import ANTHROPIC, OPENAI, UpstreamDialect
from tests.factories import Caller, make_caller
from tests.scripted_upstream import Received, ScriptedUpstream, scripted_upstream

PATH = "/v1/chat/completions"
KEY = "sk-upstream-0123456789"
SCOPES = ("chat", "query", "write")


@dataclass(frozen=True)
class Talk:
    """A client of one tenant, its server's application, and the tenant's upstream."""

    http: httpx.AsyncClient
    upstream: ScriptedUpstream
    caller: Caller
    app: Application

    async def say(self, *texts: str, headers: dict[str, str] | None = None, **fields: Any) -> httpx.Response:
        """Send a chat whose messages are the texts, from the user and the assistant in turn."""
        messages = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]
        body = {"model": "scripted-1", "user": "maya", "messages": messages} | fields
        return await self.http.post(PATH, json=body, headers=headers)

    async def turns(self, memory_id: str = "default", user: str = "maya") -> list[tuple[str, str]]:
        """Return role and text of the turns of a conversation, in order."""
        found = await self.http.get(f"/threads/{memory_id}/turns", params={"user_id": user, "limit": 200})
        return [(turn["role"], turn["content"]) for turn in found.json()["items"]]

    async def remember(self, text: str, **fields: Any) -> None:
        """Store a memory of Maya."""
        body = {"user_id": "maya", "category": "preferences", "text": text} | fields
        assert (await self.http.post("/memory", json=body)).status_code == 201

    @property
    def last(self) -> Received:
        """The upstream's last request."""
        return self.upstream.log[-1]


def said(answer: httpx.Response) -> str:
    """Return the text of a plain answer."""
    assert answer.status_code == 200, answer.text
    content: str = answer.json()["choices"][0]["message"]["content"]
    return content


async def wait_for(turns: Any, count: int) -> list[tuple[str, str]]:
    """Return the turns as soon as there are so many; what follows a hang-up is stored a little later."""
    async with asyncio.timeout(10):
        while len(found := await turns()) < count:  # noqa: ASYNC110 - another process knows when
            await asyncio.sleep(0.02)
    return list(found)


async def set_upstream(
    app: Application, caller: Caller, url: str, key: str = KEY, dialect: UpstreamDialect = OPENAI
) -> None:
    """Give the caller's tenant an upstream of a dialect."""
    async with open_upstreams(app.parts.settings) as upstreams:
        await upstreams.set_upstream(caller.scope.tenant_id, url, key, dialect)


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    """Run a scripted upstream."""
    async with scripted_upstream() as running:
        yield running


@pytest.fixture
async def talk(app: Application, server: str, upstream: ScriptedUpstream) -> AsyncIterator[Talk]:
    """Return a client of a fresh tenant that has the upstream."""
    caller = await make_caller(app, SCOPES)
    await set_upstream(app, caller, upstream.base_url)
    async with caller.client(server) as http:
        yield Talk(http, upstream, caller, app)


@pytest.fixture
async def both(talk: Talk) -> Talk:
    """Return a client of a fresh tenant that has an upstream of each dialect."""
    await set_upstream(talk.app, talk.caller, talk.upstream.base_url, dialect=ANTHROPIC)
    return talk
