"""pydantic-ai against a real server: a toolset, a thread as message history, and a processor that recalls."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mnema_client import AsyncMnema, Unauthenticated
from mnema_client.adapters.pydantic_ai import RECALLED, MnemaHistory, memory_toolset, recall_processor
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.factories import Caller
from tests.fake_chat import FakeChat, fake_chat
from tests.sdk.example_runs import run_example


@asynccontextmanager
async def scripted(*replies: Any, **options: Any) -> AsyncIterator[tuple[Agent, FakeChat]]:
    """Run a scripted model; yield it with an agent that uses it."""
    async with fake_chat(*replies) as model, AsyncOpenAI(base_url=model.base_url, api_key="none") as client:
        yield Agent(OpenAIChatModel("scripted", provider=OpenAIProvider(openai_client=client)), **options), model


def as_json(messages: list[ModelMessage]) -> bytes:
    """Return messages as JSON, in which provider's details are equal before and after a round trip."""
    return ModelMessagesTypeAdapter.dump_json(messages)


async def test_a_history_is_remembered_by_the_next_run(memory: AsyncMnema) -> None:
    toolset = memory_toolset(memory, user_id="maya", agent="planner", categories=["tasks"])
    replies: list[Any] = [
        ("memory_remember", {"text": "Maya's door is blue.", "category": "tasks"}),
        "Blue is noted.",
        "It is blue.",
    ]
    async with scripted(*replies, toolsets=[toolset]) as (agent, model):
        first = await agent.run("My door is blue.")
        await MnemaHistory(memory, "chat-1", user_id="maya").save(first.new_messages())
        again = MnemaHistory(memory, "chat-1", user_id="maya")
        loaded = await again.load()
        assert as_json(loaded) == first.all_messages_json()
        second = await agent.run("What colour is my door?", message_history=loaded)
        await again.save(second.new_messages())
        said = [(message["role"], message["content"]) for message in model.requests[2]["messages"]]
    assert said == [
        ("user", "My door is blue."),
        ("assistant", None),
        ("tool", "created"),
        ("assistant", "Blue is noted."),
        ("user", "What colour is my door?"),
    ]
    assert as_json(await again.load()) == second.all_messages_json()
    assert as_json(await again.load(limit=2)) == second.new_messages_json()
    turns = [turn async for turn in memory.thread_turns("chat-1", user_id="maya")]
    assert [turn.role for turn in turns] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    await again.clear()
    assert await again.load() == []


async def test_a_history_belongs_to_one_user_of_one_tenant(memory: AsyncMnema, elsewhere: AsyncMnema) -> None:
    await memory.add_turn("The code is 7.", user_id="maya", thread_id="chat-1", role="user")
    await memory.add_turn("Noted.", user_id="maya", thread_id="chat-1", role="assistant")
    others = [MnemaHistory(memory, "chat-1", user_id="ben"), MnemaHistory(elsewhere, "chat-1", user_id="maya")]
    for other in others:
        assert await other.load() == []
        await other.clear()
    prompt, answer = await MnemaHistory(memory, "chat-1", user_id="maya").load()
    assert (prompt.parts[0].content, answer.parts[0].content) == ("The code is 7.", "Noted.")


async def test_a_processor_recalls_once_for_each_prompt(memory: AsyncMnema, elsewhere: AsyncMnema) -> None:
    for other, user in ((memory, "ben"), (elsewhere, "maya")):
        await other.remember("The launch is on 1 April.", user_id=user, category="tasks")
    await memory.remember("The launch is on 12 March.", user_id="maya", category="tasks")
    await memory.remember("Maya is afraid of heights.", user_id="maya", category="profile")
    about = {"user_id": "maya", "agent": "planner"}
    recall = ProcessHistory[None](recall_processor(memory, **about))
    toolset = memory_toolset(memory, categories=[], **about)
    history = MnemaHistory(memory, "chat-1", user_id="maya")
    replies: list[Any] = [("memory_query", {"query": "launch"}), "On 12 March.", "You are welcome."]
    async with scripted(*replies, toolsets=[toolset], capabilities=[recall]) as (agent, model):
        first = await agent.run("When is the launch?")
        await history.save(first.new_messages())
        await agent.run("Thank you. And when was the launch again?", message_history=first.all_messages())
        asked = [request["messages"] for request in model.requests]
    for messages in asked:
        system = [message["content"] for message in messages if message["role"] == "system"]
        assert len(system) == 1
        assert system[0].startswith(RECALLED)
        assert "12 March" in system[0]
        assert "1 April" not in str(messages)
        assert "heights" not in str(messages)
    assert [message["role"] for message in asked[2]][-2:] == ["system", "user"]
    assert RECALLED not in str(await history.load())


