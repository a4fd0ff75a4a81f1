"""Every route of the OpenAPI document with every kind of key: only the permitted keys pass."""

import importlib
import itertools
import pkgutil
from collections.abc import AsyncIterator, Iterable
from typing import Any
from uuid import uuid4

import httpx
import pytest

import app.api.routes
from app.api.main import create_app
from app.bootstrap import Application
from app.mcp import http as mcp
from tests.api.bad_keys import bad_headers
from tests.api.calls import add_source, edit_matching, propose, refused, remember, say, upload, verdict
from tests.api.route_catalog import (
    ADMINS,
    ANY_SCOPE,
    APPROVALS,
    CHATS,
    CLUSTERED,
    FORWARDED,
    MODELLED,
    OPERATORS,
    PUBLIC,
    PUBLIC_PAGES,
    READS,
    WRITES,
    Operation,
    guarded,
    operations,
)
from tests.factories import Caller, make_caller

THREAD = "launch"
ENTITY = {"entity_type": "user", "entity_id": "maya"}
TOPIC = "favorite_notes"
NOWHERE = "http://127.0.0.1:9/hook"
"""The address of a webhook, at which nobody listens."""
ASKED = ["Shall", "I", "remember", "that", "you", "live", "in", "Lisbon"]
_RUNS = [" ".join(ASKED[at:end]) for at in range(len(ASKED)) for end in range(at + 1, len(ASKED) + 1)]
VALUES = itertools.cycle(itertools.product(_RUNS, ("city", "language", "pronouns", "preferred_name")))
"""A field, and its values in the sample's question: each makes a different proposal."""


async def places_of(client: httpx.AsyncClient, text: str) -> dict[str, str]:
    """Return ids that exist in the client's tenant, for the parameters of a path."""
    written = await remember(client, text, thread_id=THREAD)
    turn = await say(client, text, thread_id=THREAD)
    assert (await client.put(f"/checkpoints/{THREAD}", params={"user_id": "maya"}, json={})).status_code == 200
    await say(client, " ".join(ASKED) + "?", role="assistant", thread_id=THREAD)
    waiting = (await client.get("/users/maya/context/patches", params={"state": "pending"})).json()["items"]
    for patch in waiting[10:]:  # a user has a limited number of open proposals
        assert (await client.post(f"/users/maya/context/patches/{patch['id']}/reject")).status_code == 200
    patch = await propose(client, *next(VALUES))
    told = {"user_id": "maya", "facts": [{"topic_key": TOPIC, "rank": 2, "value": text}]}
    facts = await client.post("/facts", json=told)
    assert facts.status_code == 201, facts.text
    places = {"memory_id": written["id"], "job_id": turn["jobs"][0], "patch_id": patch["id"]}
    places |= {"fact_id": facts.json()["facts"][0]["id"], "topic_key": TOPIC, "rank": "2"}
    batch = await edit_matching(client, {"user_id": "maya", "type": "semantic"}, metadata={"of": text})
    places["batch_id"] = batch["batch_id"]
    source = await add_source(client, name=text)
    uploaded = await upload(client, source["id"])
    places |= {"source_id": source["id"], "file_id": uploaded["file"]["id"], "path": "guides/more.md"}
    places |= {"index_job_id": uploaded["index_job"]["id"]}
    asked = {"agent": "supervisor", "query": text, "filters": {"user_id": "nobody"}}  # counts no access
    places["query_id"] = (await client.post("/memory/query", json=asked)).json()["query_id"]
    places |= dict.fromkeys(("version", "from_version", "to_version"), "0")  # the defaults alone
    hooks = (await client.get("/webhooks")).json()["items"]
    for hook in hooks[10:]:  # a tenant has a limited number of webhooks
        assert (await client.delete(f"/webhooks/{hook['id']}")).is_success
    hook = await client.post("/webhooks", json={"url": NOWHERE})
    places |= {"webhook_id": hook.json()["id"], "delivery_id": str(uuid4())}
    places["key_id"] = (await client.post("/keys", json={"scopes": ["query"]})).json()["id"]
    turn_path, said_by = f"/conversations/{THREAD}/turns/turn_1", {"user_id": "maya", "user_text": text}
    assert (await client.put(turn_path, json=said_by)).is_success
    return {**places, **ENTITY, "thread_id": THREAD, "conversation_id": THREAD, "user_id": "maya", "turn_id": "turn_1"}


