"""Plain routes give the same answers as FastAPI's own handler."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app.api.deps import RequireScope
from app.api.main import ROUTERS, create_app
from app.api.transport.msgpack import MsgpackRoute
from app.api.transport.parameters import StrictRoute
from app.api.transport.plain_routes import PlainRoutes
from app.bootstrap import Doubles
from app.config.settings import Settings
from app.ports import Embedder
from tests.api.calls import remember
from tests.factories import Caller, body, serve_app

ASKED = b'{"agent": "supervisor", "query": "oat milk", "filters": {"user_id": "maya"}}'
JSON = {"Content-Type": "application/json"}
PLACE = {"user_id": "maya", "thread_id": "talk"}
PUT = {**PLACE, "checkpoint_id": "1", "type": "msgpack", "data": "gA==", "metadata": {}, "versions": {}}
VARIES = {"took_ms", "query_id", "request_id", "oldest_due_s", "last_accessed"}
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
    (
        "GET",
        "/memory",
        {"params": {"type": ["semantic", "turn"], "category": "preferences", "metadata": ["a:b", "c:d"]}},
    ),
    ("GET", "/memory", {"params": {"type": ["semantic", "poem"], "category": ["tasks"] * 51}}),
    ("GET", "/events/counts", {"params": {"by": "op", "until": "2020-01-01"}}),
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


def alike(response: httpx.Response) -> tuple[int, dict[str, str], Any]:
    """Return the parts that two answers to one request must share."""
    headers = {name: value for name, value in response.headers.items() if name not in HEADERS}
    if response.status_code == 204:
        headers.pop("content-type", None)  # an empty body
    content: Any = response.json() if response.content else b""
    return response.status_code, headers, _without_varying(content)


def _without_varying(content: Any) -> Any:
    if isinstance(content, list):
        return [_without_varying(item) for item in content]
    if isinstance(content, dict):
        return {name: _without_varying(value) for name, value in content.items() if name not in VARIES}
    return content


@pytest.fixture
async def fastapi_alone(
    settings: Settings, embedder: Embedder, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[httpx.AsyncClient]:
    """Return the same application with FastAPI's own handler on every route."""
    monkeypatch.setattr(StrictRoute, "direct", property(lambda _route: None, lambda _route, _handler: None))
    monkeypatch.setattr(MsgpackRoute, "decoders", {})
    app = create_app(settings, Doubles(embedder=embedder))
    async with serve_app(app) as url, caller.client(url) as client:
        yield client


@pytest.mark.long
async def test_both_handlers_answer_alike(http: httpx.AsyncClient, fastapi_alone: httpx.AsyncClient) -> None:
    await remember(http)
    statuses = set()
    for method, path, rest in REQUESTS:
        direct = alike(await http.request(method, path, **rest))
        assert direct == alike(await fastapi_alone.request(method, path, **rest)), (method, path, rest)
        statuses.add(direct[0])
    assert statuses >= {200, 201, 204, 400, 401, 404, 405, 415, 422}


async def test_frequent_routes_solve_no_dependencies(http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    async def solved(_needs: RequireScope, **_arguments: object) -> None:
        raise AssertionError("FastAPI solves dependencies")

    path = f"/memory/{(await remember(http))['id']}"
    assert (await http.get(path)).status_code == 200  # by now FastAPI has read the signatures
    monkeypatch.setattr(RequireScope, "__call__", solved)
    assert (await http.get(path)).status_code == 500
    for method, path, rest in REQUESTS[:1] + [entry for entry in REQUESTS if entry[1] == "/saver/get"]:
        assert (await http.request(method, path, **rest)).status_code < 500


@pytest.mark.parametrize("root", ["", "/behind"])
def test_a_fixed_path_is_found_where_the_application_is_mounted(root: str) -> None:
    scope = {"type": "http", "method": "POST", "path": f"{root}/memory/query", "root_path": root}
    routes = PlainRoutes(FastAPI(), ROUTERS, {})
    found = routes.find_route(scope)
    assert found is not None
    assert found[0].path == "/memory/query"
    for other in ({"method": "GET"}, {"path": f"{root}/memory/query/"}, {"type": "websocket"}):
        assert routes.find_route({**scope, **other}) is None


def test_a_route_that_takes_messagepack_must_be_a_plain_one() -> None:
    async def endpoint(name: str) -> None: ...

    with pytest.raises(RuntimeError, match="application/msgpack"):
        MsgpackRoute("/saver/{name}", endpoint)


async def test_what_is_sent_in_pieces_is_put_together(http: httpx.AsyncClient) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(ASKED), 7):
            yield ASKED[at : at + 7]

    response = await http.post("/memory/query", content=pieces(), headers=JSON)
    assert response.status_code == 200, response.text
