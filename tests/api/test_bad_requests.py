"""Requests that are wrong as HTTP: paths, parameters, headers and sizes; and the content of errors."""

import gzip
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from app.bootstrap import Application
from tests.api.calls import PROBLEM, listed, refused, remember, send, verdict
from tests.api.route_catalog import ID_PLACES, fill_places, guarded
from tests.factories import Caller, body, make_caller

LIMIT = 1 << 20
INVALID = (422, "invalid_request")
BAD_UUIDS = ["1", "x", "null", "%00", "%20", "%F0%9F%A6%89", "0" * 33, "g" * 32, "-" * 36, "%27%20OR%201=1"]
PARAMETERS: dict[str, list[dict[str, Any]]] = {
    "/memory": [
        {"limit": 0},
        {"limit": 201},
        {"limit": "many"},
        {"limit": ""},
        {"importance_min": 0},
        {"importance_max": 6},
        {"importance_min": 4, "importance_max": 2},
        {"pinned": "maybe"},
        {"type": "poem"},
        {"state": "purged"},
        {"state": ""},
        {"user_id": ""},
        {"user_id": "x" * 201},
        {"user_id": "a\x00b"},
        {"tag": "a\nb"},
        {"updated_after": "yesterday"},
        {"updated_after": "0"},
        {"updated_after": "2025-07-02", "updated_before": "2025-07-01"},
        {"created_after": "2025-07-02", "created_before": "2025-07-01"},
        {"q": ""},
        {"q": "x" * 501},
        {"q": "a\x00b"},
        {"type": ["turn", "poem"]},
        {"type": ["turn"] * 8},
        {"category": ["tasks", ""]},
        {"category": ["tasks"] * 51},
        {"metadata": "key"},
        {"metadata": ":value"},
        {"metadata": "a:b\x00"},
        {"metadata": ["a:b"] * 11},
        {"metadata": "k:" + "x" * 500},
        {"sort": "text"},
        {"sort": "-created_at"},
        {"order": "down"},
    ],
    "/threads/t/delta": [
        {"since_rev": -1},
        {"since_rev": 2**62 + 1},
        {"since_rev": 10**40},
        {"since_rev": "1.5"},
        {"since_rev": ""},
        {"agent": ""},
        {"agent": "x" * 201},
        {"agent": "a\x00"},
    ],
    "/threads/%00/delta": [{}],
    "/threads//delta": [{}],
    "/threads/%20/delta": [{}],
    f"/threads/{'x' * 201}/delta": [{}],
    "/events/counts": [
        {"by": ""},
        {"by": ","},
        {"by": "op,op"},
        {"by": "tenant_id"},
        {"by": "op; DROP TABLE events"},
        {"by": "count(*)"},
        {"by": "x" * 101},
        {"since": "soon"},
        {"until": "2025-02-30"},
    ],
    "/key": [{"limit": 1}],
    "/users": [
        {"prefix": ""},
        {"prefix": "a\x00"},
        {"prefix": "x" * 201},
        {"limit": 0},
        {"limit": 201},
        {"user_id": "x"},
    ],
    "/threads": [{"user_id": ""}, {"user_id": "a\x00"}, {"prefix": ""}, {"limit": 0}, {"cursor": "x" * 4001}],
    "/events": [
        {"node": "front"},
        {"status": "fine"},
        {"op": "a\x00"},
        {"user_id": ""},
        {"since": "soon"},
        {"since": "2026-02-01", "until": "2026-01-01"},
        {"limit": 0},
        {"cursor": "x" * 501},
    ],
    "/relations": [
        {},
        {"user_id": ""},
        {"user_id": "maya", "min_strength": -1},
        {"user_id": "maya", "min_strength": "nan"},
        {"user_id": "maya", "limit": 501},
    ],
    "/agents": [{"limit": 0}, {"limit": 201}, {"cursor": "x" * 4001}, {"prefix": "p"}],
    "/categories": [{"limit": 0}, {"limit": "many"}, {"agent": "planner"}],
    "/queries": [
        {"limit": 0},
        {"limit": 201},
        {"user_id": "a\x00"},
        {"thread_id": ""},
        {"agent": "x" * 201},
        {"since": "soon"},
        {"until": "2025-02-30"},
        {"cursor": "x" * 501},
        {"query": "milk"},
    ],
    f"/memory/{uuid4()}/uses": [{"limit": 0}, {"cursor": "x" * 501}, {"since": "2025-01-01"}],
    "/usage": [
        {"by": ""},
        {"by": "hour"},
        {"since": "soon"},
        {"until": "2025-02-30"},
        {"user_id": ""},
        {"limit": 201},
        {"cursor": "x" * 4001},
    ],
    "/facts": [
        {},
        {"user_id": ""},
        {"user_id": "a\x00"},
        {"user_id": "x" * 201},
        *(
            {"user_id": "maya"} | wrong
            for wrong in (
                {"limit": 0},
                {"limit": 201},
                {"limit": "many"},
                {"topic_key": ""},
                {"topic_key": "Colors"},
                {"topic_key": "x" * 101},
                {"thread_id": ""},
                {"thread_id": "a\x00"},
                {"cursor": "x" * 4001},
                {"colour": "red"},
            )
        ),
    ],
    "/sources": [
        {"user_id": ""},
        {"user_id": "a\x00"},
        {"user_id": "x" * 201},
        {"limit": 0},
        {"limit": 201},
        {"cursor": "x" * 2001},
        {"state": "ready"},
    ],
    f"/sources/{uuid4()}/files": [{"state": "lost"}, {"state": ""}, {"limit": 0}, {"path": "a.md"}],
    f"/sources/{uuid4()}/jobs": [{"limit": 0}, {"limit": "x"}, {"state": "done"}],
    "/facts/favorite_colors/1": [{}, {"user_id": ""}, {"user_id": "maya", "thread_id": "a\x00"}, {"topic_key": "x"}],
    "/facts/Colors/1": [{"user_id": "maya"}],
    "/facts/%00/1": [{"user_id": "maya"}],
    "/conversations/t/turns/turn_1": [{}, {"user_id": ""}, {"user_id": "a\x00"}, {"user_id": "maya", "turn": "1"}],
    "/conversations/%00/turns/turn_1": [{"user_id": "maya"}],
    "/conversations/t/turns/%00": [{"user_id": "maya"}],
    f"/conversations/{'x' * 201}/buckets": [{"user_id": "maya"}],
    "/conversations/t/active-set": [{}, {"user_id": "x" * 201}, {"user_id": "maya", "limit": 1}],
    "/conversations/t/buckets": [{}, {"user_id": ""}, {"user_id": "maya", "status": ""}],
    "/conversations/t/artifacts": [
        {},
        {"user_id": ""},
        *(
            {"user_id": "maya"} | wrong
            for wrong in (
                {"kind": "artifact"},
                {"tag": ""},
                {"turn_id": "a\x00"},
                {"days": 0},
                {"days": 3651},
                {"materialize": "maybe"},
                {"limit": 0},
                {"limit": 201},
                {"cursor": "x" * 501},
                {"since": "2026-01-01"},
            )
        ),
    ],
}


