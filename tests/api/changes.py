"""Readers of GET /changes, which wait until the transactions of other tests have ended."""

import asyncio
import json
from typing import Any

import httpx

POLLS = 200


async def read_changes(http: httpx.AsyncClient, cursor: str | None = None, **params: Any) -> dict[str, Any]:
    """Return a page of the changes of Maya's memories."""
    given = {"user_id": "maya", "after": cursor, "memory": True} | params
    response = await http.get("/changes", params={k: v for k, v in given.items() if v is not None})
    assert response.status_code == 200, response.text
    return read_page(response)


def read_page(response: httpx.Response) -> dict[str, Any]:
    """Return a page: its events, the memories in them as `items`, and the members of its last line."""
    *events, end = [json.loads(line) for line in response.text.splitlines()]
    return {"events": events, "items": [event["memory"] for event in events if event["memory"]], **end}


async def changed_since(http: httpx.AsyncClient, cursor: str, count: int, **params: Any) -> dict[str, dict[str, Any]]:
    """Return the memories that changed, by id, as soon as they are `count`: older transactions come first."""
    found, _cursor = await follow_changes(http, cursor, count, **params)
    return found


async def follow_changes(
    http: httpx.AsyncClient, cursor: str, count: int, **params: Any
) -> tuple[dict[str, dict[str, Any]], str]:
    """Return what `changed_since` does, and the cursor behind it."""
    found: dict[str, dict[str, Any]] = {}
    for _poll in range(POLLS):
        page = await read_changes(http, cursor, **params)
        found |= {memory["id"]: memory for memory in page["items"]}
        cursor = page["next_cursor"]
        if not page["more"] and len(found) >= count:
            return found, cursor
        await asyncio.sleep(0 if page["more"] else 0.05)
    raise AssertionError(f"{len(found)} of {count} changes")


async def told_since(http: httpx.AsyncClient, cursor: str, count: int, **params: Any) -> list[dict[str, Any]]:
    """Return the events behind the cursor, as soon as they are `count`."""
    for _poll in range(POLLS):
        events: list[dict[str, Any]] = (await read_changes(http, cursor, **params))["events"]
        if len(events) >= count:
            return events
        await asyncio.sleep(0.05)
    raise AssertionError(f"{len(events)} of {count} events")
