"""Servers of a benchmark as processes of their own, each on a free port of this machine."""

import contextlib
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import httpx

from bench.http_clients import HOST

ROOT = Path(__file__).resolve().parents[1]
READY_S, STOP_S = 60, 15


@contextlib.contextmanager
def running_server(
    module: str,
    *arguments: str,
    log: Path,
    variables: Mapping[str, str] | None = None,
    python: str = sys.executable,
    port: int | None = None,
) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Run a module; yield the process and its port once `GET /ready` answers 200 there.

    The module prints its port, unless `port` names it; then it may print into the log. `python` runs it.
    """
    command = [python, "-m", module, *arguments]
    with running_command(command, log=log, variables=variables, port=port) as started:
        yield started


@contextlib.contextmanager
def running_command(
    command: Sequence[str], *, log: Path, variables: Mapping[str, str] | None = None, port: int | None = None
) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Run a command as `running_server` runs a module."""
    with log.open("a", encoding="utf-8") as lines:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | dict(variables or {}),
            stdout=subprocess.PIPE if port is None else lines,
            stderr=lines,
            text=True,
        )
    try:
        deadline = time.monotonic() + READY_S
        yield process, _await_ready(process, port or _printed_port(process, log), deadline, log)
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _printed_port(process: "subprocess.Popen[str]", log: Path) -> int:
    """Return the port that the server prints. Raise RuntimeError if it prints none."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        line = process.stdout.readline() if selector.select(READY_S) else ""
    if not line:
        raise _not_ready(log)
    return int(line)


def _await_ready(process: "subprocess.Popen[str]", port: int, deadline: float, log: Path) -> int:
    """Return the port once the server is ready there. Raise RuntimeError if it never is."""
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"http://{HOST}:{port}/ready", timeout=10).status_code == 200:
                return port
        time.sleep(0.1)
    raise _not_ready(log)


def _not_ready(log: Path) -> RuntimeError:
    end = log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
    return RuntimeError("the server did not get ready; the end of its log:\n" + "\n".join(end))
