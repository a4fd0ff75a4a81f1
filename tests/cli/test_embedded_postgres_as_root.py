"""The embedded PostgreSQL under root: the server's account, its access to files, and use by an ordinary user."""

import asyncio
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from app.embedded import postgres_access
from app.embedded.postgres import Cluster, EmbeddedPostgres

REPOSITORY = Path(__file__).parents[2]
Make = Callable[[str], EmbeddedPostgres]
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="about the account that root's server runs as")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def execute(cluster: Cluster, sql: str) -> None:
    connection = await asyncpg.connect(cluster.database_url(), timeout=60)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


@pytest.fixture
def place() -> Iterator[Path]:
    """Return a folder outside pytest's tmp_path, because pytest removes the traverse bit of its shared parent."""
    path = Path(tempfile.mkdtemp(prefix="mnema-pg-"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def make(place: Path) -> Iterator[Make]:
    made: list[EmbeddedPostgres] = []

    def maker(name: str) -> EmbeddedPostgres:
        made.append(EmbeddedPostgres(place / name, durable=False))
        return made[-1]

    yield maker
    for server in made:
        server.stop_server("immediate")


def reads(uid: int, file: Path) -> bool:
    """Return True if a user can read the file without any group's permission."""
    return not subprocess.run(["cat", file], user=uid, group=uid, extra_groups=[], capture_output=True).returncode


@pytest.mark.long
async def test_a_parent_that_has_an_access_list_keeps_what_it_says(place: Path, make: Make) -> None:
    closed = place / "listed"
    closed.mkdir(mode=0o750)
    os.chmod(closed, 0o750)
    postgres_access.open_paths([closed], postgres_access.Account(12345, 12345))
    server = make("listed/home")
    server.start_server()
    account = server.data_dir.stat().st_uid
    (closed / "names").write_text("maya")
    (closed / "names").chmod(0o644)
    assert [reads(who, closed / "names") for who in (account, 12345, 54321)] == [True, True, False]
    assert mode(closed) == 0o750
    server.stop_server()
    server.start_server()
    assert server.opened == [closed]


@pytest.mark.long
async def test_root_opens_exactly_the_closed_parents(place: Path, make: Make) -> None:
    closed, listed = place / "closed", place / "closed" / "listed"
    listed.mkdir(parents=True, mode=0o755)
    closed.chmod(0o700)
    server = make("closed/listed/home")
    cluster = server.start_server()
    assert server.opened == [closed]
    assert (mode(closed) & 0o7, mode(listed), mode(server.home) & 0o7) == (0, 0o755, 0), "not to the world"
    account = server.data_dir.stat().st_uid
    assert pwd.getpwuid(account).pw_name in {"postgres", "nobody"}
    names = server.home / "names"
    names.write_text("maya")
    names.chmod(0o644)
    assert [reads(who, names) for who in (account, 12345)] == [True, False]
    await execute(cluster, "SELECT 1")


@pytest.mark.long
def test_root_copies_an_installation_that_others_cannot_read(
    place: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = postgres_access.package()
    strict = place / "strict" / wheel.name
    shutil.copytree(wheel / "pginstall18", strict / "pginstall18", ignore=shutil.ignore_patterns("include", "*.a"))
    libraries = wheel.with_name(wheel.name + ".libs")
    if libraries.exists():
        shutil.copytree(libraries, strict.with_name(libraries.name))
    subprocess.run(["chmod", "-R", "go=", strict.parent], check=True)
    monkeypatch.setattr(postgres_access, "package", lambda: strict)
    server = make("own")
    cluster = server.start_server()
    asyncio.run(execute(cluster, "CREATE EXTENSION vector"))
    copy = server.directory / "dist" / strict.name / "pginstall18" / "bin" / "postgres"
    assert postgres_access.command_line(server.owner_pid() or 0).startswith(str(copy))
    assert (copy.stat().st_uid, mode(copy)) == (0, 0o755)
    assert mode(strict.parent) == 0o700
    assert server.opened == []
    server.stop_server()
    copied = copy.stat().st_ino
    server.start_server()
    assert copy.stat().st_ino == copied


AS_NOBODY = """
import os, pathlib, pwd, sys
from app.embedded.postgres import EmbeddedPostgres
nobody = pwd.getpwnam("nobody")
os.setgroups([]); os.setgid(nobody.pw_gid); os.setuid(nobody.pw_uid)
server = EmbeddedPostgres(pathlib.Path(sys.argv[1]), durable=False)
print(server.start_server().database_url(), server.owner_pid())
if sys.argv[2] == "stop":
    server.stop_server()
    assert not server.is_running()
"""


def as_nobody(home: Path, what: str) -> list[str]:
    """Run the manager as an ordinary user. Import first: that user may not read this interpreter's files."""
    command = [sys.executable, "-c", AS_NOBODY, str(home), what]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


async def test_an_ordinary_user_needs_nothing_of_root_and_shares_the_home_with_it(make: Make) -> None:
    nobody = pwd.getpwnam("nobody")
    server = make("ordinary")
    server.home.mkdir(mode=0o700)
    os.chown(server.home, nobody.pw_uid, nobody.pw_gid)
    url, pid = as_nobody(server.home, "leave")
    assert server.password_file.stat().st_uid == server.data_dir.stat().st_uid == nobody.pw_uid
    cluster = server.start_server()
    assert (cluster.database_url(), str(server.owner_pid())) == (url, pid)
    await execute(cluster, "SELECT 1")
    server.stop_server()
    server.start_server()
    assert server.data_dir.stat().st_uid == nobody.pw_uid
    assert as_nobody(server.home, "stop")[0] == url
    assert server.is_running() is False
    assert server.opened == []


@pytest.mark.long
def test_a_home_that_root_makes_for_a_user_stays_usable_by_the_user(make: Make) -> None:
    nobody = pwd.getpwnam("nobody")
    server = make("sudo")
    server.home.mkdir(mode=0o700)
    os.chown(server.home, nobody.pw_uid, nobody.pw_gid)
    url = server.start_server().database_url()
    server.stop_server()
    assert as_nobody(server.home, "stop")[0] == url
