"""Real workers and beats on a test's own database and Redis, with periods so short that a test can wait for them."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml

from app.config.yaml_files import CONFIG_DIR
from app.providers.embeddings.minilm import MiniLM
from app.providers.embeddings.onnx_files import ensure_graph
from tests.acceptance.processes import DEADLINE_S, REPOSITORY, alive, environment
from tests.conftest import model_cache

Process = subprocess.Popen[bytes]
QUICK: Mapping[str, Any] = {
    "lease_s": 3,
    "heartbeat_s": 1,
    "max_attempts": 3,
    "backoff_s": 0.2,
    "backoff_max_s": 0.5,
    "republish_s": 2,
    "schedule": {},
}


class Background:
    """The workers and beats of a test. Each leads its own process group."""

    def __init__(
        self, folder: Path, database_url: str, redis_url: str, env: Mapping[str, object], output: int | None = None
    ) -> None:
        self._log = folder / "background.log"
        self._output = output
        self._numbers = iter(range(1000))
        self._processes: list[Process] = []
        self.queue = f"q-{uuid4().hex}"
        rhythm: dict[str, object] = {"MNEMA_SWEEP_S": 0.3, "MNEMA_SCHEDULE_S": 1, "MNEMA_WORKER_QUEUE": self.queue}
        where = {"MNEMA_DATABASE_URL": database_url, "MNEMA_REDIS_URL": redis_url, "MNEMA_HOME": folder}
        self._env = environment(**(rhythm | where | dict(env)))

    def worker(self, concurrency: int = 1) -> Process:
        """Start a worker."""
        options = ["--concurrency", str(concurrency), "--loglevel", "warning", "--without-gossip", "--without-mingle"]
        return self._start("worker", "--hostname", f"w{next(self._numbers)}@%h", *options)

    def beat(self) -> Process:
        """Start a beat."""
        return self._start("beat", "--loglevel", "warning", "--pidfile", "")

    def _start(self, *args: str) -> Process:
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "celery", "-A", "workers.app", *args]
            process = subprocess.Popen(
                command, cwd=REPOSITORY, env=self._env, stdout=log, stderr=self._output or log, start_new_session=True
            )
        self._processes.append(process)
        return process

    @property
    def log(self) -> str:
        """Return the output of all processes."""
        return self._log.read_text(errors="replace")

    def stop(self) -> None:
        """End all processes, and everything that a killed one left."""
        for process in self._processes:
            process.terminate()
        deadline = time.monotonic() + 20
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline - time.monotonic()))
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def kill(process: Process) -> None:
    """Send SIGKILL to this process alone, so that it cannot flush or sign off."""
    process.kill()
    process.wait()


def children(process: Process) -> list[int]:
    """Return the live processes of a worker's pool."""
    listed = subprocess.run(["ps", "axo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = (line.split() for line in listed.splitlines())
    return [int(pid) for pid, parent in pairs if int(parent) == process.pid and alive(int(pid))]


@contextmanager
def background(
    folder: Path,
    database_url: str,
    redis_url: str,
    jobs: Mapping[str, Any] | None = None,
    lifecycle: Mapping[str, Any] | None = None,
    output: int | None = None,
    **env: object,
) -> Iterator[Background]:
    """Run workers on this database and Redis, with sections of policies.yaml changed (`jobs` over QUICK).

    `output` is a descriptor for their stderr instead of the log. Everything is stopped at the end.
    """
    ensure_graph(model_cache(), MiniLM(), "int8")
    (folder / "models").symlink_to(model_cache())
    config = folder / "config"
    shutil.copytree(CONFIG_DIR, config)
    policies = yaml.safe_load((config / "policies.yaml").read_text(encoding="utf-8"))
    policies["jobs"] |= {**QUICK, **(jobs or {})}
    policies["lifecycle"] |= lifecycle or {}
    (config / "policies.yaml").write_text(yaml.safe_dump(policies, allow_unicode=True), encoding="utf-8")
    made = Background(folder, database_url, redis_url, {"MNEMA_CONFIG_DIR": config, **env}, output)
    try:
        yield made
    finally:
        made.stop()


def kill_group(process: Process) -> None:
    """Kill a worker and its pool at once."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


async def until(met: Callable[[], Awaitable[object]], what: str, seconds: float = DEADLINE_S) -> float:
    """Poll until `met` answers a true value; return the waiting time in seconds."""
    began = time.monotonic()
    while not await met():
        assert time.monotonic() < began + seconds, f"waited in vain for: {what}"
        await asyncio.sleep(0.05)
    return time.monotonic() - began
