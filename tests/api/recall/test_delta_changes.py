"""Net changes in the delta header: one bullet a memory, nothing silent, nothing of what a reader may not see."""

from typing import Any

import httpx
import pytest

from app.bootstrap import Application
from tests.api.calls import ask, delta, remember, say, sql
from tests.conftest import Database
from tests.factories import Caller, Clock, make_caller


async def told(http: httpx.AsyncClient, thread: str = "t", **params: Any) -> list[str]:
    """Return the bullets of a thread's delta, without their dash."""
    found = await delta(http, thread, **params)
    assert found["more"] == 0
    return [line.removeprefix("- ") for line in found["header"].splitlines()[1:]]


async def change(http: httpx.AsyncClient, memory_id: str, *actions: str) -> None:
    """Apply changes to a memory: a text, or one of the words below."""
    url = f"/memory/{memory_id}"
    for action in actions:
        response = await {
            "delete": lambda: http.delete(url),
            "restore": lambda: http.post(f"{url}/restore"),
            "purge": lambda: http.delete(url, params={"purge": True}),
            "pin": lambda: http.post(f"{url}/pin"),
            "tag": lambda: http.patch(url, json={"tags": ["new"]}),
            "vital": lambda: http.patch(url, json={"importance": 5}),
        }.get(action, lambda text=action: http.patch(url, json={"text": text}))()
        assert response.status_code < 300, response.text


KNOWN = "Ship v1 by Sep"
NET = {
    "nothing": ([], []),
    "an update": (["Oct"], ["↑updated: [Goals] Oct"]),
    "four updates": (["Oct", "Nov", "Dec", "Jan"], ["↑updated: [Goals] Jan"]),
    "an update taken back": (["Oct", KNOWN], []),
    "another importance": (["vital"], [f"↑updated: [Goals] {KNOWN}"]),
    "what no bullet shows": (["pin", "tag"], []),
    "soft-deleted": (["delete"], [f"~soft_deleted: [Goals] {KNOWN}"]),
    "more important, then soft-deleted": (["vital", "delete"], [f"~soft_deleted: [Goals] {KNOWN}"]),
    "updated, then soft-deleted": (["Oct", "delete"], ["~soft_deleted: [Goals]"]),
    "soft-deleted and restored": (["delete", "restore"], []),
    "soft-deleted, restored, updated": (["delete", "restore", "Oct"], ["↑updated: [Goals] Oct"]),
    "updated, soft-deleted, restored": (["Oct", "delete", "restore"], ["↑updated: [Goals] Oct"]),
    "purged": (["purge"], ["−deleted: [Goals]"]),
    "soft-deleted, then purged": (["delete", "purge"], ["−deleted: [Goals]"]),
    "updated, soft-deleted, restored, purged": (["Oct", "delete", "restore", "purge"], ["−deleted: [Goals]"]),
}


@pytest.mark.parametrize(("actions", "bullets"), NET.values(), ids=NET)
async def test_a_known_memory_has_one_bullet_for_its_net_change(
    http: httpx.AsyncClient, actions: list[str], bullets: list[str]
) -> None:
    written = await remember(http, KNOWN, category="goals", thread_id="t")
    await change(http, written["id"], *actions)
    assert await told(http, since_rev=1) == bullets
    gone = actions[-1:] in (["delete"], ["purge"])
    now = [KNOWN, *(action for action in actions if action[0].isupper())][-1]
    imp = 5 if "vital" in actions else 2
    assert await told(http, since_rev=0) == ([] if gone else [f"+created: [Goals] {now} (imp={imp})"])


async def test_a_purge_of_what_was_told_as_soft_deleted_is_not_told_again(http: httpx.AsyncClient) -> None:
    written = await remember(http, KNOWN, category="goals", thread_id="t")
    await change(http, written["id"], "delete")
    assert await told(http, since_rev=2) == []
    await change(http, written["id"], "purge")
    assert await told(http, since_rev=2) == []
    assert await told(http, since_rev=1) == ["−deleted: [Goals]"]


@pytest.mark.long
async def test_what_the_purge_job_deletes_before_anybody_looked_is_told_once(
    http: httpx.AsyncClient, app: Application, caller: Caller, clock: Clock
) -> None:
    written = await remember(http, KNOWN, category="goals", thread_id="t")
    assert (await ask(http, thread_id="t"))["header"]
    await change(http, written["id"], "delete")
    clock.move(days=31)
    await app.retention.forget.purge_memories(caller.scope)
    headers = [(await ask(http, thread_id="t"))["header"].splitlines()[1:] for _ in range(2)]
    assert headers == [["- −deleted: [Goals]"], []]


async def test_turns_summaries_and_chunks_are_no_bullets_and_not_counted(http: httpx.AsyncClient) -> None:
    for kind in ("turn", "summary", "chunk"):
        written = await remember(http, f"A {kind}.", type=kind, category="activity", thread_id="t")
        assert await told(http, since_rev=0) == []
        await change(http, written["id"], f"Another {kind}.", "delete", "purge")
    await say(http, "Shall we?", thread_id="t")
    assert await told(http, since_rev=0) == []
    assert (await ask(http, thread_id="t"))["header"] == ""


