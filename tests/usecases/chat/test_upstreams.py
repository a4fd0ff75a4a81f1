"""The endpoint of a request: the tenant's own, the installation's, the caller's key, and an outage of the database."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from uuid import uuid4

import asyncpg
import pytest
from pydantic import SecretStr

from app.bootstrap import Application, Doubles, build_application
from app.bootstrap.upstreams import open_upstreams
from app.config.settings import Settings
from app.domain.chat.upstream import Upstream
from app.domain.errors import ConfigError, InvalidInput, MnemaError, NotFound, UpstreamNotAllowed
from app.domain.outages import DatabaseUnavailable, NoUpstream, UpstreamKeyUnreadable
from app.usecases.chat import upstreams as module
from tests.conftest import Database
from tests.database_outage import gone
from tests.factories import Caller, make_caller
from tests.stalling_proxy import stalling
from tests.usecases.crowd import SeededEmbedder

pytestmark = pytest.mark.usefixtures("own")
URL, KEY = "https://1.1.1.1/v1", "sk-of-the-tenant-1234"
INSTALLED = {"chat_upstream_url": "http://127.0.0.1:9/v1", "chat_upstream_key": SecretStr("sk-installed")}
Start = Callable[..., Awaitable[Application]]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Settings as they are shipped: no private addresses."""
    return settings.model_copy(update={"chat_private_upstreams": False})


@pytest.fixture
def embedder() -> SeededEmbedder:
    return SeededEmbedder()


@pytest.fixture
async def start(settings: Settings, embedder: SeededEmbedder) -> AsyncIterator[Start]:
    """Return a function that builds an application with other settings."""
    async with AsyncExitStack() as stack:

        async def build(**changed: object) -> Application:
            other = settings.model_copy(update=changed)
            return await stack.enter_async_context(build_application(other, Doubles(embedder=embedder)))

        yield build


async def put(settings: Settings, caller: Caller, url: str = URL, key: str = KEY) -> None:
    """Set the caller's endpoint as an operator does."""
    async with open_upstreams(settings) as upstreams:
        await upstreams.set_upstream(caller.scope.tenant_id, url, key)


async def error_of(work: Awaitable[object]) -> MnemaError:
    with pytest.raises(MnemaError) as caught:
        await work
    return caught.value


async def test_the_tenants_endpoint_then_the_installations_then_none(
    start: Start, settings: Settings, caller: Caller
) -> None:
    without, with_one = await start(), await start(**INSTALLED)
    other = await make_caller(without)
    error = await error_of(without.chat.upstreams.find_upstream(caller.scope))
    assert (type(error), error.status, error.code) == (NoUpstream, 503, "no_upstream")
    installed = Upstream("http://127.0.0.1:9/v1", "sk-installed", trusted=True)
    assert await with_one.chat.upstreams.find_upstream(caller.scope) == installed
    await put(settings, caller)
    for app in (without, with_one):
        assert await app.chat.upstreams.find_upstream(caller.scope) == Upstream(URL, KEY)
    assert await with_one.chat.upstreams.find_upstream(other.scope) == installed
    async with open_upstreams(settings) as upstreams:
        assert await upstreams.clear_upstream(caller.scope.tenant_id)
        assert not await upstreams.clear_upstream(caller.scope.tenant_id)
    assert await with_one.chat.upstreams.find_upstream(caller.scope) == installed


async def test_the_callers_own_authorization_replaces_every_key(
    start: Start, settings: Settings, caller: Caller
) -> None:
    app = await start(**INSTALLED)
    own = "Bearer sk-of-the-caller"
    found = await app.chat.upstreams.find_upstream(caller.scope, own)
    assert found == Upstream("http://127.0.0.1:9/v1", "", trusted=True, authorization=own)
    await put(settings, caller)
    assert await app.chat.upstreams.find_upstream(caller.scope, own) == Upstream(URL, authorization=own)
    assert "caller" not in repr(found)
    for wrong in ("", "Bearer \n", "Bearer é", "x" * 4097):
        error = await error_of(app.chat.upstreams.find_upstream(caller.scope, wrong))
        assert isinstance(error, InvalidInput)
        assert error.detail == "X-Upstream-Authorization must be 1 to 4096 printable ASCII characters"
    assert await app.chat.upstreams.find_upstream(caller.scope, "x" * 4096)


