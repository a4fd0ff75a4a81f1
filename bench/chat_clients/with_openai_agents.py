"""OpenAI's Agents SDK (`openai-agents`) with its default API: what an agent returns for each question."""

import asyncio
import os
from typing import Any

from bench.chat_clients.questions import ASKED, conversation, run_driver

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"  # read while the package is imported
from agents import Agent, Runner, function_tool, set_default_openai_client
from openai import AsyncOpenAI


@function_tool
def get_weather(city: str, days: int) -> str:
    """Return the weather of a city."""
    return f"{city}, {days} days: {ASKED['tool_result']}"


def ask_all(base_url: str, key: str) -> dict[str, Any]:
    """Return the answer to every question, by name."""
    return asyncio.run(_ask_all(base_url, key))


async def _ask_all(base_url: str, key: str) -> dict[str, Any]:
    async with AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0) as client:
        set_default_openai_client(client, use_for_tracing=False)
        agent = Agent(name="terse", instructions=ASKED["system"], model=ASKED["model"])
        tooled = agent.clone(tools=[get_weather])
        history = conversation(ASKED["plain"])[1:]
        return {
            "ask_plain": _told(await Runner.run(agent, history)),
            "ask_streamed": await _stream(agent, ASKED["streamed"]),
            "call_tool": _told(await Runner.run(tooled, ASKED["weather"])),
            "call_tool_streamed": await _stream(tooled, ASKED["weather"]),
        }


async def _stream(agent: Any, text: str) -> Any:
    result = Runner.run_streamed(agent, text)
    kinds = [getattr(event.data, "type", None) async for event in result.stream_events() if hasattr(event, "data")]
    return [kinds, _told(result)]


def _told(result: Any) -> Any:
    return [result.final_output, result.to_input_list()]


if __name__ == "__main__":
    run_driver(ask_all)
