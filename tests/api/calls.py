"""Shared helpers for the tests of the HTTP API: calls, checks of refusals, and reads of the database."""

import json
from collections.abc import Mapping
from typing import Any

import asyncpg
import httpx

from tests.conftest import Database
from tests.factories import body

PROBLEM = "application/problem+json"


async def remember(client: httpx.AsyncClient, text: str = "Maya drinks oat milk.", **fields: Any) -> dict[str, Any]:
    """Write a memory; return the answer."""
    response = await client.post("/memory", json=body(text, **fields))
    assert response.status_code == 201, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def say(client: httpx.AsyncClient, content: str = "Shall we talk on Friday?", **fields: Any) -> dict[str, Any]:
    """Store a turn; return the answer."""
    turn = {"user_id": "maya", "thread_id": "talk", "role": "user", "content": content} | fields
    response = await client.post("/turns", json=turn)
    assert response.status_code == 201, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def propose(
    client: httpx.AsyncClient, value: str = "Lisbon", field: str = "city", **fields: Any
) -> dict[str, Any]:
    """Propose a value of maya's, or of another `user`; return the answer."""
    path = f"/users/{fields.pop('user', 'maya')}/context/patches"
    response = await client.post(path, json={"field": field, "value": value} | fields)
    assert response.status_code == 201, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def edit_matching(client: httpx.AsyncClient, filters: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Edit all memories that match; return the answer."""
    response = await client.post("/memory/batches", json={"filters": filters, "action": "edit", "set": changes})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def add_source(client: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    """Add a source of uploads, or a folder if `root_path` is given; return the answer."""
    response = await client.post("/sources", json=fields)
    assert response.status_code == 201, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def upload(
    client: httpx.AsyncClient, source_id: str, path: str = "guides/launch.md", content: bytes = b"# Launch\n\nIn May.\n"
) -> dict[str, Any]:
    """Upload a file; return the answer."""
    response = await client.post(f"/sources/{source_id}/files", params={"path": path}, content=content)
    assert response.status_code in (200, 202), response.text
    answer: dict[str, Any] = response.json()
    return answer


async def ask(client: httpx.AsyncClient, query: str = "oat milk", **fields: Any) -> dict[str, Any]:
    """Query as the supervisor about maya, unless the fields name others; return the answer.

    Nothing is left out as irrelevant by default, because the texts of tests seldom answer their questions. Bullets have
    no day.
    """
    request = {
        "agent": "supervisor",
        "query": query,
        "filters": {"user_id": "maya"},
        "min_relevance": 0.0,
        "dates": False,
    } | fields
    response = await client.post("/memory/query", json=request)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def delta(client: httpx.AsyncClient, thread: str, **params: Any) -> dict[str, Any]:
    """Return a thread's delta."""
    response = await client.get(f"/threads/{thread}/delta", params=params)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def listed(client: httpx.AsyncClient, **params: Any) -> list[dict[str, Any]]:
    """Return one page of memories."""
    response = await client.get("/memory", params=params)
    assert response.status_code == 200, response.text
    items: list[dict[str, Any]] = response.json()["items"]
    return items


async def history_of(client: httpx.AsyncClient, memory_id: str) -> list[dict[str, Any]]:
    """Return a memory's history, newest first."""
    response = await client.get(f"/memory/{memory_id}/history")
    assert response.status_code == 200, response.text
    items: list[dict[str, Any]] = response.json()["items"]
    return items


def texts(answer: Mapping[str, Any], part: str = "items") -> list[str]:
    """Return the texts of an answer's items, without their `[category]`."""
    return [item["text"].split("] ", 1)[-1] for item in answer[part]]


def refused(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Check that the response is this problem; return its body."""
    assert (response.status_code, response.headers["content-type"]) == (status, PROBLEM), response.text
    problem: dict[str, Any] = response.json()
    assert (problem["status"], problem["code"]) == (status, code), problem
    assert problem["request_id"] == response.headers["X-Request-ID"]
    assert {"type", "title", "detail"} <= problem.keys()
    return problem


def verdict(response: httpx.Response) -> tuple[int, str | None]:
    """Return status and code, for tables; the code is None if the error is not a problem document."""
    if response.headers.get("content-type") != PROBLEM:
        return response.status_code, None
    problem = response.json()
    whole = problem["status"] == response.status_code and problem["request_id"] == response.headers["X-Request-ID"]
    return response.status_code, problem["code"] if whole else None


async def send(client: httpx.AsyncClient, content: Any, path: str = "/memory", method: str = "POST") -> httpx.Response:
    """Send a JSON body unchanged: text, bytes, or an object that is encoded without checks (NaN, lone surrogates)."""
    raw = content if isinstance(content, str | bytes) else json.dumps(content)
    return await client.request(method, path, content=raw, headers={"Content-Type": "application/json"})


async def sql(database: Database, statement: str, *args: Any) -> list[asyncpg.Record]:
    """Return rows as the superuser sees them."""
    connection = await asyncpg.connect(database.superuser)
    try:
        rows: list[asyncpg.Record] = await connection.fetch(statement, *args)
        return rows
    finally:
        await connection.close()


async def row_counts(database: Database) -> dict[str, int]:
    """Return the number of rows of each table."""
    tables = await sql(
        database,
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') ORDER BY 1",
    )
    counted = " UNION ALL ".join(f"SELECT '{t['relname']}', count(*) FROM {t['relname']}" for t in tables)
    return dict(await sql(database, counted))


async def settled_counts(client: httpx.AsyncClient, database: Database) -> dict[str, int]:
    """Return the row counts after this server has written its pending events, which it does in batches."""
    assert (await client.get("/events/counts")).status_code == 200
    return await row_counts(database)


NO_MODEL = {"capture": {"why": "nothing"}, "reflect": {"why": "no_model"}}
"""The part about facts in the report of an `after_turn` job without a chat model."""
