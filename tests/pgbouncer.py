"""A real PgBouncer in transaction mode that a test may kill.

MNEMA_TEST_PGBOUNCER names its program; by default it is the `pgbouncer` on the PATH, if it is new enough.
"""

import functools
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

import pytest

from app.embedded.postgres import free_port

START_S = 180
OLDEST = (1, 21)
"""The first version with prepared statements in transaction mode."""
PAGE = Path(__file__).parents[1] / "docs/pgbouncer.md"
"""The page with the file of settings that a test's PgBouncer has."""


@functools.cache
def find_pgbouncer() -> str | None:
    """Return the program, or None if there is none on this machine that knows prepared statements."""
    if named := os.environ.get("MNEMA_TEST_PGBOUNCER"):
        return named
    if not (found := shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")):
        return None
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"(\d+)\.(\d+)", said)
    return found if version and tuple(map(int, version.groups())) >= OLDEST else None


class PgBouncer:
    """A PgBouncer in front of the PostgreSQL of `url`, for all its databases.

    It has the settings of docs/pgbouncer.md, and `settings` on top. `passwords` are those of the roles that may log in.
    """

    def __init__(self, folder: Path, url: str, passwords: dict[str, str], **settings: object) -> None:
        self._folder = folder
        self._server = urlsplit(url)
        self._passwords = passwords
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        parser = ConfigParser()
        parser.read_string(PAGE.read_text(encoding="utf-8").partition("```ini\n")[2].partition("```")[0])
        here = {"listen_port": self.port, "unix_socket_dir": "", "auth_file": folder / "users.txt"}
        self.settings: dict[str, object] = {**parser["pgbouncer"], **here, **settings}

    @property
    def log(self) -> str:
        """The lines that it has logged so far."""
        return (self._folder / "pgbouncer.log").read_text()

    def start(self) -> None:
        """Start it; return when it takes connections."""
        lines = (f"{name} = {value}" for name, value in self.settings.items())
        databases = f"* = host={self._server.hostname} port={self._server.port or 5432}"
        (self._folder / "pgbouncer.ini").write_text("\n".join(["[databases]", databases, "[pgbouncer]", *lines, ""]))
        users = "".join(f'"{role}" "{password}"\n' for role, password in self._passwords.items())
        (self._folder / "users.txt").write_text(users)
        program = find_pgbouncer()
        assert program is not None
        as_user = ["-u", "nobody"] if os.geteuid() == 0 else []  # it refuses to be root
        with (self._folder / "pgbouncer.log").open("a") as log:
            self._process = subprocess.Popen(
                [program, *as_user, self._folder / "pgbouncer.ini"], stdout=log, stderr=log
            )
        deadline = time.monotonic() + START_S
        while not self._listens():
            assert self._process.poll() is None, self.log
            assert time.monotonic() < deadline, "PgBouncer takes no connections"
            time.sleep(0.01)

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Stop it and cut all connections."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(START_S)
            self._process = None

    def through(self, url: str) -> str:
        """Return the URL of the same login and database through this PgBouncer."""
        parts = urlsplit(url)
        login = parts.netloc.rpartition("@")[0]
        return urlunsplit(parts._replace(netloc=f"{login}@127.0.0.1:{self.port}"))


needs_pgbouncer = pytest.mark.skipif(
    find_pgbouncer() is None, reason="no pgbouncer 1.21 on the PATH; MNEMA_TEST_PGBOUNCER may name one"
)


@contextmanager
def pgbouncer(folder: Path, url: str, **settings: object) -> Iterator[PgBouncer]:
    """Run a PgBouncer in front of the PostgreSQL of `url`, for the login of this URL."""
    login = urlsplit(url)
    made = PgBouncer(folder, url, {str(login.username): unquote(str(login.password))}, **settings)
    made.start()
    try:
        yield made
    finally:
        made.stop()
