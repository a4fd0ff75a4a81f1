"""Moves of categories beside other writers."""

import asyncio

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.tenancy.rules import MAX_MOVED, CategoryInUse
from app.usecases.tenancy.category_moves import refuse_held
from app.usecases.tenancy.rules import RulesDraft
from tests.factories import Caller, draft
from tests.usecases.stored import locked, until_waiting

RULES = {"categories": {"custom": [{"name": "recipes"}, {"name": "cars"}]}}


async def test_a_move_locks_all_users_then_all_memories_then_the_threads(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    await app.tenancy.rules.put_rules(caller.scope, RulesDraft(RULES))
    for text, category in (("Maya cooks rice.", "recipes"), ("Maya drives a Fiat.", "cars")):
        last = await app.memory.write.write_memory(caller.scope, draft(text, category=category, thread_id="t"))
    moves = {"recipes": "goals", "cars": "goals"}
    async with locked(sql, last.id):
        moving = asyncio.create_task(app.tenancy.rules.put_rules(caller.scope, RulesDraft({}, moves=moves)))
        await until_waiting(sql, 1)
        await sql.execute("SELECT FROM thread_revision WHERE thread_id = 't' FOR UPDATE NOWAIT")
    assert (await moving).moved == {"recipes": 1, "cars": 1}
    await app.tenancy.rules.put_rules(caller.scope, RulesDraft(RULES))
    await app.memory.write.write_memory(caller.scope, draft("Maya cooks beans.", category="recipes"))
    async with sql.transaction():
        await sql.execute("SELECT FROM users WHERE user_id = 'maya' FOR UPDATE")
        moving = asyncio.create_task(app.tenancy.rules.put_rules(caller.scope, RulesDraft({}, moves=moves)))
        await until_waiting(sql, 1)
        await sql.execute("SELECT FROM memories FOR UPDATE NOWAIT")
    assert (await moving).moved == {"recipes": 1}


def test_facts_count_against_the_number_that_moves_at_once() -> None:
    held = {"recipes": {"memories": MAX_MOVED - 1, "facts": 1}}
    refuse_held(held, {"recipes": "goals"}, {"recipes"})
    held["recipes"]["facts"] = 2
    with pytest.raises(CategoryInUse, match=f"{MAX_MOVED + 1} memories and facts would move"):
        refuse_held(held, {"recipes": "goals"}, {"recipes"})
