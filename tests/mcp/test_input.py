"""Invalid requests: refused in the terms of HTTP or JSON-RPC, never with a crash, and without any change."""

import asyncio
import json
from contextlib import nullcontext
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from starlette.requests import Request

from app.bootstrap import Doubles
from app.config.settings import Settings
from app.mcp.http import PATH, HostNotAllowed, check_host
from app.ports import Embedder
from tests.api import calls
from tests.effort import tries
from tests.factories import Caller, body, serve
from tests.mcp.connections import HEADERS, VERSIONS, answered, by_http, by_stdio, call, refused

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(), max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
SOME_NAMES = st.sampled_from(
    ["memory.query", "memory_remember", "memory.history", "memory.facts", "memory.dream", "", "\ud800"]
)


async def post(client: httpx.AsyncClient, content: Any, **headers: str) -> httpx.Response:
    """Send a body unchanged: text, bytes, or an object that is encoded without checks (NaN, lone surrogates)."""
    raw = content if isinstance(content, str | bytes) else json.dumps(content)
    return await client.post(PATH, content=raw, headers=HEADERS | headers)


def proper(response: httpx.Response) -> bool:
    """Return True for a JSON-RPC answer or a refusal with its reason, False for a crash."""
    if response.status_code >= 500 or not response.headers.get("X-Request-ID"):
        return False
    found = response.json() if response.content and "json" in response.headers.get("content-type", "") else {}
    return (found.get("error") or {}).get("code") != -32603


@pytest.mark.parametrize("version", VERSIONS, ids=["no version", "2025", "2026"])
async def test_bodies_that_are_no_request(server: str, caller: Caller, version: dict[str, str]) -> None:
    contents = [
        "", "{", "null", "[]", "1", '"x"', "{}", b"\xff\xfe", b'{"a": "\xff"}', "[" * 100_000, '{"a":' * 50_000,
        '{"jsonrpc": "2.0", "id": ' + "9" * 5000 + ', "method": "tools/list"}',
        [call({})], call({}, jsonrpc="1.0"), call({}, id=None), call({}, id={}), call({}, id=1.5),
        call({}, method="tools/destroy"), call({}, method=1), call({}, params=[]), call({}, params="x"),
        call({}, name=None), call({}, name=7), call({}, id="\ud800"), call([]), call("x"), call(7),
        call({"agent": float("nan")}),
        {"jsonrpc": "2.0", "method": "tools/call"}, {"jsonrpc": "2.0", "id": 1, "result": {}},
        call({}, name="x" * 500_000),
    ]  # fmt: skip
    async with caller.client(server) as client:
        for content in contents:
            response = await post(client, content, **version)
            assert proper(response), (content if len(str(content)) < 200 else str(content)[:200], response.text)
        assert (await post(client, call({"agent": "supervisor", "query": "milk"}))).status_code == 200


@pytest.mark.long
async def test_any_arguments_get_an_answer(server: str, caller: Caller) -> None:
    tried: list[tuple[str, Any]] = []

    @examples(max_examples=tries(120), deadline=None, database=None)
    @given(name=SOME_NAMES, arguments=JSON)
    def collect(name: str, arguments: Any) -> None:
        tried.append((name, arguments))

    await asyncio.to_thread(collect)
    async with caller.client(server) as client:
        for name, arguments in tried:
            response = await post(client, call(arguments, name))
            assert proper(response), (name, arguments, response.text)
        assert await calls.listed(client) == []


@pytest.mark.long
async def test_any_value_of_any_field_gets_an_answer(server: str, caller: Caller) -> None:
    values = [
        None,
        True,
        0,
        -1,
        1.5,
        10**30,
        "",
        " ",
        "x" * 20_000,
        "\x00",
        "\ud800",
        "\u202e",
        [],
        [[]],
        {},
        {"a": {}},
    ]
    fields = ["agent", "query", "categories", "filters", "top_k", "return", "budget_tokens", "threshold", "thread_id"]
    async with caller.client(server) as client:
        for field in [*fields, "since_rev", "explain", "profile"]:
            for value in values:
                response = await post(client, call({"agent": "supervisor", "query": "milk"} | {field: value}))
                http = await calls.send(
                    client, {"agent": "supervisor", "query": "milk"} | {field: value}, "/memory/query"
                )
                if value == "\ud800":  # the SDK reads it as no JSON; HTTP refuses it with 422
                    assert (response.status_code, response.json()["error"]["code"]) == (400, -32700)
                    continue
                result = response.json()["result"]
                if "coerced" in result.get("_meta", {}):  # MCP reads more than HTTP
                    continue
                assert result.get("isError", False) == (not http.is_success), (field, value)
                if result.get("isError"):
                    assert result["structuredContent"]["code"] == http.json()["code"], (field, value)


