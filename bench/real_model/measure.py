"""Runs of all readers of turns on a throw-away installation, a tenant for each way of reading."""

import asyncio
import contextlib
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import asyncpg
import yaml

from app.bootstrap import Application, build_application
from app.bootstrap.model import default_model
from app.bootstrap.tenancy import open_tenants
from app.config.settings import Settings
from app.config.yaml_files import CONFIG_DIR
from app.domain.jobs.job import JobKind
from app.domain.memory.memory import MemoryType, NewMemory
from app.domain.outages import ChatModelUnavailable
from app.domain.principal import Principal
from app.domain.reflection.model_usage import UNREADABLE
from app.usecases.operations.turn_trace import TurnTrace, error_code
from bench.real_model.figures import PromptFigures, Report, SideFigures
from bench.real_model.model_server import ModelServer
from bench.real_model.pipelines import USER, Pipelines
from bench.real_model.turns import Turn, count_told
from bench.throwaway import Site, open_site

REPLY: Final = "All right."
THREAD: Final = "talk"
QUICK: Final = {"backoff_s": 1, "backoff_max_s": 8}
"""Retries come sooner than in production, so that a run shows what becomes of each turn."""
SOON_S: Final = 15
"""Seconds within which a retry must come to be waited for. Work for another day counts as waiting."""
POLL_S: Final = 0.2
SENT: Final = "tenant_id = $1 AND (status <> 'error' OR duration_ms > 0)"
"""The calls that reached the endpoint. After a timeout calls fail at once, and nothing is sent."""
ASKING: Final = (JobKind.reflect_turn, JobKind.reflect, JobKind.same_fact, JobKind.consolidate)
"""Jobs that ask the model."""
CALLS_SQL: Final = f"""SELECT prompt || '.v' || version AS prompt, count(*) AS calls,
    count(*) FILTER (WHERE status = 'ok' OR items_ok > 0) AS usable,
    count(*) FILTER (WHERE error = ANY($2) AND items_ok = 0) AS unreadable,
    count(*) FILTER (WHERE status = 'error') AS failed,
    sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY duration_ms) / 1000 AS median_s,
    max(duration_ms) / 1000::float8 AS longest_s
    FROM llm_calls WHERE {SENT} GROUP BY 1 ORDER BY 1"""
REFUSED_SQL: Final = """SELECT prompt || '.v' || version AS prompt, error, count(*) AS number FROM llm_calls
    WHERE tenant_id = $1 AND status = 'refused' AND error <> ALL($2) GROUP BY 1, 2"""
STORED_SQL: Final = """SELECT CASE WHEN metadata ? 'rule' THEN 'rules' WHEN type <> 'semantic' THEN type
    WHEN metadata ? 'prompt' THEN 'extraction' ELSE 'other' END AS pipeline, count(*) AS number
    FROM memories WHERE tenant_id = $1 AND state = 'active' AND type <> 'turn' AND user_id <> $2 GROUP BY 1"""
TEXTS_SQL: Final = """SELECT user_id, text FROM memories
    WHERE tenant_id = $1 AND state = 'active' AND type = 'semantic' AND user_id <> $2 ORDER BY user_id, text"""
PENDING_SQL: Final = """SELECT count(*) FROM jobs WHERE tenant_id = $1 AND state IN ('queued', 'running')
    AND next_run < now() + make_interval(secs => $2)"""
