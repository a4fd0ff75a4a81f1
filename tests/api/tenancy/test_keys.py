"""The keys of a tenant over HTTP, for its administrators (`docs/contract.md`, Tenancy)."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from structlog.testing import capture_logs

from app.bootstrap import Application
from app.domain.errors import AgentNotAllowed, ScopeRequired, Unauthenticated
from app.domain.principal import Principal
from tests.api.calls import refused, remember
from tests.api.cursors import pages
from tests.factories import Caller, make_caller


async def test_an_administrator_creates_lists_and_revokes_a_key(
    http: httpx.AsyncClient, server: str, caller: Caller
) -> None:
    made = await http.post("/keys", json={"name": "planner", "scopes": ["query", "write"], "agents": ["planner"]})
    assert (made.status_code, made.headers["Cache-Control"]) == (201, "no-store")
    key = made.json()
    plain = key.pop("key")
    assert (key["name"], key["scopes"], key["agents"]) == ("planner", ["query", "write"], ["planner"])
    async with httpx.AsyncClient(base_url=server, headers={"Authorization": f"Bearer {plain}"}) as other:
        await remember(other, category="tasks")
        refused(await other.get("/keys"), 403, "scope_required")
        listed = await http.get("/keys")
        assert listed.json()["items"][-1] == key
        assert [item["id"] for item in listed.json()["items"]] == [str(caller.scope.key_id), key["id"]]
        assert plain not in listed.text
        assert (await http.delete(f"/keys/{key['id']}")).status_code == 204
        refused(await other.get("/memory"), 401, "unauthenticated")
    refused(await http.delete(f"/keys/{key['id']}"), 404, "not_found")
    assert (await http.get("/keys")).json()["items"][-1]["revoked_at"] is not None


async def test_the_list_has_pages(http: httpx.AsyncClient, caller: Caller) -> None:
    made = [(await http.post("/keys", json={"scopes": ["query"]})).json()["id"] for _number in range(4)]
    found = [item["id"] for page in await pages(http, "/keys", limit=2) for item in page]
    assert found == [str(caller.scope.key_id), *made]
    refused(await http.get("/keys", params={"cursor": "made up"}), 422, "invalid_cursor")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"scopes": []}, 422, "invalid_request"),
        ({"scopes": ["nosuch"]}, 422, "invalid_request"),
        ({"scopes": ["query"], "agents": ["nobody"]}, 403, "unknown_agent"),
        ({"scopes": ["admin"], "agents": ["planner"]}, 422, "invalid_request"),
        ({"scopes": ["query"], "expires_at": "2020-01-01"}, 422, "invalid_request"),
    ],
)
async def test_a_wrong_key_is_refused(http: httpx.AsyncClient, body: dict[str, Any], status: int, code: str) -> None:
    refused(await http.post("/keys", json=body), status, code)
    assert len((await http.get("/keys")).json()["items"]) == 1


async def test_a_key_that_ends_makes_none_that_lasts_longer(app: Application, server: str, caller: Caller) -> None:
    end = datetime.now(UTC) + timedelta(hours=1)
    _key, plain = await app.tenancy.tenants.create_key(caller.scope.tenant_id, "short", ["admin"], None, end)
    async with httpx.AsyncClient(base_url=server, headers={"Authorization": f"Bearer {plain}"}) as short:
        refused(await short.post("/keys", json={"scopes": ["query"]}), 422, "invalid_request")
        later = (end + timedelta(seconds=1)).isoformat()
        refused(await short.post("/keys", json={"scopes": ["query"], "expires_at": later}), 422, "invalid_request")
        same = await short.post("/keys", json={"scopes": ["query"], "expires_at": end.isoformat()})
        assert same.status_code == 201


async def test_a_revoked_key_makes_no_key_where_its_end_is_not_known_yet(app: Application, caller: Caller) -> None:
    tenant_id = caller.scope.tenant_id
    assert caller.scope.key_id is not None
    await app.tenancy.tenants.revoke_key(tenant_id, caller.scope.key_id)
    with pytest.raises(Unauthenticated):
        await app.tenancy.keys.create_key(caller.scope, "heir", ["admin"], None, None)
    assert [key.id for key in await app.tenancy.tenants.list_keys(tenant_id)] == [caller.scope.key_id]


async def test_a_principal_gives_no_scope_and_no_agent_that_it_lacks(app: Application, caller: Caller) -> None:
    tenant_id = caller.scope.tenant_id
    keys = app.tenancy.keys
    reader = Principal(tenant_id, scopes=frozenset({"query"}))
    with pytest.raises(ScopeRequired, match=r"'write'.*query"):
        await keys.create_key(reader, "more", ["query", "write"], None, None)
    bound = Principal(tenant_id, scopes=frozenset({"query"}), agents=frozenset({"planner"}))
    for agents in (None, ["supervisor"], ["planner", "supervisor"]):
        with pytest.raises(AgentNotAllowed, match="planner"):
            await keys.create_key(bound, "more", ["query"], agents, None)
    made, _plain = await keys.create_key(bound, "same", ["query"], ["planner"], None)
    assert made.agents == ("planner",)


async def test_keys_of_another_tenant_stay(app: Application, http: httpx.AsyncClient) -> None:
    other = await make_caller(app)
    refused(await http.delete(f"/keys/{other.scope.key_id}"), 404, "not_found")
    refused(await http.delete(f"/keys/{uuid4()}"), 404, "not_found")
    assert str(other.scope.key_id) not in (await http.get("/keys")).text
    assert await app.tenancy.tenants.authenticate(other.key) is not None


async def test_changes_are_logged_without_secrets(app: Application, caller: Caller) -> None:
    with capture_logs() as heard:
        key, plain = await app.tenancy.keys.create_key(caller.scope, "logged", ["query"], None, None)
        await app.tenancy.keys.revoke_key(caller.scope, UUID(str(key.id)))
    lines = [line for line in heard if line["event"] == "key_change"]
    assert [(line["action"], line["key_id"]) for line in lines] == [
        ("create_key", str(key.id)),
        ("revoke_key", str(key.id)),
    ]
    assert {line["by"] for line in lines} == {str(caller.scope.key_id)}
    assert plain not in str(heard)
