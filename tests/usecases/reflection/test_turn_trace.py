"""The trace of a turn that a chat model reads: verdicts, refused facts by rule, tokens and waiting jobs."""

from pathlib import Path
from typing import Any

import asyncpg
import pytest

from app.bootstrap import Application
from app.config.settings import Settings
from app.domain.principal import Principal
from tests.fake_llm import FakeLlm
from tests.fake_llm.prompts import Question, extract
from tests.usecases.reflecting import with_model, without_capture
from tests.usecases.turn_facts import FACTS, TURN, say, work

pytestmark = pytest.mark.usefixtures("own")


@pytest.fixture
def settings(settings: Settings, llm: FakeLlm, tmp_path: Path) -> Settings:
    """Settings without capture, with the scripted model."""
    return with_model(without_capture(settings, tmp_path), llm)


async def test_the_facts_of_the_model_are_told_with_quotes_and_tokens(app: Application, scope: Principal) -> None:
    turn = await say(app, scope)
    before = await app.operations.trace.trace_turn(scope, turn)
    assert (before.has_model, before.reasons) == (True, ["job_queued"])
    report = await work(app, scope)
    trace = await app.operations.trace.trace_turn(scope, turn)
    assert (trace.remembered, trace.reasons) == (3, ["deferred"])
    assert [fact.text for fact, _band in trace.facts] == FACTS
    assert all(fact.reader == "multi_fact" and fact.quote and fact.quote in TURN for fact, _band in trace.facts)
    readings = {reading.reader: reading for reading in trace.readings}
    told = readings["multi_fact"]
    assert (told.why, told.facts, told.candidates, told.tokens) == (None, 3, 4, report["tokens"])
    assert [job.kind for job in trace.jobs] == ["after_turn", "reflect_turn", "reflect_turn"]


async def test_facts_that_break_a_rule_are_counted_by_rule(
    app: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection
) -> None:
    def invented(question: Question) -> Any:
        first, second, third, *_ = extract(question)["facts"]
        return {
            "facts": [
                first | {"quote": "I never said these words"},
                second | {"quote": "nor did I say these"},
                third | {"category": "nosuch"},
            ]
        }

    llm.always = invented
    turn = await say(app, scope)
    report = await work(app, scope)
    assert report["refused"] == {"no_quote": 2, "unknown_category": 1}
    trace = await app.operations.trace.trace_turn(scope, turn)
    assert (trace.remembered, trace.reasons) == (0, ["capture_off", "model_refused"])
    stored = str(await sql.fetch("SELECT report FROM jobs"))
    assert "never said" not in stored
    assert "Lena" not in stored


@pytest.mark.parametrize(
    ("text", "code"), [("Could you find me a hotel, please?", "model_short"), (TURN, "model_nothing")]
)
async def test_a_turn_without_facts_has_a_plain_reason(
    app: Application, scope: Principal, llm: FakeLlm, text: str, code: str
) -> None:
    llm.always = lambda _question: {"facts": []}
    turn = await say(app, scope, text)
    await work(app, scope)
    trace = await app.operations.trace.trace_turn(scope, turn)
    assert trace.reasons[-1] == code
    assert trace.remembered == 0