JOBS_SQL: Final = """SELECT kind || ' ' || state || coalesce(' ' || substring(last_error FROM '^[a-z_]+'), '') AS name,
    count(*) AS number FROM jobs WHERE tenant_id = $1 AND state <> 'done' GROUP BY 1"""


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a run.

    `minutes`: the time for the jobs of each way with a model. `daily_tokens`: the limit of a tenant. `tasks`: the sets
    of texts that all pipelines are driven with. `timeout_s`: the time for a call; on a busy machine the model
    writes some ten tokens a second. `grammars`: the ways with a model. `answers`: the file that gets all answers of the
    model.
    """

    minutes: float = 8.0
    daily_tokens: int = 200_000
    tasks: int = 2
    timeout_s: float = 300.0
    grammars: tuple[bool, ...] = (True, False)
    answers: Path | None = None


def measure_ways(turns: Sequence[Turn], server: ModelServer, plan: Plan, say: Callable[[str], None]) -> Report:
    """Read the turns without a model, and by the model with and without a grammar."""
    report = Report(len(turns))
    with open_site(0) as site:
        config = _write_config(site.home.path, plan)
        log = plan.answers or site.home.path / "answers.jsonl"
        report.sides.append(asyncio.run(_measure_way("no model", site, config, turns, plan, None, say)))
        for grammar in plan.grammars:
            name = "with grammar" if grammar else "without grammar"
            with server.run_server(log, grammar=grammar) as url:
                report.sides.append(asyncio.run(_measure_way(name, site, config, turns, plan, url, say)))
    return report


def _write_config(home: Path, plan: Plan) -> Path:
    """Write the shipped configuration with quick retries and the plan's limit of tokens. Return its folder."""
    folder = home / "config"
    shutil.copytree(CONFIG_DIR, folder)
    file = folder / "policies.yaml"
    policies = yaml.safe_load(file.read_text(encoding="utf-8"))
    policies["jobs"] |= QUICK
    policies["llm"]["daily_tokens"] = plan.daily_tokens
    file.write_text(yaml.safe_dump(policies, allow_unicode=True), encoding="utf-8")
    return folder


async def _measure_way(
    name: str, site: Site, config: Path, turns: Sequence[Turn], plan: Plan, url: str | None, say: Callable[[str], None]
) -> SideFigures:
    settings = default_model(site.home.server_settings(site.cluster)).model_copy(update={"config_dir": config})
    principal = await _make_tenant(settings, name.replace(" ", "-"))
    if url is not None:
        model = {"llm": "openai", "llm_base_url": url, "llm_model": "smollm2", "llm_timeout_s": plan.timeout_s}
        settings = settings.model_copy(update=model)
    figures = SideFigures(name, limit=plan.daily_tokens)
    started = time.monotonic()
    async with build_application(settings) as app, _connect(site.superuser_url) as database:
        run = _Run(app, database, principal, started + 60 * plan.minutes)
        pipelines = Pipelines(app, principal)
        for number, turn in enumerate(turns, 1):
            await run.store_turn(turn, number)
            await run.work()
            if url is not None and number <= plan.tasks:
                await pipelines.drive_all(number - 1)
            if number % 10 == 0:
                say(f"{name}: {number} turns, {await run.count_calls()} calls, {time.monotonic() - started:.0f} s")
        await run.work_off(figures)
        figures.seconds = time.monotonic() - started
        await run.fill_figures(figures, turns)
        figures.driven = dict(pipelines.results)
    say(f"{name}: {figures.memories} memories, {figures.calls} calls, {figures.seconds:.0f} s")
    return figures


async def _make_tenant(settings: Settings, name: str) -> Principal:
    async with open_tenants(settings) as tenants:
        tenant = await tenants.create_tenant(name)
        _, key = await tenants.create_key(tenant.id, "bench", ["query", "write", "chat", "read_all"])
        principal = await tenants.authenticate(key)
    if principal is None:
        raise RuntimeError("the tenant's key is not known")
    return principal


