"""A thread's latest state: JSON or bytes, versions, refusals, users, and the states of savers."""

import asyncio
import base64
import json
import os
from typing import Any
from urllib.parse import quote

import httpx
import ormsgpack
import pytest
from mnema_wire.checkpoints import PLACE_BYTES

from app.bootstrap import Application
from tests.api.calls import refused, send
from tests.factories import Caller, make_caller

STATE = {
    "graph_state": {"next": "planner", "n": 1.5},
    "memory_context": {"revision": 41},
    "conversation_history": [{"role": "user", "content": "Ça va? 👋"}],
    "agent_states": {"planner": None},
}
URL = "/checkpoints/launch"
MAYA: dict[str, Any] = {"params": {"user_id": "maya"}}
BYTES = {"Content-Type": "application/octet-stream"}
SAVED = {"user_id": "maya", "thread_id": "launch", "checkpoint_id": "1", "type": "t", "data": "gKCR"}


@pytest.mark.long
async def test_a_state_comes_back_as_it_was_put(http: httpx.AsyncClient) -> None:
    put = await http.put(URL, json=STATE, **MAYA)
    assert (put.status_code, put.json()["version"], put.headers["ETag"]) == (200, 1, '"1"')
    got = await http.get(URL, **MAYA)
    assert (got.json(), got.headers["ETag"], got.headers["content-type"]) == (STATE, '"1"', "application/json")
    raw = bytes(range(256)) * 100
    put = await http.put(URL, content=raw, headers=BYTES, **MAYA)
    assert put.json()["version"] == 2
    got = await http.get(URL, **MAYA)
    assert (got.content, got.headers["ETag"], got.headers["content-type"]) == (raw, '"2"', BYTES["Content-Type"])
    assert (await http.put(URL, json={}, **MAYA)).json()["version"] == 3
    assert (await http.get(URL, **MAYA)).json() == {}
    assert (await http.delete(URL, **MAYA)).status_code == 204
    refused(await http.get(URL, **MAYA), 404, "not_found")
    refused(await http.delete(URL, **MAYA), 404, "not_found")


