"""The OpenAI Agents SDK against a real server: sessions are threads, and the memory is two tools."""

from typing import Any

import pytest
from mnema_client import AsyncMnema, Unauthenticated

pytest.importorskip("agents", reason="openai-agents is not installed: it needs another websockets than our pins")

from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner
from agents.memory import Session, SessionSettings
from mnema_client.adapters.openai_agents import MnemaSession, memory_tools
from openai import AsyncOpenAI

from tests.factories import Caller
from tests.fake_chat import FakeChat, fake_chat
from tests.sdk.example_runs import run_example

QUIET = RunConfig(tracing_disabled=True)


async def run(model: FakeChat, question: str, session: MnemaSession | None = None, tools: Any = ()) -> str:
    """Run an agent once with the scripted model; return its answer."""
    async with AsyncOpenAI(base_url=model.base_url, api_key="none") as client:
        agent = Agent(
            "helper", tools=list(tools), model=OpenAIChatCompletionsModel(model="scripted", openai_client=client)
        )
        return (await Runner.run(agent, question, session=session, run_config=QUIET)).final_output


async def test_a_session_is_remembered_by_the_next_run(memory: AsyncMnema) -> None:
    first = MnemaSession(memory, "chat-1", user_id="maya")
    assert isinstance(first, Session)
    async with fake_chat("Blue is noted.", "It is blue.") as model:
        await run(model, "My door is blue.", first)
        answer = await run(model, "What colour is my door?", MnemaSession(memory, "chat-1", user_id="maya"))
        assert answer == "It is blue."
        said = [(message["role"], message["content"]) for message in model.requests[1]["messages"]]
    assert said == [("user", "My door is blue."), ("assistant", "Blue is noted."), ("user", "What colour is my door?")]
    turns = [turn async for turn in memory.thread_turns("chat-1", user_id="maya")]
    assert [(turn.role, turn.content) for turn in turns[:2]] == said[:2]


async def test_a_session_belongs_to_one_user_of_one_tenant(memory: AsyncMnema, elsewhere: AsyncMnema) -> None:
    await MnemaSession(memory, "chat-1", user_id="maya").add_items([{"role": "user", "content": "The code is 7."}])
    others = [MnemaSession(memory, "chat-1", user_id="ben"), MnemaSession(elsewhere, "chat-1", user_id="maya")]
    for other in others:
        async with fake_chat("I do not know.") as model:
            await run(model, "What is the code?", other)
            assert "The code is 7." not in model.said_to_it(0)
        await other.clear_session()
    assert len(await MnemaSession(memory, "chat-1", user_id="maya").get_items()) == 1


async def test_items_come_back_as_they_were(memory: AsyncMnema) -> None:
    output = "\n".join(f'  row {number}: "ü{chr(0x1F600)}"\t\\' for number in range(2_000))
    items: list[Any] = [
        {"role": "user", "content": [{"type": "input_text", "text": "  two\n\n\n\nlines “x” \u200b"}]},
        {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"file": "a"}'},
        {"type": "function_call_output", "call_id": "c1", "output": output},
        {"type": "reasoning", "id": "r1", "summary": []},
        {"role": "user", "content": "\u200b"},
        {"role": "assistant", "content": "Done."},
    ]
    session = MnemaSession(memory, "chat-1", user_id="maya")
    await session.add_items(items)
    assert await session.get_items() == items
    assert await session.get_items(limit=2) == items[-2:]
    assert await session.get_items(limit=4) == items[-4:]  # the large item is many turns
    assert await session.get_items(limit=0) == []
    assert (
        await MnemaSession(memory, "chat-1", user_id="maya", session_settings=SessionSettings(limit=1)).get_items()
    ) == items[-1:]
    assert [await session.pop_item() for _ in range(4)] == items[:1:-1]
    assert await session.get_items() == items[:2]
    await session.clear_session()
    assert await session.get_items() == []
    assert await session.pop_item() is None


