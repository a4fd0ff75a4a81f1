"""The command `mnema` in real processes: run to the end, or kept running and observed."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import orjson
from mnema_wire.installed import read_env

from app.embedded.postgres_access import command_line
from app.providers.embeddings.minilm import NAME as MINILM
from app.providers.embeddings.minilm import MiniLM
from app.providers.embeddings.onnx_files import ensure_graph
from tests.acceptance import command_server
from tests.conftest import SECRET_KEY, model_cache, roomy_memory

REPOSITORY = Path(__file__).parents[2]
DEADLINE_S = 300
MNEMA = (sys.executable, "-m", "app.cli.main")
SERVICES = frozenset({"redis", "server", "worker", "beat", "postgres"})
"""The processes that `mnema up` starts without the console."""
ANNOUNCED = "stop  Ctrl-C"


def environment(**values: object) -> dict[str, str]:
    """Return this process's environment without settings of Mnema or a database, and with `values`.

    With a database it has the tests' secret, too. A new installation gets MiniLM, at half the CPU.
    """
    values = {"MNEMA_EMBEDDING_MODEL": MINILM, **values}
    if values.get("MNEMA_DATABASE_URL"):
        values = {"MNEMA_SECRET_KEY": SECRET_KEY, **values}
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MNEMA_", "PG", "DATABASE_URL"))}
    return kept | {name: str(value) for name, value in values.items()}


async def mnema(*args: str, **env: object) -> subprocess.CompletedProcess[str]:
    """Run `mnema` to its end beside this event loop, which may be the server's. Nobody may ever see a traceback."""
    done = await asyncio.to_thread(command_server.run, args, environment(**env), str(REPOSITORY), DEADLINE_S)
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return done


def wait_until(met: Callable[[], object], what: str, seconds: float = DEADLINE_S) -> None:
    """Poll until `met` is true; fail with `what` if it never is."""
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline, f"waited in vain for: {what}"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    """Return True if the process lives; a zombie does not."""
    return command_line(pid) != ""


def told(pid: int) -> str:
    """Return a process's command line and environment."""
    if Path("/proc/self/environ").exists():
        return command_line(pid) + "\n" + Path(f"/proc/{pid}/environ").read_text().replace("\0", "\n")
    done = subprocess.run(["ps", "eww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=True)
    return done.stdout.replace(" ", "\n")


def listening(port: int) -> bool:
    """Return True if anything accepts connections on the port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Installation:
    """A MNEMA_HOME, its port, and the processes that run in it."""

    home: Path
    port: int = field(default_factory=free_port)
    console_port: int = field(default_factory=free_port)

    @property
    def env(self) -> dict[str, str]:
        """The variables of demo.env."""
        return read_env(self.home / "demo.env")

    @property
    def pids(self) -> dict[str, int]:
        """Return the recorded process ids of the supervisor and its processes."""
        pids: dict[str, int] = {}
        with suppress(OSError, ValueError):
            pids |= orjson.loads((self.home / "run.json").read_bytes())
        with suppress(OSError, ValueError, IndexError):
            lines = (self.home / "postgres" / "data" / "postmaster.pid").read_text().splitlines()
            pids["postgres"] = int(lines[0])
        return pids

    @property
    def postgres_port(self) -> int:
        """Return the port of PostgreSQL."""
        return int(self.env["DATABASE_URL"].rsplit(":", 1)[1].split("/")[0])

    def stopped(self, pids: Mapping[str, int]) -> bool:
        """Return True if none of these processes lives and no port is open."""
        return not any(map(alive, pids.values())) and not any(
            map(listening, (self.port, self.console_port, self.postgres_port))
        )


@contextmanager
def installation() -> Iterator[Installation]:
    """Yield a new home that shares the model with the other tests.

    It is not pytest's tmp_path: only root may traverse its parent directory, and PostgreSQL's account must.
    """
    ensure_graph(model_cache(), MiniLM(), "int8")
    place = Installation(Path(tempfile.mkdtemp(prefix="mnema-up-", dir=roomy_memory())))
    (place.home / "models").symlink_to(model_cache())
    try:
        yield place
    finally:
        end(place.pids)
        shutil.rmtree(place.home)


def end(pids: Mapping[str, int]) -> None:
    """Kill the processes that a failed test left running."""
    for pid in pids.values():
        with suppress(ProcessLookupError):
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(map(alive, pids.values())), "the killed processes to be gone", 60)


def _heed_signals() -> None:
    """Restore the default signal handlers: shells make background processes ignore Ctrl-C."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


class Up:
    """A running `mnema up`, stopped at the end of the block if the test did not stop it."""

    def __init__(self, place: Installation, command: Sequence[str] = MNEMA, **env: object) -> None:
        self.place = place
        self._output = place.home / f"up-{time.monotonic_ns()}.log"
        settings = {"MNEMA_HOME": place.home, "MNEMA_PORT": place.port, "MNEMA_TOUR": "0", "MNEMA_CONSOLE": "0"} | env
        self._services = SERVICES | ({"console"} if settings["MNEMA_CONSOLE"] == "1" else set())
        options: dict[str, Any] = {name: settings.pop(name) for name in ("user", "group") if name in settings}
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [*command, "up"],
                cwd=REPOSITORY,
                env=environment(**settings),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_heed_signals,
                extra_groups=[] if options else None,
                **options,
            )

    def __enter__(self) -> "Up":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(60)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    @property
    def output(self) -> str:
        """The output so far."""
        return self._output.read_text(encoding="utf-8", errors="replace")

    def says(self, text: str) -> str:
        """Wait for the words and return the output; fail if the process ends without them."""
        wait_until(lambda: text in self.output or self.process.poll() is not None, f"{text!r} in: {self.output}")
        assert text in self.output, self.output
        return self.output

    def serves(self) -> str:
        """Wait until everything runs and return the output."""
        output = self.says(ANNOUNCED)
        assert set(self.place.pids) == {"supervisor", *self._services}
        return output

    def ended(self, number: signal.Signals | None = None) -> int:
        """Send the signal, if one is given, wait for the end and return the exit code."""
        if number is not None:
            self.process.send_signal(number)
        code = self.process.wait(DEADLINE_S)
        assert "Traceback" not in self.output
        return code


def client(place: Installation) -> httpx.Client:
    """Return a client with the key of demo.env."""
    headers = {"Authorization": f"Bearer {place.env['MNEMA_API_KEY']}"}
    return httpx.Client(base_url=place.env["MNEMA_URL"], headers=headers, timeout=30, trust_env=False)


def texts(place: Installation) -> set[str]:
    """Return the texts of the newest 200 memories."""
    with client(place) as http:
        page = http.get("/memory", params={"limit": 200}).raise_for_status().json()
    return {memory["text"] for memory in page["items"]}