@pytest.mark.long
async def test_ids_that_are_no_uuids_are_places_of_no_route(http: httpx.AsyncClient) -> None:
    wrong = {}
    names = ID_PLACES
    tried = [o for o in await guarded(http) if any(f"{{{name}}}" in o.path for name in names)]
    assert len(tried) >= 15
    for operation in tried:
        for bad in BAD_UUIDS:
            response = await operation.call(http, {**dict.fromkeys(names, bad), "user_id": "maya", "path": "a.md"})
            if verdict(response) != (404, "no_such_route"):
                wrong[operation.name, bad] = response.text
    assert wrong == {}


@pytest.mark.long
async def test_parameters_out_of_range_are_refused(http: httpx.AsyncClient) -> None:
    wrong = {}
    for path, cases in PARAMETERS.items():
        for params in cases:
            response = await http.get(path, params=params)
            if verdict(response) != INVALID:
                wrong[f"{path[:30]} {params}"] = response.text
    assert wrong == {}


async def test_unknown_routes_and_wrong_methods(http: httpx.AsyncClient) -> None:
    memory = f"/memory/{uuid4()}"
    for path in ("/", "/nothing", f"{memory}/nothing", "/memory/query/x", "/threads/", "/threads/t", "/Memory", "/v1"):
        refused(await http.get(path), 404, "no_such_route")
    for method, path in (
        ("PUT", "/memory"),
        ("DELETE", "/memory"),
        ("POST", memory),
        ("PUT", memory),
        ("GET", f"{memory}/pin"),
        ("POST", f"{memory}/history"),
        ("POST", "/threads/t/delta"),
        ("POST", "/health"),
        ("OPTIONS", "/memory"),
        ("GET", "/memory/query"),
        ("DELETE", "/memory/bulk"),
        ("GET", "/jobs/pause"),
        ("PUT", "/facts"),
        ("DELETE", "/facts"),
        ("GET", "/facts/answer"),
        ("GET", "/facts/store"),
        ("DELETE", "/facts/get"),
        ("POST", f"/facts/{uuid4()}"),
        ("PATCH", "/facts/favorite_colors/1"),
        ("GET", "/index-chat-message"),
        ("PUT", "/conversations/t/artifacts"),
        ("DELETE", "/conversations/t/active-set"),
        ("POST", "/conversations/t/buckets"),
        ("GET", "/conversations/t/feedback"),
        ("POST", "/conversations/t/turns/turn_1"),
        ("GET", "/conversations/t/turns/turn_1/fingerprint"),
        ("PUT", "/conversations/t/turns/turn_1/feedback"),
        ("PUT", "/sources"),
        ("DELETE", "/sources"),
        ("POST", f"/sources/{uuid4()}"),
        ("GET", f"/sources/{uuid4()}/sync"),
        ("PUT", f"/sources/{uuid4()}/files"),
        ("PATCH", f"/sources/{uuid4()}/files/{uuid4()}"),
        ("POST", f"/sources/{uuid4()}/files/{uuid4()}/content"),
    ):
        refused(await http.request(method, path), 405, "method_not_allowed")
    allowed_on = {"/memory": "GET, POST", memory: "DELETE, GET, PATCH", "/memory/query": "POST", "/facts": "GET, POST"}
    for path, allowed in allowed_on.items():
        assert (await http.put(path)).headers["Allow"] == allowed


