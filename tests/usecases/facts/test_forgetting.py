"""Removed facts are deleted for good after the time in which memories can be restored."""

import asyncpg

from app.bootstrap import Application
from app.domain.facts.fact import FactFilter, FactKind
from app.usecases.facts.store import FactPlace, NewFact
from tests.factories import Caller, Clock


async def test_a_removed_fact_is_purged_with_its_values_and_a_present_one_stays(
    app: Application, caller: Caller, clock: Clock, sql: asyncpg.Connection
) -> None:
    scope, place = caller.scope, FactPlace("maya", "talk")
    new = [NewFact("favorite_colors", FactKind.ranked, rank, f"viridian {rank}") for rank in (1, 2, 3)]
    stated = (await app.facts.store.store_values(scope, place, new)).stated
    for gone in stated[:2]:
        await app.facts.store.remove_fact(scope, gone.fact.id)
    assert (await app.retention.forget.delete_old_records(scope)).counts["facts"] == 0
    clock.move(days=31)
    assert (await app.retention.forget.delete_old_records(scope, dry_run=True)).counts["facts"] == 2
    assert (await app.retention.forget.delete_old_records(scope)).counts["facts"] == 2
    page = await app.facts.read.list_facts(scope, FactFilter("maya"), None, 10)
    assert [fact.value for fact in page.items] == ["viridian 3"]
    for value, count in (("viridian 1", 0), ("viridian 2", 0), ("viridian 3", 1)):
        for table in ("facts", "history", "change_log"):
            found = await sql.fetchval(
                f"SELECT count(*) FROM {table} t WHERE tenant_id = $1 AND t::text LIKE $2",
                scope.tenant_id,
                f"%{value}%",
            )
            assert (table, value, found) == (table, value, count)
