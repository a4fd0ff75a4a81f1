"""GET /operator/usage: what each tenant used by day, for the operator key alone (`docs/operations.md`)."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from app.bootstrap import Application
from app.config.settings import Settings
from app.domain.receipts.usage import UsageFilter
from app.usecases.receipts import tenant_usage
from tests.api.calls import refused, remember, sql
from tests.api.cursors import MALFORMED, encoded, pages
from tests.conftest import Database
from tests.factories import Caller, make_caller

KEY = "operator-0123456789abcdef0123456789abcdef"
COUNTS = ("day", "queries", "tokens", "writes", "model_tokens")
TODAY = datetime.now(UTC).date()
pytestmark = pytest.mark.usefixtures("own")


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    """Settings of an installation with an operator key."""
    file = tmp_path / "operator.key"
    file.write_text(KEY)
    return settings.model_copy(update={"operator_key_file": str(file)})


@pytest.fixture
async def operator(server: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client with the operator key."""
    async with httpx.AsyncClient(base_url=server, headers={"Authorization": f"Bearer {KEY}"}, timeout=30) as client:
        yield client


async def made(operator: httpx.AsyncClient, server: str, name: str) -> tuple[str, httpx.AsyncClient]:
    """Create a tenant; return its id and a client with a key of it."""
    tenant = (await operator.post("/operator/tenants", json={"name": name})).json()["id"]
    key = (await operator.post(f"/operator/tenants/{tenant}/keys", json={"scopes": ["admin"]})).json()["key"]
    return tenant, httpx.AsyncClient(base_url=server, headers={"Authorization": f"Bearer {key}"}, timeout=30)


async def use(database: Database, tenant: str, ages: range | list[int]) -> None:
    """Count a query of a user, and a call of the model, on each of the days that are so many days ago."""
    for age in ages:
        day = TODAY - timedelta(days=age)
        await sql(database, "INSERT INTO usage_days VALUES ($1, $2, 'maya', $3, 7)", UUID(tenant), day, age + 1)
        await sql(
            database,
            "INSERT INTO llm_calls (tenant_id, id, ts, prompt, version, model, attempt, input_tokens, output_tokens, "
            "duration_ms, items, items_ok, first_pass_ok, status) "
            "VALUES ($1, gen_random_uuid(), $2, 'p', 1, 'm', 1, $3, 10, 1, 0, 0, true, 'ok')",
            UUID(tenant),
            datetime.combine(day, datetime.min.time(), UTC) + timedelta(hours=23),
            age,
        )


async def every(operator: httpx.AsyncClient, **params: Any) -> list[dict[str, Any]]:
    """Return the rows of all pages."""
    return [row for page in await pages(operator, "/operator/usage", **params) for row in page]


@pytest.mark.long
async def test_the_operator_sees_what_each_tenant_sees_of_itself(
    operator: httpx.AsyncClient, server: str, database: Database
) -> None:
    expected: list[dict[str, Any]] = []
    for name, ages in (("acme", [0, 1, 40]), ("beta", []), ("globex", [0, 2])):
        tenant, client = await made(operator, server, name)
        async with client:
            for number in range(len(ages)):
                await remember(client, f"{name} books venue {number}.", category="tasks")
                asked = {"agent": "planner", "query": "Who books the venue?", "filters": {"user_id": "maya"}}
                assert (await client.post("/memory/query", json=asked)).status_code == 200
            await use(database, tenant, [age for age in ages if age])
            days = (await client.get("/usage", params={"since": "2020-01-01"})).json()["items"]
            assert [row["writes"] for row in days[:1]] == [len(ages)][: len(days)]
        expected += [{"tenant_id": tenant, "tenant": name} | {c: day[c] for c in COUNTS} for day in days]
    assert len(expected) == 5
    for limit in (1, 2, 4, 5, 50):
        assert await every(operator, since="2020-01-01", limit=limit) == expected
    recent = [row for row in expected if row["day"] >= (TODAY - timedelta(days=30)).isoformat()]
    assert await every(operator) == recent
    assert await every(operator, tenant_id=expected[0]["tenant_id"], limit=1) == recent[:2]
    middle = {"since": str(TODAY - timedelta(days=2)), "until": str(TODAY)}
    assert await every(operator, **middle) == [row for row in recent if row["day"] < str(TODAY)]


async def test_no_key_of_a_tenant_reads_it(operator: httpx.AsyncClient, server: str, caller: Caller) -> None:
    async with caller.client(server) as tenant:
        for params in ({}, {"tenant_id": str(caller.scope.tenant_id)}):
            refused(await tenant.get("/operator/usage", params=params), 401, "unauthenticated")
    async with httpx.AsyncClient(base_url=server) as nobody:
        refused(await nobody.get("/operator/usage"), 401, "unauthenticated")
    refused(await operator.get("/usage"), 401, "unauthenticated")


async def test_wrong_parameters_are_refused(operator: httpx.AsyncClient) -> None:
    refused(await operator.get("/operator/usage", params={"tenant_id": str(uuid4())}), 404, "not_found")
    wrong = [{"tenant_id": "acme"}, {"since": "soon"}, {"until": "2025-02-30"}, {"limit": 0}, {"by": "day"}]
    for params in wrong:
        refused(await operator.get("/operator/usage", params=params), 422, "invalid_request")
    places = [["acme"], ["acme", "x", ""], ["acme", str(uuid4()), "soon"], [1, "", ""], ["a\x00", "", ""]]
    for cursor in (*MALFORMED.values(), *(encoded(place) for place in places)):
        refused(await operator.get("/operator/usage", params={"cursor": cursor}), 422, "invalid_cursor")


async def test_a_page_reads_a_bounded_number_of_tenants(
    app: Application, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenant_usage, "TENANTS", 2)
    tenants = [await make_caller(app) for _ in range(7)]
    named = {
        caller.scope.tenant_id: await app.tenancy.operators.get_tenant(caller.scope.tenant_id) for caller in tenants
    }
    in_order = sorted(named.values(), key=lambda tenant: tenant.name)
    for tenant in (in_order[3], in_order[6]):
        await use(database, str(tenant.id), range(3))
    found: list[tuple[UUID, int]] = []
    sizes, cursor = [], None
    while True:
        page = await app.receipts.by_tenant.list_usage(None, UsageFilter(), cursor, 2)
        sizes.append(len(page.items))
        found += [(row.tenant.id, row.usage.queries) for row in page.items]
        if (cursor := page.next_cursor) is None:
            break
        if len(found) == 2:  # a tenant that is created between two pages takes no days from the one being read
            other = await app.tenancy.tenants.create_tenant(f"{in_order[2].name} and more")
            await use(database, str(other.id), [0])
    assert [row for row in found if row[0] in named] == [
        (in_order[place].id, queries) for place in (3, 6) for queries in (1, 2, 3)
    ]
    assert (other.id, 1) in found
    assert 0 in sizes, "a page of tenants without usage"
    assert len(sizes) >= 5
