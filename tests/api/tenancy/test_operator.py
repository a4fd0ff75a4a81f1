"""Tenants and keys over HTTP for the operator key, which no tenant has (`docs/contract.md`, Tenancy)."""

import json
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from structlog.testing import capture_logs

from app.bootstrap import Doubles
from app.config.operator_key import read_operator_key
from app.config.settings import Settings
from app.domain.errors import ConfigError
from app.domain.tenancy.operators import MOST_ADDRESSES, MOST_WRONG, WINDOW_S, WrongAttempts
from app.ports import Embedder
from tests.api.calls import refused, remember
from tests.api.cursors import pages
from tests.api.raw_connections import raw
from tests.api.route_catalog import OPERATORS, PUBLIC, fill_places, operations
from tests.factories import Caller, serve

KEY = "operator-0123456789abcdef0123456789abcdef"
pytestmark = pytest.mark.usefixtures("own")


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    """Settings of an installation with an operator key."""
    file = tmp_path / "operator.key"
    file.write_text(f"{KEY}\n")
    return settings.model_copy(update={"operator_key_file": str(file)})


@pytest.fixture
async def operator(server: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client with the operator key."""
    async with httpx.AsyncClient(base_url=server, headers={"Authorization": f"Bearer {KEY}"}, timeout=30) as client:
        yield client


async def made(operator: httpx.AsyncClient, name: str) -> str:
    response = await operator.post("/operator/tenants", json={"name": name})
    assert response.status_code == 201, response.text
    tenant_id: str = response.json()["id"]
    return tenant_id


@pytest.mark.long
async def test_the_operator_creates_a_tenant_and_a_key_that_works(operator: httpx.AsyncClient, server: str) -> None:
    tenant = await made(operator, "acme")
    assert (await operator.get(f"/operator/tenants/{tenant}")).json()["name"] == "acme"
    until = (datetime.now(UTC) + timedelta(days=3)).isoformat()
    wanted = {"name": "planner", "scopes": ["query", "write"], "agents": ["planner"], "expires_at": until}
    response = await operator.post(f"/operator/tenants/{tenant}/keys", json=wanted)
    assert (response.status_code, response.headers["Cache-Control"]) == (201, "no-store")
    key = response.json()
    plain = key.pop("key")
    assert {name: key[name] for name in ("name", "scopes", "agents")} == {
        name: wanted[name] for name in ("name", "scopes", "agents")
    }
    assert plain.startswith(key["prefix"])
    keys = f"/operator/tenants/{tenant}/keys"
    listed = await operator.get(keys)
    assert listed.json() == {"items": [key], "next_cursor": None}
    assert plain not in listed.text
    async with httpx.AsyncClient(base_url=server, headers={"Authorization": f"Bearer {plain}"}) as client:
        await remember(client, category="tasks")
        assert (await operator.delete(f"{keys}/{key['id']}")).status_code == 204
        refused(await client.get("/memory"), 401, "unauthenticated")
    assert (await operator.get(keys)).json()["items"][0]["revoked_at"] is not None
    refused(await operator.delete(f"{keys}/{key['id']}"), 404, "not_found")


@pytest.mark.long
async def test_lists_have_pages(operator: httpx.AsyncClient) -> None:
    ids = [await made(operator, name) for name in ("c", "a", "b", "Ä", "z z")]
    keys = f"/operator/tenants/{ids[0]}/keys"
    made_keys = [(await operator.post(keys, json={"scopes": ["query"]})).json()["id"] for _number in range(5)]
    for path, expected in (("/operator/tenants", ids), (keys, made_keys)):
        found: list[str] = []
        cursor: dict[str, Any] = {}
        while True:
            page = (await operator.get(path, params={"limit": 2, **cursor})).json()
            found += [item["id"] for item in page["items"]]
            if page["next_cursor"] is None:
                break
            cursor = {"cursor": page["next_cursor"]}
        assert sorted(found) == sorted(expected)
        assert (found == expected) == (path == keys), "keys are in the order of their creation, tenants by name"
        refused(await operator.get(path, params={"cursor": "made up"}), 422, "invalid_cursor")


async def test_the_longest_name_of_a_tenant_still_has_a_cursor(operator: httpx.AsyncClient) -> None:
    ids = [await made(operator, "𝔐" * 199 + last) for last in "ab"]
    found = [item["id"] for page in await pages(operator, "/operator/tenants", limit=1) for item in page]
    assert found == ids


@pytest.mark.long
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"scopes": []}, 422, "invalid_request"),
        ({"scopes": ["nosuch"]}, 422, "invalid_request"),
        ({"scopes": ["query"], "agents": []}, 422, "invalid_request"),
        ({"scopes": ["query"], "agents": ["nobody"]}, 403, "unknown_agent"),
        ({"scopes": ["admin"], "agents": ["planner"]}, 422, "invalid_request"),
        ({"scopes": ["query"], "expires_at": "2020-01-01"}, 422, "invalid_request"),
        ({"scopes": ["query"], "name": " "}, 422, "invalid_request"),
        ({"scopes": ["query"], "key": "mine"}, 422, "invalid_request"),
    ],
)
async def test_a_wrong_key_request_is_refused(
    operator: httpx.AsyncClient, body: dict[str, Any], status: int, code: str
) -> None:
    tenant = await made(operator, "acme")
    refused(await operator.post(f"/operator/tenants/{tenant}/keys", json=body), status, code)
    assert (await operator.get(f"/operator/tenants/{tenant}/keys")).json()["items"] == []


@pytest.mark.long
async def test_unknown_tenants_and_keys_are_not_found(operator: httpx.AsyncClient) -> None:
    tenant, other = await made(operator, "acme"), await made(operator, "globex")
    key = (await operator.post(f"/operator/tenants/{other}/keys", json={"scopes": ["query"]})).json()["id"]
    absent = f"/operator/tenants/{uuid4()}"
    refused(await operator.get(absent), 404, "not_found")
    refused(await operator.get(f"{absent}/keys"), 404, "not_found")
    refused(await operator.post(f"{absent}/keys", json={"scopes": ["query"]}), 404, "not_found")
    refused(await operator.delete(f"/operator/tenants/{tenant}/keys/{key}"), 404, "not_found")
    refused(await operator.post("/operator/tenants", json={"name": "acme"}), 409, "name_taken")
    assert (await operator.get(f"/operator/tenants/{other}/keys")).json()["items"][0]["revoked_at"] is None


@pytest.mark.long
async def test_the_operator_key_opens_nothing_else_and_no_tenants_key_opens_this(
    operator: httpx.AsyncClient, server: str, caller: Caller
) -> None:
    places = fill_places(str(uuid4()))
    every = await operations(operator)
    assert {operation.name for operation in every} >= OPERATORS
    async with caller.client(server) as tenant:
        for operation in every:
            if operation.name in OPERATORS:
                refused(await operation.call(tenant, places), 401, "unauthenticated")
            elif operation.name not in PUBLIC:
                refused(await operation.call(operator, places), 401, "unauthenticated")


@pytest.mark.parametrize("key", ["", KEY[:-1], f"{KEY}x", KEY.upper(), "x" * 5000, "é" * 40])
async def test_a_wrong_operator_key_is_refused(server: str, key: str) -> None:
    async with httpx.AsyncClient(base_url=server) as client:
        refused(await client.get("/operator/tenants"), 401, "unauthenticated")
        for path in ("/operator/tenants", "/operator/nothing"):
            response = await client.get(path, headers={"Authorization": f"Bearer {key}".strip().encode()})
            assert response.status_code == 401
            assert response.headers["WWW-Authenticate"] == "Bearer"
            assert KEY not in response.text


@pytest.mark.long
async def test_the_key_is_checked_before_the_body_is_read(server: str) -> None:
    head = ("POST /operator/tenants", "Authorization: Bearer wrong", "Content-Length: 100000")
    async with raw(server, *head, "Content-Type: application/json") as (reader, _writer):
        assert b" 401 " in await reader.readline()


async def test_wrong_keys_of_an_address_are_limited(server: str, operator: httpx.AsyncClient) -> None:
    async with httpx.AsyncClient(base_url=server) as client:
        for number in range(MOST_WRONG):
            wrong = {"Authorization": f"Bearer {number}{KEY}"}
            refused(await client.get("/operator/tenants", headers=wrong), 401, "unauthenticated")
    response = await operator.get("/operator/tenants")
    refused(response, 429, "too_many_attempts")
    assert 0 < int(response.headers["Retry-After"]) <= WINDOW_S


@pytest.mark.long
async def test_changes_are_logged_without_secrets(operator: httpx.AsyncClient) -> None:
    with capture_logs() as heard:
        tenant = await made(operator, "acme")
        keys = f"/operator/tenants/{tenant}/keys"
        key = (await operator.post(keys, json={"scopes": ["query"]})).json()
        await operator.delete(f"{keys}/{key['id']}")
    lines = [line for line in heard if line["event"] == "operator_change"]
    assert [(line["action"], line["tenant"], line.get("key_id")) for line in lines] == [
        ("create_tenant", tenant, None),
        ("create_key", tenant, key["id"]),
        ("revoke_key", tenant, key["id"]),
    ]
    assert key["key"] not in json.dumps(heard, default=str)
    assert KEY not in json.dumps(heard, default=str)


@pytest.mark.long
async def test_without_a_key_file_every_operator_route_is_off(
    settings: Settings, embedder: Embedder, caller: Caller
) -> None:
    off = settings.model_copy(update={"operator_key_file": ""})
    places = {"tenant_id": str(uuid4()), "key_id": str(uuid4())}
    async with serve(off, Doubles(embedder=embedder)) as url, caller.client(url) as tenant:
        for operation in await operations(tenant):
            if operation.name in OPERATORS:
                refused(await operation.call(tenant, places), 404, "operator_disabled")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"short\n", "32 to 256"),
        (b"x" * 257, "32 to 256"),
        (b"two words, and together they are long enough", "without blanks"),
        ("é".encode() * 40, "ASCII"),
        (None, "cannot read"),
    ],
)
def test_a_key_file_that_cannot_be_used_ends_the_start(tmp_path: Path, content: bytes | None, why: str) -> None:
    file = tmp_path / "operator.key"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match="MNEMA_OPERATOR_KEY_FILE.*" + why):
        read_operator_key(str(file))
    with pytest.raises(ConfigError, match=r"cannot read.*directory"):
        read_operator_key(str(tmp_path))


def test_without_a_file_and_with_the_null_device_there_is_no_operator_key() -> None:
    assert read_operator_key("") is None
    assert read_operator_key(os.devnull) is None
    with pytest.raises(ConfigError, match="32 to 256"):
        read_operator_key("/dev/zero")


def test_a_window_of_wrong_keys_ends_and_addresses_are_told_apart() -> None:
    wrong = WrongAttempts()
    for number in range(MOST_WRONG):
        assert wrong.wait_s("10.0.0.1", float(number)) == 0
        wrong.add_wrong("10.0.0.1", float(number))
    assert wrong.wait_s("10.0.0.1", 9.0) == WINDOW_S - 9
    assert wrong.wait_s("::ffff:10.0.0.1", 9.0) > 0
    assert wrong.wait_s("10.0.0.2", 9.0) == wrong.wait_s(None, 9.0) == 0
    assert wrong.wait_s("10.0.0.1", WINDOW_S) == 0
    wrong.add_wrong("10.0.0.1", WINDOW_S)
    assert wrong.wait_s("10.0.0.1", WINDOW_S) == 0, "a new window"
    for number in range(MOST_WRONG):
        wrong.add_wrong(f"2001:db8::{number}", 0.0)
    assert wrong.wait_s("2001:db8::ffff", 1.0) > 0, "a network is one client"
    assert wrong.wait_s("2001:db8:1::1", 1.0) == 0
    for number in range(MOST_ADDRESSES):
        wrong.add_wrong(f"host-{number}", 0.0)
    assert wrong.wait_s("2001:db8::ffff", 1.0) == 0, "the oldest ones are forgotten"
