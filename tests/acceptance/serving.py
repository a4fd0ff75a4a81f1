"""The server alone, as a process that tests start, kill and restart."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import httpx

from app.providers.embeddings.minilm import MiniLM
from app.providers.embeddings.onnx_files import ensure_graph
from tests.acceptance.processes import DEADLINE_S, REPOSITORY, environment, free_port
from tests.conftest import Database, model_cache


class Server:
    """A server process on one port that tests kill and restart. `module` is its program."""

    def __init__(
        self,
        database: Database,
        home: Path,
        module: str = "app.api",
        stderr: IO[bytes] | int | None = None,
        env: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
        tree: Path = REPOSITORY,
    ) -> None:
        """Set up the server. `stderr` receives its output, instead of a file in `home`.

        `env`: more variables. `options`: more arguments of its program. `tree`: the folder of its code.
        """
        self._stderr = stderr
        self._options = options
        self._tree = tree
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._env = environment(MNEMA_DATABASE_URL=database.app, MNEMA_HOME=home, **(env or {}))
        self._module = module
        self._log = home / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start the process and wait until it is ready."""
        self._link_models()
        self._launch()
        async with asyncio.timeout(DEADLINE_S), httpx.AsyncClient(base_url=self.url) as client:
            while not await self._ready(client):
                assert self._process is not None
                assert self._process.poll() is None, self._log.read_text()
                await asyncio.sleep(0.05)

    def _link_models(self) -> None:
        ensure_graph(model_cache(), MiniLM(), "int8")
        if not (models := self._log.parent / "models").exists():
            models.symlink_to(model_cache())

    def _launch(self) -> None:
        command = [sys.executable, "-m", self._module, "--port", str(self.port), *self._options]
        with self._log.open("ab") as log:
            said = log if self._stderr is None else self._stderr
            self._process = subprocess.Popen(command, cwd=self._tree, env=self._env, stdout=said, stderr=said)

    async def _ready(self, client: httpx.AsyncClient) -> bool:
        try:
            return (await client.get("/ready")).status_code == 200
        except httpx.TransportError:
            return False

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """The process that was started last."""
        assert self._process is not None
        return self._process

    @property
    def log(self) -> str:
        """The output so far."""
        return self._log.read_text(encoding="utf-8")

    def kill(self) -> None:
        """Kill the process with SIGKILL: no handler runs and nothing is flushed."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
