"""Random combinations of route, tenant and id: no answer has data of another tenant, and no such data changes.

Routes, parameters and bodies come from the OpenAPI document, so a new route takes part automatically, and a new path
parameter without a value fails. MNEMA_COMBINATIONS=10000 tries that many instead of 4,500; MNEMA_COMBINATIONS_SEED
selects other ones.
"""

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from uuid import UUID

import httpx
import pytest
from fastapi import FastAPI

from app.api.main import create_app
from app.bootstrap import Application, Doubles
from app.config.settings import Settings
from app.domain.principal import Principal
from app.ports import Embedder
from tests.api.calls import add_source, ask, edit_matching, history_of, propose, say, sql, upload
from tests.api.ledger import Ledger
from tests.api.route_catalog import (
    CLUSTERED,
    MODELLED,
    NAMED_BY_ID,
    Operation,
    guarded,
    replaced,
    resolved,
    sample_of,
    values_of,
)
from tests.conftest import Database
from tests.factories import Caller, make_caller
from tests.scripted_upstream import scripted_upstream

COMBINATIONS = int(os.environ.get("MNEMA_COMBINATIONS", "4500"))
SEED = int(os.environ.get("MNEMA_COMBINATIONS_SEED", "1"))
TENANTS = ("one", "two", "three")
HIDDEN = frozenset({"relationships", "preferences", "activity", "profile"})
"""Names that a key bound to planner may not see."""
KINDS = {
    "memory_id": "memory",
    "batch_id": "batch",
    "job_id": "job",
    "patch_id": "patch",
    "fact_id": "fact",
    "topic_key": "topic",
    "project_id": "project",
    "evidence": "memory",
    "thread_id": "thread",
    "chat_id": "thread",
    "conversation_id": "thread",
    "user": "user",
    "user_id": "user",
    "entity_id": "user",
    "actor_id": "actor",
    "agent_id": "agent",
    "run_id": "run",
    "run_ids": "run",
    "thread_ids": "thread",
    "source_thread_id": "thread",
    "target_thread_id": "thread",
    "checkpoint_id": "checkpoint",
    "parent_id": "checkpoint",
    "before": "checkpoint",
    "channel": "channel",
    "role": "role",
    "tag": "tag",
    "tags": "tag",
    "add_tags": "tag",
    "remove_tags": "tag",
    "turn_id": "turn",
    "candidate_turn_ids": "turn",
    "selected_local_memories_turn_ids": "turn",
    "local_memories_turn_ids": "turn",
    "picked_bucket_ids": "label",
    "track_id": "label",
    "message_id": "turn",
    "source_message_id": "turn",
    "cursor": "cursor",
    "category": "category",
    "categories": "category",
    "agent": "agent",
    "namespace": "label",
    "prefix": "label",
    "path": "label",
    "key": "label",
    "source_id": "source",
    "file_id": "file",
    "index_job_id": "index job",
    "query_id": "query",
    "webhook_id": "webhook",
    "delivery_id": "webhook",
    "key_id": "key",
}
"""The kind of name that a parameter, a field or a place of a path takes."""
PUBLIC_NAMES = {
    "user": ["maya"],
    "thread": ["launch"],
    "agent": ["planner", "supervisor", "stylist"],
    "topic": ["favorite_colors"],
    "turn": ["turn_1"],
    "category": ["tasks", "goals", "procedural", *sorted(HIDDEN)],
}
"""Names that all tenants use."""
PLACES = (
    *("memory_id", "job_id", "patch_id", "fact_id", "topic_key", "thread_id", "conversation_id", "turn_id"),
    *("batch_id", "user_id", "source_id", "file_id", "index_job_id", "query_id", "entity_id"),
    *("webhook_id", "delivery_id", "key_id"),
)
NEEDS_MORE = frozenset(
    {
        "POST /memory/correct",  # a text that no other memory has: tests/api/memory/test_corrections.py
        "POST /memory/forget",  # an id beside its user, or words that fit: the same
        "POST /memory/{memory_id}/retract",  # an active memory, by luck: tests/api/memory/test_spans.py
        "POST /memory/{memory_id}/supersede",  # the same
        "POST /webhooks/{webhook_id}/deliveries/{delivery_id}/replay",  # a worker: tests/api/webhooks
        *CLUSTERED,  # several databases: tests/clusters/test_requested_moves.py
    }
)
"""Operations that no random combination makes do their work."""
RANKS = (1, 2, 3)
VERSIONS = ("version", "from_version", "to_version")
OWN = ("memory_id", "batch_id", "job_id", "patch_id", "fact_id", "query_id", "webhook_id", "key_id")
TEXTS = ("Maya books a room for the launch.", "The demo moves to Friday.", "Jonas is on leave.")
TYPES = ("semantic", "episodic", "insight", "summary", "chunk", "turn")


