"""PostgreSQL and Redis in containers, for a run with MNEMA_TEST_DATABASE=container."""

import asyncio
import contextlib
import secrets
import time

import asyncpg
from testcontainers.core.container import DockerContainer

from tests.redis_server import RedisServer

POSTGRES = "pgvector/pgvector:pg18"
REDIS = "redis:8"
START_S = 180
# the settings of a test run's embedded cluster: many connections and no durability
SETTINGS = (
    "max_connections=200",
    "shared_buffers=256MB",
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
)


class Unavailable(Exception):
    """The error that no container can be started; the message says why."""


class PostgresContainer:
    """A PostgreSQL server of the run, on a port that Docker chooses. It raises Unavailable."""

    def __init__(self) -> None:
        password = secrets.token_urlsafe(32)
        command = ["postgres", *(part for setting in SETTINGS for part in ("-c", setting))]
        try:
            self._container = DockerContainer(POSTGRES, shm_size="256m").with_exposed_ports(5432)
            self._container.with_env("POSTGRES_PASSWORD", password).with_command(command).start()
        except Exception as error:  # an error of Docker, the network or the registry
            raise Unavailable(f"{type(error).__name__}: {error}") from error
        try:
            host, port = self._container.get_container_host_ip(), self._container.get_exposed_port(5432)
            self.url = f"postgresql://postgres:{password}@{host}:{port}/postgres"
            asyncio.run(self._answers())
        except BaseException:
            self.stop()
            raise

    async def _answers(self) -> None:
        deadline = time.monotonic() + START_S
        while True:
            try:
                await (await asyncpg.connect(self.url, timeout=5)).close()
            except (OSError, TimeoutError, asyncpg.PostgresError) as error:
                if time.monotonic() > deadline:
                    said = self._container.get_wrapped_container().logs(tail=20).decode(errors="replace")
                    raise Unavailable(f"PostgreSQL does not answer: {error}\n{said}") from error
                await asyncio.sleep(0.1)
            else:
                return

    def stop(self) -> None:
        """Remove the container with its data."""
        self._container.stop()


class RedisContainer(RedisServer):
    """A Redis in a container. After a kill and a restart it has the same port and no data."""

    def __init__(self) -> None:
        super().__init__()
        command = ["redis-server", "--port", "6379", "--requirepass", self.password, "--save", "", "--appendonly", "no"]
        self._container = DockerContainer(REDIS).with_bind_ports(6379, self.port).with_command(command)
        self._created = False

    def _launch(self) -> None:
        if self._created:
            self._container.get_wrapped_container().start()
            return
        self._container.start()
        self._created = True

    def _ended(self) -> str | None:
        container = self._container.get_wrapped_container()
        container.reload()
        return container.logs(tail=20).decode(errors="replace") if container.status == "exited" else None

    def kill(self) -> None:
        """Send SIGKILL, so that all data is lost."""
        container = self._container.get_wrapped_container()
        with contextlib.suppress(Exception):  # it was already killed
            container.kill()
        container.wait()

    def close(self) -> None:
        """Remove the container."""
        if self._created:
            self._container.stop()