@pytest.mark.parametrize("tag", ["abc", '"x"', "-1", '"3", "4"', '"1.0"', '""', "", '"3"x', "9" * 10, "²", "1e3"])
async def test_an_if_match_that_is_no_version_is_refused(http: httpx.AsyncClient, tag: str) -> None:
    url = f"/memory/{(await remember(http))['id']}"
    response = await http.patch(url, json={"importance": 5}, headers=[(b"If-Match", tag.encode("latin-1"))])
    refused(response, 422, "invalid_request")
    assert (await http.get(url)).json()["version"] == 1


@pytest.mark.parametrize("key", ["", "x" * 201])
async def test_an_idempotency_key_out_of_bounds_is_refused(http: httpx.AsyncClient, key: str) -> None:
    refused(await http.post("/memory", json=body(), headers={"Idempotency-Key": key}), 422, "invalid_request")
    assert await listed(http) == []


async def test_an_idempotency_key_may_be_any_200_characters(http: httpx.AsyncClient) -> None:
    for key in (b"x" * 200, "ü'\";--".encode("latin-1"), b"\xff\x80"):
        answers = [await http.post("/memory", json=body(), headers=[(b"Idempotency-Key", key)]) for _ in range(2)]
        assert answers[0].json() == answers[1].json()
        assert answers[0].status_code == 201


