"""Name, pronouns, city and language that a model finds become proposals, which wait for the user."""

from typing import Any

import asyncpg
import pytest

from app.bootstrap import Application
from app.config.settings import Settings
from app.domain.consent.patches import Patch
from app.domain.principal import Principal
from tests.fake_llm import FakeLlm, reflections
from tests.usecases.conftest import Configured
from tests.usecases.consenting import known, say, work_off
from tests.usecases.models import WordsEmbedder
from tests.usecases.reflecting import with_model

pytestmark = pytest.mark.usefixtures("own")

TURN = "Call me Leni, they/them. I moved to Oslo, I speak German, and my sister Ana lives in Porto. I keep two goats."
FACTS = [
    ("The user prefers to be called Leni.", "profile", "Call me Leni"),
    ("The user uses they/them pronouns.", "profile", "they/them"),
    ("Leni moved to Oslo.", "preferences", "I moved to Oslo"),
    ("The user speaks German.", "interests", "I speak German"),
    ("The user's sister Ana lives in Porto.", "relationships", "my sister Ana lives in Porto"),
]
GOATS = ("The user keeps two goats.", "profile", "I keep two goats")


@pytest.fixture
def settings(settings: Settings, llm: FakeLlm) -> Settings:
    """Settings of an installation with the scripted model."""
    return with_model(settings, llm, timeout_s=5.0)


@pytest.fixture
def embedder() -> WordsEmbedder:
    """An embedder for which texts that share words are near each other."""
    return WordsEmbedder("all-MiniLM-L6-v2", 384)


def finds(llm: FakeLlm, *facts: tuple[str, str, str]) -> None:
    """Script the model to find these facts in the next turns, and no insights."""
    found = [{"text": text, "category": name, "importance": 3, "quote": quote} for text, name, quote in facts]
    llm.scripts.append(lambda _: {"facts": found})


async def patches(app: Application, scope: Principal) -> list[Patch]:
    """Return maya's proposals, oldest first."""
    return (await app.consent.list_patches(scope, "maya", None, None, 50)).items[::-1]


def told(found: list[Patch]) -> dict[str, tuple[str, str]]:
    return {one.field: (one.value, one.state.value) for one in found}


async def test_sensitive_facts_of_a_turn_become_proposals_and_no_memories(
    app: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection
) -> None:
    finds(llm, *FACTS)
    turn = await say(app, scope, TURN)
    reports = await work_off(app, scope)
    [report] = [report["multi_fact"] for report in reports if "multi_fact" in report]
    assert report["proposed"] == 4  # the fact is captured before the model reads the turn
    found = await patches(app, scope)
    assert told(found) == {
        "preferred_name": ("Leni", "pending"),
        "pronouns": ("they/them", "pending"),
        "city": ("Oslo", "pending"),
        "language": ("German", "pending"),
    }
    for one in found:
        [signal] = one.signals
        assert (signal.memory_id, signal.says, one.thread_id, one.actor, one.keys) == (turn, True, "talk", "system", ())
    stored = await sql.fetch("SELECT text FROM memories WHERE type = 'semantic'")
    assert [row["text"] for row in stored] == [FACTS[-1][0]]
    assert await known(app, scope) == {}
    [city] = [one for one in found if one.field == "city"]
    await app.consent.decide_patch(scope, "maya", city.id, approve=True)
    assert await known(app, scope) == {"city": "Oslo"}


async def test_a_fact_about_a_sensitive_field_without_a_plain_value_is_withheld(
    app: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection
) -> None:
    finds(llm, ("The user no longer lives in Porto.", "profile", "I no longer live in Porto"), GOATS)
    await say(app, scope, "I no longer live in Porto. I keep two goats.")
    await work_off(app, scope)
    assert await patches(app, scope) == []
    assert [r["text"] for r in await sql.fetch("SELECT text FROM memories WHERE type = 'semantic'")] == [GOATS[0]]


async def test_a_turn_that_an_agent_without_profiles_brought_proposes_nothing(
    app: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection
) -> None:
    finds(llm, ("The user moved to Oslo.", "goals", "I moved to Oslo"))
    await say(app, scope, "I moved to Oslo with two goats.", agent_id="planner")
    await work_off(app, scope)
    assert await sql.fetchval("SELECT count(*) FROM context_patches") == 0
    assert await sql.fetchval("SELECT count(*) FROM memories WHERE type = 'semantic'") == 0


async def test_a_job_that_runs_again_proposes_nothing_twice(
    app: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection
) -> None:
    for _ in range(2):
        finds(llm, ("The user moved to Oslo.", "profile", "I moved to Oslo"))
    await say(app, scope, "I moved to Oslo with two goats.")
    await work_off(app, scope)
    await sql.execute("DELETE FROM idempotency_keys")  # the worker ended before it recorded the end
    [job] = (await app.jobs.manage.list_jobs(scope, None, "reflect_turn", None, 10)).items
    await app.jobs.manage.replay_job(scope, job.id)
    await work_off(app, scope)
    [patch] = await patches(app, scope)
    assert (patch.value, len(patch.signals)) == ("Oslo", 1)


@pytest.mark.long
async def test_what_two_turns_say_of_tone_and_goals_applies(app: Application, scope: Principal, llm: FakeLlm) -> None:
    for sentence in ("I prefer short answers.", "As I said, I prefer short answers."):
        finds(llm, ("The user prefers short answers.", "preferences", "I prefer short answers"))
        await say(app, scope, f"{sentence} My sister is vegan.")
        assert await known(app, scope) == {}
        await work_off(app, scope)
    assert told(await patches(app, scope)) == {"tone": ("short", "applied")}
    finds(llm, ("The user wants to run a marathon by May.", "goals", "I want to run a marathon by May"))
    await say(app, scope, "I want to run a marathon by May.")
    await work_off(app, scope)
    assert told(await patches(app, scope))["goals_add"] == ("run a marathon by May", "pending")


def guesses(confidence: float, *texts: str) -> dict[str, Any]:
    return {"insights": [{"summary": text, "tags": [], "importance": 2, "confidence": confidence} for text in texts]}


@pytest.mark.long
@pytest.mark.parametrize(("confidence", "state"), [(0.95, "applied"), (0.6, "pending")])
async def test_an_insight_of_the_job_applies_a_tone_if_it_is_sure(
    configured: Configured, scope: Principal, llm: FakeLlm, confidence: float, state: str, sql: asyncpg.Connection
) -> None:
    app = await configured(policies={"multi_fact": {"min_characters": 4000, "confident_characters": 4000}})
    found = guesses(confidence, "The user perhaps prefers short answers.", "The user perhaps lives in Oslo.")

    def answer(question: dict[str, Any]) -> Any:
        if "activity" in question:
            return found
        return reflections.capture(question) if "earlier" in question else reflections.summarise(question)

    llm.always = answer
    for n in range(3):
        await say(app, scope, f"Oslo is cold, {n} times.")
    await work_off(app, scope)
    assert told(await patches(app, scope)) == {"tone": ("short", state), "city": ("Oslo", "pending")}
    stored = await sql.fetch("SELECT text FROM memories WHERE type = 'insight'")
    assert [row["text"] for row in stored] == ["The user perhaps prefers short answers."]
