"""mnema up, down and status: run PostgreSQL, the server and a demo tenant on one machine, and stop them cleanly."""

import asyncio
import contextlib
import os
import shlex
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import httpx
import typer
from filelock import FileLock, Timeout
from mnema_cli.client import build_client
from mnema_cli.output import error_text, exit_with_error, out
from rich.markup import escape

from app.bootstrap.administration import create_roles, migrate_database
from app.bootstrap.tenancy import open_tenants
from app.cli.tour import load_sample, run_tour, sample_user
from app.domain.errors import MnemaError, NotFound
from app.embedded.console_keeper import ConsoleKeeper
from app.embedded.console_process import find_obstacle
from app.embedded.home import COMMANDS, DATABASE, Home
from app.embedded.postgres import Cluster
from app.embedded.postgres_access import command_line
from app.embedded.services import STOP_S, Services

READY_S = 120
CONSOLE_WAIT_S = 10.0
WORKER_WAIT_S = 10.0
POSTGRES_CHECK_S = 2.0
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequested(BaseException):
    """A request to stop. It is no Exception, so that no error handler catches it."""


class StopSignals:
    """Ctrl-C, SIGTERM and SIGHUP (a closed terminal), remembered until the next safe place to stop.

    The handler itself raises nothing. An exception there could come between the start of a process and its entry in
    run.json, could interrupt the stopping itself, and would be lost in a destructor or a callback from C.
    """

    def __init__(self) -> None:
        self._is_requested = False

    def install_handlers(self) -> None:
        """Handle the signals from now on. A signal that is ignored, as under nohup, stays ignored."""
        for number in STOP_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle_signal)

    def raise_if_stopped(self) -> None:
        """Raise StopRequested if a signal has arrived."""
        if self._is_requested:
            raise StopRequested

    def block_signals(self) -> None:
        """Block the signals at the end, so that a late one does not change the exit code.

        To restore the default handlers is not enough: a signal in between would make Python print a traceback.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)

    def _handle_signal(self, _signal: int, _frame: object) -> None:
        if not self._is_requested:
            with contextlib.suppress(OSError):  # the terminal may be gone
                os.write(2, b"stopping\n")  # print is not safe in a handler
        self._is_requested = True


def start_installation(
    port: Annotated[int, typer.Option(envvar="MNEMA_PORT", min=1, max=65535)] = 8000,
    with_tour: Annotated[bool, typer.Option("--tour/--no-tour", envvar="MNEMA_TOUR")] = True,
    with_console: Annotated[bool, typer.Option("--console/--no-console", envvar="MNEMA_CONSOLE")] = True,
    console_port: Annotated[int, typer.Option(envvar="MNEMA_CONSOLE_PORT", min=1, max=65535)] = 8080,
) -> None:
    """Start everything on this machine and serve until Ctrl-C. The data is in MNEMA_HOME (default .mnema)."""
    stopper = StopSignals()
    stopper.install_handlers()
    home = Home()
    for name in [name for name in os.environ if name.startswith("PG")]:
        del os.environ[name]  # the driver would apply PGSSLMODE and the like, which are meant for other servers
    try:
        with _supervisor_lock(home), _running_services(home, port, stopper) as (services, url, key):
            console = _start_console(services, console_port) if with_console else None
            user = _load_and_tour(home, url, key, stopper) if with_tour else USER
            _await_console(console, stopper)
            _await_worker(url, stopper)
            print_addresses(home, url, key, console)
            print_next_steps(home, user, has_console=console is not None)
            _supervise_services(home, services, console, stopper)
    except StopRequested:
        out.print("stopped")
    except MnemaError as error:
        exit_with_error(error_text(error))
    finally:
        stopper.block_signals()


def _start_console(services: Services, port: int) -> ConsoleKeeper | None:
    """Start the console; return its supervision. If it cannot start, print why: the server serves without it."""
    if obstacle := find_obstacle(port):
        out.print(f"no console: {obstacle}", highlight=False)
        return None
    return services.start_console(port)


def _await_console(console: ConsoleKeeper | None, stopper: StopSignals) -> None:
    """Wait a moment until the console answers. If it ends, print why; the server serves without it."""
    deadline = time.monotonic() + CONSOLE_WAIT_S
    while console is not None and not console.answers and time.monotonic() < deadline:
        stopper.raise_if_stopped()
        line = console.check_process(time.monotonic())
        if line is not None and not console.answers:
            out.print(line, highlight=False, markup=False)
            return
        time.sleep(0.1)


def _await_worker(url: str, stopper: StopSignals) -> None:
    """Wait at most WORKER_WAIT_S until the worker has reported, so that nobody sees `degraded` right after a start."""
    deadline = time.monotonic() + WORKER_WAIT_S
    while time.monotonic() < deadline:
        stopper.raise_if_stopped()
        with contextlib.suppress(httpx.HTTPError, ValueError, KeyError):
            checks = httpx.get(f"{url}/ready", timeout=5, trust_env=False).json()["checks"]
            if checks["workers"] == "ok" or checks["broker"] != "ok":
                return
        time.sleep(0.2)


def _load_and_tour(home: Home, url: str, key: str, stopper: StopSignals) -> str:
    """Load the sample and run the tour; return the user they are about.

    If they fail, print a message and return USER; the server keeps serving.
    """
    try:
        with build_client(url, key) as client:
            client.event_hooks = {"request": [lambda _request: stopper.raise_if_stopped()]}
            load_sample(client, home)
            run_tour(client)
            return sample_user()
    except typer.Exit:
        out.print("the tour ended early; MNEMA_TOUR=0 skips it")
        return USER


@contextlib.contextmanager
def _supervisor_lock(home: Home) -> Iterator[None]:
    """Allow one supervisor for each home. First stop the processes that a killed supervisor left."""
    home.path.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = FileLock(home.path / "up.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        exit_with_error(f"already running in {home.path}: see `mnema status`, or stop it with `mnema down`")
    try:
        _stop_orphans(home)
        home.console_file.unlink(missing_ok=True)  # of a supervisor that was killed
        home.record_running({})
        yield
    finally:
        home.run_file.unlink(missing_ok=True)
        lock.release()


def _stop_orphans(home: Home) -> None:
    """Stop the processes of a supervisor that is gone: SIGTERM, and SIGKILL after STOP_S seconds."""
    deadline = time.monotonic() + STOP_S
    number = signal.SIGTERM
    while pids := [pid for name, pid in home.running_pids().items() if name != "supervisor"]:
        if time.monotonic() > deadline:
            number = signal.SIGKILL
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        time.sleep(0.2)


@contextlib.contextmanager
def _running_services(home: Home, port: int, stopper: StopSignals) -> Iterator[tuple[Services, str, str]]:
    """Start PostgreSQL, schema, tenant and server; yield the services, the URL and the key.

    On leaving, stop everything that was started, also after an error.
    """
    _require_free_port(port)
    out.print(f"[dim]starting PostgreSQL in {home.path}[/]", highlight=False)
    try:
        cluster = home.postgres.start_server()
        for folder in home.postgres.opened:
            out.print(f"[dim]opened for traversal by the account that runs PostgreSQL: {folder}[/]")
        stopper.raise_if_stopped()
        out.print("[dim]preparing the database[/]")
        key = asyncio.run(_prepare_database(home, cluster))
        stopper.raise_if_stopped()
        url = f"http://127.0.0.1:{port}"
        home.write_demo_env({"MNEMA_URL": url, "MNEMA_API_KEY": key, "DATABASE_URL": cluster.database_url(DATABASE)})
        services = Services(home, cluster, port)
        try:
            out.print(f"[dim]starting the server on {url}[/]", highlight=False)
            services.start_server()
            _await_ready(services, url, home, stopper)
            services.start_workers()
            yield services, url, key
        finally:
            services.stop_all()
    finally:
        home.postgres.stop_server()


async def _prepare_database(home: Home, cluster: Cluster) -> str:
    """Create roles, schema and the demo tenant. Return its admin key, the one in demo.env if it is still valid."""
    await create_roles(cluster.database_url(), DATABASE, home.load_passwords())
    settings = home.server_settings(cluster)
    await migrate_database(home.role_url(cluster, "mnema_admin"), settings)
    async with open_tenants(settings) as tenants:
        saved_key = home.demo_env().get("MNEMA_API_KEY")
        if saved_key and await tenants.authenticate(saved_key):
            return saved_key
        try:
            tenant = await tenants.find_tenant("demo")
        except NotFound:
            tenant = await tenants.create_tenant("demo")
        return (await tenants.create_key(tenant.id, "demo admin", ["admin"]))[1]


def _await_ready(services: Services, url: str, home: Home, stopper: StopSignals) -> None:
    deadline = time.monotonic() + READY_S
    failed = ""
    while time.monotonic() < deadline:
        stopper.raise_if_stopped()
        if services.server_ended() is not None:
            break
        with contextlib.suppress(httpx.HTTPError):
            answer = httpx.get(f"{url}/ready", timeout=5, trust_env=False)
            if answer.status_code == 200:
                return
            failed = answer.text
        time.sleep(0.1)
    log = (home.path / "server.log").read_text(encoding="utf-8", errors="replace").splitlines()
    exit_with_error(f"the server did not become ready: {failed}\nthe end of server.log:\n" + "\n".join(log[-15:]))


def _supervise_services(home: Home, services: Services, console: ConsoleKeeper | None, stopper: StopSignals) -> None:
    checked_at = time.monotonic()
    while (code := services.server_ended()) is None:
        time.sleep(0.1)
        stopper.raise_if_stopped()
        if time.monotonic() > checked_at + POSTGRES_CHECK_S:
            checked_at = time.monotonic()
            _restart_postgres(home)
        for name in services.restart_ended():
            out.print(f"{name} had ended and was started again; see {name}.log in MNEMA_HOME")
        if console is not None and (line := console.check_process(time.monotonic())):
            out.print(line, highlight=False, markup=False)
    exit_with_error(f"the server ended unexpectedly with code {code}; see server.log in MNEMA_HOME")


def _restart_postgres(home: Home) -> None:
    """Start PostgreSQL again if it has ended. It keeps its port, so the server reconnects."""
    if not home.postgres.is_running():
        home.postgres.start_server()
        out.print("PostgreSQL had ended and was started again; see postgres/server.log in MNEMA_HOME")


def stop_installation() -> None:
    """Stop everything that `mnema up` started in MNEMA_HOME, even if its terminal is gone."""
    home = Home()
    if supervisor := home.running_pids().get("supervisor"):
        deadline = time.monotonic() + 2 * STOP_S
        with contextlib.suppress(ProcessLookupError):
            os.kill(supervisor, signal.SIGTERM)
            while COMMANDS["supervisor"].search(command_line(supervisor)) and time.monotonic() < deadline:
                time.sleep(0.1)
    _stop_orphans(home)
    home.postgres.stop_server()
    home.run_file.unlink(missing_ok=True)
    out.print("stopped")


def _require_free_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            exit_with_error(f"port {port} is taken; choose another: MNEMA_PORT=8001 make run")


USER = "maya"
"""The user of the commands if no sample is loaded."""


def print_addresses(home: Home, url: str, key: str, console: ConsoleKeeper | None) -> None:
    """Print the server's address and key, the console's address if it answers, and how to stop."""
    out.print(f"\n[bold]Mnema serves[/] {url}", highlight=False)
    out.print(f"  key   {key}", highlight=False)
    if console is not None and console.answers:
        out.print(f"  web   {console.address}", highlight=False)
    out.print(f"  docs  {url}/docs", highlight=False)
    out.print(f"  env   {home.env_file}", highlight=False)
    out.print("  stop  Ctrl-C", highlight=False)
    if console is not None and not console.answers:
        out.print("The console is starting. Its address follows as soon as it answers.", highlight=False)


def print_next_steps(home: Home, user: str, *, has_console: bool) -> None:
    """Print commands that work as they stand in a second terminal in this folder. `user`: whose memories they use."""
    mnema = _short_path(Path(sys.executable).with_name("mnema"))
    who = shlex.quote(user)
    steps = [
        (f". {_short_path(home.env_file)}", "the address and the key, for the commands below, curl and your programs"),
        (f'{mnema} remember "{user} must book the night train to Porto by Monday." --user {who} --category tasks', ""),
        (f'{mnema} query "which train to book?" --agent planner --user {who}', "what an agent is told"),
        (f"{mnema} list --user {who}", "also: get, edit, forget, restore, history, why"),
        (f"{mnema} doctor", "checks the installation"),
    ]
    if "MNEMA_HOME" in os.environ:
        steps.insert(0, (f"export MNEMA_HOME={shlex.quote(str(home.path))}", ""))
    out.print("\n[bold]Try next[/], in a second terminal in this folder:", highlight=False)
    for command, about in steps:
        out.print(f"  {escape(command)}" + (f"   [dim]# {about}[/]" if about else ""), highlight=False)
    if has_console:
        out.print("Open the web address above in a browser and sign in with the key.", highlight=False)
    out.print("docs/agents.md says how to connect an agent of your own; README.md lists all pages.", highlight=False)


def _short_path(path: Path) -> str:
    """Return a path for a shell, relative if it is below the working directory."""
    folder = Path.cwd()
    return shlex.quote(str(path.relative_to(folder) if path.is_relative_to(folder) else path))
