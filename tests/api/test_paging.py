"""Keyset pages of lists and histories: every row appears once, even if rows are written between two pages."""

import base64
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain.errors import InvalidCursor
from app.domain.paging import decode_cursor
from tests.api.calls import history_of, refused, remember, verdict
from tests.api.cursors import ID, MALFORMED, encoded, pages
from tests.effort import tries


async def many(client: httpx.AsyncClient, count: int, **fields: Any) -> list[str]:
    """Return ids of turns, the oldest first."""
    kind = {"type": "turn", "category": "activity"}
    return [(await remember(client, f"Turn {n}.", **kind | fields))["id"] for n in range(count)]


@pytest.mark.parametrize("limit", [1, 3, 4, 12, 13, 200])
async def test_pages_hold_every_memory_once_newest_first(http: httpx.AsyncClient, limit: int) -> None:
    ids = await many(http, 12)
    found = await pages(http, "/memory", limit=limit)
    assert [m["id"] for page in found for m in page] == ids[::-1]
    assert {len(page) for page in found[:-1]} <= {limit}
    assert 0 < len(found[-1]) <= limit


async def test_rows_of_the_same_instant_are_neither_lost_nor_repeated(http: httpx.AsyncClient) -> None:
    ids = await many(http, 9, created_at="2025-01-01T00:00:00.123456Z")
    found = await pages(http, "/memory", limit=2)
    assert [m["id"] for page in found for m in page] == ids[::-1]


async def test_what_is_written_and_deleted_between_pages_moves_nothing(http: httpx.AsyncClient) -> None:
    ids = await many(http, 10, created_at="2025-01-01")
    imported: list[str] = []

    async def disturb(number: int) -> None:
        await many(http, 2)
        imported.extend(await many(http, 1, created_at="2024-01-01"))
        await http.patch(f"/memory/{ids[number]}", json={"importance": 5})

    found = [m["id"] for page in await pages(http, "/memory", disturb, limit=3) for m in page]
    assert [i for i in found if i in ids] == ids[::-1]
    assert len(found) == len(set(found))
    assert set(found) <= {*ids, *imported}  # the new ones are newer than the first page


async def test_deleting_what_was_seen_or_not_loses_no_other_row(http: httpx.AsyncClient) -> None:
    ids = await many(http, 9)

    async def delete(number: int) -> None:
        if number == 1:
            for memory_id in (ids[8], ids[6], ids[5], ids[0]):
                await http.delete(f"/memory/{memory_id}")

    found = [m["id"] for page in await pages(http, "/memory", delete, limit=3) for m in page]
    assert found == [ids[n] for n in (8, 7, 6, 4, 3, 2, 1)]


async def test_pages_keep_to_their_filters(http: httpx.AsyncClient) -> None:
    odd = await many(http, 5, tags=["odd"], user_id="maya")
    await many(http, 5, tags=["even"], user_id="nadia")
    for params in ({"tag": "odd"}, {"user_id": "maya"}, {"tag": "odd", "type": "turn", "user_id": "maya"}):
        found = await pages(http, "/memory", limit=2, **params)
        assert [m["id"] for page in found for m in page] == odd[::-1]


async def test_an_empty_list_is_one_empty_page(http: httpx.AsyncClient) -> None:
    assert await pages(http, "/memory") == [[]]


@pytest.mark.parametrize("limit", [1, 2, 5, 50])
async def test_history_pages_hold_every_entry_once_newest_first(http: httpx.AsyncClient, limit: int) -> None:
    written = await remember(http)
    url = f"/memory/{written['id']}"
    for number in range(6):
        await http.patch(url, json={"tags": [f"t{number}"]})

    async def disturb(number: int) -> None:
        await http.patch(url, json={"tags": [f"later {number}"]})

    found = [row for page in await pages(http, f"{url}/history", disturb, limit=limit) for row in page]
    tags = [row["meta"]["after"]["tags"] for row in found]
    assert tags == [*([f"t{n}"] for n in range(5, -1, -1)), []]
    whole = await history_of(http, written["id"])
    assert whole[-7:] == found


async def test_a_cursor_of_one_list_is_harmless_in_another(http: httpx.AsyncClient) -> None:
    ids = await many(http, 3)
    cursor = (await http.get("/memory", params={"limit": 1})).json()["next_cursor"]
    for path, params in (("/memory", {"user_id": "nobody"}), (f"/memory/{ids[0]}/history", {}), ("/memory", {})):
        assert (await http.get(path, params=params | {"cursor": cursor})).status_code == 200


async def test_malformed_cursors_are_refused(http: httpx.AsyncClient) -> None:
    written = await remember(http)
    wrong = {}
    for path in ("/memory", f"/memory/{written['id']}/history"):
        for name, cursor in MALFORMED.items():
            response = await http.get(path, params={"cursor": cursor})
            if verdict(response) != (422, "invalid_cursor"):
                wrong[path, name] = response.text
        response = await http.get(path, params={"cursor": "x" * 501})
        refused(response, 422, "invalid_request")
    assert wrong == {}


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
async def test_a_cursor_outside_the_calendar_is_refused(http: httpx.AsyncClient, moment: str) -> None:
    refused(await http.get("/memory", params={"cursor": encoded([moment, ID])}), 422, "invalid_cursor")


@settings(max_examples=tries(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.text(max_size=80), st.binary(max_size=60).map(lambda b: base64.urlsafe_b64encode(b).decode())))
def test_any_text_is_a_cursor_of_ours_or_refused(cursor: str) -> None:
    try:
        position = decode_cursor(cursor)
    except InvalidCursor:
        return
    assert position is not None


@pytest.mark.long
async def test_fuzzed_cursors_never_break_the_server(http: httpx.AsyncClient) -> None:
    await many(http, 3)
    good = (await http.get("/memory", params={"limit": 1})).json()["next_cursor"]
    seen = set()
    for at in range(len(good)):
        for fuzzed in (good[:at] + "A" + good[at + 1 :], good[:at] + good[at + 1 :], good[:at] + "_" + good[at:]):
            seen.add(verdict(await http.get("/memory", params={"cursor": fuzzed})))
    assert seen <= {(200, None), (422, "invalid_cursor")}
