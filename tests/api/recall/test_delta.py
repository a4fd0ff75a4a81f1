"""The delta header: its exact form, its cursors, and the delta of a thread (`docs/contract.md`, Delta header)."""

import asyncio
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import httpx
import pytest

from app.bootstrap import Application
from tests.api.calls import ask, delta, remember, sql
from tests.conftest import Database
from tests.factories import Caller, make_caller

THREADS = ["launch", "a/b/c", "/", "//", "a/delta", "two words", "tabs? #1 & 100%", "Küche-日本-🦉", "..", "x" * 200]


async def test_a_new_memory_is_told_in_the_form_of_the_seed(http: httpx.AsyncClient) -> None:
    await remember(http, "Preferred name is Ana", category="profile", thread_id="launch")
    assert (await delta(http, "launch"))["header"] == (
        "Memory updates since rev 0:\n- +created: [Profile] Preferred name is Ana (imp=2)"
    )


@pytest.mark.long
async def test_every_sign_in_the_form_of_the_seed(http: httpx.AsyncClient, database: Database) -> None:
    written = await remember(http, "Ship v1 by Sep", category="relationship_dynamic", thread_id="t", importance=4)
    url = f"/memory/{written['id']}"
    await http.patch(url, json={"text": "Ship v1 by Oct"})
    await http.delete(url)
    await http.post(f"{url}/restore")
    await http.delete(url, params={"purge": True})
    other = await remember(http, "Ana is intolerant to lactose", category="goals")
    await sql(
        database,
        """WITH t AS (UPDATE thread_revision SET rev = 6 RETURNING tenant_id)
        INSERT INTO change_log (tenant_id, id, thread_id, rev, memory_id, event, category_before, category_after, meta)
        SELECT tenant_id, $1, 't', 6, $2, 'merged', 'goals', 'goals', $3::jsonb FROM t""",
        uuid4(),
        other["id"],
        '{"text": "lactose intolerance", "importance": 1, "combined": 2}',
    )
    lines = [(await delta(http, "t", since_rev=rev))["header"].splitlines()[1:] for rev in range(6)]
    latest = "- ↔merged: Combined 2 notes about Ana is intolerant to lactose"
    removed = "- −deleted: [Relationship Dynamic]"
    gone = [removed, latest]
    assert lines == [
        [latest],
        gone,
        gone,
        [latest],
        gone,
        [latest],
    ]  # an agent that saw the memory sees its removal once


async def test_of_two_users_with_threads_of_one_name_each_is_told_of_its_own(http: httpx.AsyncClient) -> None:
    await remember(http, "The bike lock of Ana opens at 4711.", user_id="ana", category="goals", thread_id="main")
    await remember(http, "Ben paints the shed.", user_id="ben", category="goals", thread_id="main")
    of_ben = await ask(http, "lock", categories=["goals"], filters={"user_id": "ben"}, thread_id="main", since_rev=0)
    assert of_ben["header"] == "Memory updates since rev 0:\n- +created: [Goals] Ben paints the shed. (imp=2)"
    assert (of_ben["delta"]["rev"], of_ben["delta"]["more"]) == (2, 0)
    assert "4711" not in str(await delta(http, "main", user_id="ben"))
    assert len((await delta(http, "main"))["header"].splitlines()) == 3


async def test_signs_of_changes_that_leave_the_text(http: httpx.AsyncClient) -> None:
    written = await remember(http, "Ship v1 by Sep", category="goals", thread_id="t")
    url = f"/memory/{written['id']}"
    await http.patch(url, json={"text": "Ship v1 by Oct"})
    await http.delete(url)
    await http.post(f"{url}/restore")
    lines = [(await delta(http, "t", since_rev=rev))["header"].splitlines() for rev in range(4)]
    assert lines == [
        ["Memory updates since rev 0:", "- +created: [Goals] Ship v1 by Oct (imp=2)"],
        ["Memory updates since rev 1:", "- ↑updated: [Goals] Ship v1 by Oct"],
        [],  # a removal that was undone is no change
        ["Memory updates since rev 3:", "- ↺restored: [Goals] Ship v1 by Oct"],
    ]


