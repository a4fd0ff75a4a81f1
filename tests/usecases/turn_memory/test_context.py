"""The cost of a view: one round trip to the database, and no blob."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
from pydantic import SecretStr

from app.bootstrap import Application, Doubles, build_application
from app.config.settings import Settings
from app.domain.turn_memory.artifacts import Conversation
from app.domain.turn_memory.views import ViewName, ViewRequest
from app.ports import Embedder
from app.usecases.turn_memory.turns import NewTurn
from bench.counting_proxy import CountingProxy
from tests.conftest import Database
from tests.factories import Caller, make_caller

TALK = Conversation("maya", "talk")
SIGNALS = {"assistant_signals": [{"key": "product.export", "value": "PDF"}]}


@pytest.fixture
async def proxy(database: Database) -> AsyncIterator[CountingProxy]:
    """A proxy that counts the messages to the test's database."""
    async with CountingProxy(database.app) as counting:
        yield counting


@pytest.fixture
async def proxied(proxy: CountingProxy, settings: Settings, embedder: Embedder) -> AsyncIterator[Application]:
    """An application with one connection through the proxy."""
    one = settings.model_copy(update={"database_url": SecretStr(proxy.proxy_url), "pool_max": 1})
    async with build_application(one, Doubles(embedder=embedder)) as app:
        yield app


async def store_turns(app: Application, caller: Caller, count: int) -> None:
    """Store turns with fingerprints."""
    for number in range(count):
        turn = NewTurn(f"turn_{number}", f"question {number}", "an answer")
        await app.turn_memory.turns.put_turn(caller.scope, TALK, turn)
        await app.turn_memory.turns.put_fingerprint(caller.scope, TALK, turn.turn_id, SIGNALS)


@pytest.mark.parametrize("view", list(ViewName))
async def test_a_view_takes_one_round_trip(proxy: CountingProxy, proxied: Application, view: ViewName) -> None:
    caller = await make_caller(proxied)
    await store_turns(proxied, caller, 3)
    request = ViewRequest(view, "turn_2", ["turn_0", "turn_1"])
    await proxied.turn_memory.context.read_view(caller.scope, TALK, request)
    await proxied.turn_memory.context.list_signals(caller.scope, "maya", None, None)
    before = proxy.flights
    shown = await proxied.turn_memory.context.read_view(caller.scope, TALK, request)
    assert proxy.flights - before == 1
    assert "turn_0" in shown.text
    signals = await proxied.turn_memory.context.list_signals(caller.scope, "maya", None, None)
    assert proxy.flights - before == 2
    assert len(signals) == 3


async def test_a_view_reads_no_blob(database: Database, app: Application, caller: Caller) -> None:
    await store_turns(app, caller, 3)
    superuser = await asyncpg.connect(database.superuser)
    await superuser.execute("REVOKE SELECT ON blob_contents, blobs FROM mnema_app")
    await superuser.close()
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await app.turn_memory.read.read_turn(caller.scope, TALK, "turn_0")
    for view in ViewName:
        request = ViewRequest(view, "turn_2", ["turn_0", "turn_1"])
        assert "turn_0" in (await app.turn_memory.context.read_view(caller.scope, TALK, request)).text
    assert len(await app.turn_memory.context.list_signals(caller.scope, "maya", None, None)) == 3
