"""Memory never fails a chat: without the database or the embedder, the upstream answers, and the label says so."""

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from app.bootstrap import Doubles
from app.config.settings import Settings
from app.ports import Embedder
from tests.api.chat.conftest import PATH, SCOPES, said, wait_for
from tests.conftest import Database
from tests.database_outage import gone
from tests.factories import Caller, KeepOpen, make_caller, replica
from tests.scripted_upstream import ScriptedUpstream
from tests.stalling_proxy import stalling

pytestmark = pytest.mark.usefixtures("own")
FAILED = "Model: Memory-F + scripted-1"


@pytest.fixture
def settings(settings: Settings, upstream: ScriptedUpstream) -> Settings:
    """Settings with the upstream, and a key that is looked up again at once."""
    return settings.model_copy(update={"chat_upstream_url": upstream.base_url, "key_cache_s": 0.0})


def body(text: str, **fields: Any) -> dict[str, Any]:
    """Return a chat of Maya."""
    return {"model": "scripted-1", "user": "maya", "messages": [{"role": "user", "content": text}]} | fields


@pytest.fixture
async def chatter(settings: Settings, embedder: Embedder) -> AsyncIterator[tuple[httpx.AsyncClient, Caller]]:
    """Return a client of a server of its own."""
    async with replica(settings, Doubles(embedder=embedder)) as (url, app):
        caller = await make_caller(app, SCOPES)
        async with caller.client(url) as http:
            yield http, caller


@pytest.mark.parametrize("stream", [False, True])
async def test_without_the_database_a_known_key_chats_on_without_memory(
    chatter: tuple[httpx.AsyncClient, Caller], database: Database, upstream: ScriptedUpstream, stream: bool
) -> None:
    http, _caller = chatter
    assert (await http.post(PATH, json=body("Hello"))).json()["model_label"] == "Model: scripted-1"
    async with gone(database):
        answer = await http.post(PATH, json=body("My favorite color is teal.", stream=stream))
        assert answer.status_code == 200
        assert f'"model_label":"{FAILED}"' in answer.text
        assert '"F":true' in answer.text
        assert upstream.log[-1].json["messages"] == body("My favorite color is teal.")["messages"]
        unknown = await http.post(PATH, json=body("Hi"), headers={"Authorization": "Bearer mnema_unknown"})
        assert (unknown.status_code, unknown.json()["code"]) == (503, "database_unavailable")
        assert '"memory_pending":true' in answer.text
        other = await http.post("/memory/query", json={"agent": "a", "query": "teal"})
        assert other.status_code == 503, "only chat goes on"
    turns = await wait_for(partial(turns_of, http), 4)
    assert turns[2:] == [("user", "My favorite color is teal."), ("assistant", "You said: My favorite color is teal.")]
    known = await http.post(PATH, json=body("What is my favorite color?"))
    assert known.json()["model_label"] == "Model: Memory-R(1) + scripted-1", "its facts are stored, too"
    again = await http.post(PATH, json=body("Hello again", memory_top_k=0))
    assert again.json()["model_label"] == "Model: scripted-1"


async def turns_of(http: httpx.AsyncClient) -> list[tuple[str, str]]:
    """Return role and text of the turns of Maya's conversation, in order."""
    found = await http.get("/threads/default/turns", params={"user_id": "maya"})
    return [(turn["role"], turn["content"]) for turn in found.json()["items"]]


async def test_an_answer_that_the_database_does_not_take_is_kept(
    chatter: tuple[httpx.AsyncClient, Caller], database: Database, upstream: ScriptedUpstream
) -> None:
    http, _caller = chatter
    upstream.pause_s = 0.2
    request = http.build_request("POST", PATH, json=body("Hello there, my old friend.", stream=True))
    answer = await http.send(request, stream=True)
    text = ""
    async with aclosing(answer.aiter_text()) as parts:
        text += await anext(parts)
        async with gone(database):
            async for part in parts:
                text += part
    assert text.rstrip().endswith("data: [DONE]")
    assert '"F":false' in text
    assert '"memory_pending":true' in text
    turns = await wait_for(partial(turns_of, http), 2)
    assert turns == [("user", "Hello there, my old friend."), ("assistant", "You said: Hello there, my old friend.")]


