"""A real Redis that a test may kill."""

import contextlib
import secrets
import subprocess
import time
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from app.cli.embedded.postgres import free_port
from app.cli.embedded.services import redis_server

START_S = 10


class RedisServer:
    """On a port of its own, with a password, and without persistence: what is killed comes back empty."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._password = secrets.token_urlsafe(32)
        self.url = f"redis://:{self._password}@127.0.0.1:{self.port}/0"
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Come back when it answers."""
        lines = ("bind 127.0.0.1", f"port {self.port}", f"requirepass {self._password}", 'save ""', "appendonly no")
        with (self._folder / "redis.log").open("a") as log:
            self._process = subprocess.Popen(
                [redis_server(), "-"], cwd=self._folder, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True
            )
        assert self._process.stdin is not None
        with self._process.stdin as stdin:
            stdin.write("\n".join(lines) + "\n")
        deadline = time.monotonic() + START_S
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "redis.log").read_text()
            assert time.monotonic() < deadline, "Redis does not answer"
            time.sleep(0.01)

    def _answers(self) -> bool:
        with contextlib.suppress(RedisError), self.client() as client:
            return bool(client.ping())
        return False

    def client(self) -> Redis:
        """A connection; close it (`with`)."""
        return Redis.from_url(self.url, socket_connect_timeout=1, socket_timeout=5)

    def kill(self) -> None:
        """SIGKILL: all it held is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
