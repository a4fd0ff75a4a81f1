"""Real PostgreSQL for every test: one server a run, one migrated template, and clones of it.

MNEMA_TEST_DATABASE: `embedded` (default); `container`, for PostgreSQL and for each module's Redis (tests of the
embedded installation still use it); or the URL of a superuser on a throw-away server.
MNEMA_TEST_OPERATOR: the URL of a role without superuser there, which then makes the roles and the template.
MNEMA_TEST_CLUSTERS=1: the tenants of the shared installation are spread over three clusters.
MNEMA_TEST_POOLER=1: servers and workers reach it through a PgBouncer in transaction mode, one for each process.
"""

import asyncio
import gc
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import hypothesis
import pytest
from filelock import FileLock
from pydantic import SecretStr

from app.bootstrap import Application, Doubles, build_application
from app.bootstrap.administration import create_roles, migrate_database
from app.config.settings import Settings
from app.embedded.postgres import EmbeddedPostgres
from app.ports import Embedder
from app.providers.embeddings.local import LocalEmbedder
from app.providers.embeddings.minilm import NAME as MINILM
from tests.effort import DEEP, tries
from tests.factories import Caller, Clock, KeepOpen, make_caller, replica
from tests.pgbouncer import PgBouncer
from tests.redis_server import RedisProcess, RedisServer
from tests.scripted_upstream import scripted_upstream

if TYPE_CHECKING:
    from tests.clusters.servers import ClusterServers
    from tests.containers import PostgresContainer

pytest_plugins = ("tests.time_limits.plugin", "tests.authorities", "tests.s3_server", "tests.standby")
POSTGRES: "pytest.StashKey[PostgresContainer]" = pytest.StashKey()
POOLER_PORT = "MNEMA_TEST_POOLER_PORT"
TEMPLATE = "mnema_template"
MEMORY, MEMORY_NEEDED = "/dev/shm", 2 << 30
SECRET_KEY = "the tests' own, and long enough for it"
PASSWORDS = {"mnema_admin": "admin of the tests", "mnema_app": "app of the tests"}


hypothesis.settings.register_profile("mnema", max_examples=tries(100), deadline=None, derandomize=not DEEP)
hypothesis.settings.load_profile("mnema")


def pytest_configure(config: pytest.Config) -> None:
    """Name the run's folder and start its container in the controlling process; workers inherit both."""
    if hasattr(config, "workerinput"):
        return
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # the suite starts hundreds of processes with the same modules
    where = roomy_memory() if _kind() == "embedded" else None
    os.environ.setdefault("MNEMA_EMBEDDING_MODEL", MINILM)  # half the CPU; tests of the default take this away
    os.environ["MNEMA_TEST_HOME"] = tempfile.mkdtemp(prefix="mnema-test-", dir=where)
    if _kind() == "container" and not config.option.collectonly:
        from tests.containers import PostgresContainer, Unavailable

        try:
            config.stash[POSTGRES] = started = PostgresContainer()
        except Unavailable as error:
            raise pytest.UsageError(f"MNEMA_TEST_DATABASE=container, but there is none to be had: {error}") from error
        os.environ["MNEMA_TEST_CONTAINER_URL"] = started.url


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Keep the garbage collector from the modules and tests: they stay, and each of its runs would walk them all."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the server, if a test needed it."""
    if hasattr(config, "workerinput"):
        return
    if POSTGRES in config.stash:
        config.stash[POSTGRES].stop()
    home = Path(os.environ["MNEMA_TEST_HOME"])
    if (home / "ready").exists() and _kind() == "embedded":
        EmbeddedPostgres(home, durable=False).stop_server("immediate")
    shutil.rmtree(home, ignore_errors=True)


def pytest_xdist_auto_num_workers() -> int:
    """Two processes a core: a good half of a run waits, for processes, locks and timeouts."""
    return 2 * (os.cpu_count() or 1)


def roomy_memory() -> str | None:
    """Return a folder in memory for clusters, where a clone costs a tenth, or None.

    None if there is no such folder, as in most containers, if it is too small, or if programs cannot run there: a
    cluster may hold a copy of the programs.
    """
    if not os.access(MEMORY, os.W_OK):
        return None
    there = os.statvfs(MEMORY)
    will_do = there.f_bavail * there.f_frsize >= MEMORY_NEEDED and not there.f_flag & os.ST_NOEXEC
    return MEMORY if will_do else None


def _kind() -> str:
    return os.environ.get("MNEMA_TEST_DATABASE", "embedded")