@contextlib.asynccontextmanager
async def _connect(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


class _Run:
    """The turns of one tenant and the jobs that read them, as a worker would run them."""

    def __init__(self, app: Application, database: asyncpg.Connection, principal: Principal, deadline: float) -> None:
        self._app = app
        self._database = database
        self._principal = principal
        self._tenant = principal.tenant_id
        self._deadline = deadline
        self._turns: list[UUID] = []

    async def store_turn(self, turn: Turn, number: int) -> None:
        """Store a user's turn and an assistant's short answer."""
        for place, (role, text) in enumerate((("user", turn.text), ("assistant", REPLY))):
            seq = 2 * number + place
            memory = NewMemory(turn.user, "activity", text, MemoryType.turn, thread_id=THREAD, role=role, seq=seq)
            stored = await self._app.memory.turns.store_turn(self._principal, memory)
            if role == "user" and stored.id is not None:
                self._turns.append(stored.id)

    async def work(self) -> None:
        """Run the jobs that are due, until none is. When the time is over, leave those that ask the model."""
        while due := await self._app.jobs.run.collect_due_jobs():
            for tenant_id, job_id, kind in due:
                if tenant_id == self._tenant and (kind not in ASKING or self._has_time()):
                    await self._app.jobs.run.run_job(tenant_id, job_id, "bench")

    async def work_off(self, figures: SideFigures) -> None:
        """Run the scheduled jobs and all retries. Then run the scheduled jobs again: they must not call the model."""
        now = datetime.now(UTC)
        await self._app.jobs.run.schedule_jobs(now)
        await self._work_until_idle()
        before = await self.count_calls()
        await self._app.jobs.run.schedule_jobs(now + timedelta(days=1))
        await self._work_until_idle()
        figures.again = await self.count_calls() - before

    async def count_calls(self) -> int:
        """Return the number of calls of the model so far, without the probes that ask whether it answers again."""
        counted = f"SELECT count(*) FROM llm_calls WHERE {SENT} AND prompt <> 'probe'"
        return int(await self._database.fetchval(counted, self._tenant))

    async def fill_figures(self, figures: SideFigures, turns: Sequence[Turn]) -> None:
        """Read what was stored, spent and left."""
        figures.turns = dict(Counter([_end_of(trace) for trace in await self._trace_turns()]))
        refused = await self._rows(REFUSED_SQL, UNREADABLE)
        for row in await self._rows(CALLS_SQL, UNREADABLE):
            rules = {one["error"]: one["number"] for one in refused if one["prompt"] == row["prompt"]}
            figures.prompts.append(PromptFigures(**{**row, "refused": rules}))
        figures.stored = {row["pipeline"]: row["number"] for row in await self._rows(STORED_SQL, USER)}
        figures.jobs = {row["name"]: row["number"] for row in await self._rows(JOBS_SQL)}
        figures.texts = [(row["user_id"], row["text"]) for row in await self._rows(TEXTS_SQL, USER)]
        figures.told, figures.facts = count_told(turns, figures.texts)
        spent = "SELECT coalesce(max(tokens), 0) FROM llm_budget WHERE tenant_id = $1"
        figures.spent = await self._database.fetchval(spent, self._tenant)

    async def _trace_turns(self) -> list[TurnTrace]:
        trace = self._app.operations.trace
        return [await trace.trace_turn(self._principal, turn_id) for turn_id in self._turns]

    async def _work_until_idle(self) -> None:
        while self._has_time() and await self._count_pending():
            await self.work()
            await asyncio.sleep(POLL_S)

    async def _count_pending(self) -> int:
        return int(await self._database.fetchval(PENDING_SQL, self._tenant, float(SOON_S)))

    async def _rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        return [dict(row) for row in await self._database.fetch(sql, self._tenant, *values)]

    def _has_time(self) -> bool:
        return time.monotonic() < self._deadline


def _end_of(trace: TurnTrace) -> str:
    """Return what became of a turn: read, waiting, lost, or skipped and why.

    Each hour, `reflect` asks whether the model answers, and queues the turns again whose jobs an outage ended.
    """
    states = {job.state for job in trace.jobs}
    dead = {error_code(job.last_error) for job in trace.jobs if job.state == "dead"}
    if not trace.jobs or dead - {ChatModelUnavailable.code}:
        return "lost"
    if dead:
        return "waiting for a model that answers"
    if states & {"queued", "running"}:
        return "waiting"
    reading = next((one for one in trace.readings if one.reader == "multi_fact"), None)
    if reading is None:
        return "skipped: no_model" if "no_model" in trace.reasons or not trace.has_model else "lost"
    return "read" if reading.why is None else f"skipped: {reading.why}"
