"""Admission: the key is checked first, then the body, within limits of time, memory and number of values."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx
import ormsgpack
import pytest

from app.api.errors import BodyTooComplex
from app.api.transport import complexity
from app.api.transport.complexity import FREE, MAX_STATE_VALUES, MAX_VALUES, check_json, check_msgpack
from app.bootstrap import Application, Doubles
from app.config.settings import Settings
from app.domain.outages import ServerBusy
from app.ports import Embedder
from app.storage.tenancy.tenants import KeyOwner, TenantStorage
from app.storage.uow import UnitOfWork
from app.usecases.tenancy.tenants import LOOKUPS, MAX_WAITING, Tenants
from tests.api.calls import refused
from tests.api.raw_connections import answered, raw
from tests.api.route_catalog import Operation, fill_places, guarded
from tests.factories import Caller, Clock, body, make_caller, serve

LISTS = b"\xdd" + (10_485_000).to_bytes(4, "big") + b"\x90" * 10_485_000
MSGPACK = {"Content-Type": "application/msgpack"}
JSON = {"Content-Type": "application/json"}
PACE = {"body_patience_s": 0.5, "body_least_rate": 1 << 16}


@pytest.mark.long
async def test_without_a_key_no_body_is_waited_for(server: str) -> None:
    files = f"/sources/{uuid4()}/files?path=a.md"
    for path in ("/saver/put", "/memory", "/memory/bulk", "/mcp", "/nothing", "/checkpoints/t?user_id=maya", files):
        for length in ("Content-Length: 900000", "Transfer-Encoding: chunked"):
            method = "PUT" if path.startswith("/checkpoints") else "POST"
            async with raw(server, f"{method} {path}", length, "Content-Type: application/json") as (reader, _writer):
                status, content = await answered(reader)
            assert status == 401, (path, length)
            assert b"connection: close" in content.lower()


async def test_without_a_key_nothing_is_decoded(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def decoded(*_: object, **__: object) -> None:
        raise AssertionError("a body was decoded")

    monkeypatch.setattr(ormsgpack, "unpackb", decoded)
    async with httpx.AsyncClient(base_url=server) as nobody:
        refused(await nobody.post("/saver/put", content=LISTS, headers=MSGPACK), 401, "unauthenticated")
        with monkeypatch.context() as patch:
            patch.setattr("app.api.transport.complexity.check_msgpack", decoded)
            refused(await nobody.post("/saver/put", content=LISTS, headers=MSGPACK), 401, "unauthenticated")


@pytest.mark.long
async def test_every_guarded_route_refuses_a_stranger_before_its_body(server: str, http: httpx.AsyncClient) -> None:
    places = fill_places("01a1fc6a-13da-7474-b3f6-cb098cae46b6")

    async def ask(operation: Operation) -> tuple[str, int]:
        request = f"{operation.method} {operation.path.format(**places)}"
        async with raw(server, request, "Content-Length: 1000") as (reader, _writer):
            return operation.name, (await answered(reader))[0]

    answers = await asyncio.gather(*map(ask, await guarded(http)))  # each lingers for a second
    assert {name for name, status in answers if status != 401} == set()


async def test_more_values_than_may_be_decoded_are_refused(http: httpx.AsyncClient) -> None:
    refused(await http.post("/saver/put", content=LISTS, headers=MSGPACK), 422, "body_too_complex")
    many = b'{"x": [' + b"1," * (MAX_STATE_VALUES + 1) + b"1]}"
    for path in ("/memory", "/store/batch", "/saver/put", "/mcp"):
        headers = {**JSON, "Accept": "application/json, text/event-stream"}
        refused(await http.post(path, content=many, headers=headers), 422, "body_too_complex")
    response = await http.put("/checkpoints/t", params={"user_id": "maya"}, content=many, headers=JSON)
    refused(response, 422, "body_too_complex")
    line = (await http.post("/memory/bulk", content=many)).json()
    assert line["error"]["code"] == "body_too_complex"


async def test_a_flood_of_unknown_fields_is_one_problem(http: httpx.AsyncClient) -> None:
    unknown = {f"x{number}": 0 for number in range(20_000)}
    for path, content in (
        ("/memory", body() | unknown),
        ("/memory/query", {"agent": "supervisor", "query": "x", "filters": unknown}),
        ("/store/batch", {"gets": [unknown] * 2}),
        ("/saver/put", unknown),
        ("/saver/writes", {"user_id": "maya", "thread_id": "t", "checkpoint_id": "1", "writes": [{}] * 10_000}),
    ):
        problems = refused(await http.post(path, json=content), 422, "invalid_request")["errors"]
        assert len(problems) < 10, path


PACKED: list[Any] = [
    None,
    [True, -1, 1 << 40, -(1 << 40), 1.5, "é" * 40, "x" * 300, "x" * 70_000, b"y" * 40, b"y" * 300, b"y" * 70_000],
    {"a": {"b": [[], {}, ""]}, **{str(number): number for number in range(20)}},
    [{"k": index, "v": [index] * 20} for index in range(70_000 // 20)],
    {str(number): [] for number in range(70_000)},
    [ormsgpack.Ext(5, b"z" * size) for size in (1, 2, 3, 4, 8, 16, 17, 300, 70_000)],
]


def values(value: Any) -> int:
    """Return the total number of values and keys."""
    if isinstance(value, dict):
        return 1 + sum(1 + values(inner) for inner in value.values())
    return 1 + sum(map(values, value)) if isinstance(value, list) else 1


@pytest.mark.parametrize("value", PACKED, ids=range(len(PACKED)))
def test_values_of_messagepack_are_counted_exactly(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    packed, count = ormsgpack.packb(value), values(value)
    monkeypatch.setattr(complexity, "FREE", 0)
    check_msgpack(packed, count)
    with pytest.raises(BodyTooComplex):
        check_msgpack(packed, count - 1)


def test_a_long_text_full_of_marks_is_no_complex_body() -> None:
    check_json(json.dumps({"text": 'a, "b": [c] {d}\\' * MAX_VALUES}).encode())
    check_json(b"," * FREE)
    with pytest.raises(BodyTooComplex):
        check_json(json.dumps({"text": '\\"', "list": [""] * (MAX_VALUES + 1)}).encode())


@pytest.mark.long
@pytest.mark.parametrize("unit", ['"', '\\"', '"\\', "\\", '"a\\"', "[", ",", '",'])
def test_texts_that_are_no_json_are_read_once(unit: str) -> None:
    text = ("," * (MAX_VALUES + 1) + unit * 3_000_000).encode()  # with quadratic time each would take hours
    with pytest.raises(BodyTooComplex):
        check_json(text)


@pytest.mark.long
async def test_a_body_that_does_not_come_is_not_waited_for(
    settings: Settings, embedder: Embedder, caller: Caller
) -> None:
    async with serve(settings.model_copy(update=PACE), Doubles(embedder=embedder)) as url:
        key = f"Authorization: Bearer {caller.key}"
        for path in ("/memory", "/memory/bulk", "/mcp"):
            for length, begun in (("Content-Length: 100", b"{"), ("Transfer-Encoding: chunked", b"1\r\n{\r\n")):
                async with raw(url, f"POST {path}", key, length, *(f"{k}: {v}" for k, v in JSON.items())) as (
                    reader,
                    writer,
                ):
                    writer.write(begun)
                    status, content = await answered(reader)
                assert (status, b"body_timeout" in content) == (408, True), (path, length)


@pytest.mark.long
async def test_a_body_that_trickles_ends_and_a_steady_one_does_not(
    settings: Settings, embedder: Embedder, caller: Caller
) -> None:
    async def steady() -> AsyncIterator[bytes]:
        for _ in range(10):
            await asyncio.sleep(0.1)
            yield b"\n" * (1 << 18)

    quick = settings.model_copy(update=PACE)
    async with serve(quick, Doubles(embedder=embedder)) as url, caller.client(url) as client:
        assert (await client.post("/memory/bulk", content=steady())).status_code == 200, "one second, at 2.5 MB/s"
        async with raw(url, "POST /memory/bulk", f"Authorization: Bearer {caller.key}", "Content-Length: 9999") as (
            reader,
            writer,
        ):

            async def trickle() -> None:
                while not writer.is_closing():
                    writer.write(b"\n")
                    await asyncio.sleep(0.05)

            trickling = asyncio.create_task(trickle())
            try:
                assert (await answered(reader))[0] == 408
            finally:
                trickling.cancel()


@pytest.mark.long
async def test_bodies_under_way_hold_no_more_than_they_may(
    app: Application, settings: Settings, embedder: Embedder, caller: Caller
) -> None:
    tight = settings.model_copy(update={"max_bodies_bytes": 4 << 20, "body_patience_s": 300})
    other, large = await make_caller(app), {"x": "x" * 400_000}
    begun = ("POST /memory", f"Authorization: Bearer {caller.key}", "Content-Length: 1000000")
    async with (
        serve(tight, Doubles(embedder=embedder)) as url,
        caller.client(url) as client,
        other.client(url) as others,
    ):
        async with raw(url, *begun) as (_, one), raw(url, *begun) as (_, two):
            for writer in (one, two):
                writer.write(b" " * 900_000)
                await writer.drain()
            await asyncio.sleep(1)  # the server reads both bodies first; otherwise `large` could take their place
            busy = await until(client, large, 503)
            assert "tenant" in refused(busy, 503, "server_busy")["detail"]
            assert (await others.post("/memory", json=body())).status_code == 201, "half is for others"
        refused(await until(client, large, 422), 422, "invalid_request")


async def until(client: httpx.AsyncClient, content: Any, status: int) -> httpx.Response:
    """Write until the answer is this one, because the server notices other connections in its own time."""
    for _ in range(100):
        response = await client.post("/memory", json=content)
        if response.status_code == status:
            break
        await asyncio.sleep(0.1)
    return response


@pytest.mark.long
async def test_uploads_of_a_tenant_are_few_and_end(
    app: Application, settings: Settings, embedder: Embedder, caller: Caller
) -> None:
    other = await make_caller(app)
    few = settings.model_copy(update={"max_uploads": 4, "body_patience_s": 3.0})
    begun = ("POST /memory/bulk", f"Authorization: Bearer {caller.key}", "Content-Length: 1000000")
    async with (
        serve(few, Doubles(embedder=embedder)) as url,
        caller.client(url) as client,
        other.client(url) as others,
        raw(url, *begun) as (reader, _writer),
    ):
        for _ in range(100):
            response = await client.post("/memory/bulk", content=b"\n")
            if response.status_code == 429:
                break
            await asyncio.sleep(0.01)
        refused(response, 429, "too_many_uploads")
        assert int(response.headers["Retry-After"]) > 0
        assert (await others.post("/memory/bulk", content=b"\n")).status_code == 200
        assert (await answered(reader))[0] == 408
        assert (await client.post("/memory/bulk", content=b"\n")).status_code == 200


class CountedLookups(TenantStorage):
    """A tenant storage that counts key look-ups, in total and at the same time."""

    asked = at_once = most = 0

    async def find_key_owner(self, key: str) -> KeyOwner | None:
        self.asked, self.at_once = self.asked + 1, self.at_once + 1
        self.most = max(self.most, self.at_once)
        try:
            return await super().find_key_owner(key)
        finally:
            self.at_once -= 1


@pytest.mark.long
async def test_an_upload_of_a_file_counts_as_one_and_a_list_of_files_does_not(
    app: Application, settings: Settings, embedder: Embedder, caller: Caller
) -> None:
    few = settings.model_copy(update={"max_uploads": 4, "body_patience_s": 3.0})
    async with serve(few, Doubles(embedder=embedder)) as url, caller.client(url) as client:
        source = (await client.post("/sources", json={})).json()["id"]
        path, place = f"/sources/{source}/files", {"path": "a.md"}
        head = f"POST {path}?path=a.md", f"Authorization: Bearer {caller.key}", "Content-Length: 1000000"
        async with raw(url, *head) as (reader, _writer):
            for _ in range(100):
                response = await client.post(path, params=place, content=b"x")
                if response.status_code == 429:
                    break
                await asyncio.sleep(0.01)
            refused(response, 429, "too_many_uploads")
            assert (await client.get(path)).status_code == 200
            assert (await client.request("GET", path, content=b"x" * 1000)).status_code == 200
            assert (await answered(reader))[0] == 408
        refused(await client.request("GET", path, content=b"x" * (2 << 20)), 413, "body_too_large")


async def test_unknown_keys_are_remembered_and_wait_in_a_short_queue(app: Application, caller: Caller) -> None:
    storage = CountedLookups(UnitOfWork(app.parts.database.engines[""]))
    tenants = Tenants(storage, app.parts.policies, Clock(), key_cache_s=60)
    for _ in range(3):
        assert await tenants.authenticate("mnema_the same guess") is None
    assert storage.asked == 1
    guesses = [tenants.authenticate(f"mnema_{number}") for number in range(3 * MAX_WAITING)]
    outcomes = await asyncio.gather(*guesses, return_exceptions=True)
    assert storage.most <= LOOKUPS
    assert sum(isinstance(outcome, ServerBusy) for outcome in outcomes) == 2 * MAX_WAITING
    assert await tenants.authenticate(caller.key) is not None


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/memory?user=maya", "did you mean 'user_id'?"),
        ("/memory?categroy=tasks&limit=5", "did you mean 'category'?"),
        ("/threads/t/delta?since=3", "did you mean 'since_rev'?"),
        ("/jobs?zzz=1", "this route takes: "),
        ("/users/maya/context?x=1", "this route takes: none"),
        ("/events/counts?by=op&form=x", "this route takes: by, since, until"),
        ("/memory?user_id=ana&type=turn&type=semantic&user_id=maya", "user_id: this parameter has one value"),
    ],
)
async def test_an_unknown_parameter_is_refused_with_what_was_meant(
    http: httpx.AsyncClient, path: str, hint: str
) -> None:
    assert hint in refused(await http.get(path), 422, "invalid_request")["detail"]


@pytest.mark.long
async def test_no_route_takes_a_parameter_it_does_not_document(http: httpx.AsyncClient) -> None:
    unknown = {"x" * 60_000: "1", "userid": "1", **{f"p{number}": "" for number in range(500)}}
    places = fill_places("01a1fc6a-13da-7474-b3f6-cb098cae46b6")
    for operation in await guarded(http):
        response = await http.request(operation.method, operation.path.format(**places), params=unknown, json={})
        assert "unknown parameter" in refused(response, 422, "invalid_request")["detail"], operation.name
    refused(await http.post("/mcp?nmaes=plain", json={}), 422, "invalid_request")
