"""POST /memory/batches matches what GET /memory shows with the same filters, and records no words of a person."""

import random
from collections import Counter
from typing import Any

import httpx
import pytest

from app.bootstrap import Application
from tests.api.calls import edit_matching, refused, remember, sql
from tests.api.cursors import pages
from tests.conftest import Database
from tests.factories import Caller, make_caller

ROUNDS = 40
USERS = ("maya", "ben")
CATEGORIES = ("preferences", "tasks", "goals", "event")
TYPES = ("semantic", "episodic", "turn")
NOUNS = ("venue", "press", "band", "poster", "ticket")
VERBS = ("books", "paints", "moves", "counts", "loses")
DAYS = [f"2025-03-{day:02}" for day in range(1, 8)]
WORDED: dict[str, Any] = {"q": "divorce lawyer", "metadata": ["about:Maya Stern"]}


def choices(draw: random.Random) -> dict[str, Any]:
    """Return a value for each filter that GET /memory and POST /memory/batches share."""
    days = sorted(draw.choices(DAYS, k=2))
    asked = [draw.choice(NOUNS), f"{draw.choice(VERBS)} or {draw.choice(NOUNS)}", f"-{draw.choice(NOUNS)}", "the"]
    importance = sorted(draw.choices(range(1, 6), k=2))
    metadata = [f"n:{draw.randrange(3)}", "source:import", "done:true"]
    return {
        "user_id": draw.choice((*USERS, "nobody")),
        "q": draw.choice(asked),
        "category": draw.choice((draw.choice(CATEGORIES), draw.sample(CATEGORIES, 2))),
        "type": draw.choice((draw.choice(TYPES), draw.sample(TYPES, 2))),
        "thread_id": draw.choice(("t1", "t2")),
        "agent_id": draw.choice(("planner", "writer")),
        "run_id": draw.choice(("r1", "r2")),
        "actor_id": draw.choice(USERS),
        "role": draw.choice(("user", "assistant")),
        "tag": draw.choice(("old", "new")),
        "pinned": draw.random() < 0.5,
        "importance_min": importance[0],
        "importance_max": importance[1],
        "metadata": draw.sample(metadata, draw.choice((1, 1, 2))),
        "created_after": days[0],
        "created_before": days[1],
        "updated_after": "2025-01-01",
        "updated_before": draw.choice(("2025-01-01", "2999-01-01")),
    }


async def world(client: httpx.AsyncClient) -> None:
    """Store memories that differ in every field that a filter names; delete some."""
    draw = random.Random(11)
    for number in range(60):
        kind = draw.choice(TYPES)
        fields = {name: value for name, value in choices(draw).items() if draw.random() < 0.7}
        kept = {
            name: fields[name] for name in ("thread_id", "agent_id", "run_id", "actor_id", "role") if name in fields
        }
        answer = await remember(
            client,
            f"{draw.choice(USERS)} {draw.choice(VERBS)} the {draw.choice(NOUNS)} number {number}",
            user_id=draw.choice(USERS),
            category=draw.choice(CATEGORIES),
            type=kind,
            importance=draw.randint(1, 5),
            pinned=draw.random() < 0.4,
            tags=draw.sample(("old", "new"), draw.randrange(3)),
            metadata={
                "n": draw.choice((0, 1, "1", 2)),
                "source": draw.choice(("import", "web")),
                "done": number % 2 == 0,
            },
            created_at=draw.choice(DAYS),
            **kept,
        )
        if number % 10 == 0 and answer["id"]:
            assert (await client.delete(f"/memory/{answer['id']}")).status_code == 200


async def listed(client: httpx.AsyncClient, **params: Any) -> set[str]:
    """Return the ids on all pages of the list."""
    return {memory["id"] for page in await pages(client, "/memory", **params) for memory in page}


async def compare(client: httpx.AsyncClient, seed: int) -> Counter[int]:
    """Edit by random filters; return how many memories the rounds matched. Each changed memory has the round's tag."""
    draw, sizes = random.Random(seed), Counter[int]()
    for number in range(ROUNDS):
        every = choices(draw)
        filters = {name: every[name] for name in draw.sample(sorted(every), draw.choice((1, 1, 2, 2, 3, 4)))}
        shown = await listed(client, **filters)
        tried = {"filters": filters, "action": "delete", "dry_run": True, "expected": len(shown)}
        response = await client.post("/memory/batches", json=tried)
        assert (response.status_code, response.json()["matched"]) == (200, len(shown)), (filters, response.text)
        done = await edit_matching(client, filters, add_tags=[f"round-{number}"])
        assert (done["changed"], done["skipped"]) == (len(shown), {}), filters
        assert await listed(client, tag=f"round-{number}") == shown, filters
        sizes[len(shown)] += 1
        if done["batch_id"]:
            undone = (await client.post(f"/memory/batches/{done['batch_id']}/undo")).json()
            assert (undone["changed"], undone["skipped"]) == (len(shown), {}), filters
            assert await listed(client, tag=f"round-{number}") == set(), filters
    return sizes