async def test_a_memory_that_came_and_went_is_told_to_nobody_who_was_away(http: httpx.AsyncClient) -> None:
    await remember(http, "Ship v1 by Sep", category="goals", thread_id="t", type="episodic")
    secret = await remember(http, "The safe opens at 4711", category="goals", thread_id="t", importance=5)
    url = f"/memory/{secret['id']}"
    await http.patch(url, json={"text": "The safe opens at 4712"})
    await http.delete(url)
    shown = "Memory updates since rev 0:\n- +created: [Goals] Ship v1 by Sep (imp=2)"
    found = await delta(http, "t", since_rev=0)
    assert (found["header"], found["more"], found["rev"]) == (shown, 0, 4)
    assert (await delta(http, "t", since_rev=1))["header"] == ""
    assert (await ask(http, agent="planner", thread_id="t"))["header"] == shown
    await http.post(f"{url}/restore")
    await http.delete(url)
    assert (await delta(http, "t", since_rev=4))["header"] == ""
    assert (await delta(http, "t", since_rev=0))["header"] == shown


async def test_a_memory_that_went_is_told_once_and_with_no_text_that_is_news(
    http: httpx.AsyncClient, database: Database
) -> None:
    written = await remember(http, "The safe opens at 4711", category="goals", thread_id="t")
    url = f"/memory/{written['id']}"
    await http.patch(url, json={"text": "The safe opens at 4712"})
    await http.delete(url)
    lines = [(await delta(http, "t", since_rev=rev))["header"].splitlines()[1:] for rev in (1, 2)]
    assert lines == [["- ~soft_deleted: [Goals]"], ["- ~soft_deleted: [Goals] The safe opens at 4712"]]
    await sql(database, "DELETE FROM change_log WHERE rev <= 2")
    found = await delta(http, "t", since_rev=0)  # the entries that would show an earlier creation are gone
    assert (found["header"].splitlines()[1:], found["truncated"]) == (["- ~soft_deleted: [Goals]"], True)


async def test_a_thread_that_was_not_told_of_the_end_of_a_memory_tells_nothing_of_it(http: httpx.AsyncClient) -> None:
    written = await remember(http, "Maya drinks oat milk.", thread_id="home")
    await remember(http, "Maya drinks oat milk!", thread_id="away")
    assert "oat milk!" in (await delta(http, "away"))["header"]
    await http.delete(f"/memory/{written['id']}")
    assert (await delta(http, "away"))["header"] == ""
    assert (await delta(http, "home"))["header"] == ""


async def test_at_most_three_bullets_the_most_important_first_then_the_latest(http: httpx.AsyncClient) -> None:
    for number, importance in enumerate([2, 5, 1, 3, 3, 1]):
        await remember(http, f"Fact number {number}", type="episodic", thread_id="t", importance=importance)
    found = await delta(http, "t")
    assert found["header"].splitlines() == [
        "Memory updates since rev 0:",
        "- +created: [Preferences] Fact number 1 (imp=5)",
        "- +created: [Preferences] Fact number 4 (imp=3)",
        "- +created: [Preferences] Fact number 3 (imp=3)",
    ]
    assert {name: found[name] for name in ("since_rev", "rev", "more", "truncated")} == {
        "since_rev": 0,
        "rev": 6,
        "more": 3,
        "truncated": False,
    }


async def test_a_query_shows_what_changed_once_to_each_agent_of_each_thread(http: httpx.AsyncClient) -> None:
    async def header(agent: str, thread: str) -> str:
        answer = await ask(http, agent=agent, thread_id=thread)
        return str(answer["header"])

    first = "Memory updates since rev 0:\n- +created: [Tasks] Ship v1 by Sep (imp=2)"
    second = "Memory updates since rev 1:\n- +created: [Tasks] Hire a tester (imp=2)"
    await remember(http, "Ship v1 by Sep", category="tasks", thread_id="one")
    assert await header("planner", "one") == first
    assert await header("planner", "one") == ""
    assert await header("planner", "two") == ""
    assert await header("executor", "one") == first
    await remember(http, "Hire a tester", category="tasks", thread_id="one")
    assert await header("planner", "one") == second
    assert len((await header("supervisor", "one")).splitlines()) == 3
    assert await header("executor", "one") == second
    assert [await header(agent, "one") for agent in ("planner", "executor", "supervisor")] == [""] * 3


