"""GET /threads/{id}/turns: a thread replayed in order, page by page."""

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from app.bootstrap import Application
from tests.api.calls import refused, remember, say, verdict
from tests.api.cursors import ID, MALFORMED, NOW, encoded, pages
from tests.factories import Caller, make_caller


async def replayed(client: httpx.AsyncClient, thread: str = "talk", **params: Any) -> list[dict[str, Any]]:
    """Return the turns of all pages."""
    found = await pages(client, f"/threads/{thread}/turns", **params)
    return [turn for page in found for turn in page]


async def test_a_turn_comes_back_as_it_was_said(http: httpx.AsyncClient) -> None:
    content = "First line.\n\n- a list\n- with [M1] and `code`"
    fields = {"metadata": {"k": [1, None]}, "actor_id": "Maya P.", "seq": 3, "created_at": "2025-03-01T10:00:00Z"}
    said = await say(http, content, **fields)
    await remember(http, "Maya lists things.", thread_id="talk", seq=1)
    [turn] = await replayed(http)
    assert turn == fields | {"id": said["id"], "user_id": "maya", "role": "user", "content": content}


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 6, 200])
async def test_turns_come_by_seq_then_by_time_each_once(http: httpx.AsyncClient, limit: int) -> None:
    day = "2025-01-0{}T00:00:00Z"
    order = [
        await say(http, "b", seq=1, created_at=day.format(9)),
        await say(http, "c", seq=2, created_at=day.format(5)),
        await say(http, "d", seq=2, created_at=day.format(6)),
        await say(http, "e", seq=2**62, created_at=day.format(1)),
    ]
    late = [await say(http, "g", created_at=day.format(8)), await say(http, "h", created_at=day.format(8))]
    first, early = await say(http, "a", seq=0), await say(http, "f", created_at=day.format(7))
    expected = [turn["id"] for turn in (first, *order, early, *late)]
    found = await pages(http, "/threads/talk/turns", limit=limit)
    assert [turn["id"] for page in found for turn in page] == expected
    assert {len(page) for page in found[:-1]} <= {limit}
    assert 0 < len(found[-1]) <= limit


async def test_turns_written_or_deleted_between_pages_move_no_other(http: httpx.AsyncClient) -> None:
    ids = [(await say(http, f"Turn {n}.", seq=10 * n))["id"] for n in range(8)]

    async def disturb(number: int) -> None:
        await say(http, f"Inserted before, {number}.", seq=5)
        if number == 1:
            await http.delete(f"/memory/{ids[0]}")
            await http.delete(f"/memory/{ids[2]}")
            await http.delete(f"/memory/{ids[5]}")

    found = [turn["id"] for page in await pages(http, "/threads/talk/turns", disturb, limit=3) for turn in page]
    assert found == [ids[n] for n in (0, 1, 2, 3, 4, 6, 7)]


async def test_only_active_turns_of_the_thread_are_replayed(http: httpx.AsyncClient) -> None:
    kept, gone = await say(http, "Kept."), await say(http, "Gone.")
    await say(http, "Elsewhere.", thread_id="talk 2")
    for kind in ("episodic", "summary", "chunk"):
        await remember(http, f"A {kind} of the talk.", type=kind, category="event", thread_id="talk")
    await http.delete(f"/memory/{gone['id']}")
    assert [turn["id"] for turn in await replayed(http)] == [kept["id"]]
    assert await replayed(http, "nothing here") == []


async def test_threads_of_two_users_with_one_name_stay_apart(http: httpx.AsyncClient) -> None:
    own = [(await say(http, f"Maya {n}.", seq=n))["id"] for n in range(3)]
    bens = [(await say(http, f"Ben {n}.", seq=n, user_id="ben"))["id"] for n in range(3)]
    for limit in (1, 2, 50):
        assert [turn["id"] for turn in await replayed(http, user_id="maya", limit=limit)] == own
        assert [turn["id"] for turn in await replayed(http, user_id="ben", limit=limit)] == bens
        every = await replayed(http, limit=limit)
        assert [turn["seq"] for turn in every] == [0, 0, 1, 1, 2, 2]
        assert {turn["id"] for turn in every} == {*own, *bens}
        assert [turn["id"] for turn in every if turn["user_id"] == "ben"] == bens
    assert await replayed(http, user_id="nobody") == []


@pytest.mark.parametrize("thread", ["a/b", "a/turns", "delta", "x/delta", "été ☕", "..", "a?b#c"])
async def test_any_name_of_a_thread_is_found(http: httpx.AsyncClient, thread: str) -> None:
    said = await say(http, "Hello.", thread_id=thread)
    quoted = quote(thread, safe="").replace(".", "%2E")
    found = (await http.get(f"/threads/{quoted}/turns")).json()
    assert [turn["id"] for turn in found["items"]] == [said["id"]]


async def test_a_bound_key_and_another_tenant_see_no_turn_of_others(
    app: Application, server: str, http: httpx.AsyncClient, caller: Caller
) -> None:
    said = await say(http, "Maya is in distress.")
    planner = await make_caller(app, ["query"], ["planner"], tenant=caller)
    supervisor = await make_caller(app, ["query"], ["supervisor"], tenant=caller)
    writer, other = await make_caller(app, ["write"], tenant=caller), await make_caller(app)
    for who, seen in ((planner, []), (supervisor, [said["id"]]), (other, [])):
        async with who.client(server) as client:
            for params in ({}, {"user_id": "maya"}):
                assert [turn["id"] for turn in await replayed(client, **params)] == seen
    async with writer.client(server) as client:
        refused(await client.get("/threads/talk/turns"), 403, "scope_required")


@pytest.mark.long
async def test_bad_parameters_and_cursors_are_refused(http: httpx.AsyncClient) -> None:
    await say(http)
    path = "/threads/talk/turns"
    for params in ({"limit": 0}, {"limit": 201}, {"limit": "x"}, {"user_id": ""}, {"cursor": "x" * 501}, {"top": 1}):
        refused(await http.get(path, params=params), 422, "invalid_request")
    cursors = MALFORMED | {
        "a cursor of another list": encoded([NOW, ID]),
        "a seq that is a number": encoded([1, NOW, ID]),
        "a negative seq": encoded(["-1", NOW, ID]),
        "a seq that is too large": encoded([str(2**62 + 1), NOW, ID]),
        "a seq of many digits": encoded(["9" * 200, NOW, ID]),
        "a seq in other digits": encoded(["١", NOW, ID]),
        "a time outside the calendar": encoded(["1", "9999-12-31T23:59:59-14:00", ID]),
        "a seq but no time": encoded(["1", None, ID]),
    }
    answers = {name: verdict(await http.get(path, params={"cursor": cursor})) for name, cursor in cursors.items()}
    assert {name: answer for name, answer in answers.items() if answer != (422, "invalid_cursor")} == {}
    for seq in ("", "0", str(2**62)):
        assert (await http.get(path, params={"cursor": encoded([seq, NOW, ID])})).status_code == 200