@pytest.mark.long
async def test_the_body_limit_holds(server: str, caller: Caller) -> None:
    async def in_pieces() -> Any:
        for _ in range(40):
            yield b" " * 65536

    async with caller.client(server) as client:
        for content in (b" " * (2 << 20), in_pieces()):
            response = await client.post(PATH, content=content, headers=HEADERS)
            assert calls.refused(response, 413, "body_too_large")["detail"] == "at most 1048576 bytes"
    large = body("Maya drinks milk.", metadata={"m": "x" * (2 << 20)})
    async with by_stdio(server, caller.key) as client:
        refused(await client.call_tool("memory.remember", large), "body_too_large")
        assert answered(await client.call_tool("memory.remember", body()))["action"] == "created"


async def test_only_post_is_served(server: str, caller: Caller) -> None:
    async with caller.client(server) as client:
        for method in ("GET", "DELETE", "PUT", "PATCH"):
            for version in VERSIONS:
                response = await client.request(method, PATH, headers=HEADERS | version)
                calls.refused(response, 405, "method_not_allowed")
        calls.refused(await client.post(f"{PATH}?names=all", json=call({}), headers=HEADERS), 422, "invalid_request")
        assert (await client.post(PATH, json=call({}), headers={"Accept": "text/html"})).status_code == 406
        plain = await client.post(PATH, content="{}", headers=HEADERS | {"Content-Type": "text/plain"})
        assert plain.status_code == 400


HOSTS = ("localhost:8000", "[::1]:1", "127.0.0.1")
STRANGERS = ("https://app.example.org", "http://memory.example.org.evil.example", "null", "", "http://[", "https://")
LIST = call({}, method="tools/list")


async def test_programs_and_pages_of_this_machine_may_ask(server: str, caller: Caller) -> None:
    async with caller.client(server) as client:
        for host in (*HOSTS, "192.168.1.5:8000", "mnema.localhost"):
            own = ({"Origin": f"https://{host}"}, {"Origin": f"http://{host.upper()}"}) if host in HOSTS else ()
            for headers in ({}, *own):
                response = await post(client, LIST, Host=host, **headers)
                assert response.status_code == 200, (host, headers)
                assert "Access-Control-Allow-Origin" not in response.headers


@pytest.mark.long
async def test_a_host_that_this_machine_does_not_have_is_refused(
    settings: Settings, embedder: Embedder, server: str, caller: Caller
) -> None:
    async with caller.client(server) as client:
        for host in ("evil.example", "localhost.evil.example:8000", "memory.example.org", "["):
            calls.refused(await post(client, LIST, Host=host), 403, "host_not_allowed")
    behind = settings.model_copy(update={"mcp_hosts": ["memory.example.org"]})
    async with serve(behind, Doubles(embedder=embedder)) as url, caller.client(url) as client:
        assert (await post(client, LIST, Host="memory.example.org")).status_code == 200
        calls.refused(await post(client, LIST, Host="evil.example"), 403, "host_not_allowed")


@pytest.mark.parametrize(("address", "refused"), [("127.0.0.1", True), ("::1", True), ("10.0.0.7", False)])
def test_only_a_connection_on_loopback_binds_the_host(address: str, refused: bool) -> None:
    scope = {"type": "http", "headers": [(b"host", b"memory.example.org")], "server": (address, 8000)}
    with pytest.raises(HostNotAllowed) if refused else nullcontext():
        check_host(Request(scope), [])


async def test_a_page_that_rebinds_its_name_may_not_ask(server: str, caller: Caller) -> None:
    async with caller.client(server) as client:
        for host in ("evil.example", "evil.example:8000", "localhost.evil.example"):
            response = await post(client, LIST, Host=host, Origin=f"http://{host}")
            calls.refused(response, 403, "host_not_allowed")
            # a proxy on this machine may replace the Host
            response = await post(client, LIST, Origin=f"http://{host}")
            calls.refused(response, 403, "origin_not_allowed")


async def test_a_page_of_another_origin_may_not_ask(server: str, caller: Caller) -> None:
    for someone in (caller.client(server), httpx.AsyncClient(base_url=server)):  # for any key
        async with someone as client:
            for host in HOSTS:
                for origin in STRANGERS:
                    response = await post(client, LIST, Host=host, Origin=origin)
                    calls.refused(response, 403, "origin_not_allowed")


@pytest.mark.long
async def test_a_page_that_is_named_may_ask(settings: Settings, embedder: Embedder, caller: Caller) -> None:
    for named in ("https://app.example.org", "*"):
        configured = settings.model_copy(update={"cors_origins": [named]})
        async with serve(configured, Doubles(embedder=embedder)) as url, caller.client(url) as client:
            assert (await post(client, LIST, Origin="https://app.example.org")).status_code == 200
            response = await post(client, LIST, Origin="https://app.example.com")
            assert response.status_code == (200 if named == "*" else 403)


@pytest.mark.long
async def test_one_bad_request_leaves_the_others_alone(server: str, caller: Caller) -> None:
    async with by_http(server, caller.key) as client, caller.client(server) as http:
        good = [client.call_tool("memory.remember", body(f"Maya keeps note {n} of May.")) for n in range(10)]
        bad = [post(http, content) for content in ("{", "[" * 9999, call({"agent": "\ud800"})) for _ in range(5)]
        results = await asyncio.gather(*good, *bad)
        assert {answered(result)["action"] for result in results[:10]} == {"created"}
        assert len(await calls.listed(http)) == 10
