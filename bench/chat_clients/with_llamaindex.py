"""LlamaIndex's OpenAILike (`llama-index-llms-openai-like`): what it returns for each question."""

import asyncio
import json
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, ImageBlock, TextBlock
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

from bench.chat_clients.questions import ASKED, PICTURE, conversation, run_driver


class Place(BaseModel):
    """A shape of an answer."""

    city: str
    boats: int


def get_weather(city: str, days: int) -> str:
    """Return the weather of a city."""
    return f"{city}, {days} days: {ASKED['tool_result']}"


def ask_all(base_url: str, key: str) -> dict[str, Any]:
    """Return the answer to every question, by name."""
    llm = OpenAILike(
        model=ASKED["model"],
        api_base=base_url,
        api_key=key,
        is_chat_model=True,
        is_function_calling_model=True,
        should_use_structured_outputs=True,
        max_retries=0,
    )
    tools = [FunctionTool.from_defaults(get_weather)]
    look = ChatMessage(role="user", blocks=[TextBlock(text=ASKED["look"]), ImageBlock(url=PICTURE)])
    shaped = llm.as_structured_llm(Place)
    return {
        "ask_plain": _steady(llm.chat(_messages(ASKED["plain"]))),
        "ask_streamed": [_steady(part) for part in llm.stream_chat(_messages(ASKED["streamed"]))],
        "call_tool": _call_tool(llm, tools),
        "call_tool_streamed": [_steady(part) for part in llm.stream_chat_with_tools(tools, ASKED["weather"])],
        "ask_shape": shaped.chat(_messages(ASKED["shape"])).raw.model_dump(),
        "ask_look": _steady(llm.chat([look])),
        **asyncio.run(_ask_async(llm)),
    }


def _call_tool(llm: OpenAILike, tools: list[FunctionTool]) -> list[Any]:
    asked = ChatMessage(role="user", content=ASKED["weather"])
    called = llm.chat_with_tools(tools, chat_history=[asked])
    (call,) = llm.get_tool_calls_from_response(called)
    result = tools[0].call(**call.tool_kwargs).content
    told = ChatMessage(role="tool", content=result, additional_kwargs={"tool_call_id": call.tool_id})
    return [_steady(called), _steady(llm.chat_with_tools(tools, chat_history=[asked, called.message, told]))]


async def _ask_async(llm: OpenAILike) -> dict[str, Any]:
    plain = await llm.achat(_messages(ASKED["plain"]))
    parts = [_steady(part) async for part in await llm.astream_chat(_messages(ASKED["streamed"]))]
    return {"ask_plain_async": _steady(plain), "ask_streamed_async": parts}


def _messages(text: str) -> list[ChatMessage]:
    return [ChatMessage(role=message["role"], content=message["content"]) for message in conversation(text)]


def _steady(response: ChatResponse) -> Any:
    return json.loads(response.model_dump_json(fallback=str))


if __name__ == "__main__":
    run_driver(ask_all)
