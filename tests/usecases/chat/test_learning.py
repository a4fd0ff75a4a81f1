"""A chat with a worker behind it: what one conversation taught is in the summary and the memories of the next."""

import json
from typing import Any

import pytest

from app.bootstrap import Application
from app.domain.chat.dialects.completions import CHAT_COMPLETIONS
from app.domain.chat.request import read_chat_request
from app.domain.memory.memory import MemoryType
from app.domain.principal import Principal
from tests.factories import Clock
from tests.fake_llm import FakeLlm
from tests.usecases.conftest import Configured
from tests.usecases.quiet_talks import made, sweep_quiet, work

pytestmark = pytest.mark.usefixtures("own")
TALK = (
    ("I live in Lisbon and I work at the harbour.", "How nice."),
    ("I am allergic to peanuts and I love grey cats.", "Take care."),
    ("My sister Ines is a violinist and lives in Porto.", "Enjoy it."),
)


async def chat(app: Application, scope: Principal, text: str, answer: str = "Fine.", **fields: Any) -> str:
    """Run a chat without an upstream; return the body that it would get."""
    body = {"model": "m", "user": "maya", "messages": [{"role": "user", "content": text}]} | fields
    begun = await app.chat.memory.begin_chat(scope, read_chat_request(json.dumps(body).encode(), CHAT_COMPLETIONS))
    sent: str = json.loads(begun.forwarded_body())["messages"][-1]["content"]
    await app.chat.memory.record_answer(begun, answer)
    return sent


async def test_facts_and_a_summary_are_learnt_from_a_conversation(
    configured: Configured, scope: Principal, llm: FakeLlm, clock: Clock
) -> None:
    app = await configured(llm=llm)
    for said, answered in TALK:
        await chat(app, scope, said, answered, memory_id="talk")
        await work(app)
    clock.move(hours=2)
    await sweep_quiet(app, scope)
    [summary] = await made(app, scope, MemoryType.summary)
    assert summary.thread_id == "talk"
    learnt = await made(app, scope, MemoryType.semantic)
    assert learnt, "the scripted model finds a fact in each turn"
    assert all(fact.thread_id == "talk" for fact in learnt)
    sent = await chat(app, scope, "Where do I live and work?", memory_id="talk")
    assert sent.startswith(f"Conversation summary:\n{summary.text.split()[0]}")
    assert "Long-term memory (most relevant first):\n- [" in sent
    assert sent.endswith("\n\nCurrent message: Where do I live and work?")


@pytest.mark.long
async def test_without_summaries_none_is_written_or_sent(
    configured: Configured, scope: Principal, llm: FakeLlm, clock: Clock
) -> None:
    app = await configured(policies={"summaries": {"enable_summarization": False}}, llm=llm)
    for said, answered in TALK:
        await chat(app, scope, said, answered, memory_id="talk")
    await work(app)
    clock.move(hours=2)
    await sweep_quiet(app, scope)
    assert await made(app, scope, MemoryType.summary) == []
    assert "Conversation summary" not in await chat(app, scope, "Where do I live?", memory_id="talk")
