"""The examples run as a reader runs them, with a scripted model in place of a real one."""

import subprocess
import sys
from typing import Any

import pytest
from mnema_client import AsyncMnema
from mnema_client.langgraph import MnemaSaver, MnemaStore

from tests.factories import Caller
from tests.fake_chat import fake_chat
from tests.sdk.example_runs import EXAMPLES, run_example


@pytest.mark.long
async def test_a_langgraph_team_plans_executes_and_goes_on_where_it_stood(server: str, caller: Caller) -> None:
    replies = ["planner", "1. Order lamps. 2. Book the hall.", "Executor", "The hall is booked for Friday.", "finish"]
    async with AsyncMnema(server, caller.key) as memory:
        await memory.remember("The old mill is the cheapest hall.", user_id="maya", category="goals")
        await memory.remember("Maya is afraid of heights.", user_id="maya", category="profile")
        async with fake_chat(*replies) as model:
            out = await run_example(
                "langgraph_team.py", server, caller, model.base_url, "maya", "launch", "Book a hall."
            )
            assert out.splitlines() == [
                "Plan: 1. Order lamps. 2. Book the hall.",
                "Done: The hall is booked for Friday.",
            ]
            assert "The old mill" in model.said_to_it(1)
            assert "afraid of heights" not in model.said_to_it(1)  # the planner may not see it
            assert "Plan: 1. Order lamps" in model.said_to_it(3)
        async with fake_chat("finish") as model:
            again = await run_example(
                "langgraph_team.py", server, caller, model.base_url, "maya", "launch", "Anything left?"
            )
            assert again == out  # the thread resumes from its checkpoint
            assert "The hall is booked for Friday." in model.said_to_it(0)
        found = [item async for item in memory.list(user_id="maya", thread_id="launch")]
        assert [(item.text, item.agent_id) for item in found] == [("The hall is booked for Friday.", "executor")]
    store = MnemaStore(server, caller.key)
    [plan] = await store.asearch(("plans", "maya"))
    await store.aclose()
    assert plan.value == {"text": "1. Order lamps. 2. Book the hall."}
    saver = MnemaSaver(server, caller.key, user_id="maya")
    kept = await saver.aget_tuple({"configurable": {"thread_id": "launch"}})
    await saver.aclose()
    assert kept is not None
    assert len(kept.checkpoint["channel_values"]["done"]) == 2


async def test_an_openai_agent_asks_its_memory_with_a_function(server: str, caller: Caller) -> None:
    async with AsyncMnema(server, caller.key) as memory:
        await memory.remember("The launch is on 12 March.", user_id="maya", category="event")
        await memory.remember("Ben's launch is on 1 April.", user_id="ben", category="event")
        question = "When is the launch?"
        calls: list[Any] = [
            ("memory_query", {"query": "launch date", "top_k": 3}),
            ("memory_query", {"words": "launch"}),
        ]
        async with fake_chat(*calls, "On 12 March.") as model:
            assert (
                await run_example("openai_agent.py", server, caller, model.base_url, "maya", "chat-1", question)
                == "On 12 March."
            )
        asked = model.requests[0]
        assert [tool["function"]["name"] for tool in asked["tools"]] == ["memory_query"]
        first, second = (message["content"] for message in model.requests[2]["messages"] if message["role"] == "tool")
        assert "[event] The launch is on 12 March." in first
        assert "Ben" not in first
        assert second.startswith("error: ")
        turns = [item async for item in memory.list(thread_id="chat-1", type="turn")]
        assert [(turn.role, turn.text) for turn in reversed(turns)] == [
            ("user", question),
            ("assistant", "On 12 March."),
        ]


@pytest.mark.long
async def test_a_pydantic_ai_agent_remembers_and_asks_over_mcp(server: str, caller: Caller) -> None:
    fact = "Maya deploys on Thursdays."
    about = {"user_id": "maya"}
    replies: list[Any] = [
        ("memory_remember", {"category": "tasks", "text": fact}),
        ("memory_query", {"query": "deployment day"}),
        "Noted: Thursdays.",
    ]
    async with fake_chat(*replies) as model:
        out = await run_example("pydantic_ai_mcp.py", server, caller, model.base_url, "maya", "I deploy on Thursdays.")
    assert out == "Noted: Thursdays."
    assert {tool["function"]["name"] for tool in model.requests[0]["tools"]} >= {"memory_query", "memory_remember"}
    assert f"[tasks] {fact}" in model.said_to_it(2)
    async with AsyncMnema(server, caller.key) as memory:
        assert [item.text async for item in memory.list(**about)] == [fact]


@pytest.mark.long
def test_the_agent_says_what_it_needs() -> None:
    done = subprocess.run([sys.executable, EXAMPLES / "openai_agent.py"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "usage: python openai_agent.py USER THREAD QUESTION\n")