async def test_a_row_of_another_tenant_or_url_is_unreadable_and_no_crash(
    start: Start, settings: Settings, caller: Caller, sql: asyncpg.Connection
) -> None:
    app = await start(**INSTALLED)
    thief = await make_caller(app)
    await put(settings, caller)
    copied = "INSERT INTO chat_upstreams SELECT $1, base_url, api_key FROM chat_upstreams"
    await sql.execute(copied, thief.scope.tenant_id)
    redirected = "UPDATE chat_upstreams SET base_url = 'https://9.9.9.9/v1' WHERE tenant_id = $1"
    await sql.execute(redirected, caller.scope.tenant_id)
    for one in (caller, thief):
        error = await error_of(app.chat.upstreams.find_upstream(one.scope))
        assert (type(error), error.status, error.code) == (UpstreamKeyUnreadable, 503, "upstream_key_unreadable")
        assert (await app.chat.upstreams.find_upstream(one.scope, "Bearer own")).authorization == "Bearer own"
    async with open_upstreams(settings) as upstreams:
        shown = await upstreams.show_upstream(thief.scope.tenant_id)
    assert shown is not None
    assert shown.key == "unreadable"


async def test_the_key_is_nowhere_in_the_database_in_the_clear(
    settings: Settings, caller: Caller, sql: asyncpg.Connection
) -> None:
    await put(settings, caller)
    row = await sql.fetchval("SELECT api_key FROM chat_upstreams WHERE tenant_id = $1", caller.scope.tenant_id)
    assert len(row) > 50
    for part in (KEY.encode(), KEY[-6:].encode()):
        assert part not in row


@pytest.mark.parametrize(
    ("key", "shown"), [("", "none"), ("short-key", "set"), (KEY, "set, ends in 1234"), ("x" * 15, "set")]
)
async def test_a_key_is_shown_by_its_end_at_most(settings: Settings, caller: Caller, key: str, shown: str) -> None:
    await put(settings, caller, key=key)
    async with open_upstreams(settings) as upstreams:
        found = await upstreams.show_upstream(caller.scope.tenant_id)
    assert found is not None
    assert (found.base_url, found.key) == (URL, shown)


@pytest.mark.parametrize(
    ("url", "key", "expected"),
    [
        ("http://169.254.169.254/v1", KEY, UpstreamNotAllowed),
        ("http://127.0.0.1:9/v1", KEY, UpstreamNotAllowed),
        ("http://2130706433/v1", KEY, UpstreamNotAllowed),
        ("ftp://1.1.1.1/v1", KEY, UpstreamNotAllowed),
        ("https://me:pw@1.1.1.1/v1", KEY, UpstreamNotAllowed),
        (URL, "sk-\n", InvalidInput),
        (URL, "x" * 4097, InvalidInput),
    ],
)
async def test_what_cannot_be_called_is_not_stored(
    settings: Settings, caller: Caller, url: str, key: str, expected: type[MnemaError]
) -> None:
    assert type(await error_of(put(settings, caller, url, key))) is expected
    async with open_upstreams(settings) as upstreams:
        assert await upstreams.show_upstream(caller.scope.tenant_id) is None


async def test_settings_allow_private_addresses_or_only_some_hosts(settings: Settings, caller: Caller) -> None:
    await put(settings.model_copy(update={"chat_private_upstreams": True}), caller, "http://127.0.0.1:9/v1")
    only = settings.model_copy(update={"chat_upstream_hosts": ["api.openai.com"]})
    assert "allowed hosts: api.openai.com" in (await error_of(put(only, caller))).detail


