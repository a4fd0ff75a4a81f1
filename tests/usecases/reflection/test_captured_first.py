"""A fact that capture has stored of a turn still meets the older memories when a model reads the turn."""

import asyncpg
import pytest

from app.bootstrap import Application
from app.config.settings import Settings
from app.domain.principal import Principal
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
