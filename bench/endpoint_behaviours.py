"""Behaviours of chat endpoints against every pipeline that asks a chat model: calls, tokens, and the fate of the turn.

    python -m bench.endpoint_behaviours

The scripted server plays each behaviour for a new tenant in a throw-away installation. A user says a few turns, all due
jobs run twice, and the prompts that no job of a turn asks for are asked through the gateway. The table goes to stdout
as Markdown.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import asyncpg

from app.bootstrap import Application, Doubles, build_application
from app.bootstrap.model import default_model
from app.bootstrap.reflection import build_model_gateway
from app.config.logs import configure_logs
from app.config.settings import Settings
from app.domain.memory.memory import MemoryType, NewMemory
from app.domain.outages import ChatModelUnavailable, TokensSpent
from app.domain.principal import Principal
from app.domain.reflection.model_usage import CheckedAnswer
from app.domain.rendering.model_text import ModelText
from app.domain.turn_memory.extraction import NO_SPEC, Journal
from app.ports import Prompt
from app.prompts import ctx_reconciler, reconcile, same_fact, turn_summary
from app.storage.journal import Journal as Recorder
from bench import throwaway
from bench.constant_embedder import ConstantEmbedder
from tests.factories import make_caller
from tests.fake_llm import FakeLlm, fake_llm
from tests.fake_llm.behaviour import Behaviour
from tests.fake_llm.endpoints import BEHAVIOURS
from tests.storage.building import SECRET, SPACE

TURNS: Final = (
    "I work as a nurse in Porto. My daughter Lena is allergic to peanuts, and I prefer trains to planes.",
    "I plan to run the Berlin marathon in 2027, and I have 3 cats that sleep all day long.",
    "My brother Tom lives in Lisbon. I drink oat milk in the morning and never any coffee.",
    "Could you find me a hotel near the start of the race, please?",
    "My sister Ana is a teacher in Braga, and I collect old maps of the city.",
    "Thank you, that helps me a lot.",
)
OF_TURNS: Final = ("multi_fact", "episode", "summary", "insights")
ALONE: Final = ("reconcile", "same_fact", "ctx_reconciler", "turn_summary")
PIPELINES: Final = (*OF_TURNS, *ALONE)
RUNS: Final = 2
"""The times that all due jobs run. The second one must find nothing more to ask."""


@dataclass(slots=True)
class Figures:
    """The results of one behaviour.

    `prompts` has for each pipeline its calls, tokens and the number of calls with a usable answer. `states`: the states
    of the turns' jobs, with the code of an error. `extra_calls`: those of the second run. `memories`: the stored ones.
    """

    behaviour: Behaviour
    prompts: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    states: dict[str, int] = field(default_factory=dict)
    memories: int = 0
    extra_calls: int = 0

    @property
    def lost(self) -> int:
        """The turns that neither were read nor wait."""
        return sum(number for state, number in self.states.items() if state.startswith("dead"))

    @property
    def unread(self) -> list[str]:
        """The pipelines that asked and got no usable answer."""
        return [name for name in PIPELINES if name not in self.prompts or not self.prompts[name][2]]


async def measure_behaviour(site: throwaway.Site, server: FakeLlm, behaviour: Behaviour) -> Figures:
    """Play a behaviour for a new tenant with a new process's model; return what came of it."""
    server.behaviour = behaviour
    settings = default_model(_with_endpoint(site.home.server_settings(site.cluster), server, behaviour))
    embedder = ConstantEmbedder(settings.embedding_model, settings.embedding_dimension)
    figures = Figures(behaviour)
    async with build_application(settings, Doubles(embedder=embedder)) as app:
        scope = (await make_caller(app)).scope
        for text in TURNS:
            await app.memory.turns.store_turn(scope, _turn(text))
        await _run_due_jobs(app, scope)
        await _ask_alone(app, scope)
        connection = await asyncpg.connect(site.superuser_url)
        try:
            figures.prompts = await _count_calls(connection, scope)
            await _run_due_jobs(app, scope)
            after = await _count_calls(connection, scope)
            figures.extra_calls = sum(row[0] for row in after.values()) - sum(
                row[0] for row in figures.prompts.values()
            )
            await _count_results(connection, scope, figures)
        finally:
            await connection.close()
    return figures


def _with_endpoint(settings: Settings, server: FakeLlm, behaviour: Behaviour) -> Settings:
    given = {f"llm_{name}": value for name, value in behaviour.settings.items()}
    endpoint = {"llm": "openai", "llm_base_url": server.base_url, "llm_model": "scripted"}
    return settings.model_copy(update=endpoint | given)


def _turn(text: str) -> NewMemory:
    return NewMemory(
        user_id="maya", category="activity", text=text, type=MemoryType.turn, thread_id="talk", role="user"
    )