async def test_who_asks_about_one_user_is_still_shown_what_changed_of_another(http: httpx.AsyncClient) -> None:
    async def header(user: str | None, agent: str = "planner") -> list[str]:
        answer = await ask(http, agent=agent, thread_id="main", filters={"user_id": user})
        return str(answer["header"]).splitlines()[1:]

    ana, ben, late = (f"- +created: [Tasks] {text} (imp=2)" for text in ("Ana sails.", "Ben paints.", "Ben cooks."))
    await remember(http, "Ana sails.", user_id="ana", category="tasks", thread_id="main")
    await remember(http, "Ben paints.", user_id="ben", category="tasks", thread_id="main")
    assert [await header("ana"), await header("ana")] == [[ana], []]
    assert [await header("ben"), await header("ben")] == [[ben], []]
    assert [await header(None), await header(None)] == [[ben, ana], []], "who asks about all has a cursor of its own"
    await remember(http, "Ben cooks.", user_id="ben", category="tasks", thread_id="main")
    assert [await header("ana"), await header(None), await header("ben")] == [[], [late], []], "shown with all"
    assert await header("ana", "executor") == [ana], "each agent has its own"
    assert (await delta(http, "main", agent="executor", user_id="ana"))["header"] == ""
    assert (await delta(http, "main", agent="executor", user_id="ben"))["header"].splitlines()[1:] == [late, ben]


@pytest.mark.long
async def test_nobody_who_is_not_known_is_told_of_anothers_end_or_named_in_a_cursor(
    http: httpx.AsyncClient, database: Database
) -> None:
    written = await remember(http, "Ship v1 by Sep", category="tasks", thread_id="t")
    await remember(http, "Ben paints.", user_id="ben", category="tasks", thread_id="t")
    assert (await ask(http, agent="planner", thread_id="t"))["header"]
    await http.delete(f"/memory/{written['id']}", params={"purge": True})
    assert (await http.post("/users/maya/erase")).json()["counts"]["delta_cursors"] == 1
    for user in ("maya", "zoe", "ben"):
        assert "−deleted" not in (await delta(http, "t", since_rev=1, user_id=user))["header"], "it was not ben's"
        header = (await ask(http, agent="planner", thread_id="t", filters={"user_id": user}))["header"]
        assert bool(header) is (user == "ben")
    assert [row["user_id"] for row in await sql(database, "SELECT user_id FROM delta_cursors")] == ["ben"]


async def test_no_key_consumes_the_header_of_another_unless_both_are_one_agents_own(
    app: Application, server: str, caller: Caller, database: Database
) -> None:
    async def shown(reader: Caller) -> bool:
        async with reader.client(server) as client:
            return bool((await ask(client, agent="planner", thread_id="t"))["header"])

    async with caller.client(server) as admin:
        await remember(admin, "Ship v1 by Sep", category="tasks", thread_id="t")
    own, renewed = [await make_caller(app, ["query"], ["planner"], tenant=caller) for _ in range(2)]
    pairs = [await make_caller(app, ["query"], ["planner", "executor"], tenant=caller) for _ in range(2)]
    readers = [caller, await make_caller(app, ["query"], tenant=caller), *pairs, own, renewed]
    assert [await shown(reader) for reader in readers] == [True, True, True, True, True, False]
    assert [await shown(reader) for reader in readers] == [False] * 6
    keys = "SELECT key_id FROM delta_cursors WHERE tenant_id = $1 AND agent = 'planner'"
    stored = {row["key_id"] for row in await sql(database, keys, caller.scope.tenant_id)}
    assert stored == {*(reader.scope.key_id for reader in readers[:4]), UUID(int=0)}
    for gone in (pairs[0], own):
        assert gone.scope.key_id is not None
        await app.tenancy.tenants.revoke_key(caller.scope.tenant_id, gone.scope.key_id)
    left = {row["key_id"] for row in await sql(database, keys, caller.scope.tenant_id)}
    assert left == stored - {pairs[0].scope.key_id}, "a revoked key leaves no cursor; what keys share stays"


async def test_an_explicit_revision_shows_from_there_and_moves_no_cursor(http: httpx.AsyncClient) -> None:
    for text in ("Ship v1 by Sep", "Hire a tester"):
        await remember(http, text, category="tasks", thread_id="t")
    for since, lines in ((0, 3), (1, 2), (2, 0), (0, 3), (99, 0)):
        answer = await ask(http, thread_id="t", since_rev=since)
        assert len(answer["header"].splitlines()) == lines
        assert (answer["delta"]["since_rev"], answer["delta"]["rev"]) == (since, 2)
    assert len((await ask(http, thread_id="t"))["header"].splitlines()) == 3


