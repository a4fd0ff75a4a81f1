"""An erasure by the catalogue of personal data: nothing of the person is left in any column, and all of the others."""

import json
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import asyncpg
import httpx
import pytest

from app.bootstrap import Application
from app.storage.retention.personal_data import TABLES, Fate
from tests.api.calls import ask, delta, edit_matching, propose, remember, say, settled_counts, sql
from tests.api.retention.personal_columns import columns_with, fill_columns, personal_columns
from tests.api.retention.stored import erase, judge_and_read, keep_apart, keep_facts
from tests.conftest import Database
from tests.factories import Caller, body
from tests.source_rows import store_source
from tests.turn_artifacts import store_artifacts

EXPIRING = {
    f"{table}.{name}" for table, data in TABLES.items() for name in data.personal if data.personal[name] is Fate.expires
}
"""Columns whose rows stay for a time."""
FOLDER = """INSERT INTO sources (tenant_id, id, user_id, name, kind, root_path, category, include, exclude, watch)
            VALUES ($1, $2, $3, $3, 'folder', $3, 'knowledge', '{}', '{}', false)"""


def made_up(name: str) -> str:
    """Return a word that is nowhere else, without digits and without an ending of English."""
    return name + "".join(chr(ord("g") + int(digit, 16)) for digit in uuid4().hex[:10]) + "q"


async def keep_memories(http: httpx.AsyncClient, word: str) -> None:
    """Store memories of the user `word` that hold it wherever they hold text, and change each."""
    names = {"thread_id": f"t-{word}", "agent_id": word, "run_id": word, "actor_id": word, "role": word}
    more = {"tags": [word], "metadata": {word: word}, "source": {"turn_id": word, "quote": word}}
    fact = await remember(http, f"Tea with {word}.", user_id=word, **names, **more)
    await http.patch(f"/memory/{fact['id']}", json={"text": f"Coffee with {word}."})
    steps = {"category": "procedural", "type": "procedural", "steps_text": f"1. Sow {word}."}
    await remember(http, f"Plant {word}", user_id=word, **steps)
    keyed = {"Idempotency-Key": f"key {word}"}
    await http.post("/memory", json=body(f"Cake with {word}.", user_id=word), headers=keyed)
    await keep_facts(http, {"user_id": word, "thread_id": f"t-{word}"})
    await remember(http, "Walks at dawn.", user_id=word, thread_id=f"alone {word}")
    assert (await ask(http, "dawn", filters={}, thread_id=f"alone {word}"))["header"]
    assert (await ask(http, thread_id=f"t-{word}", filters={"user_id": word}))["header"]
    await delta(http, f"alone {word}", since_rev=0, agent="supervisor")


async def keep_context(http: httpx.AsyncClient, word: str) -> None:
    """Propose two values, and ask the user about the second."""
    chosen = await propose(http, f"Sing {word}", field="goals_add", user=word)
    assert (await http.post(f"/users/{word}/context/patches/{chosen['id']}/approve")).status_code == 200
    patch = await propose(http, word, user=word)
    question = {"thread_id": f"q-{word}", "question": f"Is it {word}?"}
    await say(http, question["question"], user_id=word, thread_id=f"q-{word}", role="assistant")
    assert (await http.post(f"/users/{word}/context/patches/{patch['id']}/ask", json=question)).status_code == 200


async def keep_items(http: httpx.AsyncClient, word: str) -> None:
    """Store an item with a user_id, and some without one whose namespace or key names the user."""
    places: list[tuple[list[str], str, str | None]] = [
        (["spices"], f"of {word}", word),
        (["memories", word], "1", None),
        ([f"x-{word}", "facts"], "1", None),
        (["crew", f"user:{word}:notes"], "1", None),
        (["profiles"], f"v1/{word}", None),
    ]
    puts: list[dict[str, Any]] = [
        {"namespace": namespace, "key": key, "value": {"of": word}, "index": ["of"], "user_id": user}
        for namespace, key, user in places
    ]
    assert (await http.post("/store/batch", json={"puts": puts})).status_code == 200