@dataclass(frozen=True)
class Database:
    """A database of one test, with its URLs by role. `app` goes through the run's PgBouncer, `direct` does not."""

    name: str
    superuser: str
    admin: str
    app: str
    direct: str


def database_url(base: str, name: str, user: str | None = None, password: str | None = None) -> str:
    """Return `base` with another database, and another login if one is given."""
    parts = urlsplit(base)
    host = parts.netloc.rsplit("@", 1)[-1]
    login = parts.netloc.rsplit("@", 1)[0] if user is None else f"{user}:{(password or '').replace(' ', '%20')}"
    return urlunsplit((parts.scheme, f"{login}@{host}", f"/{name}", "", ""))


@pytest.fixture(scope="session")
def superuser_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return a superuser's URL on the run's server, which has the roles and the migrated template."""
    url = _start_server()
    if not os.environ.get("MNEMA_TEST_POOLER"):
        yield url
        return
    soon = {"server_idle_timeout": 5, "server_login_retry": 0}  # for many databases, some of which go and return
    pooler = PgBouncer(tmp_path_factory.mktemp("pooler"), url, PASSWORDS, **soon)
    pooler.start()
    os.environ[POOLER_PORT] = str(pooler.port)
    yield url
    del os.environ[POOLER_PORT]
    pooler.stop()


def _start_server() -> str:
    home = Path(os.environ["MNEMA_TEST_HOME"])
    with FileLock(home / "setup.lock"):
        url = os.environ["MNEMA_TEST_CONTAINER_URL"] if _kind() == "container" else _kind()
        if url == "embedded":
            settings = {"max_connections": "200", "shared_buffers": "256MB", "max_wal_size": "256MB"}
            url = EmbeddedPostgres(home, settings=settings, durable=False).start_server().database_url()
        if not (home / "ready").exists():
            asyncio.run(_build_template(url))
            (home / "ready").touch()
    return url


async def _build_template(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(f"DROP DATABASE IF EXISTS {TEMPLATE}")
    await connection.close()
    await create_roles(os.environ.get("MNEMA_TEST_OPERATOR", url), TEMPLATE, PASSWORDS)
    await migrate_database(database_url(url, TEMPLATE, "mnema_admin", PASSWORDS["mnema_admin"]), Settings())


def pooled(url: str) -> str:
    """Return the URL through this process's PgBouncer, if the run has one."""
    if not (port := os.environ.get(POOLER_PORT)):
        return url
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@127.0.0.1:{port}"))


@asynccontextmanager
async def cloned(superuser: str) -> AsyncIterator[Database]:
    """Create a clone of the template; drop it at the end."""
    name = f"t_{uuid4().hex}"
    connection = await asyncpg.connect(superuser)
    strategy = "file_copy" if os.environ["MNEMA_TEST_HOME"].startswith(MEMORY) else "wal_log"
    await connection.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE} STRATEGY {strategy} OWNER mnema_owner")
    await connection.execute(f"REVOKE ALL ON DATABASE {name} FROM PUBLIC")
    await connection.execute(f"GRANT CONNECT ON DATABASE {name} TO mnema_app, mnema_admin")
    logins = {role: database_url(superuser, name, role, password) for role, password in PASSWORDS.items()}
    try:
        app = logins["mnema_app"]
        yield Database(name, database_url(superuser, name), logins["mnema_admin"], pooled(app), app)
    finally:
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await connection.close()


def settings_of(database: Database, home: Path) -> Settings:
    """Return settings of an installation on this database."""
    url, secret = SecretStr(database.app), SecretStr(SECRET_KEY)
    quick = {"pool_min": 1, "pool_max": 10, "key_cache_s": 0, "chat_private_upstreams": True, "webhook_private": True}
    return Settings(database_url=url, secret_key=secret, home=home, **quick)


@pytest.fixture
async def database(superuser_url: str) -> AsyncIterator[Database]:
    """Create a database for the test, a clone of the template; drop it at the end."""
    async with cloned(superuser_url) as database:
        yield database


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Run a real Redis for one module."""
    if _kind() == "container":
        from tests.containers import RedisContainer

        server: RedisServer = RedisContainer()
    else:
        server = RedisProcess(tmp_path_factory.mktemp("redis"))
    try:
        server.start()
        yield server
    finally:
        server.close()


def model_cache() -> Path:
    """Return the folder that keeps the model's graph between runs."""
    return Path(os.environ.get("MNEMA_MODEL_CACHE") or Path.home() / ".cache" / "mnema" / "models")


