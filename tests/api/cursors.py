"""Reading all pages of a list, and cursors that are none."""

import base64
import json
from typing import Any

import httpx


def encoded(value: Any) -> str:
    """Return the cursor that holds this value."""
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


NOW, ID = "2025-01-01T00:00:00+00:00", "018f0000-0000-7000-8000-000000000000"
MALFORMED = {
    "nothing": "",
    "a word": "next",
    "not base64": "%%%",
    "not ASCII": "é",
    "with a NUL": "\x00",
    "blank": " ",
    "a null": encoded(None),
    "a number": encoded(1),
    "a string": encoded("ab"),
    "too few": encoded([NOW]),
    "too many": encoded([NOW, ID, ID]),
    "no time": encoded(["soon", ID]),
    "a time without zone": encoded(["2025-01-01T00:00:00", ID]),
    "no id": encoded([NOW, "x"]),
    "numbers": encoded([1, 2]),
    "nulls": encoded([None, None]),
    "a list for an id": encoded([NOW, [ID]]),
    "an object for an id": encoded([NOW, {}]),
    "deep": encoded(json.loads("[" * 150 + "]" * 150)),
    "not UTF-8": base64.urlsafe_b64encode(b"\xff\xfe\xfd").decode(),
    "not JSON": base64.urlsafe_b64encode(b"[NaN").decode(),
    "another alphabet": encoded([NOW, ID]) + "+/",
    "cut short": encoded([NOW, ID])[:-7],
}
"""Cursors that no list accepts, by what is wrong."""


async def pages(client: httpx.AsyncClient, path: str, between: Any = None, **params: Any) -> list[list[Any]]:
    """Return all pages; await `between` after each."""
    found: list[list[Any]] = []
    cursor: dict[str, str] = {}
    while len(found) < 100:
        response = await client.get(path, params=params | cursor)
        assert response.status_code == 200, response.text
        page = response.json()
        found.append(page["items"])
        if page["next_cursor"] is None:
            return found
        cursor = {"cursor": page["next_cursor"]}
        if between is not None:
            await between(len(found))
    raise AssertionError("the pages never end")
