"""Readers without a user: only keys with the scope `read_all` get the memories of all users."""

from typing import Any, Final

import httpx
import pytest

from app.bootstrap import Application
from tests.api.calls import refused, remember
from tests.factories import Caller, make_caller

PLACES: Final = {"{thread_id}": "launch"}
OTHERS: Final = {"GET /changes": {"after": "start"}}
"""Parameters that the readers need besides."""
BODIES: Final[dict[str, dict[str, Any]]] = {
    "POST /memory/query": {"query": "Who sails?"},
    "POST /search": {"query": "Who sails?"},
    "POST /memory/batches": {"action": "delete", "filters": {"pinned": False}, "dry_run": True},
    "POST /v2/memories/": {"filters": {"agent_id": "planner"}},
    "POST /v3/memories/": {"filters": {"agent_id": "planner"}},
    "POST /v2/memories/search/": {"query": "Who sails?", "filters": {"agent_id": "planner"}},
    "POST /v3/memories/search/": {"query": "Who sails?", "filters": {"agent_id": "planner"}},
}
"""Bodies without a user, of routes whose bodies may name one."""


def optional_user(operation: dict[str, Any]) -> bool:
    """Return True if a parameter `user_id` may be absent."""
    found = [field for field in operation.get("parameters", ()) if field["name"] == "user_id"]
    return any(not field.get("required") for field in found)


async def requests_of(client: httpx.AsyncClient) -> dict[str, httpx.Request]:
    """Return a request without a user for each reader of the document whose user may be absent."""
    document = (await client.get("/openapi.json")).json()
    requests = {name: client.build_request(*name.split(), json=body) for name, body in BODIES.items()}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if method == "get" and optional_user(operation):
                place = path
                for part, value in PLACES.items():
                    place = place.replace(part, value)
                requests[f"GET {path}"] = client.build_request("GET", place, params=OTHERS.get(f"GET {path}"))
    return requests


@pytest.fixture
async def sailors(http: httpx.AsyncClient) -> None:
    for user in ("maya", "ben"):
        await remember(http, f"{user.title()} sails.", user_id=user, thread_id="launch", agent_id="planner")


@pytest.mark.usefixtures("sailors")
async def test_a_key_without_the_scope_has_to_name_a_user(app: Application, server: str, caller: Caller) -> None:
    plain = await make_caller(app, ["query", "write", "chat", "approve"], tenant=caller, names_users=True)
    async with plain.client(server) as client:
        requests = await requests_of(client)
        assert {"GET /memory", "GET /changes", "GET /threads", "GET /queries", "GET /usage"} <= requests.keys()
        for name, request in requests.items():
            answer = await client.send(request)
            if name == "GET /usage":  # for administrators alone
                refused(answer, 403, "scope_required")
                continue
            problem = refused(answer, 422, "user_required")
            assert "user_id" in problem["detail"], name
            assert "read_all" in problem["detail"], name


@pytest.mark.usefixtures("sailors")
@pytest.mark.parametrize("scopes", [["query", "write", "read_all"], ["admin"]])
async def test_a_key_with_the_scope_reads_all_users(
    app: Application, server: str, caller: Caller, scopes: list[str]
) -> None:
    reader = await make_caller(app, scopes, tenant=caller)
    async with reader.client(server) as client:
        requests = await requests_of(client)
        answers = {name: await client.send(request) for name, request in requests.items()}
        refused_ones = {name for name, answer in answers.items() if answer.status_code >= 400}
        assert refused_ones == (set() if "admin" in scopes else {"GET /usage"})
        assert {memory["user_id"] for memory in answers["GET /memory"].json()["items"]} == {"maya", "ben"}


@pytest.mark.usefixtures("sailors")
async def test_a_named_user_is_enough(app: Application, server: str, caller: Caller) -> None:
    plain = await make_caller(app, ["query"], tenant=caller, names_users=True)
    async with plain.client(server) as client:
        asked = await client.post("/memory/query", json={"user_id": "maya", "query": "Who sails?"})
        assert {item["text"].split()[1] for item in asked.json()["items"]} == {"Maya"}
        listed = await client.get("/memory", params={"user_id": "ben"})
        assert [memory["user_id"] for memory in listed.json()["items"]] == ["ben"]
        assert (await client.get("/changes", params={"user_id": "ben", "after": "start"})).status_code == 200


async def test_a_new_key_has_the_scope_only_if_asked(app: Application, caller: Caller) -> None:
    plain = await make_caller(app, ["query", "write"], tenant=caller, names_users=True)
    assert "read_all" not in plain.scope.scopes
    assert plain.scope.reach("maya") == "maya"
    assert caller.scope.reach(None) is None