async def test_what_can_be_kept_nowhere_is_told(
    settings: Settings, embedder: Embedder, database: Database, upstream: ScriptedUpstream
) -> None:
    nowhere = settings.model_copy(update={"chat_spool_bytes": 0})
    async with replica(nowhere, Doubles(embedder=embedder)) as (url, app):
        caller = await make_caller(app, SCOPES)
        async with caller.client(url) as http:
            assert (await http.post(PATH, json=body("Hello"))).status_code == 200
            async with gone(database):
                answer = (await http.post(PATH, json=body("Hello again"))).json()
            assert (answer["model_label"], answer["meta"].get("memory_pending")) == (FAILED, None)
            metrics = (await http.get("/metrics")).text
            assert "mnema_chat_turns_lost_total 2.0" in metrics


@pytest.mark.long
async def test_without_the_database_a_revoked_key_stays_revoked(
    chatter: tuple[httpx.AsyncClient, Caller], database: Database, settings: Settings, embedder: Embedder
) -> None:
    http, caller = chatter
    assert (await http.post(PATH, json=body("Hello"))).status_code == 200
    async with replica(settings, Doubles(embedder=embedder)) as (_url, app):
        assert caller.scope.key_id is not None
        await app.tenancy.tenants.revoke_key(caller.scope.tenant_id, caller.scope.key_id)
    assert (await http.post(PATH, json=body("Hello"))).status_code == 401
    async with gone(database):
        assert (await http.post(PATH, json=body("Hello"))).status_code in (401, 503)


@pytest.mark.long
async def test_a_database_that_hangs_holds_a_chat_for_a_bounded_time(
    settings: Settings, embedder: Embedder, upstream: ScriptedUpstream
) -> None:
    async with stalling(settings.database_url.get_secret_value()) as proxy:
        hanging = settings.model_copy(update={"database_url": SecretStr(proxy.url), "key_cache_s": 4.0})
        async with replica(hanging, Doubles(embedder=embedder)) as (url, app):
            caller = await make_caller(app, SCOPES)
            async with caller.client(url) as http:
                assert (await http.post(PATH, json=body("Hello"))).status_code == 200
                with proxy.stalled():
                    answer = await http.post(PATH, json=body("Which tea do I like?"))
                assert said(answer) == "You said: Which tea do I like?"
                assert answer.json()["model_label"] == FAILED


async def test_without_the_embedder_the_turn_is_stored_and_memories_are_found_by_words(
    settings: Settings, local_model: Embedder, upstream: ScriptedUpstream
) -> None:
    embedder = KeepOpen(local_model)
    async with replica(settings, Doubles(embedder=embedder)) as (url, app):
        caller = await make_caller(app, SCOPES)
        async with caller.client(url) as http:
            memory = {"user_id": "maya", "category": "preferences", "text": "Maya is allergic to peanuts."}
            assert (await http.post("/memory", json=memory)).status_code == 201
            embedder.failing = True
            answer = await http.post(PATH, json=body("Is Maya allergic to peanuts?", memory_score_threshold=0))
            assert answer.json()["model_label"] == FAILED
            assert [hit["content"] for hit in answer.json()["memory_hits"]] == [memory["text"]]
            turns = (await http.get("/threads/default/turns")).json()["items"]
            assert [turn["role"] for turn in turns] == ["user", "assistant"]
            unsure = await http.post(PATH, json=body("What is my favorite dessert?", user="ben"))
            assert said(unsure).startswith("You said: "), "memory that failed does not claim to know nothing"


@pytest.mark.long
async def test_a_text_that_cannot_be_stored_as_it_is_reaches_the_upstream(
    chatter: tuple[httpx.AsyncClient, Caller], upstream: ScriptedUpstream
) -> None:
    http, _caller = chatter
    upstream.rule = lambda _body: "Fine."
    labels = []
    for text in ("zero \x00 byte", "word " * 50_000, "half \ud83d pair"):
        content = json.dumps(body(text, memory_id="odd", memory_top_k=0)).encode()
        labels.append((await http.post(PATH, content=content)).json()["model_label"])
        assert upstream.log[-1].json["messages"][0]["content"] == text
    assert labels == ["Model: scripted-1"] * 3
    turns = (await http.get("/threads/odd/turns")).json()["items"]
    told = [turn["content"][:9] for turn in turns if turn["role"] == "user"]
    assert told == ["zero byte", "word word", "half \ufffd pa"]
