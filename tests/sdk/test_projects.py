"""Calls by project, chat and message: what they send, what they read, and whether the server is there."""

import json
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from mnema_client import AsyncMnema, InvalidRequest, Mnema, Retry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.factories import Caller, serve_app
from tests.sdk.conftest import SOON, Either

FACT_ID = "01999c1e-5e1c-7c1e-8b0e-2f6f0c3b9a11"
COUNTS = {"S": 1, "U": 0, "R": 0, "F": False}
NOTHING = {"S": 0, "U": 0, "R": 0, "F": False}
LABEL = "Model: Memory-S(1) + GPT-5"
NOBODY = "http://127.0.0.1:1"


def held(rank: int, value: str) -> dict[str, Any]:
    return {
        **{"id": FACT_ID, "project_id": "acme", "chat_id": "launch", "topic_key": "favorite_colors"},
        **{"kind": "ranked", "rank": rank, "value": value, "source_message_id": "m1"},
        "created_at": "2026-01-02T03:04:05Z",
    }


class Projects:
    """A server that keeps what it is asked and answers /facts/store, /facts/get and /index-chat-message."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        paths = {"/facts/store": self.store, "/facts/get": self.get, "/index-chat-message": self.index}
        self.app = Starlette(routes=[Route(path, answer, methods=["POST"]) for path, answer in paths.items()])

    async def _read(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(await request.body())
        self.seen.append(body)
        self.keys.append(request.headers.get("Idempotency-Key"))
        return body

    async def store(self, request: Request) -> JSONResponse:
        body = await self._read(request)
        if body["project_id"] != "acme":
            return JSONResponse({"code": "invalid_request", "detail": "another project"}, 422)
        answer = {"fact_id": FACT_ID, "action_type": "store", "memory_actions": COUNTS, "model_label": LABEL}
        return JSONResponse(answer, 201)

    async def get(self, request: Request) -> JSONResponse:
        rank = (await self._read(request)).get("rank")
        facts = [held(1, "blue"), held(2, "green")]
        return JSONResponse({"facts": [fact for fact in facts if rank in (None, fact["rank"])]})

    async def index(self, request: Request) -> JSONResponse:
        body = await self._read(request)
        told = {"revision": 1, "memory_actions": COUNTS} if body["role"] == "user" else {"memory_actions": NOTHING}
        named = {name: body[name] for name in ("chat_id", "message_id")}
        return JSONResponse({"id": str(uuid4()), **named, "model_label": LABEL, **told}, 201)


@pytest.fixture(params=[Mnema, AsyncMnema], ids=["waiting", "asyncio"])
async def asked(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Either, Projects]]:
    """Return each of the two clients in turn, with the server that they ask."""
    projects = Projects()
    async with serve_app(projects.app) as url:
        client = Either(request.param(url, "key", retry=SOON))
        yield client, projects
        await client.close()


async def test_a_fact_is_stored_by_position_or_by_name(asked: tuple[Either, Projects]) -> None:
    client, projects = asked
    stored = await client.store_fact("acme", "favorite_colors", "ranked", "blue", "m1", "launch", 1)
    assert (stored.fact_id, stored.action_type, stored.memory_actions.S) == (UUID(FACT_ID), "store", 1)
    assert stored.model_label == LABEL
    named = {"topic_key": "favorite_city", "kind": "single", "value": "Rome", "source_message_id": "m2"}
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    await client.store_fact(project_id="acme", **named, user_id="maya", created_at=at, idempotency_key="once")
    assert projects.seen == [
        {
            **{"project_id": "acme", "topic_key": "favorite_colors", "kind": "ranked", "value": "blue"},
            **{"source_message_id": "m1", "chat_id": "launch", "rank": 1},
        },
        {"project_id": "acme", **named, "user_id": "maya", "created_at": "2026-01-02T03:04:05Z"},
    ]
    assert projects.keys[0]
    assert projects.keys[1] == "once"
    with pytest.raises(InvalidRequest, match="another project"):
        await client.store_fact(uuid4(), "favorite_colors", "ranked", "blue", "m1", "launch", 1)


async def test_facts_are_read_as_a_list_or_by_rank(asked: tuple[Either, Projects]) -> None:
    client, projects = asked
    facts = await client.get_facts("acme", "launch")
    assert [(fact.rank, fact.value, fact.chat_id) for fact in facts] == [(1, "blue", "launch"), (2, "green", "launch")]
    await client.get_facts("acme", topic_key="favorite_colors", user_id="maya")
    second = await client.get_fact_by_rank("acme", "launch", "favorite_colors", 2)
    assert (second.value, second.id, second.created_at.year) == ("green", UUID(FACT_ID), 2026)
    ranked = {"project_id": "acme", "chat_id": "launch", "topic_key": "favorite_colors"}
    assert await client.get_fact_by_rank(**ranked, rank=3) is None
    assert projects.seen == [
        {"project_id": "acme", "chat_id": "launch"},
        {"project_id": "acme", "topic_key": "favorite_colors", "user_id": "maya"},
        {**ranked, "rank": 2},
        {**ranked, "rank": 3},
    ]


async def test_a_message_is_stored_with_its_place(asked: tuple[Either, Projects]) -> None:
    client, projects = asked
    text = "My favorite color is blue."
    stored = await client.index_chat_message("acme", "launch", "m1", "user", text, "2026-01-02T03:04:05Z", 0)
    assert (stored.chat_id, stored.message_id, stored.revision) == ("launch", "m1", 1)
    assert stored.memory_actions.S == 1
    said = await client.index_chat_message("acme", "launch", "m2", "assistant", "Noted.", user_id="maya")
    assert (said.revision, said.memory_actions.S) == (None, 0)
    first, second = projects.seen
    assert first == {
        **{"project_id": "acme", "chat_id": "launch", "message_id": "m1", "role": "user", "content": text},
        **{"timestamp": "2026-01-02T03:04:05Z", "message_index": 0},
    }
    assert second.keys() == {"project_id", "chat_id", "message_id", "role", "content", "user_id"}
    assert all(projects.keys)


async def test_a_server_is_available_if_it_is_mnemas_and_nothing_is_raised_or_repeated(
    asked: tuple[Either, Projects], either: Either
) -> None:
    assert await either.is_available() is True
    other, _projects = asked  # it answers GET /health with 404
    assert await other.is_available() is False


@pytest.mark.parametrize("client", [Mnema, AsyncMnema])
async def test_a_server_that_is_not_there_is_found_out_at_once(client: Any, caller: Caller) -> None:
    patient = Either(client(NOBODY, caller.key, retry=Retry(first_wait_s=60, longest_wait_s=60)))
    began = time.monotonic()
    assert await patient.is_available() is False
    assert time.monotonic() - began < 30
    await patient.close()
    assert await patient.is_available() is False  # a closed client of httpx raises RuntimeError
