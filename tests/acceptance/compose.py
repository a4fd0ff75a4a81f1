"""The stack of docker-compose.yml as a project of its own: its own name, ports, passwords and volumes."""

import json
import os
import secrets
import shutil
import signal
import subprocess
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
READY_S = 60
BACK_S = 120


class Stack:
    """Runs Compose v2 where there is one, else docker-compose."""

    def __init__(self, folder: Path) -> None:
        self.secrets = {name: secrets.token_hex(16) for name in SECRETS}
        self._ports = {"MNEMA_PORT_1": free_port(), "MNEMA_PORT_2": free_port()}
        self.urls = [f"http://127.0.0.1:{port}" for port in self._ports.values()]
        self._file = folder / "env"
        values = {**self.secrets, **self._ports, **_stand_ins()}
        self._file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0
        self._compose = [
            *(("docker", "compose") if plugin else ("docker-compose",)),
            "-p",
            f"mnema{secrets.token_hex(4)}",
        ]

    @staticmethod
    def missing() -> str | None:
        """Why there can be no stack here; None = there can."""
        if shutil.which("docker") is None:
            return "there is no docker on PATH"
        done = subprocess.run(["docker", "info"], capture_output=True, text=True, check=False)
        return None if done.returncode == 0 else f"Docker does not answer: {done.stderr.strip()}"

    def run(self, *args: str) -> str:
        """A command of Compose; what it printed. Fails with all it said."""
        command = [*self._compose, "--env-file", str(self._file), *args]
        # what the shell has set for another stack must not win over our file
        env = {k: v for k, v in environment().items() if k not in SECRETS}
        done = subprocess.run(
            command, cwd=REPOSITORY, env=env, timeout=COMMAND_S, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def execute(self, service: str, *command: str) -> str:
        """A command inside a running service; what it printed."""
        return self.run("exec", "-T", service, *command)

    def inspect(self, service: str) -> dict[str, Any]:
        """What Docker knows of a service's container."""
        container = self.run("ps", "-q", service).strip()
        done = subprocess.run(["docker", "inspect", container], capture_output=True, text=True, check=True)
        found: dict[str, Any] = json.loads(done.stdout)[0]
        return found

    def crash(self, service: str) -> None:
        """SIGKILL to the container's first process, from outside: `docker kill` would be taken for the operator's wish,
        after which Docker starts nothing again. Needs root on Docker's own machine."""
        os.kill(self.inspect(service)["State"]["Pid"], signal.SIGKILL)

    def wait_back(self, service: str, restarts: int) -> None:
        """Until Docker has started the container again, and it runs."""

        def back() -> bool:
            found = self.inspect(service)
            return bool(found["RestartCount"] > restarts and found["State"]["Running"])

        wait_until(back, f"{service} to be started again", BACK_S)

    def verdicts(self) -> list[str]:
        """What /ready of each server says: ready, degraded, or what else."""
        return [_verdict(url) for url in self.urls]

    def wait_ready(self, seconds: float) -> None:
        """Until every server is ready, and not merely degraded."""
        wait_until(lambda: set(self.verdicts()) == {"ready"}, "all servers to be ready", seconds)


def _stand_ins() -> dict[str, str]:
    """The images that the other tests use in containers, where the machine has them and cannot have the pinned ones."""
    images = {"MNEMA_POSTGRES_IMAGE": POSTGRES, "MNEMA_REDIS_IMAGE": REDIS}
    return {name: image for name, image in images.items() if _has(image)}


def _has(image: str) -> bool:
    return subprocess.run(["docker", "image", "inspect", image], capture_output=True, check=False).returncode == 0


def _verdict(url: str) -> str:
    try:
        return str(httpx.get(f"{url}/ready", timeout=10, trust_env=False).json()["status"])
    except (httpx.HTTPError, ValueError, KeyError) as error:
        return type(error).__name__
