"""GET /changes: every change of a memory is told once its turn comes, and none is skipped."""

import json

import asyncpg
import httpx
import pytest

from app.bootstrap import Application
from app.domain.paging import decode_parts
from tests.api.calls import refused, remember
from tests.api.changes import changed_since, read_changes, told_since
from tests.api.cursors import MALFORMED, encoded
from tests.conftest import Database
from tests.factories import Caller, make_caller


async def test_each_change_is_an_event_with_the_memory_as_it_is_now(http: httpx.AsyncClient) -> None:
    start = await read_changes(http)
    assert (start["events"], start["more"]) == ([], False)
    kept, edited, binned, purged = [
        (await remember(http, text))["id"]
        for text in ("Maya rows.", "The attic is dry.", "Tea at noon.", "Ben paints.")
    ]
    await http.patch(f"/memory/{edited}", json={"text": "The attic is damp."})
    await http.delete(f"/memory/{binned}")
    await http.post(f"/memory/{binned}/restore")
    await http.delete(f"/memory/{purged}", params={"purge": True})
    await remember(http, "Crates arrive on Monday.", user_id="ben")
    events = await told_since(http, start["next_cursor"], 9, user_id=None)
    assert [(e["memory_id"], e["event"], e["version"]) for e in events if e["memory_id"] == edited] == [
        (edited, "ADD", 1),
        (edited, "UPDATE", 2),
    ]
    assert [e["event"] for e in events if e["memory_id"] == binned] == ["ADD", "DELETE", "RESTORE"]
    gone = [e for e in events if e["memory_id"] == purged]
    assert [e["event"] for e in gone] == ["ADD", "PURGE"]
    assert {e[name] for e in gone for name in ("user_id", "category", "type", "version", "memory")} == {None}
    now = {e["memory_id"]: e["memory"] for e in events if e["user_id"] == "maya"}
    assert now[edited] == (await http.get(f"/memory/{edited}")).json()
    assert set(now) == {kept, edited, binned}
    assert len(await told_since(http, start["next_cursor"], 6)) == 6


async def test_the_facts_of_a_memory_are_no_events(http: httpx.AsyncClient) -> None:
    start = (await read_changes(http))["next_cursor"]
    said = {"user_id": "maya", "text": "My favorite color is blue."}
    answer = await http.post("/facts", json=said)
    assert answer.is_success, answer.text
    events = await told_since(http, start, 1)
    found = [(await http.get(f"/memory/{event['memory_id']}")).json() for event in events]
    assert [memory["type"] for memory in found] == ["semantic"]


@pytest.mark.long
@pytest.mark.parametrize("limit", [1, 3, 1000])
async def test_pages_of_any_size_skip_no_change(http: httpx.AsyncClient, limit: int) -> None:
    cursor = (await read_changes(http))["next_cursor"]
    lines = "\n".join(f'{{"user_id": "maya", "category": "tasks", "text": "Crate {n} is {n}."}}' for n in range(40))
    await http.post("/memory/bulk", content=lines)
    assert len(await changed_since(http, cursor, 40, limit=limit)) == 40


async def test_a_change_that_commits_late_is_not_skipped(http: httpx.AsyncClient, database: Database) -> None:
    cursor = (await read_changes(http))["next_cursor"]
    connection = await asyncpg.connect(database.superuser)
    try:
        late = connection.transaction()
        await late.start()
        await connection.execute("SELECT pg_current_xact_id()")  # older than the write, and still open
        written = (await remember(http))["id"]
        waiting = await read_changes(http, cursor)
        assert (waiting["items"], waiting["more"]) == ([], False)
        await late.commit()
    finally:
        await connection.close()
    assert set(await changed_since(http, waiting["next_cursor"], 1)) == {written}


async def test_nobody_sees_changes_beyond_tenant_user_and_categories(
    server: str, app: Application, caller: Caller
) -> None:
    bound, other = await make_caller(app, ["query"], ["planner"], caller), await make_caller(app)
    async with caller.client(server) as admin, bound.client(server) as planner, other.client(server) as stranger:
        cursor = (await read_changes(admin))["next_cursor"]
        shown = (await remember(admin, "Maya fixes the roof.", category="tasks"))["id"]
        hidden = (await remember(admin, category="preferences"))["id"]
        assert set(await changed_since(admin, cursor, 2)) == {shown, hidden}
        assert set(await changed_since(planner, cursor, 1)) == {shown}
        for client, user in ((admin, "ben"), (admin, "nobody"), (stranger, "maya")):
            assert (await read_changes(client, cursor, user_id=user))["items"] == []
        assert (await read_changes(admin))["tenant_id"] == str(caller.scope.tenant_id)
        assert (await read_changes(stranger))["tenant_id"] == str(other.scope.tenant_id)