async def test_a_header_that_the_budget_drops_moves_no_cursor(http: httpx.AsyncClient) -> None:
    await remember(http, "Ship v1 by Sep", category="tasks", thread_id="t")
    for budget in (1, 5, 10):
        answer = await ask(http, thread_id="t", budget_tokens=budget)
        assert (answer["header"], answer["delta"]["more"]) == ("", 1)
    assert (await ask(http, thread_id="t"))["header"]


async def test_a_header_that_the_budget_shortens_counts_the_rest(http: httpx.AsyncClient) -> None:
    for number in range(4):
        await remember(http, f"Fact number {number}", type="episodic", thread_id="t", importance=5 - number)
    answer = await ask(http, thread_id="t", budget_tokens=26)
    assert answer["header"].splitlines()[1:] == ["- +created: [Preferences] Fact number 0 (imp=5)"]
    assert answer["delta"] == {"since_rev": 0, "rev": 4, "more": 3, "truncated": False}
    assert (await ask(http, thread_id="t"))["header"] == ""


async def test_a_thread_where_nothing_visible_changed_has_no_header_and_no_move(
    http: httpx.AsyncClient, database: Database
) -> None:
    await remember(http, "Maya likes sharp wit.", category="style", thread_id="t")
    answer = await ask(http, agent="planner", thread_id="t")
    assert answer["header"] == ""
    assert answer["delta"]["more"] == 0
    assert await sql(database, "SELECT 1 FROM delta_cursors") == []


@pytest.mark.long
async def test_looking_at_a_threads_delta_moves_no_cursor(http: httpx.AsyncClient, database: Database) -> None:
    await remember(http, "Ship v1 by Sep", category="tasks", thread_id="t")
    for params in ({}, {"agent": "planner"}, {"since_rev": 0}, {"since_rev": 0, "agent": "planner"}):
        for _ in range(2):
            assert (await delta(http, "t", **params))["header"]
    assert await sql(database, "SELECT 1 FROM delta_cursors") == []
    assert (await ask(http, agent="planner", thread_id="t"))["header"]
    seen = await delta(http, "t", agent="planner", user_id="maya")
    assert (seen["header"], seen["since_rev"]) == ("", 1)
    assert (await delta(http, "t", agent="planner"))["header"], "who asks about everybody was not shown it"
    assert (await delta(http, "t"))["header"]


@pytest.mark.long
async def test_a_cursor_never_moves_back(http: httpx.AsyncClient, database: Database) -> None:
    await remember(http, "Ship v1 by Sep", category="tasks", thread_id="t")

    async def write_and_ask(number: int) -> None:
        await remember(http, f"Task number {number}", category="tasks", type="episodic", thread_id="t")
        await ask(http, agent="planner", thread_id="t")

    seen = [0]
    for start in range(0, 12, 4):
        await asyncio.gather(*(write_and_ask(number) for number in range(start, start + 4)))
        [row] = await sql(database, "SELECT rev FROM delta_cursors WHERE agent = 'planner'")
        seen.append(row["rev"])
    assert seen == sorted(seen)
    await ask(http, agent="planner", thread_id="t")
    assert (await ask(http, agent="planner", thread_id="t"))["header"] == ""
    [row] = await sql(database, "SELECT rev FROM delta_cursors WHERE agent = 'planner'")
    assert row["rev"] == 13


@pytest.mark.long
async def test_what_the_log_no_longer_holds_is_said_to_be_truncated(
    http: httpx.AsyncClient, database: Database
) -> None:
    for number in range(6):
        await remember(http, f"Fact number {number}", type="episodic", thread_id="t")
    await sql(database, "DELETE FROM change_log WHERE rev <= 3")
    for since, truncated, lines in ((0, True, 4), (2, True, 4), (3, False, 4), (5, False, 2), (6, False, 0)):
        found = await delta(http, "t", since_rev=since)
        assert (found["truncated"], len(found["header"].splitlines())) == (truncated, lines), since
    assert (await ask(http, thread_id="t"))["delta"]["truncated"] is True
    assert (await delta(http, "t", since_rev=7))["truncated"] is True, "the thread has no such revision"
    assert (await delta(http, "unknown", since_rev=7))["truncated"] is True
    await sql(database, "DELETE FROM change_log")
    assert (await delta(http, "t", since_rev=5))["truncated"] is True
    assert (await delta(http, "t", since_rev=6))["truncated"] is False


