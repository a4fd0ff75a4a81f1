"""Pydantic AI: what an agent returns for each question."""

import asyncio
import json
from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, NativeOutput
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ModelResponse, TextPart
from pydantic_ai.messages import UserPromptPart as Said
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from bench.chat_clients.questions import ASKED, PICTURE, run_driver

CHANGING = frozenset({"timestamp", "run_id", "conversation_id", "provider_url"})
"""Members of a message that differ from run to run, or name the server."""


class Place(BaseModel):
    """A shape of an answer."""

    city: str
    boats: int


def ask_all(base_url: str, key: str) -> dict[str, Any]:
    """Return the messages of every question, by name."""
    return asyncio.run(ask_questions(base_url, key))


async def ask_questions(base_url: str, key: str) -> dict[str, Any]:
    """Return the messages of every question, by name."""
    provider = OpenAIProvider(base_url=base_url, api_key=key)
    async with provider.client:
        model = OpenAIChatModel(ASKED["model"], provider=provider)
        agent = Agent(model, instructions=ASKED["system"])
        shaped = Agent(model, output_type=NativeOutput(Place))
        picture = BinaryContent.from_data_uri(PICTURE)
        return {
            "ask_plain": _seen((await agent.run(ASKED["plain"], message_history=_history())).all_messages_json()),
            "ask_streamed": await _stream(agent, ASKED["streamed"]),
            "call_tool": _seen((await _with_tool(model).run(ASKED["weather"])).all_messages_json()),
            "call_tool_streamed": await _stream(_with_tool(model), ASKED["weather"]),
            "ask_shape": (await shaped.run(ASKED["shape"])).output.model_dump(),
            "ask_look": _seen((await agent.run([ASKED["look"], picture])).all_messages_json()),
        }


def _with_tool(model: OpenAIChatModel) -> Agent[None, str]:
    agent = Agent(model)

    @agent.tool_plain
    def get_weather(city: str, days: int) -> str:
        """Return the weather of a city."""
        return f"{city}, {days} days: {ASKED['tool_result']}"

    return agent


def _history() -> list[ModelMessage]:
    (_, asked), (_, answered) = ASKED["history"]
    return [ModelRequest([Said(asked)]), ModelResponse([TextPart(answered)])]


async def _stream(agent: Agent[None, str], text: str) -> Any:
    async with agent.run_stream(text) as result:
        pieces = [piece async for piece in result.stream_text(delta=True, debounce_by=None)]
        return [pieces, _seen(ModelMessagesTypeAdapter.dump_json(result.all_messages()))]


def _seen(messages: bytes) -> Any:
    return _steady(json.loads(messages))


def _steady(value: Any) -> Any:
    if isinstance(value, list):
        return [_steady(item) for item in value]
    if isinstance(value, dict):
        return {name: _steady(item) for name, item in value.items() if name not in CHANGING}
    return value


if __name__ == "__main__":
    run_driver(ask_all)