async def test_a_filter_hears_of_memories_that_match_and_of_those_that_no_longer_do(http: httpx.AsyncClient) -> None:
    start = (await read_changes(http))["next_cursor"]
    written = (await remember(http, "Maya rows.", tags=["work"]))["id"]
    other = (await remember(http, "Tea at noon."))["id"]
    gone = (await remember(http, "Ben paints.", tags=["work"]))["id"]
    for tags in (["home"], ["garden"], ["work"]):
        assert (await http.patch(f"/memory/{written}", json={"tags": tags})).is_success
    await http.delete(f"/memory/{written}")
    await http.delete(f"/memory/{gone}", params={"purge": True})
    await told_since(http, start, 7, user_id=None)
    for where, versions in (
        ({"tags": "work"}, [1, 2, 4, 5]),
        ({"and": [{"tags": "work"}, {"state": "soft_deleted"}]}, [5]),
        ({"tags": "garden"}, [3, 4]),
        ({"and": [{"tags": "work"}, {"tags": "home"}]}, []),
    ):
        page = await read_changes(http, start, where=json.dumps(where), user_id=None)
        assert [(e["memory_id"], e["version"]) for e in page["events"]] == [(written, version) for version in versions]
    rest = await read_changes(http, start, where=json.dumps({"not": {"id": written}}), user_id=None)
    assert [e["memory_id"] for e in rest["events"]] == [other]  # of the purged one nothing is left that could match


async def test_a_bound_key_learns_nothing_of_a_memory_before_it_was_in_its_categories(
    server: str, app: Application, caller: Caller
) -> None:
    bound = await make_caller(app, ["query"], ["planner"], caller)
    async with caller.client(server) as admin, bound.client(server) as planner:
        cursor = (await read_changes(admin))["next_cursor"]
        moved = (await remember(admin, "Maya hides a key.", category="preferences"))["id"]
        changed = await admin.patch(f"/memory/{moved}", json={"text": "Maya fixes the roof.", "category": "tasks"})
        assert changed.is_success, changed.text
        assert [e["version"] for e in await told_since(planner, cursor, 1)] == [2]
        for word, told in (("roof", 1), ("key", 0)):
            where = json.dumps({"text": {"contains": word}})
            assert len((await read_changes(planner, cursor, where=where))["events"]) == told
            assert (await read_changes(admin, cursor, where=where))["events"]


async def test_a_wrong_filter_is_refused_with_its_place(http: httpx.AsyncClient) -> None:
    refused(await http.get("/changes", params={"where": '{"importanse": 3}'}), 422, "invalid_request")
    found = await http.get("/changes", params={"where": '{"importanse": 3}'})
    assert found.json()["detail"] == "where.importanse: unknown field; did you mean 'importance'?"


async def test_cursors_that_are_none_are_refused(http: httpx.AsyncClient) -> None:
    places = [["1", ID], [ID, str(2**63), ID], [ID, "-1", ID], [ID, 1, ID], [ID, "1", "x"], ["x", "1", ID]]
    for cursor in [*MALFORMED.values(), *map(encoded, places)]:
        refused(await http.get("/changes", params={"after": cursor}), 422, "invalid_cursor")
    for params in ({"limit": 0}, {"limit": 1001}, {"cursor": "start"}):
        refused(await http.get("/changes", params=params), 422, "invalid_request")


async def test_a_cursor_of_another_database_or_of_a_lost_record_is_refused(http: httpx.AsyncClient) -> None:
    before = (await read_changes(http))["next_cursor"]
    written = (await remember(http))["id"]
    await changed_since(http, before, 1)  # until then a transaction of another test may hide the change
    epoch, stamp, record = decode_parts((await read_changes(http))["next_cursor"])
    begun = encoded([epoch, "0", record])  # a tenant without changes has no record to name
    assert set(await changed_since(http, begun, 1)) == {written}
    for lost in ([ID, stamp, record], [ID, "0", record], [epoch, stamp, ID], [epoch, str(int(stamp) + 1), record]):
        response = await http.get("/changes", params={"after": encoded(lost)})
        refused(response, 410, "cursor_of_other_database")


ID = "018f0000-0000-7000-8000-000000000000"
