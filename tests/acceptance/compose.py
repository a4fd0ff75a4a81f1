"""The stack of docker-compose.yml as a separate project with its own name, ports, passwords and volumes."""

import json
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.acceptance.processes import REPOSITORY, environment, free_port, wait_until
from tests.containers import POSTGRES, REDIS

SECRETS = (
    "POSTGRES_PASSWORD",
    "MNEMA_ADMIN_PASSWORD",
    "MNEMA_APP_PASSWORD",
    "MNEMA_BACKUP_PASSWORD",
    "MNEMA_REDIS_PASSWORD",
    "MNEMA_SECRET_KEY",
)
SERVERS = ("api-1", "api-2")
COMMAND_S = 1200
READY_S = 300
BACK_S = 180


class Stack:
    """A Compose project, run by Compose v2 if available, else by docker-compose."""

    def __init__(self, folder: Path) -> None:
        self.secrets = {name: secrets.token_hex(16) for name in SECRETS}
        self._ports = {"MNEMA_PORT_1": free_port(), "MNEMA_PORT_2": free_port()}
        self.urls = [f"http://127.0.0.1:{port}" for port in self._ports.values()]
        self._ports["MNEMA_CONSOLE_PORT"] = free_port()
        self.console_url = f"http://127.0.0.1:{self._ports['MNEMA_CONSOLE_PORT']}/console"
        self._file = folder / "env"
        self._override = folder / "override.yml"
        self._write({})
        plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0
        self._compose = [
            *(("docker", "compose") if plugin else ("docker-compose",)),
            "-p",
            f"mnema{secrets.token_hex(4)}",
        ]

    @staticmethod
    def missing() -> str | None:
        """Return the reason why this machine cannot run the stack, None if it can."""
        if shutil.which("docker") is None:
            return "there is no docker on PATH"
        done = subprocess.run(["docker", "info"], capture_output=True, text=True, check=False)
        return None if done.returncode == 0 else f"Docker does not answer: {done.stderr.strip()}"

    def run(self, *args: str) -> str:
        """Run a command of Compose and return its output; fail with the output if it fails."""
        files = [REPOSITORY / "docker-compose.yml", *([self._override] if self._override.exists() else [])]
        named = [part for file in files for part in ("-f", str(file))]
        command = [*self._compose, *named, "--project-directory", str(REPOSITORY), "--env-file", str(self._file), *args]
        # the shell's variables for another stack must not override our file
        env = {k: v for k, v in environment().items() if k not in SECRETS}
        done = subprocess.run(
            command, cwd=REPOSITORY, env=env, timeout=COMMAND_S, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def execute(self, service: str, *command: str) -> str:
        """Run a command inside a running service and return its output."""
        return self.run("exec", "-T", service, *command)

    @contextmanager
    def changed(self, override: dict[str, Any] | None = None, **values: object) -> Iterator[None]:
        """Change values of .env and the override file during the block, with the containers that this concerns."""
        self._write(values, override)
        try:
            self.run("up", "-d")
            self.wait_ready(BACK_S)
            yield
        finally:
            self._write({})
            self.run("up", "-d")
            self.wait_ready(BACK_S)

    def _write(self, values: dict[str, object], override: dict[str, Any] | None = None) -> None:
        told = {**self.secrets, **self._ports, **_stand_ins(), **values}
        self._file.write_text("".join(f"{name}={value}\n" for name, value in told.items()))
        self._override.unlink(missing_ok=True)
        if override is not None:
            self._override.write_text(json.dumps({"services": override}))  # JSON is YAML

    def health(self, service: str) -> str:
        """Return the health of a service's container as Docker knows it."""
        return str(self.inspect(service)["State"]["Health"]["Status"])

    def inspect(self, service: str) -> dict[str, Any]:
        """Return Docker's data of a service's container."""
        container = self.run("ps", "-q", service).strip()
        done = subprocess.run(["docker", "inspect", container], capture_output=True, text=True, check=True)
        found: dict[str, Any] = json.loads(done.stdout)[0]
        return found

    def crash(self, service: str) -> None:
        """Send SIGKILL to the container's first process from the host; this needs root there.

        Docker does not restart a container after `docker kill`, which counts as the operator's wish.
        """
        os.kill(self.inspect(service)["State"]["Pid"], signal.SIGKILL)

    def wait_back(self, service: str, restarts: int) -> None:
        """Wait until Docker has restarted the container and it runs."""

        def back() -> bool:
            found = self.inspect(service)
            return bool(found["RestartCount"] > restarts and found["State"]["Running"])

        wait_until(back, f"{service} to be started again", BACK_S)

    def verdicts(self) -> list[str]:
        """Return the status of each server's /ready: ready, degraded, or an error."""
        return [_verdict(url) for url in self.urls]

    def wait_ready(self, seconds: float) -> None:
        """Wait until every server is ready, not only degraded."""
        wait_until(lambda: set(self.verdicts()) == {"ready"}, "all servers to be ready", seconds)

    def console_serves(self) -> bool:
        """Return True if the console answers."""
        try:
            return httpx.get(f"{self.console_url}/health", timeout=10, trust_env=False).is_success
        except httpx.HTTPError:
            return False


def _stand_ins() -> dict[str, str]:
    """Return the images of the other tests' containers, for machines that cannot pull the pinned ones."""
    images = {"MNEMA_POSTGRES_IMAGE": POSTGRES, "MNEMA_REDIS_IMAGE": REDIS}
    return {name: image for name, image in images.items() if _has(image)}


def _has(image: str) -> bool:
    return subprocess.run(["docker", "image", "inspect", image], capture_output=True, check=False).returncode == 0


def _verdict(url: str) -> str:
    try:
        return str(httpx.get(f"{url}/ready", timeout=10, trust_env=False).json()["status"])
    except (httpx.HTTPError, ValueError, KeyError) as error:
        return type(error).__name__