async def pieces(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b" " * 65_536


@pytest.mark.long
async def test_a_body_over_the_limit_is_refused_whether_announced_or_streamed(http: httpx.AsyncClient) -> None:
    content = json.dumps(body()).encode()
    for path in ("/memory", "/memory/query"):
        refused(await http.post(path, content=b" " * (LIMIT + 1)), 413, "body_too_large")
        refused(await http.post(path, content=b" " * (8 * LIMIT)), 413, "body_too_large")
        refused(await http.post(path, content=pieces(17)), 413, "body_too_large")
        refused(await http.post(path, content=pieces(200)), 413, "body_too_large")
    headers = {"Content-Type": "application/json"}
    exactly = await http.post("/memory", content=content + b" " * (LIMIT - len(content)), headers=headers)
    assert exactly.status_code == 201

    async def streamed() -> AsyncIterator[bytes]:
        for at in range(0, len(content), 7):
            yield content[at : at + 7]

    assert (await http.post("/memory", content=streamed(), headers=headers)).json()["action"] == "unchanged"


async def test_a_body_over_the_limit_needs_no_key_to_be_refused(server: str) -> None:
    async with httpx.AsyncClient(base_url=server) as nobody:
        refused(await nobody.post("/memory", content=b"x" * (LIMIT + 1)), 413, "body_too_large")


async def test_other_content_types_are_refused_not_guessed(http: httpx.AsyncClient) -> None:
    content = json.dumps(body())
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/xml",
        "nonsense",
    ):
        response = await http.post("/memory", content=content, headers={"Content-Type": kind})
        refused(response, 415, "unsupported_media_type")
        assert response.headers["Accept"] == "application/json"
    unsaid = await http.post("/memory", content=content)
    assert "Content-Type" not in unsaid.request.headers
    assert "application/json" in refused(unsaid, 415, "unsupported_media_type")["detail"]
    refused(await http.post(f"/memory/{uuid4()}/pin", content=b"{}"), 415, "unsupported_media_type")
    said = await http.post("/memory", content=content, headers={"Content-Type": "application/vnd.api+json"})
    assert said.json()["action"] == "created"


async def test_a_compressed_body_is_refused_not_read(http: httpx.AsyncClient) -> None:
    content = gzip.compress(json.dumps(body()).encode())
    for path in ("/memory", "/memory/bulk", "/mcp"):
        for codings in (("gzip",), ("br",), ("identity, gzip",), ("x",), ("identity", "gzip"), ("", "br")):
            sent = [("Content-Type", "application/json"), *(("Content-Encoding", coding) for coding in codings)]
            response = await http.post(path, content=content, headers=sent)
            assert "Content-Encoding" in refused(response, 415, "unsupported_media_type")["detail"]
            assert response.headers["Accept-Encoding"] == "identity"
    plain = await http.post("/memory", json=body(), headers={"Content-Encoding": "Identity"})
    assert plain.json()["action"] == "created"


async def test_no_path_is_redirected_to_the_host_that_a_request_names(http: httpx.AsyncClient) -> None:
    for method, path in (("POST", "/memory/"), ("GET", "/memory/"), ("GET", "/health/"), ("GET", "/docs/")):
        response = await http.request(method, path, headers={"Host": "evil.example"})
        refused(response, 404, "no_such_route")
        assert "Location" not in response.headers


async def test_a_given_request_id_is_used_and_another_is_made(http: httpx.AsyncClient) -> None:
    for given in ("abc-123", "x" * 200, "Root-1:2.3_4-z"):
        response = await http.get("/health", headers={"X-Request-ID": given})
        assert response.headers["X-Request-ID"] == given
        problem = refused(await http.get("/nothing", headers={"X-Request-ID": given}), 404, "no_such_route")
        assert problem["request_id"] == given
    made = {(await http.get("/health")).headers["X-Request-ID"] for _ in range(5)}
    assert len({UUID(one) for one in made}) == 5


