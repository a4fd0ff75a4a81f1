"""GET /memory: words, several types and categories, metadata, dates and orders, with cursors for each."""

import random
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from app.bootstrap import Application
from tests.api.calls import refused, remember, say, sql, verdict
from tests.api.cursors import MALFORMED, encoded, pages
from tests.conftest import Database
from tests.factories import Caller, make_caller

SORTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "created_at": lambda m: (m["created_at"], m["id"]),
    "updated_at": lambda m: (m["updated_at"], m["id"]),
    "importance": lambda m: (m["importance"], m["created_at"], m["id"]),
}
ORDERS = [(sort, order) for sort in SORTS for order in ("desc", "asc")]


async def found(client: httpx.AsyncClient, **params: Any) -> list[dict[str, Any]]:
    """Return the memories of all pages."""
    return [memory for page in await pages(client, "/memory", **params) for memory in page]


async def texts_of(client: httpx.AsyncClient, **params: Any) -> set[str]:
    return {memory["text"] for memory in await found(client, **params)}


VENUE, PRESS, BAND = "Maya books the venue.", "Maya invites the press.", "Ben books the band for the venue."


@pytest.fixture
async def three(http: httpx.AsyncClient) -> httpx.AsyncClient:
    """Return a client of a tenant with three memories of two users and a chunk."""
    await remember(http, VENUE, category="tasks", metadata={"source": "import", "n": 3, "done": True})
    await remember(http, PRESS, category="goals", type="episodic", metadata={"source": "import", "n": "3"})
    await remember(http, BAND, category="event", user_id="ben", metadata={"source": "web: form"})
    return http


async def test_words_filter_a_list(three: httpx.AsyncClient) -> None:
    asked = {
        "venue": {VENUE, BAND},
        "booking VENUES": {VENUE, BAND},
        "venue band": {BAND},
        '"books the venue"': {VENUE},
        "press or band": {PRESS, BAND},
        "venue -band": {VENUE},
        "-venue": {PRESS},
        "maya the": {VENUE, PRESS},
        "the": set(),
        "nothing": set(),
        "' \\ & | ! ( ) :* <->": set(),
    }
    assert {q: await texts_of(three, q=q) for q in asked} == asked
    assert await texts_of(three, q="venue", user_id="ben") == {BAND}
    assert await texts_of(three, q="venue", user_id="nobody") == set()
    assert await texts_of(three, user_id="nobody") == set()
    assert await texts_of(three, q="venue", category="tasks") == {VENUE}


async def test_words_find_deleted_memories_and_chunks_of_their_state(three: httpx.AsyncClient) -> None:
    chunk = "The venue has a stage."
    await remember(three, chunk, category="knowledge", type="chunk", user_id="ben")
    assert await texts_of(three, q="stage") == {chunk}
    assert await texts_of(three, q="venue", user_id="ben", type="chunk") == {chunk}
    [venue] = await found(three, q="venue", category="tasks")
    assert (await three.delete(f"/memory/{venue['id']}")).status_code == 200
    assert await texts_of(three, q="venue") == {BAND, chunk}
    assert await texts_of(three, q="venue", state="soft_deleted") == {VENUE}


async def test_several_types_and_categories_are_alternatives(three: httpx.AsyncClient) -> None:
    assert await texts_of(three, category=["tasks", "goals"]) == {VENUE, PRESS}
    assert await texts_of(three, category=["tasks", "goals"], type=["episodic", "turn"]) == {PRESS}
    assert await texts_of(three, type=["episodic"]) == {PRESS}
    assert await texts_of(three, type=["episodic", "semantic"]) == {VENUE, PRESS, BAND}


async def test_metadata_matches_texts_numbers_and_words(three: httpx.AsyncClient) -> None:
    asked: dict[str, set[str]] = {
        "source:import": {VENUE, PRESS},
        "n:3": {VENUE, PRESS},
        "n:3.0": {VENUE},
        "n:4": set(),
        "done:true": {VENUE},
        "done:false": set(),
        "source:web: form": {BAND},
        "source:": set(),
        "source:imp": set(),
    }
    assert {pair: await texts_of(three, metadata=pair) for pair in asked} == asked
    assert await texts_of(three, metadata=["source:import", "done:true"]) == {VENUE}
    assert await texts_of(three, metadata=["source:import", "done:true"], q="press") == set()


async def test_dates_of_creation_are_half_open(http: httpx.AsyncClient) -> None:
    days = [f"2025-03-0{day}" for day in range(1, 5)]
    for day in days:
        await remember(http, f"Maya marks {day}.", category="tasks", created_at=day)
    between = await found(http, created_after=days[1], created_before=days[3])
    assert [memory["created_at"][:10] for memory in between] == [days[2], days[1]]
    refused(
        await http.get("/memory", params={"created_after": days[1], "created_before": days[0]}), 422, "invalid_request"
    )


