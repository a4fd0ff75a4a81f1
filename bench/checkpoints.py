"""Comparison of checkpoints over HTTP with LangGraph's own Postgres saver, with several threads at once.

    python -m bench.checkpoints [--threads 32] [--rounds 6] [--steps 6] [--kilobytes 20] [--profile FILE]

This process drives both savers through their async interface, in alternate rounds, on the same PostgreSQL. Mnema has
its own server process, LangGraph's saver a pool of 10 connections. A step of a thread puts a checkpoint whose largest
channel has the given size, and then gets the newest checkpoint.
"""

import argparse
import asyncio
import math
import random
import signal
import statistics
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, empty_checkpoint
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from mnema_client.langgraph import MnemaSaver
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from bench import cpu_time
from bench.http_runs import running_bench_server
from bench.throwaway import Site, open_site

PEER = "langgraph_saver"
POOL = 10
WARM = 3
"""Rounds that are not counted: they open connections and prepare statements."""
Times = dict[str, list[float]]


def make_conversation(kilobytes: int) -> list[dict[str, str]]:
    """Return messages of made-up words, half a kilobyte each."""
    words = ["".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(kilobytes * 128)]
    return [{"role": "user", "content": " ".join(words[start : start + 64])} for start in range(0, len(words), 64)]


def make_checkpoint(step: int, messages: list[dict[str, str]]) -> Checkpoint:
    """Return a step of a conversation: the messages so far are the large channel, and two small channels changed."""
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"messages": messages, "next": ["planner"], "scratch": {"step": step}}
    checkpoint["channel_versions"] = {
        name: f"{step:032}.{random.random():016}" for name in checkpoint["channel_values"]
    }
    return checkpoint


async def drive_thread(
    saver: BaseCheckpointSaver[Any], name: str, conversations: list[list[dict[str, str]]], times: Times
) -> None:
    """Put and get each step of one thread; append the milliseconds of each to `times`."""
    config: RunnableConfig = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
    newest: RunnableConfig = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
    for step, messages in enumerate(conversations, 1):
        checkpoint = make_checkpoint(step, messages)
        began = time.perf_counter()
        config = await saver.aput(config, checkpoint, {"source": "loop", "step": step}, checkpoint["channel_versions"])
        times["put"].append((time.perf_counter() - began) * 1000)
        began = time.perf_counter()
        found = await saver.aget_tuple(newest)
        times["get"].append((time.perf_counter() - began) * 1000)
        if found is None or found.checkpoint["channel_values"] != checkpoint["channel_values"]:
            raise RuntimeError("what was got is not what was put")


@asynccontextmanager
async def open_peer_saver(site: Site) -> AsyncIterator[AsyncPostgresSaver]:
    """Open LangGraph's saver on its own database of the same server."""
    connection = await asyncpg.connect(site.superuser_url)
    await connection.execute(f"CREATE DATABASE {PEER}")
    await connection.close()
    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    url = site.cluster.database_url(PEER)
    async with AsyncConnectionPool(url, min_size=POOL, max_size=POOL, kwargs=options, open=False) as pool:
        saver = AsyncPostgresSaver(pool)  # type: ignore[arg-type]  # the pool's rows are dicts by its options
        await saver.setup()
        yield saver


async def measure_savers(
    site: Site, server: int, port: int, arguments: argparse.Namespace
) -> tuple[dict[str, Times], dict[str, list[float]]]:
    """Run both savers in alternate rounds.

    Return milliseconds by saver and operation, and CPU seconds of client, server and PostgreSQL by saver.
    """
    measured: dict[str, Times] = {}
    used: dict[str, list[float]] = {}
    conversations = [make_conversation(arguments.kilobytes) for _ in range(arguments.steps)]
    async with open_peer_saver(site) as theirs:
        ours = MnemaSaver(f"http://127.0.0.1:{port}", site.key, user_id="bench")
        for number in range(-WARM, arguments.rounds):
            for name, saver in (("mnema", ours), ("langgraph", theirs)):
                times: Times = defaultdict(list)
                names = [f"{name}-{number}-{n}" for n in range(arguments.threads)]
                before = _cpu_seconds(site, server)
                await asyncio.gather(*(drive_thread(saver, n, conversations, times) for n in names))
                if number >= 0:
                    spent = used.setdefault(name, [0.0, 0.0, 0.0])
                    used[name] = [s + a - b for s, a, b in zip(spent, _cpu_seconds(site, server), before, strict=True)]
                    kept = measured.setdefault(name, defaultdict(list))
                    for operation, taken in times.items():
                        kept[operation] += taken
        await ours.aclose()
    return measured, used


def _cpu_seconds(site: Site, server: int) -> list[float]:
    """Return the CPU seconds of this process, the server and PostgreSQL, NaN where the system does not report them."""
    theirs = cpu_time.process_seconds(server), cpu_time.family_seconds(site.home.postgres.owner_pid() or 0)
    return [time.process_time(), *(math.nan if seconds is None else seconds for seconds in theirs)]


def print_report(measured: dict[str, Times], used: dict[str, list[float]]) -> None:
    """Print p50 and p99 of each saver, the ratios of Mnema to LangGraph, and the CPU time of an operation."""
    print(f"{'ms':10}{'put p50':>10}{'put p99':>10}{'get p50':>10}{'get p99':>10}")
    rows = {}
    for name, times in measured.items():
        cuts = [statistics.quantiles(times[operation], n=100) for operation in ("put", "get")]
        rows[name] = [cut[at] for cut in cuts for at in (49, 98)]
        print(f"{name:10}" + "".join(f"{value:10.1f}" for value in rows[name]))
    ratios = [ours / theirs for ours, theirs in zip(rows["mnema"], rows["langgraph"], strict=True)]
    print(f"{'ratio':10}" + "".join(f"{ratio:10.2f}" for ratio in ratios))
    for name, seconds in used.items():
        count = sum(len(taken) for taken in measured[name].values())
        parts = zip(("client", "server", "PostgreSQL"), seconds, strict=True)
        print(f"{name}: CPU ms an operation: " + ", ".join(f"{part} {s * 1000 / count:.2f}" for part, s in parts))


def main() -> None:
    """Read the command line, set up both savers and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, usual in (("threads", 32), ("rounds", 6), ("steps", 6), ("kilobytes", 20)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--profile", type=Path)
    arguments = parser.parse_args()
    options = ("--profile", str(arguments.profile)) if arguments.profile else ()
    with open_site(100) as site, running_bench_server(site, *options) as (server, port):
        if arguments.profile:
            server.send_signal(signal.SIGUSR1)
        print_report(*asyncio.run(measure_savers(site, server.pid, port, arguments)))


if __name__ == "__main__":
    main()