async def answers_of(
    admin: httpx.AsyncClient, client: httpx.AsyncClient, every: Iterable[Operation]
) -> AsyncIterator[tuple[Operation, httpx.Response]]:
    """Call each operation with its sample. After a change that was done, the next one gets new places."""
    places: dict[str, str] = {}
    for number, operation in enumerate(every):
        places = places or await places_of(admin, f"Maya keeps note {number} of the trip.")
        response = await operation.call(client, places)
        yield operation, response
        if response.is_success and operation.method != "GET":
            places = {}


async def stored_by(client: httpx.AsyncClient, places: dict[str, str]) -> list[Any]:
    """Return the tenant's memories, facts and artifacts, and the sample's memory and history."""
    paths = ["/memory", f"/memory/{places['memory_id']}", "/facts?user_id=maya", "/facts?user_id=default"]
    paths += [
        "/memory/batches",
        f"/conversations/{THREAD}/artifacts?user_id=maya",
        "/sources",
        f"/sources/{places['source_id']}/files",
    ]
    return [(await client.get(path)).json() for path in (*paths, f"/facts/{places['fact_id']}/history")]


def test_nothing_is_served_that_the_document_does_not_name() -> None:
    pages = {route.path for route in create_app().routes if getattr(route, "path", None) is not None}
    assert pages == PUBLIC_PAGES | {mcp.PATH}  # tested in tests/mcp
    for module in pkgutil.walk_packages(app.api.routes.__path__, "app.api.routes."):
        router = getattr(importlib.import_module(module.name), "router", None)
        assert router is None or all(route.include_in_schema for route in router.routes), f"{module.name} hides a route"


@pytest.mark.long
async def test_every_guarded_route_is_known_here_by_its_scope(http: httpx.AsyncClient) -> None:
    assert {
        operation.name for operation in await guarded(http)
    } == READS | WRITES | CHATS | APPROVALS | ADMINS | ANY_SCOPE


@pytest.mark.long
async def test_every_route_accepts_its_sample_from_an_administrator(http: httpx.AsyncClient) -> None:
    wrong = {}
    every = [operation for operation in await operations(http) if operation.name not in OPERATORS]
    async for operation, response in answers_of(http, http, every):
        lacking = (503, "no_upstream") if operation.name in FORWARDED else (409, "invalid_state")
        lacking = (409, "no_chat_model") if operation.name in MODELLED else lacking
        lacking = (404, "no_clusters") if operation.name in CLUSTERED else lacking
        lacking = (404, "not_found") if "{delivery_id}" in operation.path else lacking  # no worker made one
        if not response.is_success and verdict(response) != lacking:
            wrong[operation.name] = response.text
    assert wrong == {}


@pytest.mark.long
async def test_the_document_marks_exactly_the_guarded_routes_as_needing_a_key(http: httpx.AsyncClient) -> None:
    document = (await http.get("/openapi.json")).json()
    unmarked = {
        f"{method.upper()} {path}"
        for path, methods in document["paths"].items()
        for method, spec in methods.items()
        if not spec.get("security")
    }
    assert unmarked == PUBLIC


async def test_public_routes_and_pages_answer_without_a_key(server: str) -> None:
    async with httpx.AsyncClient(base_url=server) as nobody:
        names = {operation.name for operation in await operations(nobody)}
        assert names >= PUBLIC
        for url in {name.removeprefix("GET ") for name in PUBLIC} | PUBLIC_PAGES:
            assert (await nobody.get(url)).status_code == 200, url


