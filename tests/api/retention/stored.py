"""Rows of a user that no single call stores, for tests of exports and erasures, and the call that erases them."""

import json
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import httpx

from tests.api.calls import ask, edit_matching, propose, remember, say, sql
from tests.conftest import Database
from tests.factories import body

Record = dict[str, Any]


async def erase(client: httpx.AsyncClient, user: str = "maya") -> dict[str, Any]:
    """Erase a user; return the receipt."""
    response = await client.post(f"/users/{quote(user, safe='')}/erase")
    assert response.status_code == 200, response.text
    receipt: dict[str, Any] = response.json()
    assert receipt["user_id"] == user
    return receipt


async def keep_apart(database: Database, tenant: UUID, user: str, word: str) -> None:
    """Store a state, two checkpoints of a saver, a job, and a webhook with its delivery that name the user."""
    held = json.dumps({"user_id": user, "text": word})
    saved = """INSERT INTO supervisor_checkpoints (tenant_id, id, user_id, thread_id, checkpoint_data)
               VALUES ($1, $2, $3, 't', $4::text::jsonb)"""
    await sql(database, saved, tenant, uuid4(), user, held)
    for number in "12":
        put = """SELECT put_checkpoint($1, $2, $3, 'run', '', $5, NULL, 't', $4, '{}', '{"c": "1"}',
                                       '{c}', '{1}', '{t}', $6, 999),
                        put_writes($1, $2, $3, 'run', '', $5, '{a}', '{0}', '{p}', '{c}', '{t}', $6, 999)"""
        await sql(database, put, tenant, uuid4(), user, word.encode(), number, [word.encode()])
    job = "INSERT INTO jobs (tenant_id, id, kind, user_id, payload) VALUES ($1, $2, 'extract', $3, $4::text::jsonb)"
    await sql(database, job, tenant, uuid4(), user, held)
    hook = """WITH made AS (
                  INSERT INTO webhooks
                      (tenant_id, id, url, events, categories, user_id, with_memory, secret, stamp, record)
                  VALUES ($1, $2, 'u', '{}', '{}', $3, false, '', 0, $2))
              INSERT INTO webhook_deliveries (tenant_id, id, webhook_id, record, memory_id, event, user_id, happened_at)
              VALUES ($1, $2, $2, $2, 'm', 'ADD', $3, now())"""
    await sql(database, hook, tenant, uuid4(), user)


async def judge_and_read(database: Database, tenant: UUID, user: str, rows: int = 1) -> None:
    """Store judged pairs, reflection cursors, delta cursors and jobs, that many of each."""
    for statement in (
        """INSERT INTO consolidation_pairs SELECT $1, gen_random_uuid(), gen_random_uuid(), 0.71, user_pk, true, now()
           FROM users, generate_series(1, $3::int) WHERE tenant_id = $1 AND user_id = $2""",
        "INSERT INTO reflections SELECT $1, $2, 'summary', 'thread ' || n, n, now() FROM generate_series(1, $3::int) n",
        """INSERT INTO delta_cursors (tenant_id, user_id, thread_id, agent, rev)
           SELECT $1, $2, 'thread ' || n, 'supervisor', n FROM generate_series(1, $3::int) n""",
        """INSERT INTO jobs (tenant_id, id, kind, user_id) SELECT $1, gen_random_uuid(), 'embed', $2
           FROM generate_series(1, $3::int)""",
    ):
        await sql(database, statement, tenant, user, rows)


async def keep_facts(http: httpx.AsyncClient, place: dict[str, Any]) -> None:
    """State two facts, change the first and remove the second."""
    facts = [{"topic_key": "favorite_orris", "rank": rank, "value": v} for rank, v in ((1, "borage"), (2, "costmary"))]
    stored = await http.post("/facts", json={**place, "facts": facts, "source_message_id": "savory"})
    assert stored.status_code == 201, stored.text
    kept, gone = (fact["id"] for fact in stored.json()["facts"])
    assert (await http.patch(f"/facts/{kept}", json={"value": "elecampane"})).status_code == 200
    assert (await http.delete(f"/facts/{gone}")).status_code == 200


async def exported(client: httpx.AsyncClient, user: str = "maya") -> list[Record]:
    """Return a user's export, parsed line by line."""
    response = await client.get(f"/users/{quote(user, safe='')}/export")
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("application/x-ndjson")
    assert response.text.endswith("\n")
    return [json.loads(line) for line in response.text.removesuffix("\n").split("\n")]


async def keep_items(http: httpx.AsyncClient, user: str) -> None:
    """Store an item with a user_id, and two without one that name the user."""
    owned = {"namespace": ["spices"], "key": "of", "value": {"of": "annatto"}, "index": ["of"], "user_id": user}
    named = {"namespace": ["memories", user, "spices"], "key": "1", "value": {"of": "caraway"}, "index": ["of"]}
    keyed = {"namespace": ["profiles"], "key": user, "value": {"of": "dillweed"}}
    assert (await http.post("/store/batch", json={"puts": [owned, named, keyed]})).status_code == 200


async def settle_in(http: httpx.AsyncClient, user: str = "maya") -> dict[str, str]:
    """Store a distinct word in every place that holds text; return the words by place."""
    place: dict[str, Any] = {"user_id": user, "thread_id": "t"}
    fact = await remember(http, "Tea with cardamom.", tags=["saffron"], metadata={"note": "tamarind"}, **place)
    await http.patch(f"/memory/{fact['id']}", json={"text": "Tea with fenugreek."})
    await edit_matching(http, {"user_id": user, "tag": "saffron"}, add_tags=["dittany"])
    await remember(http, "tea with FENUGREEK", source={"turn_id": "turn-9", "quote": "juniper, please"}, **place)
    sourced = {"source": {"turn_id": "turn-9", "quote": "juniper, please"}}
    await http.post("/memory", json=body("Tea in asafoetida.", **place, **sourced), headers={"Idempotency-Key": "k"})
    turn = {"category": "activity", "type": "turn", "actor_id": "lovage"}
    await remember(http, "I dreamt of galangal.", **turn, **place)
    steps = {"category": "procedural", "type": "procedural", **place}
    plan = await remember(http, "Sow the sumac", steps_text="1. Dig for sorrel.", **steps)
    await http.patch(f"/memory/{plan['id']}", json={"steps_text": "1. Dig for chervil."})
    await keep_items(http, user)
    await keep_facts(http, place)
    await remember(http, "Walks at dawn.", user_id=user, thread_id=f"nutmeg {user}")
    assert (await ask(http, "dawn", filters={}, thread_id=f"nutmeg {user}"))["header"], (
        "a cursor and an event that name nobody"
    )
    for value in ("Mugwort", "Woodruff"):
        patch = await propose(http, value, user=user)
        path = f"/users/{user}/context/patches/{patch['id']}"
        question = {"thread_id": f"q-{value[0]}", "question": f"Is it {value}, or calamus?"}
        spoken = {"user_id": user, "thread_id": f"q-{value[0]}", "role": "assistant"}
        await say(http, question["question"], **spoken)
        assert (await http.post(f"{path}/ask", json=question)).status_code == 200
        if value == "Mugwort":
            assert (await http.post(f"{path}/approve")).status_code == 200
    gone = await remember(http, "Old marjoram.", **place)
    await http.delete(f"/memory/{gone['id']}")
    purged = await remember(http, "Wild epazote.", **place)
    assert (await http.delete(f"/memory/{purged['id']}", params={"purge": True})).status_code == 204
    assert (await ask(http, thread_id="t", filters={"user_id": user}))["header"]
    return {"fact": fact["id"], "plan": plan["id"], "purged": purged["id"]}