@pytest.mark.long
async def test_a_batch_matches_what_the_list_with_the_same_filters_shows(http: httpx.AsyncClient) -> None:
    await world(http)
    sizes = await compare(http, 3)
    assert sizes[0] < ROUNDS / 2, "most rounds match something"
    assert len(sizes) > 8, "they match different numbers"


@pytest.mark.long
async def test_a_bound_key_changes_what_it_is_shown(
    app: Application, http: httpx.AsyncClient, server: str, caller: Caller
) -> None:
    await world(http)
    bound = await make_caller(app, ("query", "write"), ["stylist"], caller)
    async with bound.client(server) as client:
        every, own = await listed(http, q="-venue"), await listed(client, q="-venue")
        assert 0 < len(own) < len(every)
        done = await edit_matching(client, {"q": "-venue", "type": list(TYPES)}, add_tags=["mine"])
        assert done["changed"] == len(own)
        assert await listed(http, tag="mine") == own
        for filters in ({"category": ["preferences", "tasks"]}, {"category": "tasks", "q": "venue"}):
            wanted = {"filters": filters, "action": "delete"}
            refused(await client.post("/memory/batches", json=wanted), 403, "category_not_allowed")


@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"q": None, "category": None},
        {"q": ""},
        {"q": "x" * 501},
        {"q": "a\x00"},
        {"category": []},
        {"category": ["tasks", ""]},
        {"category": ["tasks"] * 51},
        {"type": []},
        {"type": ["turn", "dream"]},
        {"metadata": []},
        {"metadata": ["source"]},
        {"metadata": {"source": "import"}},
        {"metadata": ["n:1"] * 11},
        {"created_after": "soon"},
        {"created_after": "2025-02-02", "created_before": "2025-02-01"},
        {"state": "soft_deleted"},
        {"sort": "importance"},
    ],
)
async def test_wrong_filters_change_nothing(http: httpx.AsyncClient, filters: dict[str, Any]) -> None:
    await remember(http)
    refused(await http.post("/memory/batches", json={"filters": filters, "action": "delete"}), 422, "invalid_request")
    assert len(await listed(http)) == 1


@pytest.mark.long
async def test_words_and_metadata_of_filters_are_never_stored(
    http: httpx.AsyncClient, database: Database, caller: Caller
) -> None:
    for user in USERS:
        text = f"{user} meets the divorce lawyer."
        await remember(http, text, user_id=user, category="tasks", metadata={"about": "Maya Stern"})
    more = {"category": ["tasks", "goals"], "type": "semantic", "created_before": "2999-01-01"}
    both = await edit_matching(http, WORDED | more, importance=5)
    one = await edit_matching(http, WORDED | {"user_id": "ben", "category": "tasks"}, pinned=True)
    words = await edit_matching(http, {"q": WORDED["q"]}, add_tags=["law"])
    assert (both["changed"], one["changed"], words["changed"]) == (2, 1, 2)
    kept = {batch["batch_id"]: batch["filters"] for page in await pages(http, "/memory/batches") for batch in page}
    assert kept == {
        both["batch_id"]: more | {"created_before": "2999-01-01T00:00:00+00:00", "not_kept": ["metadata", "q"]},
        one["batch_id"]: {"user_id": "ben", "category": "tasks", "not_kept": ["metadata", "q"]},
        words["batch_id"]: {"not_kept": ["q"]},
    }
    assert (await http.post("/users/maya/erase")).status_code == 200
    tenant = caller.scope.tenant_id
    rows = "SELECT string_agg(to_jsonb(b)::text, ' ') AS said FROM memory_batches b WHERE tenant_id = $1"
    [batches] = await sql(database, rows, tenant)
    assert batches["said"].count("not_kept") == 4, "the tags of a batch that was over maya too go with her"
    for word in ("divorce", "lawyer", "Stern", "maya"):
        assert word not in batches["said"]
    undone = (await http.post(f"/memory/batches/{both['batch_id']}/undo")).json()
    assert (undone["matched"], undone["skipped"]) == (1, {"changed": 1}), "ben's memory has changed since"