async def test_what_a_model_may_correct_is_told_to_it(memory: AsyncMnema) -> None:
    toolset = memory_toolset(memory, user_id="maya", agent="planner", categories=["tasks"])
    replies: list[Any] = [
        ("memory_remember", {"text": "A fact.", "category": "secrets"}),
        ("memory_query", {"words": "launch"}),
        "I cannot.",
    ]
    async with scripted(*replies, toolsets=[toolset]) as (agent, model):
        await agent.run("Remember it.")
        told = [message["content"] for message in model.requests[2]["messages"] if message["role"] == "tool"]
    assert told[0].startswith("error: category: Input should be 'tasks'")
    assert told[1].startswith("error: query: Field required; words: Extra inputs are not permitted")


async def test_without_an_agent_the_default_one_asks(memory: AsyncMnema) -> None:
    toolset = memory_toolset(memory, user_id="maya", categories=["profile"])
    recall = recall_processor(memory, user_id="maya")
    replies: list[Any] = [
        ("memory_remember", {"text": "Maya fears heights.", "category": "profile"}),
        "Noted.",
        "Heights.",
    ]
    async with scripted(*replies, toolsets=[toolset], capabilities=[ProcessHistory(recall)]) as (agent, model):
        await agent.run("I fear heights.")
        assert (await agent.run("What does Maya fear?")).output == "Heights."
        assert "[profile] Maya fears heights." in model.requests[2]["messages"][0]["content"]
    [stored] = (await memory.page(user_id="maya")).items
    assert stored.agent_id is None


async def test_a_refused_key_ends_the_run(refused: AsyncMnema) -> None:
    about = {"user_id": "maya", "agent": "planner"}
    with pytest.raises(Unauthenticated, match="unauthenticated"):
        await MnemaHistory(refused, "chat-1", user_id="maya").load()
    options = (
        {"toolsets": [memory_toolset(refused, categories=["tasks"], **about)]},
        {"capabilities": [ProcessHistory[None](recall_processor(refused, **about))]},
    )
    for option in options:
        async with scripted(("memory_query", {"query": "launch"}), "Never said.", **option) as (agent, model):
            with pytest.raises(Unauthenticated, match="unauthenticated"):
                await agent.run("When is the launch?")
            assert len(model.requests) < 2


@pytest.mark.long
async def test_the_example_runs(server: str, caller: Caller, memory: AsyncMnema) -> None:
    fact = "Maya deploys on Thursdays."
    said = ("maya", "chat-1", "I deploy on Thursdays. Remember that.")
    async with fake_chat(("memory_remember", {"text": fact, "category": "tasks"}), "Noted.") as model:
        assert await run_example("pydantic_ai_memory.py", server, caller, model.base_url, *said) == "Noted."
    async with fake_chat("On Thursdays.") as model:
        said = ("maya", "chat-1", "When do I deploy?")
        assert await run_example("pydantic_ai_memory.py", server, caller, model.base_url, *said) == "On Thursdays."
        assert "I deploy on Thursdays. Remember that." in model.said_to_it(0)
        assert fact in str([m["content"] for m in model.requests[0]["messages"] if m["role"] == "system"])
    assert len(await MnemaHistory(memory, "chat-1", user_id="maya").load()) == 6
