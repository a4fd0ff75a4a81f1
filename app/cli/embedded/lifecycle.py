"""mnema up, down, status: PostgreSQL, schema, a demo tenant and the server on one machine, and their clean end."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import httpx
import typer
from filelock import FileLock, Timeout

from app.bootstrap import create_roles, migrate_database, tenancy
from app.cli.client import client_of, explain, fail, out
from app.cli.embedded.home import COMMANDS, DATABASE, Home
from app.cli.embedded.postgres import Cluster
from app.cli.embedded.postgres_access import command_line
from app.cli.embedded.tour import load_sample, tour
from app.domain.errors import MnemaError, NotFound

READY_S = 120
STOP_S = 15
STOPPERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
KEPT_FROM_SERVER = ("DATABASE_URL", "MNEMA_ADMIN", "MNEMA_SUPERUSER")


class Stopped(BaseException):
    """Somebody asked us to end. No error, so that nothing on the way takes it for one."""


class Stopper:
    """Ctrl-C, SIGTERM and a closed terminal, kept until the next place where nothing is half done.

    Raised by the handler itself, an exception could fall between the start of a process and the note that it is ours,
    could cut the stopping short, and would be lost in a destructor or a callback from C.
    """

    def __init__(self) -> None:
        self._asked = False

    def listen(self) -> None:
        """From here on; but what we were started to ignore (nohup) stays ignored."""
        for number in STOPPERS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._note)

    def check(self) -> None:
        """Raise Stopped if anybody asked."""
        if self._asked:
            raise Stopped

    def close(self) -> None:
        """Everything is stopped: a late signal must not change how we end. Blocked, as one on its way to a handler that
        has just been replaced would make Python print a traceback."""
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPPERS)

    def _note(self, _signal: int, _frame: object) -> None:
        if not self._asked:
            with contextlib.suppress(OSError):  # the terminal may be gone
                os.write(2, b"stopping\n")  # print is not safe in a handler
        self._asked = True


def up(
    port: Annotated[int, typer.Option(envvar="MNEMA_PORT", min=1, max=65535)] = 8000,
    with_tour: Annotated[bool, typer.Option("--tour/--no-tour", envvar="MNEMA_TOUR")] = True,
) -> None:
    """Start everything on this machine and serve until Ctrl-C. The data stays in MNEMA_HOME (default .mnema)."""
    stopper = Stopper()
    stopper.listen()
    home = Home()
    for name in [name for name in os.environ if name.startswith("PG")]:
        del os.environ[name]  # the driver would take PGSSLMODE and the like, which are about other servers
    try:
        with _alone(home), _serving(home, port, stopper) as (server, url, key):
            if with_tour:
                _guide(home, url, key, stopper)
            _announce(home, url, key)
            _wait(server, stopper)
    except Stopped:
        out.print("stopped")
    except MnemaError as error:
        fail(explain(error))
    finally:
        stopper.close()


def _guide(home: Home, url: str, key: str, stopper: Stopper) -> None:
    """Sample and tour; when they fail, say so and serve all the same."""
    try:
        with client_of(url, key) as client:
            client.event_hooks = {"request": [lambda _request: stopper.check()]}
            load_sample(client, home)
            tour(client)
    except typer.Exit:
        out.print("the tour ended early; MNEMA_TOUR=0 leaves it out")


@contextlib.contextmanager
def _alone(home: Home) -> Iterator[None]:
    """One supervisor a home; a server left over from a killed one is stopped first."""
    home.path.mkdir(parents=True, exist_ok=True, mode=0o711 if os.geteuid() == 0 else 0o700)
    lock = FileLock(home.path / "up.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        fail(f"already running in {home.path}: see `mnema status`, stop it with `mnema down`")
    try:
        _stop_orphan(home)
        home.write_private(home.run_file, json.dumps({"supervisor": os.getpid()}))
        yield
    finally:
        home.run_file.unlink(missing_ok=True)
        lock.release()


def _stop_orphan(home: Home) -> None:
    """End a server whose supervisor is gone."""
    if (server := home.running().get("server")) is None:
        return
    deadline = time.monotonic() + STOP_S
    with contextlib.suppress(ProcessLookupError):
        os.kill(server, signal.SIGTERM)
        while home.running().get("server"):
            if time.monotonic() > deadline:
                os.kill(server, signal.SIGKILL)
            time.sleep(0.1)


@contextlib.contextmanager
def _serving(home: Home, port: int, stopper: Stopper) -> Iterator[tuple[subprocess.Popen[bytes], str, str]]:
    """PostgreSQL, schema, tenant and server; everything that was started is stopped on leaving, whatever happened."""
    _require_free(port)
    out.print(f"[dim]starting PostgreSQL in {home.path}[/]", highlight=False)
    try:
        cluster = home.postgres.start()
        for folder in home.postgres.opened:
            out.print(f"[dim]opened for traversal, so that PostgreSQL's own account gets through: {folder}[/]")
        stopper.check()
        key = asyncio.run(_prepare(home, cluster))
        stopper.check()
        url = f"http://127.0.0.1:{port}"
        home.write_demo_env({"MNEMA_URL": url, "MNEMA_API_KEY": key, "DATABASE_URL": cluster.url(DATABASE)})
        server = _start_server(home, cluster, port)
        try:
            home.write_private(home.run_file, json.dumps({"supervisor": os.getpid(), "server": server.pid}))
            _await_ready(server, url, home, stopper)
            yield server, url, key
        finally:
            _stop_process(server)
    finally:
        home.postgres.stop()


async def _prepare(home: Home, cluster: Cluster) -> str:
    """Roles, schema, the demo tenant; answers its admin key, the one in demo.env if it still works."""
    await create_roles(cluster.url(), DATABASE, home.passwords())
    settings = home.settings(cluster)
    await migrate_database(home.url(cluster, "mnema_admin"), settings)
    async with tenancy(settings) as tenants:
        kept = home.demo_env().get("MNEMA_API_KEY")
        if kept and await tenants.authenticate(kept):
            return kept
        try:
            tenant = await tenants.find("demo")
        except NotFound:
            tenant = await tenants.create("demo")
        return (await tenants.create_key(tenant.id, "demo admin", ["admin"]))[1]


def _start_server(home: Home, cluster: Cluster, port: int) -> subprocess.Popen[bytes]:
    """The server in a session of its own: Ctrl-C reaches it through us. It never learns the superuser's password."""
    settings = home.settings(cluster)
    env = {k: v for k, v in os.environ.items() if not k.startswith(KEPT_FROM_SERVER)}
    env |= {"MNEMA_DATABASE_URL": settings.database_url.get_secret_value()}
    env |= {"MNEMA_HOME": str(home.path), "MNEMA_CONFIG_DIR": str(settings.config_dir.resolve())}
    command = [sys.executable, "-m", "uvicorn", "--factory", "app.api.main:create_app", "--host", "127.0.0.1"]
    options = ["--port", str(port), "--no-access-log", "--log-level", "warning", "--timeout-graceful-shutdown", "10"]
    with (home.path / "server.log").open("ab") as log:
        return subprocess.Popen(
            [*command, *options],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=Path(__file__).resolve().parents[3],
        )


