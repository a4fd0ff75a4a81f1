"""Lines that are written together get the same answers as lines written one by one, with the real model."""

import json
from typing import Any

import httpx

from app.bootstrap import Application
from tests.api.calls import remember, settled_counts
from tests.conftest import Database
from tests.factories import body, make_caller

SAID = [
    "Maya likes oat milk.",
    "maya likes OAT milk",
    "Ben sails on Sundays.",
    "The rent is due on the first of the month.",
    "Maya likes oat milk in her coffee.",
    "Ben does not sail on Sundays.",
    "Sundays: Ben sails.",
    "Maya prefers tea to coffee.",
]


async def test_lines_of_one_request_are_written_as_one_after_the_other_would_be(
    http: httpx.AsyncClient, app: Application, server: str, database: Database
) -> None:
    lines = [json.dumps(body(text, thread_id="t")) for text in SAID]
    response = await http.post("/memory/bulk", content="\n".join(lines))
    together: list[dict[str, Any]] = [json.loads(answer) for answer in response.text.splitlines()]
    other = await make_caller(app)
    async with other.client(server) as client:
        alone = [await remember(client, text, thread_id="t") for text in SAID]
    for name in ("action", "related", "revision"):
        assert [answer.get(name) for answer in together] == [answer.get(name) for answer in alone], name
    assert [ids(together).index(a["id"]) for a in together] == [ids(alone).index(a["id"]) for a in alone]
    counts = await settled_counts(http, database)
    written = ("memories", "history", "change_log", "relations", "events", "vec_minilm_l6_v2")
    assert all(counts[table] and counts[table] % 2 == 0 for table in written), counts


def ids(answers: list[dict[str, Any]]) -> list[str]:
    """Return the ids without duplicates, in order."""
    return list(dict.fromkeys(answer["id"] for answer in answers))
