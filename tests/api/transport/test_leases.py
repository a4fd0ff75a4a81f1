"""A key that ends while a request is under way ends the request, and nothing more is read or written with it."""

import asyncio
from typing import Any

import httpx
import pytest

from app.api.lease import LeaseWatch
from app.bootstrap import Application
from app.bootstrap.upstreams import open_upstreams
from app.domain.errors import Unauthenticated
from app.domain.outages import DatabaseUnavailable
from app.domain.principal import Principal
from tests.api.calls import sql
from tests.conftest import Database
from tests.factories import Caller, make_caller
from tests.scripted_upstream import scripted_upstream


@pytest.mark.long
async def test_a_chat_ends_with_its_key_and_its_answer_is_not_stored(
    app: Application, caller: Caller, server: str, database: Database
) -> None:
    key = await make_caller(app, ["chat"], tenant=caller)
    assert key.scope.key_id is not None
    async with scripted_upstream() as upstream, open_upstreams(app.parts.settings) as upstreams:
        upstream.rule, upstream.pause_s = (lambda _body: "one two three four five six seven eight nine ten"), 2.0
        await upstreams.set_upstream(caller.scope.tenant_id, upstream.base_url, "sk-up")
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Count to ten."}]}
        async with key.client(server) as http, http.stream("POST", "/v1/chat/completions", json=body) as answer:
            assert answer.status_code == 200
            lines = answer.aiter_lines()
            assert (await anext(lines)).startswith("data: ")
            await app.tenancy.tenants.revoke_key(caller.scope.tenant_id, key.scope.key_id)
            with pytest.raises(httpx.RemoteProtocolError):
                async for _line in lines:
                    pass
    roles = "SELECT role FROM memories WHERE tenant_id = $1 AND type = 'turn'"
    assert [row["role"] for row in await sql(database, roles, caller.scope.tenant_id)] == ["user"]


class FakeTenants:
    """The answers of `authenticate` in order; the last one is repeated."""

    def __init__(self, *answers: Principal | Exception | None) -> None:
        self._answers = list(answers)
        self._last: Principal | Exception | None = None

    async def authenticate(self, _key: str, _grace_s: float) -> Principal | None:
        self._last = self._answers.pop(0) if self._answers else self._last
        if isinstance(self._last, Exception):
            raise self._last
        return self._last


@pytest.fixture
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.api.lease.RENEW_S", 0.01)


async def ends(*answers: Any, grace_s: float = 0.0) -> bool:
    """Tell whether a request of a second ends with its lease."""
    tenants = FakeTenants(*answers)
    try:
        async with LeaseWatch() as watch:
            watch.begin(tenants, "key", grace_s)  # type: ignore[arg-type]  # this method is all that it needs
            await asyncio.sleep(0.3)
    except Unauthenticated:
        return True
    return False


@pytest.mark.usefixtures("no_wait")
async def test_a_request_ends_when_its_key_is_refused(caller: Caller) -> None:
    assert await ends(caller.scope, None)
    assert not await ends(caller.scope)


@pytest.mark.usefixtures("no_wait")
async def test_a_request_outlives_a_short_outage_alone(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not await ends(DatabaseUnavailable(), caller.scope)
    monkeypatch.setattr("app.api.lease.LONGEST_OUTAGE_S", 0.1)
    assert await ends(DatabaseUnavailable())
    assert not await ends(DatabaseUnavailable(), grace_s=10)