async def _run_due_jobs(app: Application, scope: Principal) -> None:
    """Run the tenant's due jobs; jobs of earlier tenants wait for a retry."""
    while swept := await app.jobs.run.collect_due_jobs():
        for tenant_id, job_id, _kind in swept:
            if tenant_id == scope.tenant_id:
                await app.jobs.run.run_job(tenant_id, job_id, "bench")


async def _ask_alone(app: Application, scope: Principal) -> None:
    """Ask the prompts that no job of a turn asks for, as their use-cases do."""
    parts = app.parts
    recorder = Recorder(parts.uow, SPACE, SECRET)
    gateway = build_model_gateway(parts.uow, recorder, parts.chat, parts.policies.defaults, parts.clock)
    pairs = [("The user keeps three hives of bees.", "Three hives of bees are kept by the user.")]
    facts, memories = ["The user has 3 cats."], ["The user has 2 cats."]
    said, answer = "My budget is 400 euros. Always answer in French.", "I recommend the Family plan."
    journal = Journal(ModelText("[TURN MEMORIES]\n"))
    asked: Sequence[tuple[Prompt[Any], Callable[[Any], CheckedAnswer[Any]]]] = (
        (reconcile.reconcile_prompt(facts, memories), partial(reconcile.read_reconcile, facts, memories)),
        (same_fact.same_fact_prompt(pairs), partial(same_fact.read_same_fact, pairs)),
        (
            ctx_reconciler.ctx_reconciler_prompt(said, "now", "Monday 2026-11-02 10:00 UTC", journal),
            partial(ctx_reconciler.read_ctx_reconciler, said, journal),
        ),
        (
            turn_summary.turn_summary_prompt(said, answer, NO_SPEC),
            partial(turn_summary.read_turn_summary, said, answer, NO_SPEC),
        ),
    )
    for prompt, read in asked:
        try:
            await gateway.ask_model(scope, prompt, read, user_id=None)
        except (ChatModelUnavailable, TokensSpent):
            continue


async def _count_calls(connection: asyncpg.Connection, scope: Principal) -> dict[str, tuple[int, int, int]]:
    rows = await connection.fetch(
        "SELECT prompt, count(*) AS calls, sum(input_tokens + output_tokens) AS tokens,"
        " count(*) FILTER (WHERE status = 'ok' OR items_ok > 0) AS usable"
        " FROM llm_calls WHERE tenant_id = $1 GROUP BY prompt",
        scope.tenant_id,
    )
    return {row["prompt"]: (row["calls"], int(row["tokens"]), row["usable"]) for row in rows}


async def _count_results(connection: asyncpg.Connection, scope: Principal, figures: Figures) -> None:
    rows = await connection.fetch(
        "SELECT state || coalesce(' ' || split_part(last_error, ':', 1), '') AS state, count(*) AS number"
        " FROM jobs WHERE tenant_id = $1 AND kind = 'reflect_turn' GROUP BY 1",
        scope.tenant_id,
    )
    figures.states = {row["state"]: row["number"] for row in rows}
    figures.memories = await connection.fetchval(
        "SELECT count(*) FROM memories WHERE tenant_id = $1 AND type <> 'turn' AND state = 'active'", scope.tenant_id
    )


async def measure_all(site: throwaway.Site, behaviours: Sequence[Behaviour]) -> list[Figures]:
    """Play the behaviours one after another."""
    async with fake_llm() as server:
        return [await measure_behaviour(site, server, behaviour) for behaviour in behaviours]


def run(behaviours: Sequence[Behaviour] = BEHAVIOURS) -> list[Figures]:
    """Play the behaviours in a throw-away installation."""
    with throwaway.open_site(0) as site:
        return asyncio.run(measure_all(site, behaviours))


def render_table(figures: Sequence[Figures]) -> str:
    """Return the table as Markdown: for each pipeline its usable answers, calls and tokens."""
    head = ("endpoint", "behaviour", *PIPELINES, "turns", "memories")
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    for one in figures:
        cells = [_render_cell(one.prompts.get(name)) for name in PIPELINES]
        turns = ", ".join(f"{number} {state}" for state, number in sorted(one.states.items()))
        lines.append(" | ".join((one.behaviour.server, one.behaviour.name, *cells, turns, str(one.memories))))
    return "\n".join(f"| {line} |" for line in lines)


def _render_cell(counts: tuple[int, int, int] | None) -> str:
    return "–" if counts is None else f"{counts[2]}/{counts[0]}, {counts[1]}"


if __name__ == "__main__":
    configure_logs("error")
    sys.stdout.write(render_table(run()) + "\n")