@pytest.mark.long
async def test_no_guarded_route_answers_without_a_valid_key(app: Application, server: str, caller: Caller) -> None:
    wrong = {}
    async with caller.client(server) as admin:
        places = await places_of(admin, "Maya signs with a fountain pen.")
        before = await stored_by(admin, places)
    async with httpx.AsyncClient(base_url=server) as nobody:
        every = await guarded(nobody)
        for name, headers in (await bad_headers(app, caller)).items():
            for operation in every:
                response = await operation.call(nobody, places, headers=headers)
                if (*verdict(response), response.headers.get("WWW-Authenticate")) != (401, "unauthenticated", "Bearer"):
                    wrong[name, operation.name] = response.text
    assert wrong == {}
    async with caller.client(server) as admin:
        assert await stored_by(admin, places) == before


async def test_a_key_works_until_it_is_revoked(app: Application, server: str, caller: Caller) -> None:
    later = await make_caller(app, ["query"], tenant=caller)
    async with later.client(server) as client:
        assert (await client.get("/memory")).status_code == 200
        assert later.scope.key_id is not None
        await app.tenancy.tenants.revoke_key(caller.scope.tenant_id, later.scope.key_id)
        refused(await client.get("/memory"), 401, "unauthenticated")


@pytest.mark.long
@pytest.mark.parametrize(
    ("scope", "refused_on"),
    [
        ("query", WRITES | CHATS | APPROVALS),
        ("write", READS | CHATS | APPROVALS),
        ("chat", READS | WRITES | APPROVALS),
        ("approve", READS | WRITES | CHATS),
    ],
)
async def test_a_key_is_refused_on_exactly_the_routes_its_scope_does_not_cover(
    app: Application, server: str, caller: Caller, scope: str, refused_on: frozenset[str]
) -> None:
    limited = await make_caller(app, [scope], tenant=caller)
    answers = {}
    async with caller.client(server) as admin, limited.client(server) as client:
        async for operation, response in answers_of(admin, client, await guarded(client)):
            answers[operation.name] = verdict(response)
    assert {name for name, answer in answers.items() if answer == (403, "scope_required")} == refused_on | ADMINS
    assert not [
        a for name, a in answers.items() if name not in refused_on | ADMINS and a[0] in (401, 403, 404, 422, 500)
    ]


@pytest.mark.long
async def test_a_refused_scope_changes_nothing(app: Application, server: str, caller: Caller) -> None:
    reader = await make_caller(app, ["query"], tenant=caller)
    async with caller.client(server) as admin, reader.client(server) as client:
        places = await places_of(admin, "Maya hums while cooking.")
        before = await stored_by(admin, places)
        for operation in await guarded(client):
            if operation.name in WRITES | CHATS | APPROVALS | ADMINS:
                refused(await operation.call(client, places), 403, "scope_required")
        assert await stored_by(admin, places) == before


async def test_only_an_administrator_may_purge_and_erase(app: Application, server: str, caller: Caller) -> None:
    writer = await make_caller(app, ["query", "write", "chat"], tenant=caller)
    async with caller.client(server) as admin, writer.client(server) as client:
        places = await places_of(admin, "Maya lost her umbrella.")
        url = f"/memory/{places['memory_id']}"
        refused(await client.delete(url, params={"purge": True}), 403, "scope_required")
        refused(await client.post("/users/maya/erase"), 403, "scope_required")
        assert (await client.get(url)).json()["state"] == "active"
        assert (await admin.delete(url, params={"purge": True})).status_code == 204
        refused(await client.get(url), 404, "not_found")
        fact = f"/facts/{places['fact_id']}"
        refused(await client.delete(fact, params={"purge": True}), 403, "scope_required")
        assert (await client.get(fact)).status_code == 200
        assert (await admin.delete(fact, params={"purge": True})).status_code == 204
        refused(await client.get(fact), 404, "not_found")