def _await_ready(server: subprocess.Popen[bytes], url: str, home: Home, stopper: Stopper) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        stopper.check()
        if server.poll() is not None:
            break
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/ready", timeout=5, trust_env=False).status_code == 200:
                return
        time.sleep(0.1)
    log = (home.path / "server.log").read_text(encoding="utf-8", errors="replace").splitlines()
    fail("the server did not get ready; the end of server.log:\n" + "\n".join(log[-15:]))


def _wait(server: subprocess.Popen[bytes], stopper: Stopper) -> None:
    while (code := server.poll()) is None:
        time.sleep(0.1)
        stopper.check()
    fail(f"the server ended by itself with code {code}; see server.log in MNEMA_HOME")


def _announce(home: Home, url: str, key: str) -> None:
    out.print(f"\n[bold]Mnema serves[/] {url}", highlight=False)
    out.print(f"  key   {key}", highlight=False)
    out.print(f"  docs  {url}/docs", highlight=False)
    out.print(f"  env   {home.env_file}", highlight=False)
    out.print("  stop  Ctrl-C", highlight=False)


def down() -> None:
    """Stop what `mnema up` started in MNEMA_HOME, even if its terminal is gone."""
    home = Home()
    if supervisor := home.running().get("supervisor"):
        deadline = time.monotonic() + 2 * STOP_S
        with contextlib.suppress(ProcessLookupError):
            os.kill(supervisor, signal.SIGTERM)
            while COMMANDS["supervisor"].search(command_line(supervisor)) and time.monotonic() < deadline:
                time.sleep(0.1)
    _stop_orphan(home)
    home.postgres.stop()
    home.run_file.unlink(missing_ok=True)
    out.print("stopped")


def status() -> None:
    """Say what runs; exit code 1 when the server is not ready."""
    home = Home()
    url = home.demo_env().get("MNEMA_URL", "")
    out.print(f"home      {home.path}", highlight=False)
    out.print(f"postgres  {'running' if home.exists and home.postgres.running() else 'stopped'}")
    ready = "stopped"
    if home.running():
        ready = "starting"
        with contextlib.suppress(httpx.HTTPError, ValueError, KeyError, TypeError):
            ready = httpx.get(f"{url}/ready", timeout=10, trust_env=False).json()["status"]
    out.print(f"server    {ready}{'' if ready == 'stopped' else f'  {url}'}", highlight=False)
    raise typer.Exit(0 if ready == "ready" else 1)


def _stop_process(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            fail(f"port {port} is taken; choose another: MNEMA_PORT=8001 make run")
