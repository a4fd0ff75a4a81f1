"""One tenant with every id of another tenant in every place: it reads, learns and changes nothing of the other."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest

from app.bootstrap import Application
from tests.api.calls import add_source, ask, edit_matching, history_of, listed, propose, remember, say, upload, verdict
from tests.api.route_catalog import ADMINS, APPROVALS, CHAT_READS, READS, Operation, guarded
from tests.factories import Caller, make_caller

Request = tuple[dict[str, Any], Any]
"""The query parameters and the body of a request."""
NAMES = {
    "user_id": "user-of-zorblax",
    "thread_id": "thread-of-zorblax",
    "agent_id": "agent-of-zorblax",
    "run_id": "run-of-zorblax",
    "actor_id": "actor-of-zorblax",
    "role": "role-of-zorblax",
}
ACTIVE = "Zorblax keeps the vault key under the third marble step."
FORGOTTEN = "Zorblax once owned a purple submarine."
REMOVED = "Zorblax confessed to inventing the eclipse."
SAID = "I met Zorblax at the tollgate."
STATE = "Zorblax is about to press the red button."
CHECKPOINT = {
    "user_id": NAMES["user_id"],
    "thread_id": "run-of-zorblax-7",
    "checkpoint_id": "checkpoint-of-zorblax",
    "type": "t",
    "data": "em9yYmxheA==",
    "metadata": {"run_id": "run-of-zorblax"},
    "versions": {"channel-of-zorblax": "1"},
    "values": [{"channel": "channel-of-zorblax", "version": "1", "type": "t", "data": "em9yYmxheA=="}],
}
ITEM = "Zorblax hides the second vault key in a beehive."
STEPS = "1. Wake the zorblax engine. 2. Whisper the zorblax word."
TOPIC = "topic_of_zorblax"
FACT = "the second zorblax moon"
RESTATED = "the third zorblax moon"
DROPPED = "a bribe for zorblax"
REMEMBERED = "remembered-turn-of-zorblax"
TURN_ID = "turn-7-of-zorblax"
TITLE = "title-of-zorblax"
EVERY_COUNT = "node,op,status,category,user_id,thread_id,day"
# what shows the configuration, not data of a tenant
CONFIGURED = {"unknown_agent", "category_not_allowed", "no_upstream", "no_chat_model"}
OWN_COUNT = "unexpected_count"  # tells how many memories of the caller match
REPEATING = {  # they answer with what this caller's earlier requests may have stored
    "POST /facts",
    "PUT /conversations/{conversation_id}/active-set",
    "POST /v1/responses",  # its input may be a plain text
}
OWNED = (
    "{entity_id}",
    "{query_id}",
    "{memory_id}",
    "{batch_id}",
    "{user_id}",
    "{job_id}",
    "{fact_id}",
    "{topic_key}",
    "{source_id}",
    "{webhook_id}",
    "{key_id}",
)
ANY_USER = {
    "POST /users/{user_id}/context/patches",  # creates the caller's own user of that name
    "GET /users/{user_id}/assistant-signals",  # an unknown user has none
    "DELETE /v2/entities/{entity_type}/{entity_id}/",  # one without memories is deleted already
}


async def state_facts(client: httpx.AsyncClient) -> dict[str, str]:
    """Store a corrected fact and a removed one; return their ids, the ids of their history and their secrets."""
    facts = [{"topic_key": TOPIC, "rank": rank, "value": value} for rank, value in ((1, FACT), (2, DROPPED))]
    place = {name: NAMES[name] for name in ("user_id", "thread_id")} | {"source_message_id": "message-of-zorblax"}
    stored = await client.post("/facts", json=place | {"facts": facts})
    assert stored.status_code == 201, stored.text
    kept, gone = (fact["id"] for fact in stored.json()["facts"])
    assert (await client.patch(f"/facts/{kept}", json={"value": RESTATED})).status_code == 200
    assert (await client.delete(f"/facts/{gone}")).status_code == 200
    trail = [row["id"] for row in (await client.get(f"/facts/{kept}/history")).json()["items"]]
    secrets = {
        "topic": TOPIC,
        "value": FACT,
        "new value": RESTATED,
        "dropped": DROPPED,
        "message": "message-of-zorblax",
    }
    return {"fact kept": kept, "fact gone": gone} | secrets | {f"history {id_}": id_ for id_ in trail}


async def keep_turn(client: httpx.AsyncClient) -> dict[str, str]:
    """Store a turn with a fingerprint and a reaction; return its id and its secrets."""
    talk, user = f"/conversations/{NAMES['thread_id']}", {"user_id": NAMES["user_id"]}
    texts = {name: f"{name}-of-zorblax" for name in ("user_text", "assistant_text", "summary", "track_id")}
    path = f"{talk}/turns/{TURN_ID}"
    assert (await client.put(path, json=user | texts)).status_code == 201
    signal = {"key": "key-of-zorblax", "value": "signal-of-zorblax"}
    printed = {"objective": "objective-of-zorblax", "topics": ["topic-of-zorblax"], "conversation_title": TITLE}
    kinds = {kind: [signal] for kind in ("assertions", "exceptions", "facts", "assistant_signals")}
    assert (await client.put(f"{path}/fingerprint", json=user | printed | kinds)).status_code == 200
    said = {"origin": "user", "reaction": "not_ok", "text": "reaction-of-zorblax"}
    assert (await client.post(f"{path}/feedback", json=user | said)).status_code == 200
    secrets = [*texts.values(), *signal.values(), "objective-of-zorblax", "topic-of-zorblax", TITLE, said["text"]]
    rows = (await client.get(f"{talk}/artifacts", params=user)).json()["items"]
    ids = {f"artifact {row['id']}": row["id"] for row in rows}
    return {"turn id": TURN_ID} | {f"turn {secret}": secret for secret in secrets} | ids


async def keep_documents(client: httpx.AsyncClient) -> dict[str, str]:
    """Store a source with a file; return their ids and secrets."""
    rules = {"include": ["zorblax-files/*"], "exclude": ["of-zorblax.txt"], "agent_id": NAMES["agent_id"]}
    source = await add_source(client, name="library-of-zorblax", user_id=NAMES["user_id"], **rules)
    uploaded = await upload(client, source["id"], "zorblax-files/plan.md", b"# The zorblax plan\n")
    file, job = uploaded["file"], uploaded["index_job"]
    names = {"library": "library-of-zorblax", "file path": "zorblax-files/plan.md", "hash": file["hash"]}
    return {"source": source["id"], "file": file["id"], "index job": job["id"], "document": "The zorblax plan"} | names


async def seed(client: httpx.AsyncClient) -> dict[str, str]:
    """Return a tenant full of secrets, and the secrets by name."""
    rich = NAMES | {"source": {"turn_id": "turn-of-zorblax", "quote": "quote-of-zorblax"}}
    first = await remember(
        client, ACTIVE, **rich, category="relationships", tags=["tag-of-zorblax"], metadata={"m": "metadata-of-zorblax"}
    )
    second = await remember(client, FORGOTTEN, **rich, category="event")
    third = await remember(client, REMOVED, **rich, category="profile")
    steps = {"type": "procedural", "category": "procedural", "steps_text": STEPS}
    fourth = await remember(client, "How Zorblax starts the engine.", **rich, **steps)
    assert (await client.delete(f"/memory/{second['id']}")).status_code == 200
    assert (await client.delete(f"/memory/{third['id']}?purge=true")).status_code == 204
    asked = await ask(client, ACTIVE, thread_id=NAMES["thread_id"], filters={"user_id": NAMES["user_id"]})
    item = {"namespace": [NAMES["user_id"], ITEM], "key": NAMES["run_id"], "value": {"said": ITEM}, "index": ["said"]}
    assert (await client.post("/store/batch", json={"puts": [item]})).status_code == 200
    cursor = (await client.get("/memory", params={"limit": 1})).json()["next_cursor"]
    state = {"params": {"user_id": NAMES["user_id"]}, "json": {"graph_state": {"said": STATE}}}
    assert (await client.put(f"/checkpoints/{NAMES['thread_id']}", **state)).status_code == 200
    assert (await client.post("/saver/put", json=CHECKPOINT)).status_code == 204
    written = {"task_id": "task-of-zorblax", "idx": 0, "channel": "write-of-zorblax", "type": "t", "data": ""}
    at = {name: CHECKPOINT[name] for name in ("user_id", "thread_id", "checkpoint_id")}
    assert (await client.post("/saver/writes", json=at | {"writes": [written]})).status_code == 204
    known, waiting = [await propose(client, f"Zorblax {n}", user=NAMES["user_id"]) for n in ("Bay", "Hill")]
    path = f"/users/{NAMES['user_id']}/context/patches"
    assert (await client.post(f"{path}/{known['id']}/approve")).status_code == 200
    question = {"thread_id": NAMES["thread_id"], "question": "Do you live on Zorblax Hill?"}
    await say(client, question["question"], role="assistant", **{n: NAMES[n] for n in ("user_id", "thread_id")})
    assert (await client.post(f"{path}/{waiting['id']}/ask", json=question)).status_code == 200
    batch = await edit_matching(
        client, {"tag": "tag-of-zorblax"}, metadata={"why": "reason-of-zorblax"}, add_tags=["batch-tag-of-zorblax"]
    )
    turn = await say(client, SAID, **{name: NAMES[name] for name in ("user_id", "thread_id", "actor_id")})
    ids = {f"memory {n}": w["id"] for n, w in enumerate((first, second, third, fourth, turn))}
    trail = {f"history {row['id']}": row["id"] for row in await history_of(client, first["id"])}
    rich_values = {"turn": "turn-of-zorblax", "quote": "quote-of-zorblax", "metadata": "metadata-of-zorblax"}
    told = await state_facts(client) | await keep_turn(client) | await keep_documents(client)
    signals = [{"key": "offer-of-zorblax", "value": REMEMBERED}]
    print_ = {"user_id": NAMES["user_id"], "objective": "objective-of-zorblax", "assistant_signals": signals}
    path = f"/conversations/{NAMES['thread_id']}/turns/{REMEMBERED}/fingerprint"
    assert (await client.put(path, json=print_)).status_code == 200
    hook = await client.post("/webhooks", json={"url": "http://127.0.0.1:9/of-zorblax", "user_id": NAMES["user_id"]})
    key = await client.post("/keys", json={"name": "key-of-zorblax", "scopes": ["query"]})
    said = {
        "remembered": REMEMBERED,
        "said": SAID,
        "active": ACTIVE,
        "forgotten": FORGOTTEN,
        "removed": REMOVED,
        "steps": STEPS,
        "item": ITEM,
        "word": "orblax",
        "state": STATE,
        "checkpoint": CHECKPOINT["checkpoint_id"],
        "run": CHECKPOINT["thread_id"],
        "channel": "channel-of-zorblax",
        "data": CHECKPOINT["data"],
    }
    return (
        NAMES
        | ids
        | trail
        | rich_values
        | told
        | said
        | {"tag": "tag-of-zorblax", "cursor": cursor, "job": turn["jobs"][0], "patch": waiting["id"]}
        | {"batch": batch["batch_id"], "reason": "reason-of-zorblax", "batch tag": "batch-tag-of-zorblax"}
        | {"query": asked["query_id"], "webhook": hook.json()["id"], "webhook url": "http://127.0.0.1:9/of-zorblax"}
        | {"key": key.json()["id"], "key name": "key-of-zorblax", "key prefix": key.json()["prefix"]}
    )


async def everything(client: httpx.AsyncClient, secrets: dict[str, str]) -> dict[str, Any]:
    """Return what a tenant can see, without the access counts, which reading changes."""
    seen: dict[str, Any] = {
        state: await listed(client, state=state) for state in ("active", "superseded", "soft_deleted")
    }
    for name, memory_id in secrets.items():
        if name.startswith("memory"):
            seen[name] = await history_of(client, memory_id)
        elif name.startswith("fact"):
            seen[name] = (await client.get(f"/facts/{memory_id}/history")).json()
    seen["jobs"] = (await client.get("/jobs")).json()
    for path in ("/queries", f"/queries/{secrets['query']}", "/usage", "/usage?by=user"):
        seen[path] = (await client.get(path)).json()
    seen["paused"] = (await client.get("/jobs/counts")).json()["paused"]
    of_user = {"user_id": NAMES["user_id"]}
    seen["signals"] = (await client.get(f"/users/{NAMES['user_id']}/assistant-signals")).json()
    shown = {"params": of_user | {"view": "gate", "turn_id": REMEMBERED}}
    view = await client.get(f"/conversations/{NAMES['thread_id']}/context", **shown)
    seen["view"] = re.sub(r"time_since=\w+", "", view.json()["text"])
    seen["facts"] = (await client.get("/facts", params=of_user)).json()
    for part in ("artifacts", "active-set", "buckets", f"turns/{TURN_ID}"):
        seen[part] = (await client.get(f"/conversations/{NAMES['thread_id']}/{part}", params=of_user)).json()
    seen["state"] = (await client.get(f"/checkpoints/{NAMES['thread_id']}", params=of_user)).json()
    seen["checkpoints"] = (await client.post("/saver/list", json={})).json()
    seen["delta"] = (await client.get(f"/threads/{NAMES['thread_id']}/delta")).json()
    for path in ("", "/patches"):
        seen[f"context{path}"] = (await client.get(f"/users/{NAMES['user_id']}/context{path}")).json()
    source = f"/sources/{secrets['source']}"
    for path in ("/keys", "/webhooks", "/memory/batches", "/sources", source, f"{source}/files", f"{source}/jobs"):
        seen[path] = (await client.get(path)).json()
    everywhere = {"searches": [{"limit": 1000}], "lists": [{}]}
    seen["store"] = (await client.post("/store/batch", json=everywhere)).json()
    for item in seen["active"]:
        item.update(hits=None, last_accessed=None)
    return seen


def leaked(response: httpx.Response, secrets: dict[str, str], said: str = "") -> list[str]:
    """Return the secrets in a response that neither its own request nor `said` contain."""
    url = response.request.url
    content = _sent_json(response.request)
    sent = f"{said}{url}{url.path}{dict(url.params)}{json.dumps(content, ensure_ascii=False)}"
    received = response.text + str(response.headers)
    return [name for name, secret in secrets.items() if secret in received and secret not in sent]


def _sent_json(request: httpx.Request) -> Any:
    """Return the JSON body of a request, or its bytes as text."""
    try:
        return json.loads(request.content or b"null")
    except ValueError:
        return request.content.decode()


def places_in(secrets: dict[str, str], path: str) -> list[dict[str, str]]:
    """Return the places of a path: one for each memory or each fact, if the path names one."""
    more = {
        "batch_id": secrets["batch"],
        "job_id": secrets["job"],
        "patch_id": secrets["patch"],
        "topic_key": TOPIC,
        "rank": "1",
    }
    more |= {"conversation_id": NAMES["thread_id"], "turn_id": TURN_ID, "path": secrets["file path"]}
    more |= {"query_id": secrets["query"], "entity_type": "user", "entity_id": NAMES["user_id"]}
    more |= {"source_id": secrets["source"], "file_id": secrets["file"], "index_job_id": secrets["index job"]}
    more |= {"webhook_id": secrets["webhook"], "delivery_id": secrets["webhook"], "key_id": secrets["key"]}
    more |= dict.fromkeys(("version", "from_version", "to_version"), "0")
    for kind in ("memory", "fact"):
        ids = [secret for name, secret in secrets.items() if name.startswith(f"{kind} ")]
        if f"{{{kind}_id}}" in path:
            return [NAMES | more | {f"{kind}_id": id_} for id_ in ids]
    return [NAMES | more]


def with_places(
    requests: Sequence[Request], places: Sequence[dict[str, str]]
) -> Iterator[tuple[int, dict[str, str], Request]]:
    """Yield the number, the places and the content of each request: the first with all places, the others in turn."""
    for place in places:
        yield 0, place, requests[0]
    for number, request in enumerate(requests[1:], 1):
        yield number, places[number % len(places)], request


def distinct(content: Any, operation: Operation, number: int) -> Any:
    """Return a body with a message id of its own, unless it tests another one: a message is stored once."""
    ids = operation.sample(), content
    if not all(isinstance(body, dict) and "message_id" in body for body in ids):
        return content
    return content | {"message_id": f"m{number}"} if ids[0]["message_id"] == ids[1]["message_id"] else content


def judged(operation: Operation, response: httpx.Response, secrets: dict[str, str], plain: bool, said: str = "") -> Any:
    """Return the error in an answer to the other tenant, None if there is none."""
    status, code = verdict(response)
    if found := leaked(response, secrets, said):
        return f"leaks {found}"
    if operation.name not in ANY_USER and any(place in operation.path for place in OWNED):
        return None if (status, code) == (404, "not_found") or (status == 422 and not plain) else response.text
    return None if status in (200, 201, 204, 404, 422) or code in CONFIGURED | {OWN_COUNT} else response.text


@pytest.mark.long
async def test_no_route_and_no_parameter_opens_another_tenant(app: Application, server: str, caller: Caller) -> None:
    other = await make_caller(app)
    wrong: dict[str, Any] = {}
    async with caller.client(server) as owner, other.client(server) as client:
        secrets = await seed(owner)
        await remember(client, "Ben feeds the ducks.", user_id="ben", thread_id="ducks")
        before = await everything(owner, secrets)
        values, few = list(secrets.values()), [*NAMES.values(), ACTIVE]
        every = await guarded(client)
        assert leaked(await client.get("/events/counts", params={"by": EVERY_COUNT}), secrets) == []
        # own writes of the other tenant come last, because it may repeat its own texts
        deciding, reading = ADMINS | APPROVALS, READS | CHAT_READS | {"POST /memory/batches"}  # shows what it changes
        for operation in sorted(
            every, key=lambda o: (o.name not in deciding, o.name not in reading, "{user_id}" not in o.path, o.name)
        ):
            said = ""
            requests: list[Request] = [({}, operation.sample())]
            requests += [(params, operation.sample()) for params in operation.variants(values)]
            bodies = operation.bodies(values if operation.name in reading else few)
            requests += [({}, distinct(content, operation, number)) for number, content in enumerate(bodies)]
            for number, place, (params, content) in with_places(requests, places_in(secrets, operation.path)):
                response = await operation.call(client, place, content, params=params)
                if (problem := judged(operation, response, secrets, number == 0, said)) is not None:
                    wrong[f"{operation.name} {params} {content}"] = problem
                if operation.name in REPEATING:
                    said += json.dumps(content, ensure_ascii=False)
        assert await everything(owner, secrets) == before
    assert wrong == {}


async def test_another_tenants_thread_stands_at_zero(app: Application, server: str, caller: Caller) -> None:
    other = await make_caller(app)
    async with caller.client(server) as owner, other.client(server) as client:
        await remember(owner, ACTIVE, thread_id="shared name")
        for params in ({}, {"since_rev": 0}, {"agent": "supervisor"}):
            found = (await client.get("/threads/shared name/delta", params=params)).json()
            assert found == {"since_rev": 0, "rev": 0, "more": 0, "truncated": False, "header": ""}


async def test_two_tenants_that_use_the_same_names_share_nothing(app: Application, server: str, caller: Caller) -> None:
    other = await make_caller(app)
    async with caller.client(server) as one, other.client(server) as two:
        first = await remember(one, "Maya drinks oat milk.", thread_id="t", tags=["one"])
        second = await remember(two, "Maya drinks oat milk.", thread_id="t", tags=["two"])
        assert (second["action"], second["revision"]) == ("created", 1)
        assert "similarity" not in second
        near = await remember(two, "Maya drinks oat milk every morning at home.", thread_id="t")
        for client, own in ((one, {first["id"]}), (two, {second["id"], near["id"]})):
            assert {m["id"] for m in await listed(client, user_id="maya")} == own
            answer = await ask(client, top_k=50)
            assert {item["id"] for item in answer["items"] + answer["related"]} == own
            whole = await ask(client, top_k=50, filters={})
            assert {item["id"] for item in whole["items"] + whole["related"]} == own


async def test_another_tenants_agents_cannot_move_each_others_cursor(
    app: Application, server: str, caller: Caller
) -> None:
    other = await make_caller(app)
    async with caller.client(server) as one, other.client(server) as two:
        await remember(one, ACTIVE, thread_id="t")
        await remember(two, "Ben feeds the ducks.", thread_id="t")
        assert "Ben" in (await ask(two, thread_id="t"))["header"]
        header = (await ask(one, thread_id="t"))["header"]
    assert "Zorblax" in header
    assert "Ben" not in header