async def test_a_thread_that_has_told_of_a_memory_tells_its_end_wherever_it_belongs(http: httpx.AsyncClient) -> None:
    """The memory has another thread or none; `away` told of it because it wrote an update."""
    for home in ("home", None):
        written = await remember(http, f"Maya drinks tea of {home}.", **({"thread_id": home} if home else {}))
        await remember(http, f"Maya drinks tea of {home}!", thread_id=f"away of {home}")
        thread, updated = f"away of {home}", f"↑updated: [Preferences] Maya drinks tea of {home}!"
        assert await told(http, thread) == [updated]
        await change(http, written["id"], "delete")
        assert await told(http, thread) == [], "who was told nothing hears of no end"
        assert await told(http, thread, since_rev=1) == [f"~soft_deleted: [Preferences] Maya drinks tea of {home}!"]
        await change(http, written["id"], "restore", "purge")
        assert await told(http, thread, since_rev=1) == ["−deleted: [Preferences]"]


async def test_a_purge_is_told_only_to_those_who_ask_about_its_user_or_about_all(http: httpx.AsyncClient) -> None:
    written = await remember(http, KNOWN, category="goals", thread_id="t")
    await remember(http, "Ben paints.", user_id="ben", category="goals", thread_id="t")
    await change(http, written["id"], "purge")
    found = {
        user: await told(http, since_rev=2, **({"user_id": user} if user else {})) for user in (None, "maya", "ben")
    }
    assert found == {None: ["−deleted: [Goals]"], "maya": ["−deleted: [Goals]"], "ben": []}


# --- the revision


@pytest.mark.long
async def test_the_revision_tells_a_reader_nothing_of_what_it_may_not_see(
    app: Application, server: str, caller: Caller
) -> None:
    planner = await make_caller(app, ["query", "write"], ["planner"], tenant=caller)
    async with caller.client(server) as admin, planner.client(server) as bound:

        async def seen() -> list[Any]:
            """Return all that the planner can learn of the thread."""
            ways = [await delta(bound, "t"), await delta(bound, "t", agent="planner")]
            ways += [await delta(bound, "t", since_rev=rev) for rev in (0, 1, 2, 5, 9, 100)]
            ways += [await delta(admin, "t", agent="planner", since_rev=1)]
            asked = await ask(bound, agent="planner", thread_id="t", since_rev=0)
            return [*ways, asked["delta"], asked["header"]]

        assert {tuple(way.values())[:2] for way in (await seen())[2:5]} == {(0, 0), (1, 0), (2, 0)}
        await remember(admin, KNOWN, category="tasks", thread_id="t")
        before = await seen()
        assert before[0]["rev"] == 1
        hidden = await remember(admin, "Maya likes wit.", category="style", thread_id="t", importance=5)
        await change(admin, hidden["id"], "Maya likes sharp wit.", "delete", "restore", "purge")
        await remember(admin, "Ana quarrels.", category="relationships", user_id="ana", thread_id="t")
        await say(admin, "Shall we?", thread_id="t")
        assert await seen() == before
        own = await remember(bound, "Hire a tester", category="tasks", thread_id="t")
        after = await delta(bound, "t", since_rev=1)
        assert (after["rev"], after["header"].count("\n")) == (own["revision"], 1)
        again = await delta(bound, "t", since_rev=after["rev"])
        assert (again["rev"], again["header"], again["more"]) == (after["rev"], "", 0)


async def test_of_another_user_the_revision_tells_nothing_either(http: httpx.AsyncClient) -> None:
    await remember(http, "Ana sails.", user_id="ana", category="tasks", thread_id="t")
    await remember(http, "Ben paints.", user_id="ben", category="tasks", thread_id="t")
    await remember(http, "Ben cooks.", user_id="ben", category="tasks", thread_id="t")
    revisions = {user: (await delta(http, "t", user_id=user))["rev"] for user in ("ana", "ben", "zoe")}
    assert revisions == {"ana": 1, "ben": 3, "zoe": 0}
    assert (await delta(http, "t"))["rev"] == 3


PRUNE = "SELECT expire_records($1, $2, '-infinity', '-infinity', '-infinity', 100, false)"


@pytest.mark.long
async def test_only_changes_of_ones_own_categories_are_missed_when_old_ones_are_deleted(
    http: httpx.AsyncClient, caller: Caller, database: Database
) -> None:
    for number, category in enumerate(["tasks", "style", "style", "activity"] + ["style"] * 4):
        kind = {"type": "turn"} if category == "activity" else {}
        await remember(http, f"Note {number}", category=category, thread_id="t", **kind)
    await sql(database, PRUNE, caller.scope.tenant_id, 3)
    found = {
        agent: [(await delta(http, "t", agent=agent, since_rev=since))["truncated"] for since in (0, 1, 2, 3, 5)]
        for agent in ("planner", "stylist", "supervisor")
    }
    assert found == {
        "planner": [True, False, True, True, True],  # neither was ever told of a revision after the first
        "stylist": [True, True, True, True, False],
        "supervisor": [True, False, True, True, True],
    }
    assert [(await delta(http, "t", agent=agent))["rev"] for agent in ("planner", "stylist")] == [1, 8]