async def test_an_unknown_tenant_gets_no_endpoint(settings: Settings, database: Database) -> None:
    async with open_upstreams(settings) as upstreams:
        with pytest.raises(NotFound):
            await upstreams.set_upstream(uuid4(), URL, KEY)


async def test_a_wrong_endpoint_of_the_installation_does_not_start(start: Start) -> None:
    with pytest.raises(ConfigError, match="MNEMA_CHAT_UPSTREAM_URL: must be"):
        await start(chat_upstream_url="api.openai.com")
    with pytest.raises(ConfigError, match="MNEMA_FORMER_SECRET_KEY is too short"):
        await start(former_secret_key=SecretStr("short"))


@pytest.mark.long
async def test_a_process_asks_again_after_key_cache_s(start: Start, settings: Settings, caller: Caller) -> None:
    app = await start(key_cache_s=0.5)
    await put(settings, caller)
    assert await app.chat.upstreams.find_upstream(caller.scope) == Upstream(URL, KEY)
    await put(settings, caller, key="sk-changed")
    assert await app.chat.upstreams.find_upstream(caller.scope) == Upstream(URL, KEY)
    await asyncio.sleep(0.6)
    assert await app.chat.upstreams.find_upstream(caller.scope) == Upstream(URL, "sk-changed")


@pytest.mark.long
async def test_an_outage_of_the_database_is_bridged_for_a_while(
    start: Start, settings: Settings, caller: Caller, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = await start()
    other = await make_caller(app)
    await put(settings, caller)
    assert await app.chat.upstreams.find_upstream(caller.scope) == Upstream(URL, KEY)
    async with gone(database):
        for _ in range(3):
            assert await app.chat.upstreams.find_upstream(caller.scope) == Upstream(URL, KEY)
        assert isinstance(await error_of(app.chat.upstreams.find_upstream(other.scope)), DatabaseUnavailable)
        monkeypatch.setattr(app.chat.upstreams, "_grace", 0.0)
        await asyncio.sleep(module.RETRY_S + 0.1)
        assert isinstance(await error_of(app.chat.upstreams.find_upstream(caller.scope)), DatabaseUnavailable)
    assert await app.chat.upstreams.find_upstream(caller.scope) == Upstream(URL, KEY)


PATIENCE_S = 1.0


@pytest.mark.long
async def test_a_hanging_database_is_waited_for_only_once(
    start: Start, settings: Settings, caller: Caller, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stalling(database.app) as way:
        app = await start(database_url=SecretStr(way.url))
        await put(settings, caller)
        monkeypatch.setattr(app.chat.upstreams, "_patience", PATIENCE_S)
        await app.chat.upstreams.find_upstream(caller.scope)
        with way.stalled():
            before = time.monotonic()
            for _ in range(20):
                assert await app.chat.upstreams.find_upstream(caller.scope) == Upstream(URL, KEY)
            assert PATIENCE_S < time.monotonic() - before < 20 * PATIENCE_S
        await put(settings, caller, key="sk-changed")
        await asyncio.sleep(module.RETRY_S + 0.1)
        assert await app.chat.upstreams.find_upstream(caller.scope) == Upstream(URL, "sk-changed")


async def test_the_cache_is_bounded(
    start: Start, settings: Settings, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_CACHED", 2)
    app = await start(key_cache_s=4.0, **INSTALLED)
    for one in (caller, await make_caller(app), await make_caller(app)):
        await app.chat.upstreams.find_upstream(one.scope)
    await put(settings, caller)
    assert await app.chat.upstreams.find_upstream(caller.scope) == Upstream(URL, KEY)


async def test_the_client_closes_with_the_application(settings: Settings, embedder: SeededEmbedder) -> None:
    async with build_application(settings, Doubles(embedder=embedder)) as app:
        client = app.chat.client
        await client.check_address(Upstream(URL))
    error = await error_of(client.open_call(Upstream(URL), "GET", "/models", []))
    assert "stopping" in error.detail
