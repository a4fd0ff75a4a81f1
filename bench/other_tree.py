"""The cost of a write and a query in this tree against another checkout of Mnema, `python -m bench.other_tree FOLDER`.

FOLDER is a checkout with a `.venv` of its own. Each tree gets its own throw-away installation, with its own schema and
the same memories, and its own server with the constant embedder. One client sends each request to both servers, now to
this tree's first and now to the other's, so that other load on the machine meets both alike. `--chat` sends chats to
one long conversation instead, with an endpoint beside each server.
"""

import argparse
import contextlib
import json
import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean, median, stdev
from typing import Final

from bench import cpu_time
from bench.child_processes import ROOT
from bench.http_clients import HOST
from bench.http_load import Load

KINDS: Final = ("write", "query")
NEW: Final = frozenset({"write", "chat"})
"""The kinds of which each request must be new."""
WARMUP: Final = 100
"""Requests of a kind before the measured ones: connections open and statements are prepared."""
WRITTEN_FROM: Final = 20_000_000
STOP_S: Final = 60
SITE: Final = """
import json, sys
from bench.http_runs import running_bench_server
from bench.throwaway import open_site
with open_site(int(sys.argv[1])) as site, running_bench_server(site) as (server, port):
    print(json.dumps([port, site.key, server.pid, site.home.postgres.owner_pid()]), flush=True)
    sys.stdin.read()
"""
"""Python that runs in a tree: it serves an installation until its input ends. It uses names that older trees have."""
CHAT_SITE: Final = """
import json, sys
from bench.chat_site import load_conversation
from bench.child_processes import running_server
from bench.http_clients import HOST
from bench.throwaway import open_site
with open_site(0) as site:
    load_conversation(site, int(sys.argv[1]))
    home = site.home.path
    answers = ("bench.chat_upstream", "--chunks", "50", "--pause-ms", "0")
    with running_server(*answers, log=home / "endpoint.log") as (_, endpoint):
        url = {"MNEMA_CHAT_UPSTREAM_URL": f"http://{HOST}:{endpoint}/v1"}
        with running_server("bench.http_server", str(home), log=home / "server.log", variables=url) as (server, port):
            print(json.dumps([port, site.key, server.pid, site.home.postgres.owner_pid()]), flush=True)
            sys.stdin.read()
"""
"""The same for chats."""


@dataclass(slots=True)
class Side:
    """A server of one tree: its port, its key, and the processes of the server and of PostgreSQL."""

    port: int
    key: str
    server: int
    postgres: int
    times_ms: list[float] = field(default_factory=list)
    _connection: socket.socket | None = None

    def send_request(self, load: Load, number: int) -> None:
        """Send a request and keep its time. Raise RuntimeError for a wrong answer."""
        request = replace(load, port=self.port, key=self.key).request_of(number)
        if self._connection is None:
            self._connection = socket.create_connection((HOST, self.port), timeout=30)
            self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        started = time.perf_counter()
        self._connection.sendall(request)
        status, body = _read_answer(self._connection)
        self.times_ms.append((time.perf_counter() - started) * 1000)
        if not load.is_right(status, body, thoroughly=False):
            raise RuntimeError(f"a {load.kind} was not answered as it must be: {status} {body[:500]!r}")

    def disconnect(self) -> None:
        """Close the connection, which the server would end in a pause. The next request opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of server and PostgreSQL until now."""
        return sum(cpu_time.family_seconds(pid) or 0.0 for pid in (self.server, self.postgres))


def _read_answer(connection: socket.socket) -> tuple[int, bytes]:
    received = b""
    while True:
        chunk = connection.recv(1 << 18)
        if not chunk:
            raise ConnectionError("the server closed a connection")
        received += chunk
        head, gap, body = received.partition(b"\r\n\r\n")
        if gap and len(body) >= int(head.lower().partition(b"\r\ncontent-length:")[2].split(b"\r\n", 1)[0]):
            return int(head[9:12]), body


@contextlib.contextmanager
def serve_tree(tree: Path, python: str, site: str, rows: int) -> Iterator[Side]:
    """Serve an installation of a tree with so many memories, by the code `site`; remove it afterwards."""
    command = [python, "-c", site, str(rows)]
    environment = os.environ | {"MNEMA_EMBEDDING_MODEL": "all-MiniLM-L6-v2"}
    with subprocess.Popen(
        command, cwd=tree, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{tree}: no server started")
        try:
            yield Side(*json.loads(line))
        finally:
            process.stdin.close()
            process.wait(STOP_S)


def measure_kind(kind: str, sides: tuple[Side, Side], rounds: int, requests: int) -> list[tuple[float, float, float]]:
    """Send requests to this tree and to the other in turn. Return each round's p50 of both, and the ratio of CPU."""
    load = Load(port=0, key="", kind=kind, clients=1, first=WRITTEN_FROM, stream=False)
    number = 0
    found = []
    for turn in range(rounds + 1):
        for side in sides:
            side.times_ms.clear()
        before = [side.cpu_seconds() for side in sides]
        for _ in range(requests if turn else WARMUP):
            for side in sides if number % 2 else sides[::-1]:
                side.send_request(load, number if kind in NEW else number % load.queries)
            number += 1
        ours, theirs = (side.cpu_seconds() - spent for side, spent in zip(sides, before, strict=True))
        if turn:
            found.append((median(sides[0].times_ms), median(sides[1].times_ms), ours / theirs))
    return found


def describe_rounds(kind: str, found: list[tuple[float, float, float]]) -> str:
    """Return a line with the medians of the rounds, and the range of their ratios.

    The ratio of CPU is a mean, with twice its standard error.
    """
    ratios = sorted(ours / theirs for ours, theirs, _ in found)
    cpu = [ratio for _, _, ratio in found]
    error = 2 * stdev(cpu) / math.sqrt(len(cpu))
    ours, theirs, _ = (median(column) for column in zip(*found, strict=True))
    return (
        f"{kind}: p50 {ours:.2f} ms against {theirs:.2f} ms, ratio {median(ratios):.3f} "
        f"({ratios[0]:.3f} to {ratios[-1]:.3f}), CPU of server and PostgreSQL {mean(cpu):.3f} ± {error:.3f}"
    )


def main() -> None:
    """Measure both kinds and print a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=10_000, help="memories of 10 users; with --chat of one")
    parser.add_argument("--rounds", type=int, default=12, help="at least 2")
    parser.add_argument("--requests", type=int, default=150, help="requests of a kind to each tree in a round")
    parser.add_argument("--chat", action="store_true", help="send chats")
    chosen = parser.parse_args()
    site = CHAT_SITE if chosen.chat else SITE
    other = chosen.folder.resolve()
    python = str(other / ".venv" / "bin" / "python")
    with (
        serve_tree(ROOT, sys.executable, site, chosen.rows) as ours,
        serve_tree(other, python, site, chosen.rows) as theirs,
    ):
        for kind in ("chat",) if chosen.chat else KINDS:
            print(describe_rounds(kind, measure_kind(kind, (ours, theirs), chosen.rounds, chosen.requests)), flush=True)


if __name__ == "__main__":
    main()
