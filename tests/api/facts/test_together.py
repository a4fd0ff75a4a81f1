"""Many clients that state and correct one user's list at once, over HTTP: the latest statement wins everywhere."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise, permutations
from random import Random
from typing import Any

import httpx
import pytest

from tests.api.calls import ask, delta, sql
from tests.conftest import Database
from tests.factories import Caller

CLIENTS, EACH = 16, 6
TOPIC = "favorite_colors"
PLACE = {"user_id": "maya", "thread_id": "talk"}
START = datetime.now(UTC) - timedelta(days=1)


@dataclass(frozen=True)
class Said:
    """A statement: a whole list, or a value at a `rank`; and the way in which it is sent."""

    way: str
    at: datetime
    values: tuple[str, ...]
    rank: int | None = None

    def request(self) -> tuple[str, dict[str, Any]]:
        """Return the path and the body."""
        text, at = f"My favorite colors are {', '.join(self.values[:-1])} and {self.values[-1]}.", self.at.isoformat()
        if self.rank is not None:
            fact = {"topic_key": TOPIC, "rank": self.rank, "value": self.values[0]}
            if self.way == "value":
                return "/facts/store", fact | {"user_id": "maya", "chat_id": "talk", "created_at": at}
            return "/facts", PLACE | {"facts": [fact], "created_at": at}
        if self.way == "turn":
            return "/turns", PLACE | {"role": "user", "content": text, "created_at": at}
        if self.way == "message":
            message = {"chat_id": "talk", "message_id": at, "role": "user", "content": text, "timestamp": at}
            return "/index-chat-message", message | {"user_id": "maya"}
        return "/facts", PLACE | {"text": text, "created_at": at}


def statements(chance: Random) -> list[Said]:
    """Return statements in random order, each with values and a time of its own."""
    made = []
    for number in range(CLIENTS * EACH):
        at = START + timedelta(minutes=number)
        if chance.random() < 0.4:
            made.append(Said(chance.choice(("value", "given")), at, (f"one{number}",), chance.randint(1, 5)))
        else:
            values = tuple(
                f"{word}{number}" for word in ("red", "blue", "teal", "pink", "grey")[: chance.randint(2, 5)]
            )
            made.append(Said(chance.choice(("turn", "message", "text", "turn")), at, values))
    chance.shuffle(made)
    return made


def expected_of(said: list[Said]) -> dict[int, str]:
    """Return the values by rank after the statements in the order of their times."""
    values: dict[int, str] = {}
    for one in sorted(said, key=lambda one: one.at):
        if one.rank is None:
            values = dict(enumerate(one.values, 1))
        else:
            values[one.rank] = one.values[0]
    return dict(sorted(values.items()))


async def speak(client: httpx.AsyncClient, said: list[Said]) -> None:
    for one in said:
        path, content = one.request()
        response = await client.post(path, json=content)
        assert response.status_code == 201, response.text


async def history(client: httpx.AsyncClient, fact_id: str) -> list[dict[str, Any]]:
    """Return a fact's history, the oldest entry first."""
    response = await client.get(f"/facts/{fact_id}/history", params={"limit": 200})
    assert response.status_code == 200, response.text
    rows: list[dict[str, Any]] = response.json()["items"][::-1]
    return rows


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_the_latest_statement_of_many_clients_wins_everywhere(
    server: str, caller: Caller, database: Database, seed: int
) -> None:
    said = statements(Random(seed))
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        clients = [await stack.enter_async_context(caller.client(server)) for _ in range(CLIENTS)]
        for number, client in enumerate(clients):
            group.create_task(speak(client, said[number::CLIENTS]))
    async with caller.client(server) as client:
        expected = expected_of(said)
        await check_reads(client, expected)
        rows = await sql(database, "SELECT id, kind, rank, removed_at FROM facts ORDER BY rank")
        assert len({(row["kind"], row["rank"]) for row in rows}) == len(rows), "one row for each rank"
        assert [row["rank"] for row in rows if row["removed_at"] is None] == list(expected)
        changes = 0
        for row in rows:
            changes += await check_history(client, str(row["id"]), removed=row["removed_at"] is not None)
        [stored] = await sql(database, "SELECT count(*) FROM history h JOIN facts f ON f.id::text = h.memory_id")
        assert changes == stored["count"]
        turns = sum(one.way in ("turn", "message") for one in said)
        assert (await delta(client, "talk"))["rev"] == changes + turns


async def check_reads(client: httpx.AsyncClient, expected: dict[int, str]) -> None:
    """Check the list, each rank, and the answers of /facts/answer and memory.query."""
    items = (await client.get("/facts", params={"user_id": "maya"})).json()["items"]
    assert {(item["topic_key"], item["thread_id"]) for item in items} == {(TOPIC, "talk")}
    assert {item["rank"]: item["value"] for item in items} == expected
    for rank, value in expected.items():
        assert (await client.get(f"/facts/{TOPIC}/{rank}", params=PLACE)).json()["value"] == value
    text = f"Your favorite colors are {', '.join(f'{rank}) {value}' for rank, value in expected.items())}."
    question = "What are my favorite colors?"
    assert (await client.post("/facts/answer", json=PLACE | {"query": question})).json()["text"] == text
    assert (await ask(client, question, thread_id="talk"))["fact_answer"]["text"] == text


async def check_history(client: httpx.AsyncClient, fact_id: str, *, removed: bool) -> int:
    """Check that each change starts where the one before ended, and the last is the fact; return their number."""
    rows = await history(client, fact_id)
    assert rows[0]["event"] == "ADD"
    assert "before" not in rows[0]["meta"]
    for before, after in pairwise(row["meta"] for row in rows):
        assert after["before"] == before["after"]
    times = [row["meta"]["after"]["created_at"] for row in rows]
    assert times == sorted(times), "an older statement changed a fact"
    assert ("removed_at" in rows[-1]["meta"]["after"]) is removed
    if not removed:
        shown = (await client.get(f"/facts/{fact_id}")).json()
        assert {name: rows[-1]["meta"]["after"][name] for name in ("value", "rank")} == {
            name: shown[name] for name in ("value", "rank")
        }
    return len(rows)


CORRECTED = [
    Said("text", START + timedelta(minutes=1), ("one", "two", "three", "four", "five")),
    Said("given", START + timedelta(minutes=2), ("old",), 4),
    Said("text", START + timedelta(minutes=3), ("red", "blue")),
    Said("given", START + timedelta(minutes=4), ("teal",), 1),
    Said("given", START + timedelta(minutes=5), ("pink",), 2),
]
SHORTENED = [
    Said("text", START + timedelta(minutes=1), ("one", "two", "three", "four")),
    Said("text", START + timedelta(minutes=2), ("red", "blue")),
    Said("given", START + timedelta(minutes=3), ("late",), 4),
    Said("text", START + timedelta(minutes=4), ("teal", "pink")),
]


@pytest.mark.long
@pytest.mark.parametrize("said", [CORRECTED, SHORTENED])
async def test_the_order_of_arrival_does_not_matter(http: httpx.AsyncClient, said: list[Said]) -> None:
    """A corrected list still ends where it ended, whenever an older one arrives."""
    wrong = {}
    for number, order in enumerate(permutations(said)):
        user = {"user_id": f"user-{number}"}
        for one in order:
            path, content = one.request()
            assert (await http.post(path, json=content | user)).status_code == 201
        items = (await http.get("/facts", params=user)).json()["items"]
        if (found := {item["rank"]: item["value"] for item in items}) != {1: "teal", 2: "pink"}:
            wrong[str([said.index(one) for one in order])] = found
    assert wrong == {}