async def test_turns_of_other_programs_are_messages(memory: AsyncMnema) -> None:
    where = {"user_id": "maya", "thread_id": "chat-1"}
    await memory.add_turn("My door is blue.", role="user", **where)
    await memory.add_turn("Row 1", role="tool", **where)
    await memory.add_turn("Noted.", role="assistant", **where)
    assert await MnemaSession(memory, "chat-1", user_id="maya").get_items() == [
        {"role": "user", "content": "My door is blue."},
        {"role": "assistant", "content": "Noted."},
    ]


async def test_the_model_remembers_and_asks_with_tools(memory: AsyncMnema, elsewhere: AsyncMnema) -> None:
    for other, user in ((memory, "ben"), (elsewhere, "maya")):
        await other.remember("The launch is on 1 April.", user_id=user, category="tasks")
    tools = memory_tools(memory, user_id="maya", agent="planner", categories=["tasks", "goals"])
    replies: list[Any] = [
        ("memory_remember", {"text": "The launch is on 12 March.", "category": "style"}),
        ("memory_remember", {"text": "The launch is on 12 March.", "category": "tasks"}),
        ("memory_remember", {"text": "x" * 400, "category": "tasks"}),
        ("memory_query", {"query": "when is the launch?"}),
        "On 12 March.",
    ]
    async with fake_chat(*replies) as model:
        assert await run(model, "The launch is on 12 March. When is it?", tools=tools) == "On 12 March."
        results = [message["content"] for message in model.requests[-1]["messages"] if message["role"] == "tool"]
        schema = model.requests[0]["tools"][1]["function"]["parameters"]
    assert schema["properties"]["category"]["enum"] == ["tasks", "goals"]
    assert results[0].startswith("error: category: Input should be 'tasks' or 'goals'")
    assert results[1] == "created"
    assert results[2].startswith("error: text_too_long")
    assert "12 March" in results[3]
    assert "1 April" not in results[3]
    [stored] = [item async for item in memory.list(user_id="maya")]
    assert (stored.category, stored.agent_id) == ("tasks", "planner")


async def test_an_agents_allowlist_holds(memory: AsyncMnema) -> None:
    await memory.remember("Maya is afraid of heights.", user_id="maya", category="profile")
    [query] = memory_tools(memory, user_id="maya", agent="planner", categories=[])
    async with fake_chat(("memory_query", {"query": "what is Maya afraid of?"}), "Nothing.") as model:
        await run(model, "What am I afraid of?", tools=[query])
        assert "heights" not in model.said_to_it(1)


async def test_a_refused_key_ends_the_run(refused: AsyncMnema) -> None:
    async with fake_chat("Never said.") as model:
        with pytest.raises(Unauthenticated, match="unauthenticated"):
            await run(model, "Hello", MnemaSession(refused, "chat-1", user_id="maya"))
        assert model.requests == []
    tools = memory_tools(refused, user_id="maya", agent="planner", categories=["tasks"])
    async with fake_chat(("memory_query", {"query": "launch"}), "Never said.") as model:
        with pytest.raises(Exception, match="unauthenticated"):
            await run(model, "Hello", tools=tools)
        assert len(model.requests) == 1


async def test_the_example_runs(server: str, caller: Caller, memory: AsyncMnema) -> None:
    fact = "Maya deploys on Thursdays."
    said = ("maya", "chat-1", "I deploy on Thursdays. Remember that.")
    async with fake_chat(("memory_remember", {"text": fact, "category": "tasks"}), "Noted.") as model:
        assert await run_example("openai_agents_session.py", server, caller, model.base_url, *said) == "Noted."
    async with fake_chat(("memory_query", {"query": "deployment day"}), "On Thursdays.") as model:
        said = ("maya", "chat-1", "When do I deploy?")
        assert await run_example("openai_agents_session.py", server, caller, model.base_url, *said) == "On Thursdays."
        assert "I deploy on Thursdays. Remember that." in model.said_to_it(0)
        assert fact in model.said_to_it(1)
    assert [item.text async for item in memory.list(user_id="maya", type="semantic", agent_id="planner")] == [fact]
