"""A stable workflow that a user describes becomes a procedure, once, and only if the model is sure."""

from typing import Any

import asyncpg
import pytest

from app.bootstrap import Application
from app.config.settings import Settings
from app.domain.principal import Principal
from app.usecases.recall.request import Query
from tests.fake_llm import FakeLlm
from tests.fake_llm.prompts import Question, order_steps
from tests.usecases.reflecting import with_model
from tests.usecases.turn_facts import say, work

pytestmark = pytest.mark.usefixtures("own")

TOLD = "This is how we release the shop:\n1. Run the tests.\n2. Tag the commit with v3.\n3. Call Jonas."
STEPS = "1. Run the tests.\n2. Tag the commit with v3.\n3. Call Jonas."


@pytest.fixture
def settings(settings: Settings, llm: FakeLlm) -> Settings:
    """Settings with the scripted model."""
    return with_model(settings, llm)


async def procedures(sql: asyncpg.Connection) -> list[asyncpg.Record]:
    """Return the stored procedures, oldest first."""
    return await sql.fetch("SELECT * FROM memories WHERE type = 'procedural' ORDER BY id")


def asked(llm: FakeLlm) -> int:
    """Return how often the model was asked for a workflow."""
    return sum(one.version == "workflow.v3" for one in llm.asked)


async def test_a_described_workflow_becomes_a_procedure_once(
    app: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection
) -> None:
    turn_id = await say(app, scope, TOLD)
    await work(app, scope)
    [stored] = await procedures(sql)
    assert (stored["text"], stored["steps_text"]) == ("This is how we release the shop", STEPS)
    assert stored["source"] == {"turn_id": str(turn_id)}
    [job] = (await app.jobs.manage.list_jobs(scope, None, "reflect_turn", None, 10)).items
    await app.jobs.manage.replay_job(scope, job.id)
    await work(app, scope)
    await say(app, scope, TOLD)
    await work(app, scope)
    assert len(await procedures(sql)) == 1, "told again, it is known"
    assert asked(llm) == 2
    question = Query(agent="planner", query="release the shop", categories=("procedural", "tasks"))
    answer = await app.recall.query.answer_query(scope, question)
    assert stored["id"] in [item.memory.id for item in answer.items]


@pytest.mark.parametrize("said", ["I baked bread and then I slept.", "What are the steps to bake bread?"])
async def test_a_turn_without_steps_is_not_asked_about(
    app: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection, said: str
) -> None:
    await say(app, scope, said)
    await work(app, scope)
    assert (asked(llm), await procedures(sql)) == (0, [])


@pytest.mark.parametrize(
    "change",
    [
        {"confidence": 0.7},
        {"steps": ["Call Zaphod.", "Run the tests."]},
        {"steps": ["Run the tests 17 times.", "Call Jonas."]},
        {"steps": ["Run the tests."]},
        {"steps": ["I run the tests.", "Call Jonas."]},
        {"title": " "},
    ],
    ids=str,
)
async def test_an_unsure_or_invented_workflow_is_left(
    app: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection, change: dict[str, Any]
) -> None:
    def answer(question: Question) -> Any:
        if "date" in question or "messages" in question or "activity" in question:
            return {"facts": []} if "date" in question and "categories" in question else {"episodes": []}
        return {"procedures": [order_steps(question)["procedures"][0] | change]}

    llm.always = answer
    await say(app, scope, TOLD)
    await work(app, scope)
    assert await procedures(sql) == []


async def test_an_agent_that_sees_no_procedures_makes_none(
    app: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection
) -> None:
    await say(app, scope, TOLD, agent_id="stylist")
    await work(app, scope)
    assert (asked(llm), await procedures(sql)) == (0, [])