async def test_only_the_version_that_was_read_is_replaced_or_deleted(http: httpx.AsyncClient) -> None:
    async def put(version: str, method: str = "PUT") -> httpx.Response:
        body = {"json": {"by": version}} if method == "PUT" else {}
        return await http.request(method, URL, headers={"If-Match": version}, **body, **MAYA)

    refused(await put('"1"'), 412, "version_conflict")
    assert (await put('"0"')).json()["version"] == 1
    refused(await put('"0"'), 412, "version_conflict")
    refused(await put("nonsense"), 422, "invalid_request")
    answers = await asyncio.gather(*(put('"1"') for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [200, *[412] * 7]
    refused(await put('"1"', "DELETE"), 412, "version_conflict")
    assert (await http.get(URL, **MAYA)).headers["ETag"] == '"2"'
    assert (await put('"2"', "DELETE")).status_code == 204


BAD = {
    "a NUL escape": (b'{"a": "x\\u0000"}', 422, "invalid_characters"),
    "a NUL escape behind a backslash": (b'{"a": "\\\\\\u0000"}', 422, "invalid_characters"),
    "no object": (b"[1]", 422, "invalid_request"),
    "a key twice": (b'{"a": {"b": 1, "\\u0062": 2}}', 422, "invalid_request"),
    "no JSON": (b"{", 400, "malformed_body"),
    "nothing": (b"", 400, "malformed_body"),
    "half a character": (b'{"a": "\xff"}', 400, "malformed_body"),
    "half a surrogate": (b'{"a": "\\ud800"}', 400, "malformed_body"),
    "not a number": (b'{"a": NaN}', 400, "malformed_body"),
    "a thousand levels": (b'{"a":' * 2000 + b"1" + b"}" * 2000, 400, "malformed_body"),
}


async def test_what_cannot_be_stored_as_json_is_refused_and_changes_nothing(http: httpx.AsyncClient) -> None:
    for name, (raw, status, code) in BAD.items():
        url = f"/checkpoints/{quote(name)}"
        await http.put(url, json=STATE, **MAYA)
        refused(await send(http, raw, f"{url}?user_id=maya", "PUT"), status, code)
        got = await http.get(url, **MAYA)
        assert (got.json(), got.headers["ETag"]) == (STATE, '"1"'), name
        assert (await http.put(url, content=raw, headers=BYTES, **MAYA)).status_code == 200
        assert (await http.get(url, **MAYA)).content == raw, name


async def test_an_escaped_backslash_before_u0000_is_text(http: httpx.AsyncClient) -> None:
    assert (await send(http, b'{"a": "\\\\u0000"}', f"{URL}?user_id=maya", "PUT")).status_code == 200
    assert (await http.get(URL, **MAYA)).json() == {"a": "\\u0000"}


async def test_numbers_of_any_size_are_stored_or_refused(http: httpx.AsyncClient) -> None:
    for number, status in (("1" * 40, 200), ("1e300", 200), ("-0.1", 200), ("1e999", 400)):
        answer = await send(http, f'{{"a": {number}}}', f"{URL}?user_id=maya", "PUT")
        assert answer.status_code == status, answer.text


@pytest.mark.long
async def test_five_megabytes_are_stored_and_more_are_not(http: httpx.AsyncClient) -> None:
    state = {"conversation_history": [{"content": "x" * 1000} for _ in range(4900)]}
    raw = json.dumps(state)
    assert 4_900_000 < len(raw) < 5 << 20
    assert (await send(http, raw, f"{URL}?user_id=maya", "PUT")).status_code == 200
    assert (await http.get(URL, **MAYA)).json() == state
    large = os.urandom((5 << 20) + 1)
    assert (await http.put(URL, content=large[1:], headers=BYTES, **MAYA)).status_code == 200
    refused(await http.put(URL, content=large, headers=BYTES, **MAYA), 413, "body_too_large")

    async def in_chunks() -> Any:
        for start in range(0, len(large), 1 << 18):
            yield large[start : start + (1 << 18)]

    refused(await http.put(URL, content=in_chunks(), headers=BYTES, **MAYA), 413, "body_too_large")
    assert (await http.get(URL, **MAYA)).content == large[1:]


async def test_other_types_of_body_are_refused(http: httpx.AsyncClient) -> None:
    for kind in ("text/plain", "application/x-ndjson", "application/msgpack"):
        answer = await http.put(URL, content=b"{}", headers={"Content-Type": kind}, **MAYA)
        assert "octet-stream" in refused(answer, 415, "unsupported_media_type")["detail"]


async def test_the_same_thread_id_of_another_user_is_another_thread(http: httpx.AsyncClient) -> None:
    jonas = {"params": {"user_id": "jonas"}}
    await http.put(URL, json={"of": "maya"}, **MAYA)
    assert (await http.put(URL, json={"of": "jonas"}, **jonas)).json()["version"] == 1
    assert (await http.delete(URL, **jonas)).status_code == 204
    assert (await http.get(URL, **MAYA)).json() == {"of": "maya"}
    refused(await http.get(URL), 422, "invalid_request")


async def test_thread_ids_of_any_spelling(http: httpx.AsyncClient) -> None:
    for thread in ("a/b", "/a", "put", "日本 語", "a%2Fb", "?#"):
        url = f"/checkpoints/{quote(thread, safe='')}"
        assert (await http.put(url, json={"t": thread}, **MAYA)).json()["thread_id"] == thread
        assert (await http.get(url, **MAYA)).json() == {"t": thread}


async def test_a_thread_is_kept_as_a_whole_or_by_a_saver(http: httpx.AsyncClient) -> None:
    await http.put(URL, json=STATE, **MAYA)
    writes = {"task_id": "t", "idx": 0, "channel": "c", "type": "t", "data": ""}
    at = {name: SAVED[name] for name in ("user_id", "thread_id", "checkpoint_id")}
    refused(await http.post("/saver/put", json=SAVED), 409, "invalid_state")
    refused(await http.post("/saver/put", json=SAVED | {"ns": "sub"}), 409, "invalid_state")
    refused(await http.post("/saver/writes", json=at | {"writes": [writes]}), 409, "invalid_state")
    gone = {"user_id": "maya", "thread_ids": ["launch"]}
    assert (await http.post("/saver/delete", json=gone)).json() == {"count": 0}
    assert (await http.get(URL, **MAYA)).json() == STATE
    await http.delete(URL, **MAYA)
    assert (await http.post("/saver/put", json=SAVED | {"metadata": {"step": 3}})).status_code == 204
    refused(await http.put(URL, json=STATE, **MAYA), 409, "invalid_state")
    head = (await http.get(URL, **MAYA)).json()
    assert (head["checkpoint_id"], head["metadata"]) == ("1", {"step": 3})
    assert (await http.delete(URL, **MAYA)).status_code == 204
    assert (await http.post("/saver/get", json={"user_id": "maya", "thread_id": "launch"})).json() == {
        "checkpoint": None
    }


async def test_messagepack_and_json_say_the_same(http: httpx.AsyncClient) -> None:
    value = {"channel": "c", "version": "1", "type": "t", "data": b"\x00\xff"}
    packed = SAVED | {"data": b"\x80", "versions": {"c": "1"}, "values": [value]}
    kind = {"Content-Type": "application/msgpack"}
    answer = await http.post("/saver/put", content=ormsgpack.packb(packed), headers=kind)
    assert answer.status_code == 204, answer.text
    asked = {"user_id": "maya", "thread_id": "launch"}
    plain = (await http.post("/saver/get", json=asked)).json()["checkpoint"]
    accept = kind | {"Accept": "application/msgpack"}
    binary = await http.post("/saver/get", content=ormsgpack.packb(asked), headers=accept)
    assert binary.headers["content-type"] == "application/msgpack"
    found = ormsgpack.unpackb(binary.content)["checkpoint"]
    assert (found["data"], found["values"][0]["data"]) == (b"\x80", b"\x00\xff")
    assert base64.b64decode(plain["values"][0]["data"]) == b"\x00\xff"
    refused(await http.post("/saver/put", content=b"\xc1", headers=kind), 400, "malformed_body")
    refused(await http.post("/saver/put", json=SAVED | {"data": "%%"}), 422, "invalid_request")


async def test_names_that_would_not_fit_an_index_are_refused(http: httpx.AsyncClient) -> None:
    long = "\U0001f600" * 200
    runs = [{"metadata": {"run_id": run}} for run in (os.urandom(1000).hex(), [os.urandom(1000).hex()])]
    for wrong in ({"checkpoint_id": long}, {"ns": long * 2}, {"versions": {long: "1"}}, {"checkpoint_id": ""}, *runs):
        refused(await http.post("/saver/put", json=SAVED | wrong), 422, "invalid_request")
    longest = SAVED | {"ns": os.urandom(PLACE_BYTES // 2).hex(), "checkpoint_id": os.urandom(100).hex()}
    assert (await http.post("/saver/put", json=longest)).status_code == 204
    at = {name: longest[name] for name in ("user_id", "thread_id", "ns", "checkpoint_id")}
    write = {"task_id": os.urandom(100).hex(), "idx": 0, "channel": "c", "type": "t", "data": ""}
    assert (await http.post("/saver/writes", json=at | {"writes": [write]})).status_code == 204


async def test_pages_of_a_list_hold_everything_once(http: httpx.AsyncClient) -> None:
    for n in range(7):
        for ns in ("", "sub"):
            assert (await http.post("/saver/put", json=SAVED | {"checkpoint_id": f"{n}", "ns": ns})).status_code == 204
    seen, cursor = [], None
    while cursor is not None or not seen:
        page = (await http.post("/saver/list", json={"limit": 3} | ({"cursor": cursor} if cursor else {}))).json()
        seen += [(item["checkpoint_id"], item["ns"]) for item in page["items"]]
        cursor = page["next_cursor"]
    assert sorted(seen) == sorted({(f"{n}", ns) for n in range(7) for ns in ("", "sub")})
    assert [place[0] for place in seen] == sorted((place[0] for place in seen), reverse=True)
    refused(await http.post("/saver/list", json={"cursor": "bm9uZQ"}), 422, "invalid_cursor")


@pytest.mark.long
async def test_a_page_of_a_list_is_bounded_by_what_the_checkpoints_themselves_hold(http: httpx.AsyncClient) -> None:
    size = 4_000_000
    for n in range(4):
        large = {"checkpoint_id": f"{n}", "data": base64.b64encode(bytes(size)).decode()}
        assert (await http.post("/saver/put", json=SAVED | large)).status_code == 204
    pages, cursor = [], None
    while cursor is not None or not pages:
        page = (await http.post("/saver/list", json={"limit": 200} | ({"cursor": cursor} if cursor else {}))).json()
        pages.append([item["checkpoint_id"] for item in page["items"]])
        cursor = page["next_cursor"]
    assert pages == [["3", "2"], ["1", "0"]], "two of 4 MB are below 10 MiB, three are not"


@pytest.mark.long
async def test_a_key_bound_to_agents_reaches_no_checkpoint(app: Application, server: str, caller: Caller) -> None:
    planner = await make_caller(app, ["query", "write"], ["planner"], caller)
    async with caller.client(server) as admin, planner.client(server) as bound:
        await admin.put(URL, json=STATE, **MAYA)
        for answer in (
            await bound.get(URL, **MAYA),
            await bound.put(URL, json={}, **MAYA),
            await bound.delete(URL, **MAYA),
            await bound.post("/saver/put", json=SAVED),
            await bound.post("/saver/list", json={}),
        ):
            assert "bound to no agent" in refused(answer, 403, "agent_not_allowed")["detail"]
        assert (await admin.get(URL, **MAYA)).json() == STATE


async def test_pruning_keeps_what_a_channel_of_changes_is_made_of(http: httpx.AsyncClient) -> None:
    for n in range(6):
        held = {"versions": {"log": f"{n}"}}
        if n == 2:
            held |= {"values": [{"channel": "log", "version": "2", "type": "t", "data": ""}]}
        counters = {} if n == 2 else {"counters_since_delta_snapshot": {"log": [1, 1]}}
        parent = {"parent_id": f"{n - 1}"} if n else {}
        assert (
            await http.post("/saver/put", json=SAVED | held | parent | {"checkpoint_id": f"{n}", "metadata": counters})
        ).status_code == 204
    pruned = await http.post("/saver/prune", json={"user_id": "maya", "thread_ids": ["launch", "none"]})
    assert pruned.json() == {"count": 2}
    left = (await http.post("/saver/list", json={})).json()["items"]
    assert [(item["checkpoint_id"], item["parent_id"]) for item in left] == [
        ("5", "4"),
        ("4", "3"),
        ("3", "2"),
        ("2", None),
    ]
