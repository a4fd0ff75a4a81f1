"""Captured traffic: no upstream ever gets a field of Mnema's, a key of Mnema's or another tenant's text."""

import asyncio
import json
from random import Random
from typing import Any

import httpx

from app.bootstrap import Application
from app.domain.chat.request import FIELDS
from tests.api.chat.conftest import PATH, SCOPES, set_upstream
from tests.effort import tries
from tests.factories import Caller, make_caller
from tests.scripted_upstream import ScriptedUpstream, scripted_upstream

TENANTS = ("aurora", "borealis", "cascade")
CHATS = tries(40)
TOPICS = ("tea", "chess", "the harbour", "a grey cat", "the violin", "peanuts")
FORMS = (
    "I like {topic} of {tenant}.",
    "What do I think of {topic}?",
    "My favorite foods are {tenant} rice, {tenant} soup and {tenant} bread.",
    "What is my second favorite food?",
    "Remember that {topic} belongs to {tenant}.",
)


def random_chat(chance: Random, tenant: str) -> bytes:
    """Return a chat with some of Mnema's fields, written as JSON of some style."""
    text = chance.choice(FORMS).format(topic=chance.choice(TOPICS), tenant=tenant)
    content: Any = text if chance.random() < 0.7 else [{"type": "text", "text": text}, {"type": "image_url"}]
    body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": content}], "x": {"y": [1.0]}}
    ours = {
        "memory_id": chance.choice(["c1", "c2", "global"]),
        "memory_top_k": chance.choice([0, 3, 50]),
        "memory_recency_weight": chance.random(),
        "memory_score_threshold": chance.choice([0, 0.35]),
        "meta": {"usedWebSearch": True},
        "user": chance.choice(["maya", "ben"]),
        "stream": chance.random() < 0.5,
    }
    chosen = list((body | {name: ours[name] for name in chance.sample(list(ours), chance.randint(0, 7))}).items())
    chance.shuffle(chosen)
    raw = json.dumps(dict(chosen), indent=chance.choice([None, 2]))
    if chance.random() < 0.3:  # the same name, written differently, and twice
        raw = raw.replace('"memory_id"', '"memory\\u005fid"', 1).replace("{", '{"memory_top_k": 1, ', 1)
    return raw.encode()


async def chat_at_random(url: str, caller: Caller, tenant: str, seed: int) -> None:
    """Send chats, also with headers that belong to Mnema alone."""
    chance = Random(seed)
    async with caller.client(url) as http:
        for _ in range(CHATS):
            headers = {"Content-Type": "application/json", "Cookie": f"key={caller.key}"}
            if chance.random() < 0.3:
                headers |= {
                    "Idempotency-Key": str(chance.random()),
                    "X-Request-ID": "r1",
                    "X-Forwarded-For": "10.0.0.1",
                }
            answer: httpx.Response = await http.post(PATH, content=random_chat(chance, tenant), headers=headers)
            assert answer.status_code == 200, answer.text


async def test_no_upstream_learns_what_is_not_for_it(app: Application, server: str) -> None:
    async with scripted_upstream() as one, scripted_upstream() as two, scripted_upstream() as three:
        upstreams: dict[str, ScriptedUpstream] = dict(zip(TENANTS, (one, two, three), strict=True))
        callers = {}
        for tenant, upstream in upstreams.items():
            callers[tenant] = await make_caller(app, SCOPES)
            await set_upstream(app, callers[tenant], upstream.base_url, f"sk-{tenant}-0123456789")
        chats = (chat_at_random(server, callers[tenant], tenant, seed) for seed, tenant in enumerate(TENANTS))
        await asyncio.gather(*chats)
        for tenant, upstream in upstreams.items():
            assert any("Long-term memory" in received.body.decode() for received in upstream.log), "memories were sent"
            for received in upstream.log:
                text = received.body.decode() + json.dumps(received.headers)
                assert not [other for other in TENANTS if other != tenant and other in text]
                assert not [caller for caller in callers.values() if caller.key in text or caller.key[6:] in text]
                assert FIELDS.isdisjoint(received.json)
                assert "usedWebSearch" not in text
                names = {name for name, _ in received.headers}
                assert names <= {
                    *("host", "accept", "accept-encoding", "authorization", "content-type", "content-length"),
                    *("user-agent", "connection"),
                }