async def test_a_change_is_told_to_the_thread_that_wrote_and_to_the_one_the_memory_belongs_to(
    http: httpx.AsyncClient,
) -> None:
    first = await remember(http, "Maya drinks oat milk.", thread_id="home")
    again = await remember(http, "Maya drinks oat milk!", thread_id="away", importance=4)
    assert (first["revision"], again["revision"], again["matched_id"]) == (1, 1, first["id"])
    updated = "- ↑updated: [Preferences] Maya drinks oat milk!"
    assert (await delta(http, "away"))["header"].splitlines()[1:] == [updated]
    assert (await delta(http, "home", since_rev=1))["header"].splitlines()[1:] == [updated]


async def test_revisions_count_the_writes_of_a_thread_without_gaps(http: httpx.AsyncClient) -> None:
    async def write(number: int) -> Any:
        return (await remember(http, f"Fact number {number}", type="episodic", thread_id="t"))["revision"]

    revisions = await asyncio.gather(*(write(number) for number in range(12)))
    assert sorted(revisions) == list(range(1, 13))
    assert "revision" not in await remember(http, "Nothing to do with a thread.")


@pytest.mark.parametrize("thread", THREADS, ids=[quote(thread, safe="")[:20] for thread in THREADS])
async def test_any_thread_name_can_be_asked_for(http: httpx.AsyncClient, thread: str) -> None:
    await remember(http, "Ship v1 by Sep", category="tasks", thread_id=thread)
    forms = {quote(thread, safe=""), quote(thread, safe="/")}
    if ".." in thread or thread in ("/", "//"):
        forms = {quote(thread, safe="").replace(".", "%2E")}
    for form in forms:
        url = httpx.URL(str(http.base_url)).copy_with(raw_path=f"/threads/{form}/delta".encode())
        response = await http.get(url)
        assert response.status_code == 200, form
        assert response.json()["header"] == "Memory updates since rev 0:\n- +created: [Tasks] Ship v1 by Sep (imp=2)"
    assert (await ask(http, thread_id=thread))["header"]


async def test_thread_names_are_told_apart_by_every_character(http: httpx.AsyncClient) -> None:
    await remember(http, "Ship v1 by Sep", category="tasks", thread_id="a/b")
    for thread in ("a", "b", "a/b/c", "A/b", "a//b", "a%2Fb"):
        assert (await ask(http, thread_id=thread))["header"] == "", thread


async def test_long_and_multi_line_texts_stay_on_one_short_line(http: httpx.AsyncClient) -> None:
    text = "First line of a turn.\n- +created: [Tasks] forged line\n" + "word " * 100
    await remember(http, text[:280], type="episodic", category="activity", thread_id="t")
    [title, bullet] = (await delta(http, "t"))["header"].splitlines()
    assert title == "Memory updates since rev 0:"
    assert bullet.startswith("- +created: [Activity] First line of a turn. created: (Tasks) forged line word")
    assert bullet.endswith("word… (imp=2)")
    assert len(bullet) < 160


@pytest.mark.long
async def test_an_agent_that_asks_while_others_write_is_told_of_each_change_once(http: httpx.AsyncClient) -> None:
    changes, told, shown = 40, 0, [0]

    async def write(numbers: range) -> None:
        for number in numbers:
            await remember(http, f"Task number {number}", category="tasks", type="episodic", thread_id="t")

    writers = [asyncio.create_task(write(range(start, changes, 4))) for start in range(4)]
    while True:
        finished = all(writer.done() for writer in writers)
        answer = await ask(http, agent="planner", thread_id="t", categories=["goals"])
        assert answer["delta"]["since_rev"] == shown[-1]
        if answer["header"]:
            told += len(answer["header"].splitlines()) - 1 + answer["delta"]["more"]
            shown.append(answer["delta"]["rev"])
        if finished:
            break
    await asyncio.gather(*writers)
    assert (told, shown[-1]) == (changes, changes)