@pytest.fixture(scope="session")
def local_model() -> Iterator[Embedder]:
    """Load the real local model once for each process."""
    local = LocalEmbedder(cache_dir=model_cache(), threads=1)
    yield KeepOpen(local)
    asyncio.run(local.close())


@pytest.fixture
def embedder(local_model: Embedder) -> Embedder:
    """Return the embedder of the test's application. A module that overrides it gets its own applications."""
    return local_model


@pytest.fixture
def settings(database: Database, tmp_path: Path) -> Settings:
    """Return settings of an installation on the test's own database."""
    return settings_of(database, tmp_path)


@pytest.fixture
def clock() -> Clock:
    """Return a clock that the test may move; it starts at the present."""
    return Clock()


@dataclass(frozen=True)
class Installation:
    """An application, its database, and its server if the test asks for one."""

    app: Application
    database: Database
    url: str | None


@pytest.fixture(scope="session")
def shared_clusters() -> "Iterator[ClusterServers | None]":
    """Run three clusters for the tenants of the shared installation if MNEMA_TEST_CLUSTERS is set."""
    if not os.environ.get("MNEMA_TEST_CLUSTERS"):
        yield None
        return
    from tests.clusters.servers import cluster_servers  # it needs this module

    with cluster_servers(["first", "second", "third"]) as servers:
        yield servers


@pytest.fixture(scope="session")
async def shared_installation(
    superuser_url: str,
    local_model: Embedder,
    tmp_path_factory: pytest.TempPathFactory,
    shared_clusters: "ClusterServers | None",
) -> AsyncIterator[Installation]:
    """Run one database, application and server for all tests of this process that do not need their own.

    Chats of tenants without an upstream of their own go to a scripted one.
    """
    async with cloned(superuser_url) as database, scripted_upstream() as upstream:
        settings = settings_of(database, tmp_path_factory.mktemp("shared"))
        if shared_clusters is not None:
            settings = settings.model_copy(update={"clusters": shared_clusters.file})
        settings = settings.model_copy(update={"chat_upstream_url": upstream.base_url})
        upstream.takes_anything, upstream.rule = True, lambda _body: "Fine."
        async with replica(settings, Doubles(embedder=local_model, clock=Clock())) as (url, app):
            yield Installation(app, database, url)


@pytest.fixture
async def own_application(
    settings: Settings, embedder: Embedder, clock: Clock, database: Database
) -> AsyncIterator[Installation]:
    """Run an application on the test's own database, as mnema_app."""
    async with build_application(settings, Doubles(embedder=embedder, clock=clock)) as app:
        yield Installation(app, database, None)


@pytest.fixture
async def own_server(
    settings: Settings, embedder: Embedder, clock: Clock, database: Database
) -> AsyncIterator[Installation]:
    """Run an application of the test behind a real HTTP server."""
    async with replica(settings, Doubles(embedder=embedder, clock=clock)) as (url, app):
        yield Installation(app, database, url)


@pytest.fixture
def own() -> None:
    """Give the test its own `app` and `server`.

    Use it if other tests' tenants, counts or caches would show, if the test runs the due jobs of all tenants, or if its
    module overrides `settings` or `clock`.
    """


OWN = frozenset({"own", "database", "settings", "clock"})


@pytest.fixture
def installation(request: pytest.FixtureRequest, embedder: Embedder, local_model: Embedder) -> Installation:
    """Return the shared installation, in which the test has its own tenant.

    A test that asks for a fixture of OWN or has another embedder gets its own installation.
    """
    if embedder is local_model and OWN.isdisjoint(request.fixturenames):
        name = "shared_installation"
    else:
        name = "own_server" if "server" in request.fixturenames else "own_application"
    found: Installation = request.getfixturevalue(name)
    return found


@pytest.fixture
def app(installation: Installation) -> Application:
    """Return the whole application, as mnema_app."""
    return installation.app


@pytest.fixture
def server(installation: Installation) -> str:
    """Return the base URL of a real HTTP server of `app`."""
    assert installation.url is not None
    return installation.url


@pytest.fixture
async def caller(app: Application) -> Caller:
    """Return a new tenant with an admin key."""
    return await make_caller(app)


@pytest.fixture
async def sql(installation: Installation) -> AsyncIterator[asyncpg.Connection]:
    """Yield a superuser's connection to the database of `app`, which has other tests' tenants unless it is the own."""
    connection = await asyncpg.connect(installation.database.superuser)
    yield connection
    await connection.close()
