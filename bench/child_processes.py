"""Servers of a benchmark as processes of their own, each on a free port of this machine."""

import contextlib
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx

from bench.http_load import HOST

ROOT = Path(__file__).resolve().parents[1]
READY_S, STOP_S = 60, 15


@contextlib.contextmanager
def running_server(
    module: str, *arguments: str, log: Path, variables: Mapping[str, str] | None = None
) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Run a module that prints its port; yield the process and the port once `GET /ready` answers 200 there."""
    command = [sys.executable, "-m", module, *arguments]
    with log.open("a", encoding="utf-8") as lines:
        process = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | dict(variables or {}), stdout=subprocess.PIPE, stderr=lines, text=True
        )
    try:
        yield process, _ready_port(process, log)
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _ready_port(process: "subprocess.Popen[str]", log: Path) -> int:
    """Return the port that the server prints, once it is ready there. Raise RuntimeError if it never is."""
    deadline = time.monotonic() + READY_S
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        line = process.stdout.readline() if selector.select(READY_S) else ""
    while line and process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"http://{HOST}:{int(line)}/ready", timeout=10).status_code == 200:
                return int(line)
        time.sleep(0.1)
    end = log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
    raise RuntimeError("the server did not get ready; the end of its log:\n" + "\n".join(end))