async def memories_in_disorder(http: httpx.AsyncClient, database: Database, caller: Caller) -> None:
    """Store memories whose times and importance are in different orders, with many that are equal."""
    for number in range(14):
        await remember(http, f"Maya labels crate {number}.", category="tasks", importance=1 + number % 3)
    shuffled = random.Random(7)
    for row in await sql(database, "SELECT id FROM memories WHERE tenant_id = $1", caller.scope.tenant_id):
        await sql(
            database,
            "WITH c AS (SELECT set_config('session_replication_role', 'replica', false)) UPDATE memories SET "
            "created_at = '2025-01-01'::timestamptz + $2 * interval '1 day', updated_at = '2025-02-01'::timestamptz "
            "+ $3 * interval '1 day' FROM c WHERE id = $1",
            row["id"],
            shuffled.randrange(4),
            shuffled.randrange(4),
        )


@pytest.mark.long
@pytest.mark.parametrize("words", [None, "crate"])
async def test_every_order_has_keyset_pages(
    http: httpx.AsyncClient, database: Database, caller: Caller, words: str | None
) -> None:
    await memories_in_disorder(http, database, caller)
    every = await found(http)
    params = {} if words is None else {"q": words}
    for sort, order in ORDERS:
        expected = [m["id"] for m in sorted(every, key=SORTS[sort], reverse=order == "desc")]
        for limit in (1, 3, 14, 50):
            listed = await found(http, sort=sort, order=order, limit=limit, **params)
            assert [m["id"] for m in listed] == expected, (sort, order, limit)


@pytest.mark.parametrize(("sort", "order"), ORDERS)
async def test_cursors_of_an_order_are_checked(http: httpx.AsyncClient, sort: str, order: str) -> None:
    for number in range(2):
        await remember(http, f"Maya labels crate {number}.", category="tasks")
    for name, cursor in MALFORMED.items():
        answer = verdict(await http.get("/memory", params={"sort": sort, "order": order, "cursor": cursor}))
        assert answer == (422, "invalid_cursor"), name
    good = (await http.get("/memory", params={"sort": sort, "order": order, "limit": 1})).json()["next_cursor"]
    for other, direction in ORDERS:
        answered = verdict(await http.get("/memory", params={"sort": other, "order": direction, "cursor": good}))
        assert (answered == (200, None)) == ((other, direction) == (sort, order))


async def test_forged_cursors_are_refused(http: httpx.AsyncClient) -> None:
    now, id_ = "2025-01-01T00:00:00+00:00", "018f0000-0000-7000-8000-000000000000"
    far = "0001-01-01T00:00:00+14:00"
    for parts in (
        ["importance desc", "6", now, id_],
        ["importance desc", "1' OR '1", now, id_],
        ["importance desc", 1, now, id_],
        ["importance desc", "1", far, id_],
        ["importance desc", "1", now, "x"],
        ["updated_at desc", far, now, id_],
        ["updated_at desc", "2025", far, id_],
        ["updated_at desc", None, now, id_],
    ):
        params = {"sort": str(parts[0]).split()[0], "cursor": encoded(parts)}
        refused(await http.get("/memory", params=params), 422, "invalid_cursor")


async def test_a_memory_that_changes_meanwhile_is_listed_once_by_creation(http: httpx.AsyncClient) -> None:
    ids = [(await remember(http, f"Maya labels crate {n}.", category="tasks"))["id"] for n in range(6)]

    async def disturb(number: int) -> None:
        await http.patch(f"/memory/{ids[number]}", json={"importance": 5})

    listed = [m["id"] for page in await pages(http, "/memory", disturb, limit=2, order="asc") for m in page]
    assert listed == ids


async def test_a_bound_key_finds_no_word_of_a_hidden_category(app: Application, server: str, caller: Caller) -> None:
    bound = await make_caller(app, ["query"], ["planner"], tenant=caller)
    async with caller.client(server) as admin, bound.client(server) as planner:
        await remember(admin, VENUE, category="tasks", metadata={"k": "v"})
        await remember(admin, PRESS, category="relationships", metadata={"k": "v"})
        for params in ({"q": "maya"}, {"metadata": "k:v"}, {"sort": "importance"}, {"type": ["semantic", "turn"]}):
            assert await texts_of(planner, **params) == {VENUE}
        for named in (["relationships"], ["tasks", "relationships"]):
            problem = refused(await planner.get("/memory", params={"category": named}), 403, "category_not_allowed")
            assert problem["categories"] == ["relationships"]


async def test_two_tenants_find_their_own_words(app: Application, server: str, caller: Caller) -> None:
    other = await make_caller(app)
    async with caller.client(server) as one, other.client(server) as two:
        await remember(one, VENUE, category="tasks")
        await remember(two, BAND, category="tasks", user_id="maya")
        for client, text in ((one, VENUE), (two, BAND)):
            assert await texts_of(client, q="venue") == {text}
            assert await texts_of(client, q="venue", user_id="maya") == {text}
            assert await texts_of(client, q="-nothing") == {text}
        for mark in (f"_t{other.scope.tenant_id.hex}", "_u1", "_u2", f"venue or _t{other.scope.tenant_id.hex}"):
            assert BAND not in await texts_of(one, q=mark)


async def test_turns_are_found_by_their_words(http: httpx.AsyncClient) -> None:
    await say(http, "Shall we meet at the harbour?", thread_id="talk")
    assert await texts_of(http, q="harbour", thread_id="talk", type=["turn"]) == {"Shall we meet at the harbour?"}
    assert await texts_of(http, q="harbour", thread_id="other") == set()