@dataclass
class World:
    """The server, its tenants' keys by their rights, the ledger, and each tenant's deleted memory and documents."""

    app: Application
    transport: httpx.AsyncBaseTransport
    keys: dict[str, dict[str, Caller]]
    ledger: Ledger
    random: Random
    deleted: dict[str, str] = field(default_factory=dict)
    documents: dict[str, list[dict[str, str]]] = field(default_factory=dict)

    def client(self, caller: Caller) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=self.transport, base_url="http://mnema", headers=caller.headers, timeout=60)


@asynccontextmanager
async def alive(server: FastAPI) -> AsyncIterator[Application]:
    """Run the application without a socket. One task starts and stops it, as uvicorn does."""
    started, ended = asyncio.Event(), asyncio.Event()

    async def live() -> None:
        async with server.router.lifespan_context(server):
            started.set()
            await ended.wait()

    task = asyncio.create_task(live())
    await asyncio.wait((task, asyncio.ensure_future(started.wait())), return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    try:
        yield server.state.application
    finally:
        ended.set()
        await task


@pytest.fixture
async def world(settings: Settings, embedder: Embedder, database: Database) -> AsyncIterator[World]:
    async with scripted_upstream() as upstream, AsyncExitStack() as stack:
        upstream.takes_anything, upstream.rule = True, lambda _body: "Fine."
        changed = settings.model_copy(
            update={
                "key_cache_s": 4,
                "chat_upstream_url": upstream.base_url,
                "chat_anthropic_url": upstream.base_url,
            }
        )
        server = create_app(changed, Doubles(embedder=embedder))
        app = await stack.enter_async_context(alive(server))
        random = Random(SEED)
        made = World(app, httpx.ASGITransport(server), {}, Ledger(random), random)
        for name in TENANTS:
            admin = await make_caller(app)
            made.keys[name] = {"admin": admin} | {
                kind: await make_caller(app, scopes, agents, tenant=admin)
                for kind, scopes, agents in (
                    ("reader", ["query", "chat"], None),
                    ("writer", ["query", "write"], None),
                    ("bound", ["query", "write", "chat"], ["planner"]),
                )
            }
            await furnish(made, name, database)
        yield made


async def furnish(world: World, tenant: str, database: Database) -> None:
    """Store rows in every table; mark each text of them."""
    ledger = world.ledger

    def name(kind: str) -> str:
        return ledger.mark(tenant, kind, name=True)

    async with world.client(world.keys[tenant]["admin"]) as admin:
        for number, category in enumerate(["tasks", "goals", *sorted(HIDDEN), "tasks", "relationships"]):
            names = {f"{kind}_id": name(kind) for kind in ("user", "thread", "actor", "run")}
            names |= {"user_id": "maya", "thread_id": "launch"} if number % 2 else {}
            content = {
                "text": f"Maya keeps {ledger.mark(tenant, 'text', category)}.",
                "tags": [name("tag")],
                "role": name("role"),
                "metadata": {"m": ledger.mark(tenant, "metadata", category)},
                "source": {"turn_id": name("turn"), "quote": ledger.mark(tenant, "quote", category)},
                "type": TYPES[number % 5],
            }
            await wrote(world, admin, tenant, {"category": category, "seq": number, **names, **content})
        steps = {"steps_text": f"1. Open {ledger.mark(tenant, 'steps', 'procedural')}.", "type": "procedural"}
        start = {"user_id": "maya", "category": "procedural", "text": "How the engine starts."}
        forgotten = await wrote(world, admin, tenant, start | steps)
        assert (await admin.delete(f"/memory/{forgotten}")).status_code == 200
        world.deleted[tenant] = forgotten
        await keep_checkpoints(world, admin, tenant)
        said = {"user_id": name("user"), "thread_id": name("thread"), "role": "user"}
        said["content"] = f"I have {ledger.mark(tenant, 'turn text', 'activity')}."
        turn = (await admin.post("/turns", json=said)).json()
        ledger.own(tenant, turn["id"], "memory", "activity")
        ledger.own(tenant, turn["jobs"][0], "job")
        item = {"namespace": [name("label")], "key": name("label"), "user_id": name("user"), "index": ["v"]}
        item["value"] = {"v": f"Maya stores {ledger.mark(tenant, 'item')}."}
        assert (await admin.post("/store/batch", json={"puts": [item]})).status_code == 200
        await keep_proposals(world, admin, tenant)
        await keep_facts(world, admin, tenant)
        await keep_turns(world, admin, tenant)
        await keep_documents(world, admin, tenant)
        await keep_batches(world, admin, tenant)
        asked = await ask(admin, "Maya", thread_id="launch", filters={})
        ledger.own(tenant, asked["query_id"], "query", "profile")  # of another agent than planner
        for _ in range(12):  # some are deleted before they are read
            hook = await admin.post("/webhooks", json={"url": f"http://127.0.0.1:9/{ledger.mark(tenant, 'url')}"})
            ledger.own(tenant, hook.json()["id"], "webhook")
            key = await admin.post("/keys", json={"name": ledger.mark(tenant, "key name"), "scopes": ["query"]})
            ledger.own(tenant, key.json()["id"], "key")
        for memory_id in ledger.names(tenant, "memory"):
            for entry in await history_of(admin, memory_id):
                ledger.own(tenant, entry["id"], "history")
        for fact_id in ledger.names(tenant, "fact"):
            for entry in (await admin.get(f"/facts/{fact_id}/history")).json()["items"]:
                ledger.own(tenant, entry["id"], "history")
        page = (await admin.get("/memory", params={"limit": 1})).json()
        ledger.own(tenant, page["next_cursor"], "cursor")
    job = ledger.names(tenant, "job")[0]
    words = [ledger.mark(tenant, f"job {part}") for part in ("error", "report", "payload")]
    await sql(
        database,
        "UPDATE jobs SET last_error = $2, report = jsonb_build_object('r', $3::text), "
        "payload = payload || jsonb_build_object('p', $4::text), state = 'dead' WHERE id = $1",
        UUID(job),
        *words,
    )


async def keep_checkpoints(world: World, client: httpx.AsyncClient, tenant: str) -> None:
    """Store a thread's state and two checkpoints of a saver, which no key bound to an agent may see."""
    ledger = world.ledger
    user, secret = {"user_id": ledger.mark(tenant, "user", name=True)}, "profile"
    state = {"graph_state": {"said": ledger.mark(tenant, "state", secret)}}
    thread = ledger.mark(tenant, "thread", name=True)
    assert (await client.put(f"/checkpoints/{thread}", params=user, json=state)).status_code == 200
    shared = {"graph_state": {"said": ledger.mark(tenant, "state", secret)}}
    assert (await client.put("/checkpoints/launch", params={"user_id": "maya"}, json=shared)).status_code == 200
    thread = {"thread_id": ledger.mark(tenant, "thread", name=True), **user}
    for _ in range(2):
        place = {"checkpoint_id": ledger.mark(tenant, "checkpoint", name=True), **thread}
        value = {"channel": ledger.mark(tenant, "held", secret), "version": "1", "type": "t", "data": ""}
        metadata = {"run_id": ledger.mark(tenant, "run", name=True), "said": ledger.mark(tenant, "metadata", secret)}
        checkpoint = {"type": ledger.mark(tenant, "type", secret), "data": "", "metadata": metadata}
        held = {"versions": {value["channel"]: "1"}, "values": [value]}
        assert (await client.post("/saver/put", json=place | checkpoint | held)).status_code == 204
        write = {"task_id": ledger.mark(tenant, "task", secret), "idx": 0, "channel": "c", "type": "t", "data": ""}
        assert (await client.post("/saver/writes", json=place | {"writes": [write]})).status_code == 204


async def keep_proposals(world: World, client: httpx.AsyncClient, tenant: str) -> None:
    """Store known and proposed values of maya, which no key bound to planner may see."""
    for number in range(10):
        value = f"Port {world.ledger.mark(tenant, 'value', 'profile')}"
        patch = await propose(client, value)
        world.ledger.own(tenant, patch["id"], "patch", "profile")
        path = f"/users/maya/context/patches/{patch['id']}"
        if number == 0:
            assert (await client.post(f"{path}/approve")).status_code == 200
        elif number == 1:
            question = f"Really {world.ledger.mark(tenant, 'question', 'profile')}, {value}?"
            asked = {"thread_id": "launch", "question": question}
            turn = await say(client, question, role="assistant", thread_id="launch")
            world.ledger.own(tenant, turn["id"], "memory", "activity")
            assert (await client.post(f"{path}/ask", json=asked)).status_code == 200


async def keep_facts(world: World, client: httpx.AsyncClient, tenant: str) -> None:
    """Store facts of maya and of others, changed and removed ones, which no key bound to planner may see."""
    ledger = world.ledger
    ledger.own(tenant, str(world.keys[tenant]["admin"].scope.tenant_id), "project")
    places = [{"user_id": "maya"}, {"user_id": "maya", "thread_id": "launch"}]
    places += [{f"{kind}_id": ledger.mark(tenant, kind, name=True) for kind in ("user", "thread")}]
    for place in places:
        for topic in (PUBLIC_NAMES["topic"][0], ledger.mark(tenant, "topic", name=True)):
            values = [ledger.mark(tenant, "fact value", "preferences") for _rank in RANKS]
            facts = [
                {"topic_key": topic, "rank": rank, "value": value} for rank, value in zip(RANKS, values, strict=True)
            ]
            message = {"source_message_id": ledger.mark(tenant, "turn", name=True)}
            key = {"Idempotency-Key": ledger.mark(tenant, "idempotency", name=True)}
            stored = await client.post("/facts", json={**place, **message, "facts": facts}, headers=key)
            assert stored.status_code == 201, stored.text
            ids = [ledger.own(tenant, fact["id"], "fact", "preferences") for fact in stored.json()["facts"]]
            change = {"value": ledger.mark(tenant, "fact value", "preferences")}
            assert (await client.patch(f"/facts/{ids[1]}", json=change)).status_code == 200
            assert (await client.delete(f"/facts/{ids[2]}")).status_code == 200


async def keep_turns(world: World, client: httpx.AsyncClient, tenant: str) -> None:
    """Store turns of maya and of others with fingerprints and reactions, which no key bound to planner may see."""
    ledger, secret = world.ledger, "activity"
    for number in range(4):
        user, talk, turn_id = "maya", "launch", PUBLIC_NAMES["turn"][0]
        if number:
            user, talk, turn_id = (ledger.mark(tenant, kind, name=True) for kind in ("user", "thread", "turn"))
        of_user, path = {"user_id": user}, f"/conversations/{talk}/turns/{turn_id}"
        texts = {f"{name}_text": ledger.mark(tenant, f"{name} text", secret) for name in ("user", "assistant")}
        track = {"track_id": ledger.mark(tenant, "label", name=True)}
        assert (await client.put(path, json=of_user | texts | track)).status_code == 201
        signals = [{"key": "k", "value": ledger.mark(tenant, "signal", secret)}]
        printed = {"objective": ledger.mark(tenant, "objective", secret), "facts": signals}
        printed["conversation_title"] = ledger.mark(tenant, "title", secret)
        body = of_user | printed | {"assistant_signals": signals}
        assert (await client.put(f"{path}/fingerprint", json=body)).status_code == 200
        reaction = {"origin": "user", "reaction": "ok", "text": ledger.mark(tenant, "reaction", secret)}
        assert (await client.post(f"{path}/feedback", json=of_user | reaction)).status_code == 200


async def keep_documents(world: World, client: httpx.AsyncClient, tenant: str) -> None:
    """Store sources with a file each, half of which no key bound to planner may see."""
    ledger = world.ledger
    for number in range(10):
        category = ("profile", "tasks")[number % 2]
        names = {
            "name": ledger.mark(tenant, "source name", category),
            "user_id": ledger.mark(tenant, "user", name=True),
        }
        source = await add_source(client, category=category, **names)
        path = f"{ledger.mark(tenant, 'folder', category)}/{ledger.mark(tenant, 'file name', category)}.md"
        uploaded = await upload(client, source["id"], path, ledger.mark(tenant, "document", category).encode())
        ids = {"source": source["id"], "file": uploaded["file"]["id"], "index job": uploaded["index_job"]["id"]}
        for kind, id_ in ids.items():
            ledger.own(tenant, id_, kind, category)
        places = {f"{kind.replace(' ', '_')}_id": id_ for kind, id_ in ids.items()}
        world.documents.setdefault(tenant, []).append(places)


async def keep_batches(world: World, client: httpx.AsyncClient, tenant: str) -> None:
    """Store batches, one of which no key bound to planner may see."""
    for category in ("tasks", "profile"):
        tag = world.ledger.mark(tenant, "tag", category, name=True)
        metadata = {"why": world.ledger.mark(tenant, "metadata", category)}
        batch = await edit_matching(client, {"category": category}, add_tags=[tag], metadata=metadata)
        world.ledger.own(tenant, batch["batch_id"], "batch", category)


async def wrote(world: World, client: httpx.AsyncClient, tenant: str, content: dict[str, Any]) -> str:
    """Store and change a memory, so that it has a history; return its id."""
    key = world.ledger.mark(tenant, "idempotency", name=True)
    response = await client.post("/memory", json=content, headers={"Idempotency-Key": key})
    assert response.status_code == 201, response.text
    memory_id: str = response.json()["id"]
    world.ledger.own(tenant, memory_id, "memory", content["category"])
    assert (await client.patch(f"/memory/{memory_id}", json={"importance": 4})).status_code == 200
    return memory_id


async def digests(world: World, database: Database, tenants: list[str]) -> dict[str, str | None]:
    """Return one hash for each tenant table over the rows of these tenants, read by the superuser."""
    await world.app.parts.access.flush_pending()
    tables = await sql(
        database,
        "SELECT relname, (SELECT attname FROM pg_attribute WHERE attrelid = c.oid AND NOT attisdropped "
        "AND attname = ANY (ARRAY['tenant_id'] || CASE relname WHEN 'tenants' THEN ARRAY['id'] ELSE '{}'::text[] END)) "
        "AS column FROM pg_class c "
        "WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY 1",
    )
    owners = [world.keys[tenant]["admin"].scope.tenant_id for tenant in tenants]
    held = {}
    for table, column in tables:
        if column is not None:
            rows = f"SELECT t::text AS row FROM {table} t WHERE {column} = ANY ($1)"
            statement = f"SELECT md5(string_agg(row, '|' ORDER BY row)) AS hash FROM ({rows}) AS rows"
            held[table] = (await sql(database, statement, owners))[0]["hash"]
    return held


ASK = "POST /users/{user_id}/context/patches/{patch_id}/ask"
"""Accepted in `keep_proposals`: a random question is hardly ever the newest turn of its thread."""


class Choices:
    """A generator of requests of one tenant with its own names, names of others and made-up names."""

    def __init__(self, world: World, tenant: str) -> None:
        self._world = world
        self._tenant = tenant
        self._random = world.random
        self._density = world.random.choice((0.0, 0.1, 0.3))  # of optional parameters and fields

    def name(self, kind: str) -> str:
        """Return a name of this kind from any source."""
        source = self._random.choice((*TENANTS, "public", "made up"))
        if source == "public" and kind in PUBLIC_NAMES:
            return self._random.choice(PUBLIC_NAMES[kind])
        known = self._world.ledger.names(source, kind)
        if known:
            return self._random.choice(known)
        if kind in ("memory", "batch", "job", "patch", "fact", "source", "file", "index job"):
            return str(UUID(int=self._random.getrandbits(128), version=4))
        return self._random.choice(PUBLIC_NAMES.get(kind, ["made-up"]))

    def value(self, name: str, schema: dict[str, Any], operation: Operation) -> Any:
        """Return a value for a parameter or field."""
        schema = {"type": "string"} | resolved(schema, operation.schemas)  # without a type it takes any JSON
        if schema["type"] == "object":
            chosen = self.fields(schema, operation, {})
            return chosen or {"k": self._random.choice(TEXTS)} if name == "metadata" else chosen
        if name == "rank":
            return self._random.choice(RANKS)
        if name in VERSIONS:
            return self._random.randrange(2)
        if name in KINDS:
            word = self.name(KINDS[name])
            return [word] if schema["type"] == "array" else word
        if schema["type"] == "array" and resolved(schema["items"], operation.schemas).get("type") == "object":
            return [self.fields(schema["items"], operation, sample_of(schema["items"], operation.schemas))]
        if name in ("by",):
            return self._random.choice(("op,node", "user_id,thread_id", "category", "user_id,op"))
        if schema.get("anyOf") or name == "created_at":
            return self._random.choice(("2020-01-01", "2025-06-01"))
        return self._random.choice(values_of(schema, list(TEXTS), operation.schemas))

    def fields(self, schema: dict[str, Any], operation: Operation, sample: dict[str, Any]) -> dict[str, Any]:
        """Return the sample with new values in some of its schema's fields."""
        schema = resolved(schema, operation.schemas)
        some = {n: s for n, s in schema.get("properties", {}).items() if self._random.random() < self._density}
        return replaced(sample, {name: self.value(name, part, operation) for name, part in some.items()})

    async def call(self, client: httpx.AsyncClient, operation: Operation) -> httpx.Response:
        """Send a generated request for one operation."""
        unknown = [p for p in _places(operation.path) if p not in (*PLACES, "rank", "version", "entity_type")]
        assert not unknown, f"{operation.name}: what fills {unknown}?"
        places = {place: self.name(KINDS[place]) for place in PLACES} | {"rank": str(self._random.choice(RANKS))}
        places["entity_type"] = "user"
        places["path"] = f"guides/{self._random.randrange(9)}.md"
        places |= {name: str(self._random.randrange(2)) for name in VERSIONS}
        if self._random.random() < 0.5:  # otherwise hardly any request would be accepted
            ids = {place: self._world.ledger.names(self._tenant, KINDS[place]) for place in OWN}
            places |= {place: self._random.choice(own) for place, own in ids.items()} | {"user_id": "maya"}
            places |= self._random.choice(self._world.documents[self._tenant])
            places["topic_key"] = PUBLIC_NAMES["topic"][0]
            places["entity_id"] = self._random.choice(self._world.ledger.names(self._tenant, "user"))
            if operation.path.startswith("/checkpoints/"):
                places["thread_id"] = "launch"
            if "/{conversation_id}/" in operation.path:
                places |= {"conversation_id": "launch", "turn_id": PUBLIC_NAMES["turn"][0]}
            if operation.path.endswith("/restore"):
                places["memory_id"] = self._world.deleted[self._tenant]
        if (
            operation.path.endswith("/erase") or operation.name == "DELETE /v1/memories/"
        ) and self._random.random() < 0.7:  # mostly of other tenants; otherwise too little would be left
            places["user_id"] = self._random.choice(self._world.ledger.names(self._random.choice(TENANTS), "user"))
        if operation.path.endswith(("/retract", "/supersede")) and self._random.random() < 0.7:  # likewise
            places["memory_id"] = self._random.choice(self._world.ledger.names(self._random.choice(TENANTS), "memory"))
        queries = {
            n: self.value(n, s, operation)
            for n, s in operation.queries.items()
            if self._random.random() < self._density
        }
        content = operation.sample()
        if isinstance(content, dict):
            content = self.fields(operation.body or {}, operation, content)
        mark = self._world.ledger.marks.get(places["memory_id"])
        if operation.method == "PATCH" and mark and mark.category in HIDDEN:
            content.pop("category", None)  # its owner may move it to a category that the planner sees
        if operation.path == "/memory/batches" and isinstance(content, dict):
            # a batch of one memory, which stays in its category: the owner could show it to the planner
            content["filters"]["tag"] = self.name("tag")
            content.get("set", {}).pop("category", None)
        if operation.name in NAMED_BY_ID and self._random.random() < 0.2:
            content = operation.sample() | {"id": places["memory_id"], "user_id": "maya"}
        headers = {}
        if operation.retried and self._random.random() < 0.3:
            headers["Idempotency-Key"] = self.name("idempotency")
        return await operation.call(client, places, content, params=queries, headers=headers)


def _places(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


def made_by(sent: dict[str, Any], answer: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return id, kind and category of everything that an accepted write stored."""
    facts = [fact["id"] for fact in answer.get("facts", ())] + [answer.get("fact_id")]
    made = [(fact_id, "fact", "preferences") for fact_id in facts if fact_id]
    if answer.get("id"):
        where = ("patch", "profile") if "field" in sent else ("memory", sent.get("category", "activity"))
        where = ("source", answer["category"]) if "root_path" in answer else where
        made.append((answer["id"], *where))
    known = {"id", "fact_id", "facts", "turn_id"} & answer.keys()
    assert made or known, answer  # of a new kind
    return made


async def wander(world: World, tenant: str, count: int) -> tuple[list[str], Counter[tuple[str, int]]]:
    """Send `count` requests with one tenant's keys. Return the leaks, and the counts of the answers."""
    wrong: list[str] = []
    answered: Counter[tuple[str, int]] = Counter()
    clients = {kind: world.client(caller) for kind, caller in world.keys[tenant].items()}
    every = await guarded(clients["admin"])
    for client in clients.values():

        async def note(request: httpx.Request) -> None:
            world.ledger.sends(tenant, request)

        client.event_hooks = {"request": [note]}
    for _ in range(count):
        kind = world.random.choice(("admin", "admin", "reader", "writer", "bound", "bound"))
        operation = world.random.choice(every)
        response = await Choices(world, tenant).call(clients[kind], operation)
        answered[operation.name, response.status_code] += 1
        if response.status_code == 201:
            for made in made_by(json.loads(response.request.content), response.json()):
                world.ledger.own(tenant, *made)
        found = world.ledger.leaks(tenant, response, HIDDEN if kind == "bound" else frozenset())
        if found or response.status_code >= 500:
            sent = response.request
            wrong.append(f"{tenant} {kind} {sent.method} {sent.url} {sent.content!r} -> {found} {response.text[:500]}")
    for client in clients.values():
        await client.aclose()
    return wrong, answered


@pytest.mark.long
async def test_no_combination_shows_or_changes_anything_of_another_tenant(world: World, database: Database) -> None:
    answered: Counter[tuple[str, int]] = Counter()
    for tenant in TENANTS:
        others = [other for other in TENANTS if other != tenant]
        before = await digests(world, database, others)
        wrong, counts = await wander(world, tenant, -(-COMBINATIONS // len(TENANTS)))
        assert wrong == []
        assert await digests(world, database, others) == before
        answered += counts
    operations = await guarded(world.client(world.keys["one"]["admin"]))
    accepted = {name for name, status in answered if status < 300} | MODELLED | NEEDS_MORE | {ASK}
    assert {operation.name for operation in operations} == accepted  # otherwise the combinations do not test it
    assert sum(answered.values()) >= COMBINATIONS


@pytest.mark.long
async def test_a_server_that_takes_one_tenant_for_another_is_found_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    authenticate = world.app.tenancy.tenants.authenticate
    victim = world.keys["two"]["admin"].scope

    async def confused(key: str, grace_s: float) -> Principal | None:
        scope = await authenticate(key, grace_s)
        return replace(scope, tenant_id=victim.tenant_id) if scope and world.random.random() < 0.5 else scope

    monkeypatch.setattr(world.app.tenancy.tenants, "authenticate", confused)
    wrong, _ = await wander(world, "one", 300)
    assert any("owner='two'" in found for found in wrong)


@pytest.mark.long
async def test_a_key_that_loses_its_binding_is_found_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    authenticate = world.app.tenancy.tenants.authenticate

    async def unbound(key: str, grace_s: float) -> Principal | None:
        scope = await authenticate(key, grace_s)
        return replace(scope, categories=None) if scope else scope

    monkeypatch.setattr(world.app.tenancy.tenants, "authenticate", unbound)
    wrong, _ = await wander(world, "one", 300)
    assert any(f"category='{category}'" in found for found in wrong for category in HIDDEN)


@pytest.mark.long
async def test_a_changed_row_of_any_table_changes_the_digest(world: World, database: Database) -> None:
    before = await digests(world, database, ["two"])
    assert {table for table, held in before.items() if held} >= {
        *("memories", "history", "change_log", "thread_revision", "jobs", "events", "users", "tenants", "api_keys"),
        *("idempotency_keys", "memory_access", "delta_cursors", "store_items", "store_vectors"),
        *("context_patches", "user_context", "context_questions", "facts"),
        *("conv_messages", "blobs", "blob_contents", "sources", "files", "index_jobs"),
        *("supervisor_checkpoints", "checkpoint_lineage", "checkpoint_values", "checkpoint_writes"),
    }
    owner = world.keys["two"]["admin"].scope.tenant_id
    await sql(database, "UPDATE jobs SET attempts = attempts + 1 WHERE tenant_id = $1", owner)
    after = await digests(world, database, ["two"])
    assert {table for table in before if before[table] != after[table]} == {"jobs"}
    assert await digests(world, database, ["one"]) != after
