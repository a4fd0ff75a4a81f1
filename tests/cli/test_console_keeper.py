"""The supervision of the console: it tells when it answers and why it ended, backs off, and gives up."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
import typer

from app.cli.status import print_status
from app.embedded.console_keeper import FIRST_PAUSE_S, MOST_ENDS, STABLE_S, ConsoleKeeper
from app.embedded.home import Home
from app.embedded.postgres import free_port

Popen = subprocess.Popen[bytes]
BROKEN = "print('no port'); raise SystemExit(3)"


class Starter:
    """Starts a process of Python code that writes to a log, and remembers all of them."""

    def __init__(self, folder: Path, *code: str) -> None:
        self.log = folder / "console.log"
        self.started: list[Popen] = []
        self._folder = folder
        self._code = code

    def __call__(self) -> Popen:
        """Start it."""
        with self.log.open("ab") as log:
            process = subprocess.Popen([sys.executable, *self._code], stdout=log, stderr=log, cwd=self._folder)
        self.started.append(process)
        return process

    def end_newest(self) -> None:
        """Wait until the newest process has ended by itself."""
        self.started[-1].wait(60)


@pytest.fixture
def stop() -> Iterator[Callable[[Starter], Starter]]:
    """Return a function that has the processes of a starter killed after the test."""
    starters: list[Starter] = []

    def remember(starter: Starter) -> Starter:
        starters.append(starter)
        return starter

    yield remember
    for process in [process for starter in starters for process in starter.started]:
        process.kill()
        process.wait()


@pytest.fixture
def serving(tmp_path: Path, stop: Callable[[Starter], Starter]) -> tuple[Starter, str]:
    """Return a starter of a server that answers as a console does, and its address."""
    (tmp_path / "console").mkdir()
    (tmp_path / "console" / "health").write_text("{}")
    port = free_port()
    starter = stop(Starter(tmp_path, "-m", "http.server", "--bind", "127.0.0.1", str(port)))
    return starter, f"http://127.0.0.1:{port}/console"


def check_until(keeper: ConsoleKeeper, text: str, now: float) -> float:
    """Check with a clock that goes on until a line has this text; return the time then."""
    for _ in range(600):
        now += 1
        if text in (keeper.check_process(now) or ""):
            return now
        time.sleep(0.05)
    raise AssertionError(f"never said: {text}")


def test_a_console_that_ends_at_once_is_given_up_after_growing_pauses(
    tmp_path: Path, stop: Callable[[Starter], Starter]
) -> None:
    start = stop(Starter(tmp_path, "-c", BROKEN))
    keeper = ConsoleKeeper(start, "http://127.0.0.1:1/console", start.log)
    now = 0.0
    lines: list[str | None] = []
    for number in range(MOST_ENDS):
        assert len(start.started) == number + 1
        start.end_newest()
        lines.append(keeper.check_process(now))
        pause = FIRST_PAUSE_S * 2**number
        assert keeper.check_process(now + pause - 0.1) is None
        now += pause
        lines.append(keeper.check_process(now))
    first, again, last = [line for line in lines if line]
    assert first == "the console does not serve: it ended with code 3 (no port); see console.log in MNEMA_HOME"
    assert again == "console had ended and was started again; see console.log in MNEMA_HOME"
    assert last.startswith(f"the console is not started again after {MOST_ENDS} ends in a row: it ended with code")
    assert keeper.has_given_up
    assert (keeper.check_process(now + 10_000), len(start.started)) == (None, MOST_ENDS)


def test_its_address_is_told_once_it_answers(serving: tuple[Starter, str]) -> None:
    start, address = serving
    keeper = ConsoleKeeper(start, address, start.log)
    assert not keeper.answers
    now = check_until(keeper, f"the console serves {address}", 0.0)
    assert keeper.answers
    assert keeper.check_process(now + 1) is None


@pytest.mark.long
def test_ends_count_no_more_after_a_while_of_service(serving: tuple[Starter, str]) -> None:
    start, address = serving
    keeper = ConsoleKeeper(start, address, start.log)
    now = 0.0
    for _ in range(MOST_ENDS + 1):
        now = check_until(keeper, "serves", now)
        now += STABLE_S
        assert keeper.check_process(now) is None
        start.started[-1].kill()
        start.end_newest()
        assert "ended with code -9" in str(keeper.check_process(now))
        now = check_until(keeper, "was started again", now)
    assert not keeper.has_given_up


@pytest.mark.parametrize(
    ("pids", "address", "shown"),
    [
        ({}, "", "stopped"),
        ({"supervisor": 1}, "", "off"),
        ({"supervisor": 1}, "http://127.0.0.1:1/console", "ended  http://127.0.0.1:1/console"),
        ({"supervisor": 1, "console": 2}, "http://127.0.0.1:1/console", "starting  http://127.0.0.1:1/console"),
    ],
)
def test_status_shows_the_console(
    pids: dict[str, int],
    address: str,
    shown: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MNEMA_HOME", str(tmp_path))
    monkeypatch.setattr(Home, "running_pids", lambda _home: pids)
    if address:
        (tmp_path / "console.url").write_text(address)
    with pytest.raises(typer.Exit):
        print_status()
    assert f"console   {shown}" in capsys.readouterr().out


def test_status_shows_the_background_processes_and_what_the_server_misses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = {"database": "ok", "broker": "ok", "workers": "no worker has [reported]", "llm": "none: no chat model"}
    answer = httpx.Response(200, json={"status": "degraded", "checks": checks})
    monkeypatch.setenv("MNEMA_HOME", str(tmp_path))
    monkeypatch.setattr(Home, "running_pids", lambda _home: {"supervisor": 1, "beat": 2})
    monkeypatch.setattr(httpx, "get", lambda *_args, **_options: answer)
    with pytest.raises(typer.Exit) as ended:
        print_status()
    lines = capsys.readouterr().out.splitlines()
    assert lines[3:] == [
        "redis     runs elsewhere",
        "worker    stopped",
        "beat      running",
        "console   off",
        "workers: no worker has [reported]",
    ]
    assert ended.value.exit_code == 0


def test_status_shows_a_console_that_answers(
    serving: tuple[Starter, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    start, address = serving
    keeper = ConsoleKeeper(start, address, start.log)
    check_until(keeper, "serves", 0.0)
    monkeypatch.setenv("MNEMA_HOME", str(tmp_path))
    monkeypatch.setattr(Home, "running_pids", lambda _home: {"supervisor": 1, "console": 2})
    (tmp_path / "console.url").write_text(address)
    with pytest.raises(typer.Exit):
        print_status()
    assert f"console   running  {address}" in capsys.readouterr().out
