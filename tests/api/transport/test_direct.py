"""What is served on the short way is answered as FastAPI would answer it."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from app.api.transport.direct import Direct
from tests.api.calls import remember
from tests.factories import body

ASKED = b'{"agent": "supervisor", "query": "oat milk", "filters": {"user_id": "maya"}}'
JSON = {"Content-Type": "application/json"}
PLACE = {"user_id": "maya", "thread_id": "talk"}
PUT = {**PLACE, "checkpoint_id": "1", "type": "msgpack", "data": "gA==", "metadata": {}, "versions": {}}
VARIES = {"took_ms", "request_id"}
HEADERS = {"date", "x-request-id", "content-length"}
REQUESTS: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/memory/query", {"content": ASKED, "headers": JSON}),
    ("POST", "/memory/query", {"content": ASKED, "headers": {"Content-Type": "Application/JSON; charset=utf-8"}}),
    ("POST", "/memory/query", {"content": ASKED, "headers": {"Content-Type": "application/vnd.mnema+json"}}),
    ("POST", "/memory/query", {"content": ASKED, "headers": {"Content-Type": "text/json"}}),
    ("POST", "/memory/query", {"content": ASKED, "headers": {"Content-Type": "json"}}),
    ("POST", "/memory/query", {"content": ASKED, "headers": {"Content-Type": "application/msgpack"}}),
    ("POST", "/memory/query", {"content": ASKED, "headers": {"Content-Type": ""}}),
    ("POST", "/memory/query", {"content": ASKED}),
    ("POST", "/memory/query", {}),
    ("POST", "/memory/query", {"headers": JSON}),
    ("POST", "/memory/query", {"content": b'{"agent": ', "headers": JSON}),
    ("POST", "/memory/query", {"content": b'{"agent": ', "headers": {**JSON, "Authorization": "Bearer nobody"}}),
    ("POST", "/memory/query", {"content": ASKED, "headers": {**JSON, "Authorization": "Bearer nobody"}}),
    ("POST", "/memory/query", {"content": ASKED, "headers": {**JSON, "Authorization": "Basic bm9ib2R5"}}),
    ("POST", "/memory/query", {"content": b"{}", "headers": {**JSON, "Authorization": "Bearer"}}),
    ("POST", "/memory/query", {"content": b'"\xff"', "headers": JSON}),
    ("POST", "/memory/query", {"content": b"[" * 100_000, "headers": JSON}),
    ("POST", "/memory/query", {"content": b"[]", "headers": JSON}),
    ("POST", "/memory/query", {"content": b"null", "headers": JSON}),
    ("POST", "/memory/query", {"content": b'{"top_k": NaN}', "headers": JSON}),
    ("POST", "/memory/query", {"json": {"agent": "supervisor", "query": "oat milk", "explain": True, "top": 1}}),
    ("POST", "/memory/query", {"json": {"agent": "nobody", "query": "oat milk"}}),
    ("POST", "/memory", {"json": {}, "params": {"trim": "perhaps"}, "headers": {"Idempotency-Key": "x" * 201}}),
    ("POST", "/memory", {"json": body("Maya drinks oat milk."), "headers": {"Idempotency-Key": "one"}}),
    ("GET", "/memory", {"params": {"limit": 0, "tag": "a\nb"}}),
    ("GET", "/memory", {"params": {"user_id": "maya", "pinned": "false"}}),
    ("GET", "/events/counts", {"params": {"by": "op"}}),
    ("GET", "/jobs/counts", {}),
    ("GET", "/health", {}),
    ("HEAD", "/health", {}),
    ("GET", "/memory/query", {}),
    ("POST", "/memory/query/", {"content": ASKED, "headers": JSON}),
    ("POST", "/saver/put", {"json": PUT}),
    ("POST", "/saver/put", {"json": PUT | {"data": "?"}}),
    ("POST", "/saver/get", {"json": PLACE}),
    ("POST", "/saver/get", {"json": PLACE | {"ns": "\x00"}}),
]


async def passed(self: Direct, scope: Scope, receive: Receive, send: Send) -> None:
    await self._app(scope, receive, send)


def alike(response: httpx.Response) -> tuple[int, dict[str, str], Any]:
    """What two answers to one request have in common."""
    headers = {name: value for name, value in response.headers.items() if name not in HEADERS}
    if response.status_code == 204:
        headers.pop("content-type", None)  # of nothing
    content: Any = response.json() if response.content else b""
    if isinstance(content, dict):
        content = {name: value for name, value in content.items() if name not in VARIES}
    return response.status_code, headers, content


async def test_both_ways_answer_alike(http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    await remember(http)
    statuses = set()
    for method, path, rest in REQUESTS:
        direct = alike(await http.request(method, path, **rest))
        with monkeypatch.context() as patch:
            patch.setattr(Direct, "__call__", passed)
            assert direct == alike(await http.request(method, path, **rest)), (method, path, rest)
        statuses.add(direct[0])
    assert statuses >= {200, 201, 204, 400, 401, 404, 405, 415, 422}


async def test_the_most_frequent_routes_do_not_ask_fastapi(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: object) -> None:
        raise AssertionError("FastAPI was asked")

    await remember(http)  # the middlewares are there now
    monkeypatch.setattr("fastapi.routing.APIRoute.matches", asked)
    assert (await http.get("/ready")).status_code == 500
    for method, path, rest in REQUESTS[:1] + [entry for entry in REQUESTS if entry[1] == "/saver/get"]:
        assert (await http.request(method, path, **rest)).status_code < 500


async def test_what_is_sent_in_pieces_is_put_together(http: httpx.AsyncClient) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(ASKED), 7):
            yield ASKED[at : at + 7]

    response = await http.post("/memory/query", content=pieces(), headers=JSON)
    assert response.status_code == 200, response.text
