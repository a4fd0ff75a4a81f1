"""A server that is killed in mid-stream: the user's turn is stored, and a retry stores nothing twice.

MNEMA_CRASH_ROUNDS sets how often it is killed.
"""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from app.bootstrap import Application
from tests.acceptance.chat_requests import ENDS, chat_body, ended_well
from tests.acceptance.serving import Server
from tests.conftest import Database
from tests.factories import Caller, make_caller
from tests.scripted_upstream import ScriptedUpstream, scripted_upstream
from tests.usecases.crowd import SeededEmbedder

ROUNDS = int(os.environ.get("MNEMA_CRASH_ROUNDS", "2"))
pytestmark = [pytest.mark.acceptance, pytest.mark.usefixtures("own")]


@pytest.fixture
def embedder() -> SeededEmbedder:
    """The embedder of this process; the killed server uses the real model."""
    return SeededEmbedder()


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    """Run an upstream whose streams take a while."""
    async with scripted_upstream() as running:
        running.pause_s = 0.05
        yield running


@pytest.fixture
def victim(database: Database, tmp_path: Path, upstream: ScriptedUpstream) -> Iterator[Server]:
    """A server that does not run yet."""
    server = Server(
        database,
        tmp_path,
        env={"MNEMA_CHAT_UPSTREAM_URL": upstream.base_url, "MNEMA_CHAT_ANTHROPIC_URL": upstream.base_url},
    )
    yield server
    server.kill()


@pytest.fixture
async def chatter(app: Application) -> Caller:
    """Return a key that may chat."""
    return await make_caller(app, ("chat", "query"))


@pytest.mark.long
@pytest.mark.parametrize("path", ENDS)
async def test_a_server_killed_in_mid_stream_loses_no_message_and_doubles_none(
    victim: Server, chatter: Caller, upstream: ScriptedUpstream, path: str
) -> None:
    await victim.start()
    for number in range(ROUNDS):
        text = f"I keep note {number} of the trip in the blue box on the shelf."
        body = chat_body(path, text, user="maya", memory_id=f"c{number}", stream=True)
        headers = {"Idempotency-Key": f"k{number}"}
        async with chatter.client(victim.url) as http:
            with pytest.raises(httpx.HTTPError):
                await kill_in_mid_stream(victim, http, path, body, headers)
        await victim.start()
        async with chatter.client(victim.url) as http:
            [user, *rest] = await turns_of(http, number)
            assert (user["role"], user["content"]) == ("user", text), "it was stored before the first byte"
            assert all(turn["metadata"].get("incomplete") for turn in rest)
            for _ in range(2):
                assert ended_well(path, await http.post(path, json=body, headers=headers))
            found = await turns_of(http, number)
            whole = [turn["content"] for turn in found if not turn["metadata"].get("incomplete")]
            assert whole == [text, f"You said: {text}"]


async def kill_in_mid_stream(
    victim: Server, http: httpx.AsyncClient, path: str, body: dict[str, object], headers: dict[str, str]
) -> None:
    """Kill the server as soon as the first bytes of its answer are here."""
    async with http.stream("POST", path, json=body, headers=headers) as answer:
        assert answer.status_code == 200
        async for _chunk in answer.aiter_raw():
            victim.kill()


async def turns_of(http: httpx.AsyncClient, number: int) -> list[dict[str, object]]:
    """Return the turns of a conversation."""
    found = await http.get(f"/threads/c{number}/turns", params={"user_id": "maya"})
    turns: list[dict[str, object]] = found.json()["items"]
    return turns
