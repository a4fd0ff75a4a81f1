"""Erased texts are refused however they are sent again; new texts and those of other users are stored."""

import json
from typing import Any

import httpx
import pytest

from app.bootstrap import Application
from tests.api.calls import listed, refused, remember, row_counts
from tests.conftest import Database
from tests.factories import body, make_caller
from tests.usecases.crowd import SeededEmbedder

TURN = {"category": "activity", "type": "turn", "thread_id": "t"}
STEPS = {"category": "procedural", "type": "procedural"}
REFUSED = {"action": "skipped", "reason": "erased", "related": 0}


@pytest.fixture
def embedder() -> SeededEmbedder:
    """Return an embedder without a model: only equal texts are near each other."""
    return SeededEmbedder()


@pytest.fixture
async def turn(http: httpx.AsyncClient) -> str:
    """Return the id of an erased turn of maya's. A fact and a plan in two versions each were erased with it."""
    fact = await remember(http, "Maya lives in Lisbon.")
    await http.patch(f"/memory/{fact['id']}", json={"text": "Maya lives in Porto."})
    await remember(http, "MAYA lives in Porto", importance=4)
    plan = await remember(http, "Water the bees", steps_text="1. Fill the bowl.", **STEPS)
    await http.patch(f"/memory/{plan['id']}", json={"text": "Feed the bees", "steps_text": "1. Fill the feeder."})
    said = await remember(http, "I moved to Porto last week!", **TURN)
    assert (await http.post("/users/maya/erase")).status_code == 200
    return str(said["id"])


async def written(client: httpx.AsyncClient, text: str, **fields: Any) -> dict[str, Any]:
    """Return the answer to a write."""
    response = await client.post("/memory", json=body(text, **fields))
    assert response.status_code == 201, response.text
    return {name: value for name, value in response.json().items() if value is not None}


AGAIN: list[tuple[str, dict[str, Any]]] = [
    ("Maya lives in Porto.", {}),
    ("Maya lives in Lisbon.", {}),
    ("maya  LIVES in porto", {"category": "goals", "thread_id": "elsewhere"}),
    ("Maya lives in Porto\U000e0020", {}),
    ("Maya\u3164 li\ufe0fves in Porto\u200d", {"type": "episodic", "category": "event"}),
    ("Maya lives in Porto.", {"type": "episodic", "category": "event"}),
    ('"Maya lives in Porto."', {}),
    ("“Maya lives in Porto”!", {"category": "goals"}),
    ("I moved to “Porto” last week!", TURN),
    ("I moved to Porto last week!", TURN),
    ("I moved to Porto last week!", TURN | {"thread_id": "u", "seq": 4, "created_at": "2026-01-01"}),
    ("Water the bees", STEPS | {"steps_text": "1. Do something else."}),
    ("Keep the bees", STEPS | {"steps_text": "1. Fill the feeder."}),
    ("Keep the bees", STEPS | {"steps_text": "1. Fill the bowl."}),
]


@pytest.mark.long
async def test_erased_text_sent_again_is_skipped_and_leaves_nothing(
    http: httpx.AsyncClient, turn: str, database: Database
) -> None:
    assert [await written(http, text, **fields) for text, fields in AGAIN] == [REFUSED] * len(AGAIN)
    lines = [json.dumps(body(text, **fields)) for text, fields in AGAIN]
    for _ in range(2):
        response = await http.post("/memory/bulk", content="\n".join(lines), headers={"Idempotency-Key": "k"})
        assert [json.loads(line) for line in response.text.splitlines()] == [
            {"line": n, **REFUSED} for n in range(1, len(AGAIN) + 1)
        ]
    counts = await row_counts(database)
    assert [counts[table] for table in ("memories", "users", "vec_minilm_l6_v2")] == [0, 0, 0]
    assert await listed(http) == []


@pytest.mark.long
async def test_what_is_learnt_anew_from_an_erased_turn_is_skipped_too(http: httpx.AsyncClient, turn: str) -> None:
    source = {"turn_id": turn, "quote": "moved to Porto"}
    assert await written(http, "Maya has a new home.", source=source) == REFUSED
    fresh = {"turn_id": "another", "quote": "a new home"}
    assert (await written(http, "Maya has a new home.", source=fresh))["action"] == "created"
    assert await written(http, "MAYA has a new home.", source=source) == REFUSED


@pytest.mark.long
async def test_a_memory_cannot_be_changed_into_erased_text(http: httpx.AsyncClient, turn: str) -> None:
    fact = await remember(http, "Maya skates.")
    plan = await remember(http, "Clean the hive", steps_text="1. Open it.", **STEPS)
    before = [(item["text"], item["version"]) for item in await listed(http)]
    for text in ("Maya lives in Porto.", "maya lives in LISBON"):
        refused(await http.patch(f"/memory/{fact['id']}", json={"text": text}), 409, "erased")
    steps = {"steps_text": "1. Fill the bowl."}
    refused(await http.patch(f"/memory/{plan['id']}", json=steps), 409, "erased")
    assert [(item["text"], item["version"]) for item in await listed(http)] == before


@pytest.mark.long
async def test_a_returning_user_can_say_something_new(http: httpx.AsyncClient, turn: str) -> None:
    created = await written(http, "Maya lives in Faro.")
    assert created["action"] == "created"
    assert (await http.patch(f"/memory/{created['id']}", json={"text": "Maya lives in Beja."})).status_code == 200
    assert (await written(http, "Maya lives in Beja.", importance=5))["action"] == "updated"
    assert [(item["text"], item["user_id"]) for item in await listed(http)] == [("Maya lives in Beja.", "maya")]


@pytest.mark.long
async def test_the_same_words_of_another_user_or_another_tenants_are_not_touched(
    app: Application, http: httpx.AsyncClient, server: str
) -> None:
    stranger = await make_caller(app)
    async with stranger.client(server) as other:
        held = [await remember(http, user_id="ben"), await remember(other)]
        await remember(http)
        assert (await http.post("/users/maya/erase")).status_code == 200
        assert await written(http, "Maya drinks oat milk.") == REFUSED
        assert [item["id"] for item in await listed(http)] == [held[0]["id"]]
        assert [item["id"] for item in await listed(other)] == [held[1]["id"]]
        for client, user in ((http, "ben"), (http, "cleo"), (other, "maya"), (other, "ben")):
            assert (await written(client, "Maya drinks oat milk.", user_id=user))["action"] in ("created", "unchanged")
        history = await http.get(f"/memory/{held[0]['id']}/history")
        assert "oat milk" in history.text


async def test_a_second_erasure_takes_what_came_since_and_forgets_nothing_of_the_first(
    http: httpx.AsyncClient, turn: str
) -> None:
    await remember(http, "Maya lives in Faro.")
    receipt = await http.post("/users/maya/erase")
    assert (receipt.json()["counts"]["memories"], receipt.json()["counts"]["tombstones"]) == (1, 1)
    for text in ("Maya lives in Faro.", "Maya lives in Porto."):
        assert await written(http, text) == REFUSED
