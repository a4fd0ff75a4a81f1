"""The rate and the CPU of `POST /memory/bulk`, alone or against another checkout: `python -m bench.bulk [FOLDER]`.

Each tree serves a throw-away installation with the constant embedder, so that everything but a model is measured. One
client sends the same lines to each tree in turn. `related`: notes of a few users, each with 20 topics, so that most
notes have relations. `far`: notes that no other note is close to. `--profile` shows the CPU of this tree's server by
function, and the time of PostgreSQL's functions.
"""

import argparse
import asyncio
import json
import math
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any, Final

import asyncpg
import httpx

from bench import cpu_time, workload
from bench.child_processes import ROOT
from bench.http_clients import HOST
from bench.http_runs import running_bench_server
from bench.other_tree import SITE, Side, serve_tree
from bench.throwaway import Site, open_site, using_model

KINDS: Final = ("related", "far")
MODEL: Final = "all-MiniLM-L6-v2"
TIMEOUT_S: Final = 600
FIRST: Final = 1_000_000
FUNCTIONS: Final = """SELECT funcname, calls, total_time, self_time FROM pg_stat_user_functions
    WHERE self_time > 0 ORDER BY self_time DESC LIMIT 25"""


@dataclass(frozen=True, slots=True)
class Sent:
    """A bulk that was written: lines a second, and CPU milliseconds a line of the server and of PostgreSQL."""

    per_second: float
    server_ms: float
    postgres_ms: float


def bulk_body(kind: str, numbers: range, users: int) -> bytes:
    """Return the lines of a bulk."""
    return b"".join(json.dumps(_line(kind, number, users)).encode() + b"\n" for number in numbers)


def _line(kind: str, number: int, users: int) -> dict[str, Any]:
    body = workload.write_body(number) | {"user_id": f"user-{number % users}"}
    return body if kind == "related" else body | {"text": f"Note{number} {body['text']}"}


def send_lines(side: Side, body: bytes) -> Sent:
    """Send a bulk and measure it. Raise RuntimeError if a line is not created."""
    before = [cpu_time.family_seconds(pid) or math.nan for pid in (side.server, side.postgres)]
    started = time.perf_counter()
    headers = {"Authorization": f"Bearer {side.key}", "Content-Type": "application/x-ndjson"}
    answer = httpx.post(f"http://{HOST}:{side.port}/memory/bulk", content=body, headers=headers, timeout=TIMEOUT_S)
    seconds = time.perf_counter() - started
    after = [cpu_time.family_seconds(pid) or math.nan for pid in (side.server, side.postgres)]
    lines = answer.text.splitlines()
    if wrong := next((line for line in lines if json.loads(line).get("action") != "created"), None):
        raise RuntimeError(f"a line was not created: {wrong}")
    server, postgres = ((end - begin) * 1000 / len(lines) for begin, end in zip(before, after, strict=True))
    return Sent(len(lines) / seconds, server, postgres)


def describe(name: str, sent: Sequence[Sent]) -> str:
    """Return a line with the medians of the rounds."""
    rate, server, postgres = (median(getattr(one, field) for one in sent) for field in Sent.__slots__)
    return f"{name}: {rate:.0f} memories a second, CPU ms a memory: {server:.3f} server + {postgres:.3f} PostgreSQL"


def describe_ratio(ours: Sequence[Sent], theirs: Sequence[Sent]) -> str:
    """Return a line with the ratio of the CPU of two trees, round by round."""
    ratios = [(a.server_ms + a.postgres_ms) / (b.server_ms + b.postgres_ms) for a, b in zip(ours, theirs, strict=True)]
    error = 2 * stdev(ratios) / math.sqrt(len(ratios)) if len(ratios) > 1 else math.nan
    return f"CPU of this tree: {mean(ratios):.3f} ± {error:.3f} times that of the other"


def measure_trees(other: Path | None, chosen: argparse.Namespace) -> None:
    """Send bulks to this tree, and to the other in turn, and print the figures of each kind."""
    with using_model(MODEL), ExitStack() as stack:
        sides = [stack.enter_context(serve_tree(ROOT, sys.executable, SITE, chosen.rows))]
        if other is not None:
            python = str(other / ".venv" / "bin" / "python")
            sides.append(stack.enter_context(serve_tree(other, python, SITE, chosen.rows)))
        number = FIRST
        for kind in KINDS:
            sent: list[list[Sent]] = [[] for _ in sides]
            for turn in range(chosen.rounds + 1):
                lines = chosen.lines if turn else chosen.lines // 10  # the first is a warm-up
                body = bulk_body(kind, range(number, number + lines), chosen.users)
                number += lines
                for place in range(len(sides))[:: 1 if turn % 2 else -1]:
                    found = send_lines(sides[place], body)
                    if turn:
                        sent[place].append(found)
            for name, figures in zip(("this tree", "the other"), sent, strict=False):
                print(describe(f"{kind}, {name}", figures), flush=True)
            if other is not None:
                print(f"{kind}: {describe_ratio(*sent)}", flush=True)


def show_profile(kind: str, chosen: argparse.Namespace) -> None:
    """Print where the CPU of the server and the time of PostgreSQL go in one bulk."""
    with using_model(MODEL), open_site(chosen.rows) as site:
        file = site.home.path / "profile.json"
        with running_bench_server(site, "--profile", str(file)) as (process, port):
            side = Side(port, site.key, process.pid, site.home.postgres.owner_pid() or 0)
            send_lines(side, bulk_body(kind, range(FIRST, FIRST + chosen.lines // 10), chosen.users))
            asyncio.run(_execute(site, "ALTER SYSTEM SET track_functions = 'all'", "SELECT pg_reload_conf()"))
            process.send_signal(signal.SIGUSR1)
            sent = send_lines(side, bulk_body(kind, range(2 * FIRST, 2 * FIRST + chosen.lines), chosen.users))
            print(describe(f"{kind}, profiled", [sent]))
        functions = asyncio.run(_execute(site, FUNCTIONS))
        profile = json.loads(file.read_text(encoding="utf-8"))
    for part in ("groups", "functions"):
        whole = sum(profile["groups"].values())
        print(f"\n{part} of the server: ms a memory")
        for name, samples in list(profile[part].items())[:25]:
            print(f"  {samples / whole * sent.server_ms:7.4f}  {name}")
    print("\nfunctions of PostgreSQL: own ms a memory, with what they call, calls a memory")
    for row in functions:
        own, whole, calls = (row[name] / chosen.lines for name in ("self_time", "total_time", "calls"))
        print(f"  {own:7.4f} {whole:7.4f} {calls:8.3f}  {row['funcname']}")


async def _execute(site: Site, *statements: str) -> list[Any]:
    """Run statements as superuser; return the rows of the last one."""
    connection = await asyncpg.connect(site.superuser_url)
    try:
        rows: list[Any] = []
        for statement in statements:
            rows = await connection.fetch(statement)
        return rows
    finally:
        await connection.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.bulk", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="a checkout with a .venv, to compare with")
    parser.add_argument("--rows", type=int, default=2000, help="memories of 10 users before")
    parser.add_argument("--lines", type=int, default=4000, help="lines of a bulk")
    parser.add_argument("--users", type=int, default=20, help="users of the lines, in turn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", choices=KINDS, help="show where the time of one bulk of this kind goes")
    chosen = parser.parse_args()
    if chosen.profile:
        show_profile(chosen.profile, chosen)
    else:
        measure_trees(chosen.folder.resolve() if chosen.folder else None, chosen)


if __name__ == "__main__":
    main()
