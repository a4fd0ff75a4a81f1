"""Questions about facts and new facts over HTTP, against the same SQL in pgbench: `mnema bench facts`."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import asyncpg

from app.bootstrap.database import open_database
from app.domain.facts.fact import FactOperation, FactStatement
from app.storage.journal import Journal
from app.storage.operations.spaces import active_space
from bench.fact_workload import RANKS, THREADS, TOPICS, make_values, thread_name, user_name
from bench.http_runs import Plan, Report, measure_site
from bench.throwaway import Site, open_site

KINDS = ("facts_answer", "facts_store")
USERS_A_CALL = 20


def run(plans: list[Plan], *, profile: bool, say: Callable[[str], None]) -> list[Report]:
    """Measure each plan on one throw-away installation; its `rows` is the number of users, the same in all plans."""
    users = plans[0].rows
    say(f"loading the facts of {users} users into a throw-away PostgreSQL")
    with open_site(0) as site:
        asyncio.run(_load_facts(site, users))
        return [measure_site(site, plan, profile=profile, say=say) for plan in plans]


async def _load_facts(site: Site, users: int) -> None:
    """State the lists of all users through the journal, several users in one call."""
    settings = site.home.server_settings(site.cluster)
    async with site.open_application() as (app, scope), open_database(settings) as uow:
        journal = Journal(uow, (await active_space(uow)).name, settings.erasure_secret())
        category = app.parts.policies.defaults.facts.category
        for start in range(0, users, USERS_A_CALL):
            chosen = range(start, min(start + USERS_A_CALL, users))
            await journal.record(scope, [], facts=[s for user in chosen for s in _state_lists(user, category)])
            if start == 0:  # cached plans are made for empty tables so far
                await _run_statements(site, "ANALYZE")
    await _run_statements(site, "VACUUM (ANALYZE)", "CHECKPOINT")


async def _run_statements(site: Site, *statements: str) -> None:
    connection = await asyncpg.connect(site.superuser_url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


def _state_lists(user: int, category: str) -> list[FactStatement]:
    """Return one statement for each thread of the user, with a list of each topic."""
    return [
        FactStatement(
            user_id=user_name(user),
            thread_id=thread_name(user, thread),
            category=category,
            operations=tuple(
                FactOperation("list", topic, tuple(enumerate(make_values(RANKS, user, thread, topic), 1)))
                for topic in TOPICS
            ),
            stated_at=datetime.now(UTC),
        )
        for thread in range(THREADS)
    ]
