"""The operator's clients, against a real server with an operator key."""

from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path

import pytest
from mnema_client import AsyncMnema, AsyncMnemaOperator, Conflict, Mnema, MnemaOperator, NotFound, Unauthenticated

from app.config.settings import Settings
from tests.sdk.conftest import SOON, Either

KEY = "operator-0123456789abcdef0123456789abcdef"
pytestmark = pytest.mark.usefixtures("own")


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """A file with the operator key."""
    file = tmp_path / "operator.key"
    file.write_text(f"{KEY}\n")
    return file


@pytest.fixture
def settings(settings: Settings, key_file: Path) -> Settings:
    """Settings of an installation with that key."""
    return settings.model_copy(update={"operator_key_file": str(key_file)})


@pytest.fixture(params=[MnemaOperator, AsyncMnemaOperator], ids=["waiting", "asyncio"])
async def operator(request: pytest.FixtureRequest, server: str) -> AsyncIterator[Either]:
    """Return each of the two clients in turn."""
    client = Either(request.param(server, KEY, retry=SOON))
    yield client
    await client.close()


@pytest.mark.long
async def test_an_operator_makes_a_tenant_whose_key_works_until_it_is_revoked(operator: Either, server: str) -> None:
    tenant = await operator.create_tenant("acme")
    assert await operator.get_tenant(tenant.id) == tenant
    assert tenant in await operator.list_tenants(limit=1)
    key = await operator.create_key(tenant.id, ["query", "write"], name="planner", agents=["planner"])
    assert key.key not in repr(key)
    async with AsyncMnema(server, key.key) as memory:
        await memory.remember("Maya books the venue.", user_id="maya", category="tasks")
        await operator.revoke_key(tenant.id, key.id)
        with pytest.raises(Unauthenticated):
            await memory.query("venue", agent="planner")
    [listed] = await operator.list_keys(tenant.id)
    assert (listed.id, listed.agents, listed.revoked_at is None) == (key.id, ["planner"], False)
    with pytest.raises(Conflict):
        await operator.create_tenant("acme")
    with pytest.raises(NotFound):
        await operator.revoke_key(tenant.id, key.id)


@pytest.mark.long
async def test_an_operator_counts_what_each_tenant_uses(operator: Either, server: str) -> None:
    ids = []
    for name in ("acme", "globex"):
        tenant = await operator.create_tenant(name)
        key = await operator.create_key(tenant.id, ["query", "write"])
        async with AsyncMnema(server, key.key) as memory:
            await memory.remember("Maya books the venue.", user_id="maya", category="tasks")
            await memory.query("venue", agent="planner", filters={"user_id": "maya"})
        ids.append(tenant.id)
    rows = await operator.list_usage(since=date(2020, 1, 1), limit=1)
    assert [(row.tenant_id, row.tenant, row.queries, row.writes) for row in rows] == [
        (ids[0], "acme", 1, 1),
        (ids[1], "globex", 1, 1),
    ]
    assert await operator.list_usage(tenant_id=ids[1]) == rows[1:]
    assert await operator.list_usage(until=date(2020, 1, 1)) == []


def test_the_key_comes_from_its_file(monkeypatch: pytest.MonkeyPatch, key_file: Path) -> None:
    monkeypatch.delenv("MNEMA_OPERATOR_KEY_FILE", raising=False)
    with pytest.raises(ValueError, match="operator_key"):
        MnemaOperator("http://127.0.0.1:1")
    monkeypatch.setenv("MNEMA_OPERATOR_KEY_FILE", str(key_file))
    client = MnemaOperator("http://127.0.0.1:1")
    assert client.connection.api_key == KEY
    assert KEY not in repr(client)
    assert not hasattr(Mnema, "create_tenant")
