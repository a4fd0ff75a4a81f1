"""The cost of background work for clients: p50 of one client's requests with an idle and with a busy worker.

    python -m bench.busy_workers [--rows 10000] [--rounds 6] [--seconds 3] [--hanging-model]

A real worker and beat on a real Redis embed memories (with the real model) and consolidate users, on the server's
machine and database. The worker is stopped (SIGSTOP) and continued in alternate rounds, so that other load on the
machine disturbs both alike. It runs at nice 10 and embeds in one thread,
as under `mnema up`. With --hanging-model it gets turns to reflect on instead, and a chat model that never answers.
"""

import argparse
import asyncio
import contextlib
import os
import secrets
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator

import asyncpg
import httpx

from app.embedded.postgres import free_port
from app.embedded.services import NICE, redis_server, stop_process
from bench import cpu_time
from bench.http_load import Load
from bench.http_runs import ROOT, run_load, running_bench_server
from bench.throwaway import Site, open_site

FIRST = 30_000_000
APART = 100_000


@contextlib.contextmanager
def _running_worker(site: Site, hanging_model: bool) -> Iterator[int]:
    """Run Redis, a worker and beat; yield the worker's process group."""
    port = free_port()
    model_port = free_port()
    password = secrets.token_urlsafe(16)
    settings = site.home.server_settings(site.cluster)
    env = os.environ | {
        "MNEMA_DATABASE_URL": settings.database_url.get_secret_value(),
        "MNEMA_REDIS_URL": f"redis://:{password}@127.0.0.1:{port}/0",
        "MNEMA_HOME": str(site.home.path),
        "MNEMA_EMBEDDED": "1",
        "MNEMA_SWEEP_S": "0.5",
        "MNEMA_EMBEDDING_THREADS": "1",
        "MNEMA_LLM_TIMEOUT_S": "5",
        "LLM_BASE_URL": f"http://127.0.0.1:{model_port}/v1" if hanging_model else "",
    }
    celery = [sys.executable, "-m", "celery", "-A", "workers.app"]
    redis = [str(redis_server()), "--port", str(port), "--bind", "127.0.0.1", "--requirepass", password, "--save", ""]
    working = [*celery, "worker", "--concurrency", "1"]
    model = [sys.executable, "-m", "tests.fake_llm", "--fault", "HANG", "--port", str(model_port)]
    commands = [redis, working, [*celery, "beat", "--pidfile", ""], *([model] if hanging_model else [])]
    with (site.home.path / "worker.log").open("ab") as log, contextlib.ExitStack() as stack:
        for command in commands:
            options = {"env": env, "cwd": ROOT, "stdout": log, "stderr": log, "start_new_session": True}
            process = subprocess.Popen(command, **options)  # type: ignore[call-overload]
            stack.callback(stop_process, process)
            if command is working:
                os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
                worker = process.pid
                stack.callback(os.killpg, worker, signal.SIGCONT)
        yield worker


async def _queue_work(site: Site) -> None:
    """Delete the vectors of three users' memories; queue jobs that embed them again, and consolidation."""
    connection = await asyncpg.connect(site.superuser_url)
    try:
        await connection.execute("""DELETE FROM vec_minilm_l6_v2 v USING users u
            WHERE u.user_pk = v.user_pk AND u.user_id IN ('user-7', 'user-8', 'user-9')""")
        for kind in ("embed", "consolidate"):
            await connection.execute(
                "INSERT INTO jobs (tenant_id, id, kind) SELECT id, gen_random_uuid(), $1 FROM tenants", kind
            )
    finally:
        await connection.close()


async def _post_turns(site: Site, port: int, number: int) -> None:
    """Post 20 turns that are long enough for reflection."""
    text = f"I moved to place {number} last spring because my sister lives there. " * 4
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {site.key}"}
    ) as http:
        for n in range(20):
            turn = {"user_id": f"talker-{number}-{n}", "thread_id": "talk", "role": "user", "content": text}
            (await http.post("/turns", json=turn)).raise_for_status()


async def _count_failed_calls(site: Site) -> int:
    """Return the number of calls of the model that failed."""
    connection = await asyncpg.connect(site.superuser_url)
    try:
        return int(await connection.fetchval("SELECT count(*) FROM llm_calls WHERE status = 'error'"))
    finally:
        await connection.close()


def run_benchmark(rows: int, rounds: int, seconds: float, hanging_model: bool) -> bool:
    """Measure and print. Return True if the worker was busy, or waited for a model that never answered."""
    p50: dict[tuple[str, bool], list[float]] = {}
    with (
        open_site(rows) as site,
        running_bench_server(site) as (process, port),
        _running_worker(site, hanging_model) as worker,
    ):
        asyncio.run(_post_turns(site, port, rounds) if hanging_model else _queue_work(site))
        before = cpu_time.family_seconds(worker) or 0.0
        for number in range(rounds):
            for place, busy in enumerate((False, True) if number % 2 else (True, False)):
                if busy:
                    asyncio.run(_post_turns(site, port, number) if hanging_model else _queue_work(site))
                os.killpg(worker, signal.SIGCONT if busy else signal.SIGSTOP)
                for kind in ("query", "write"):
                    first = FIRST + (2 * number + place) * APART
                    load = Load(port, site.key, kind, 1, seconds, 0.5, first, 500)
                    latencies = sorted(run_load(site, process.pid, load)[0].latencies_ms)
                    p50.setdefault((kind, busy), []).append(latencies[len(latencies) // 2])
        used = (cpu_time.family_seconds(worker) or 0.0) - before
        unanswered = asyncio.run(_count_failed_calls(site))
    print(f"{rows} memories, {rounds} rounds of {seconds:g} s, one client; the worker used {used:.1f} s of CPU", end="")
    print(f", {unanswered} calls of the model were not answered" if hanging_model else "")
    for kind in ("query", "write"):
        idle, busy_ms = (statistics.median(p50[kind, busy]) for busy in (False, True))
        print(
            f"  POST /memory{'/query' if kind == 'query' else '':<8} p50 ms idle {idle:6.2f}  busy {busy_ms:6.2f}"
            f"  ratio {busy_ms / idle:.2f}"
        )
    return unanswered > 0 if hanging_model else used > rounds * seconds / 4


def main() -> int:
    """Run the benchmark. Return 0 if the worker was really busy, else 1."""
    parser = argparse.ArgumentParser(prog="python -m bench.busy_workers")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--hanging-model", action="store_true")
    chosen = parser.parse_args()
    return int(not run_benchmark(chosen.rows, chosen.rounds, chosen.seconds, chosen.hanging_model))


if __name__ == "__main__":
    raise SystemExit(main())
