"""GET /memory/changes: every change of a user's memories is seen once its turn comes, and none is skipped."""

import asyncpg
import httpx
import pytest

from app.bootstrap import Application
from app.domain.paging import decode_parts
from tests.api.calls import refused, remember, say
from tests.api.changes import changed_since, follow_changes, read_changes
from tests.api.cursors import MALFORMED, encoded
from tests.conftest import Database
from tests.factories import Caller, make_caller


async def test_each_kind_of_change_is_listed_with_the_memory_as_it_is_now(http: httpx.AsyncClient) -> None:
    start = await read_changes(http)
    assert (start["items"], start["more"]) == ([], False)
    ids = [(await remember(http, f"Maya labels crate {n}."))["id"] for n in range(5)]
    # a transaction of another test may be older, so that these are listed later
    _written, cursor = await follow_changes(http, start["next_cursor"], 5)
    await http.patch(f"/memory/{ids[1]}", json={"text": "Maya labelled crate one."})
    await http.delete(f"/memory/{ids[2]}")
    await http.delete(f"/memory/{ids[3]}")
    await http.post(f"/memory/{ids[3]}/restore")
    await http.delete(f"/memory/{ids[4]}", params={"purge": True})
    said = (await say(http, created_at="2020-01-01"))["id"]
    await remember(http, "Ben rows.", user_id="ben")
    found = await changed_since(http, cursor, 4)
    assert {i: (m["state"], m["version"]) for i, m in found.items()} == {
        ids[1]: ("active", 2),
        ids[2]: ("soft_deleted", 2),
        ids[3]: ("active", 3),
        said: ("active", 1),
    }
    assert found[ids[1]] == (await http.get(f"/memory/{ids[1]}")).json()


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


async def test_cursors_that_are_none_are_refused(http: httpx.AsyncClient) -> None:
    places = [["1", ID], [ID, str(2**63), ID], [ID, "-1", ID], [ID, 1, ID], [ID, "1", "x"], ["x", "1", ID]]
    for cursor in [*MALFORMED.values(), *map(encoded, places)]:
        response = await http.get("/memory/changes", params={"user_id": "maya", "cursor": cursor})
        refused(response, 422, "invalid_cursor")
    for params in ({}, {"user_id": "maya", "limit": 0}, {"user_id": "maya", "limit": 1001}):
        refused(await http.get("/memory/changes", params=params), 422, "invalid_request")


async def test_a_cursor_of_another_database_or_of_a_lost_record_is_refused(http: httpx.AsyncClient) -> None:
    before = (await read_changes(http))["next_cursor"]
    written = (await remember(http))["id"]
    await changed_since(http, before, 1)  # until then a transaction of another test may hide the change
    epoch, stamp, record = decode_parts((await read_changes(http))["next_cursor"])
    begun = encoded([epoch, "0", record])  # a tenant without changes has no record to name
    assert set(await changed_since(http, begun, 1)) == {written}
    for lost in ([ID, stamp, record], [ID, "0", record], [epoch, stamp, ID], [epoch, str(int(stamp) + 1), record]):
        response = await http.get("/memory/changes", params={"user_id": "maya", "cursor": encoded(lost)})
        refused(response, 410, "cursor_of_other_database")


ID = "018f0000-0000-7000-8000-000000000000"