HOSTILE = [b"", b"x" * 201, b"\xff\xfe", b"caf\xe9", b"a\tb", b"\x80" * 5, b"a b", b"{}", b'"', b"<b>", b"a'b", b"a\\b"]


@pytest.mark.parametrize("hostile", HOSTILE, ids=repr)
async def test_a_hostile_request_id_is_replaced(http: httpx.AsyncClient, hostile: bytes) -> None:
    for path, status in (("/health", 200), ("/nothing", 404)):
        response = await http.get(path, headers=[(b"X-Request-ID", hostile)])
        assert response.status_code == status
        assert UUID(response.headers["X-Request-ID"])


@pytest.mark.long
async def test_every_answer_forbids_sniffing_and_caching(http: httpx.AsyncClient) -> None:
    for path in ("/health", "/memory", "/nothing", "/memory/x", "/openapi.json"):
        headers = (await http.get(path)).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert headers["X-Frame-Options"] == "DENY"
        assert "Strict-Transport-Security" not in headers, "this is plain http"


SECRET = "Xylophone-4711"
SECRET_BODIES: list[Any] = [
    body(**{SECRET: 1})["text"],
    '{"user_id": "' + SECRET,
    SECRET,
    body(SECRET * 100),
    body(text=[SECRET]),
    body(type=SECRET),
    body(importance=SECRET),
    body(pinned=SECRET),
    body(tags=SECRET),
    body(tags=[SECRET * 50]),
    body(metadata=SECRET),
    body(metadata={"k": [SECRET, float("nan")]}),
    body(source=SECRET),
    body(source={"turn_id": "1", "quote": SECRET * 1000}),
    body(user_id=SECRET * 50),
    body(user_id=SECRET + "\n"),
    body(colour=SECRET),
]


async def test_an_error_never_repeats_what_was_sent(http: httpx.AsyncClient) -> None:
    echoes = []
    for path in ("/memory", "/memory/query"):
        for content in SECRET_BODIES:
            response = await send(http, content, path)
            assert response.headers["content-type"] == PROBLEM
            assert response.status_code in (400, 422)
            if SECRET in response.text or SECRET in str(response.headers):
                echoes.append(response.text)
    assert echoes == []


@pytest.mark.parametrize("name", ["created_at", "updated_after"])
async def test_a_time_that_cannot_be_read_is_not_repeated(http: httpx.AsyncClient, name: str) -> None:
    query = {"agent": "planner", "query": "x", "filters": {name: SECRET}}
    content, path = (body(created_at=SECRET), "/memory") if name == "created_at" else (query, "/memory/query")
    assert SECRET not in str(refused(await http.post(path, json=content), 422, "invalid_request"))


@pytest.mark.long
async def test_an_error_never_repeats_the_key(app: Application, server: str, caller: Caller) -> None:
    bound = await make_caller(app, ["query"], ["stylist"], tenant=caller)
    for who in (caller, bound):
        async with who.client(server) as client:
            for operation in await guarded(client):
                unknown = fill_places(str(uuid4()))
                for places in (unknown, dict.fromkeys(unknown, "%00")):
                    response = await operation.call(client, places)
                    assert who.key not in response.text + str(response.headers)
                    assert response.status_code < 500 or verdict(response) == (503, "no_upstream")


async def test_errors_stay_small_however_much_is_wrong(http: httpx.AsyncClient) -> None:
    flood = body(**{f"field{number}": 1 for number in range(40_000)})
    response = await send(http, flood)
    assert verdict(response) == INVALID
    assert len(response.content) < 65_536
    assert len(refused(await send(http, body(**{"x" * 100_000: 1})), *INVALID)["detail"]) < 1000
