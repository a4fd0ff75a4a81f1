"""A fact that capture has stored of a turn still meets the older memories when a model reads the turn."""

from typing import Any

import asyncpg
import pytest

from app.bootstrap import Application
from app.config.settings import Settings
from app.domain.principal import Principal
from app.domain.reflection.capture import capture_facts
from tests.factories import draft
from tests.fake_llm import FakeLlm
from tests.usecases.reflecting import with_model
from tests.usecases.turn_facts import say, work

pytestmark = pytest.mark.usefixtures("own")


@pytest.fixture
def settings(settings: Settings, llm: FakeLlm) -> Settings:
    """Settings with the scripted model."""
    return with_model(settings, llm)


async def test_a_captured_fact_still_replaces_an_older_memory_if_the_model_says_so(
    app: Application, llm: FakeLlm, scope: Principal, sql: asyncpg.Connection
) -> None:
    await app.memory.write.write_memory(scope, draft("The user has 2 cats.", category="profile"))
    llm.scripts.append(
        lambda _: {
            "facts": [
                {"text": "The user has 3 cats.", "category": "profile", "importance": 3, "quote": "I have 3 cats"}
            ]
        }
    )
    await say(app, scope, "I have 3 cats, and they sleep all day.")
    await work(app, scope)
    rows = await sql.fetch("SELECT text FROM memories WHERE type = 'semantic' AND state = 'active'")
    assert [row["text"] for row in rows] == ["The user has 3 cats."]


TOLD = (
    "I am a structural engineer and I live in Bergen.",
    "My name is Astrid. I have 3 cats, and they sleep all day.",
    "I am allergic to peanuts. Please never suggest them to me, whatever I ask for.",
    "I prefer trains to planes, and I work for a small firm in Oslo.",
)
WEAK: dict[str, Any] = {
    "nonsense": "Sure! The user tells me about their life.",
    "nothing": "",
    "an empty list": '{"facts": [], "episodes": [], "procedures": [], "insights": [], "summary": ""}',
    "cut": '{"facts": [{"text": "The user is an engi',
    "another answer": '{"facts": [{"text": "It rains.", "category": "weather", "importance": 3, "quote": "rain"}]}',
}


async def stored(sql: asyncpg.Connection) -> tuple[set[str], set[str]]:
    """Return the texts of the memories, and the proposed fields."""
    texts = await sql.fetch("SELECT text FROM memories WHERE type = 'semantic' AND state = 'active'")
    fields = await sql.fetch("SELECT field || ' ' || value FROM context_patches")
    return {row[0] for row in texts}, {row[0] for row in fields}


@pytest.mark.parametrize("weak", WEAK)
async def test_a_model_only_adds_to_what_the_rules_keep(
    app: Application, llm: FakeLlm, scope: Principal, sql: asyncpg.Connection, weak: str
) -> None:
    llm.always = lambda _question: WEAK[weak]
    for number, text in enumerate(TOLD):
        await say(app, scope, text, thread_id=f"talk-{number}")
    while swept := await app.jobs.run.collect_due_jobs():
        for tenant_id, job_id, _kind in swept:
            await app.jobs.run.run_job(tenant_id, job_id, "test")
    texts, fields = await stored(sql)
    policies = app.parts.policies.of(scope)
    for text in TOLD:
        read = capture_facts(text, policies.capture, policies.write.text_limits, policies.consent.category)
        assert {fact.text for fact in read.facts} <= texts
        assert {f"{field.field} {field.value}" for field in read.fields} <= fields
    assert len(texts) >= 4
    assert fields
    assert llm.asked, "the model was asked"
    assert not {"It rains.", "The user is an engi"} & texts