async def keep_batch(http: httpx.AsyncClient, word: str, other: str) -> None:
    """Edit a memory of the user and one of another at once, in words about the user. The other memory goes again."""
    about = {"tags": [word], "agent_id": word, "run_id": word, "metadata": {word: 1}}
    await remember(http, f"{word} plants basil.", user_id=word, **about)
    gone = await remember(http, "Basil is planted.", user_id=other, **about)
    filters = {"tag": word, "agent_id": word, "run_id": word, "q": "basil"}
    changes = {"importance": 5, "remove_tags": [word], "add_tags": [f"by {word}"], "metadata": {word: word}}
    content = {"filters": filters, "action": "edit", "set": changes}
    done = await http.post("/memory/batches", json=content, headers={"Idempotency-Key": word})
    assert (done.status_code, done.json()["changed"]) == (200, 2), done.text
    assert (await http.delete(f"/memory/{gone['id']}", params={"purge": True})).status_code == 204


async def keep_everything(
    http: httpx.AsyncClient, app: Application, database: Database, caller: Caller, word: str
) -> None:
    """Store something of the user `word` in every table that has personal data."""
    await keep_memories(http, word)
    await keep_context(http, word)
    await keep_items(http, word)
    await edit_matching(http, {"user_id": word}, pinned=True)
    await keep_apart(database, caller.scope.tenant_id, word, word)
    await judge_and_read(database, caller.scope.tenant_id, word)
    await store_artifacts(app, caller.scope, word, word)
    await store_source(app.parts.uow, caller.scope, word, word)
    await sql(database, FOLDER, caller.scope.tenant_id, uuid4(), word)


@pytest.mark.long
async def test_an_erasure_leaves_nothing_of_the_person_in_any_column_and_all_of_the_others(
    http: httpx.AsyncClient, app: Application, database: Database, caller: Caller
) -> None:
    maya, ben, cleo = (made_up(name) for name in ("maya", "ben", "cleo"))
    for word in (maya, ben, cleo):
        await keep_everything(http, app, database, caller, word)
    for word, other in ((maya, ben), (ben, cleo)):
        await keep_batch(http, word, other)
    await settled_counts(http, database)
    connection = await asyncpg.connect(database.superuser)
    try:
        for word in (maya, ben):
            await fill_columns(connection, str(caller.scope.tenant_id), word)
        of_maya, of_ben = [await columns_with(connection, word) for word in (maya, ben)]
        wanted = await personal_columns(connection)
        assert (wanted - of_maya.keys(), wanted - of_ben.keys()) == (set(), set()), "each holds something"
        await erase(http, maya)
        assert (await columns_with(connection, maya)).keys() <= EXPIRING
        assert await columns_with(connection, ben) == of_ben
    finally:
        await connection.close()


NAMED = {
    "maya": (["x-maya", "maya:notes", "v1/maya/facts", "~maya"], ["maya-lopez", "mayan", "of maya", "x-Maya", "amaya"]),
    "42": (["42"], ["v-42", "42-a"]),
    "123456": (["v-123456"], ["v-1234567"]),
    "m.a+y@x.io": (["user/m.a+y@x.io"], ["user/m.aay@x.io", "user/m.a+y@x.ion", "m_a_y_x_io"]),
    "--": (["--"], ["a--b", "---"]),
    "日本語": (["user:日本語"], ["日本語人"]),
    "日本": (["日本"], ["user:日本"]),
}
"""Ids of users, with labels that name them and labels that do not. `maya-lopez` is a user too."""


@pytest.mark.long
async def test_an_item_goes_with_a_label_that_has_the_users_id_between_punctuation(http: httpx.AsyncClient) -> None:
    await remember(http, user_id="maya-lopez")
    for user, (gone, kept) in NAMED.items():
        puts = [{"namespace": ["crew", label], "key": "k", "value": {"of": label}} for label in (*gone, *kept)]
        assert (await http.post("/store/batch", json={"puts": puts})).status_code == 200
        lines = (await http.get(f"/users/{quote(user)}/export")).text.splitlines()
        shown = {line["value"]["of"] for line in map(json.loads, lines) if line["kind"] == "item"}
        assert (shown, (await erase(http, user))["counts"]["store_items"]) == (set(gone), len(gone))
        found = await http.post("/store/batch", json={"searches": [{"prefix": ["crew"], "limit": 50}]})
        assert {item["value"]["of"] for item in found.json()["searches"][0]} == set(kept)
        clear = [put | {"value": None} for put in puts]
        assert (await http.post("/store/batch", json={"puts": clear})).status_code == 200
