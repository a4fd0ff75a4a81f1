"""LangChain's ChatOpenAI (`langchain-openai`): what it returns for each question."""

import asyncio
import json
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage, message_to_dict
from langchain_openai import ChatOpenAI

from bench.chat_clients.questions import ASKED, TOOL, conversation, look_at, run_driver


def ask_all(base_url: str, key: str) -> dict[str, Any]:
    """Return the answer to every question, by name."""
    return ask_chat(ChatOpenAI(model=ASKED["model"], base_url=base_url, api_key=key, max_retries=0))


def ask_chat(chat: ChatOpenAI) -> dict[str, Any]:
    """Return what a chat answers to every question, by name."""
    tooled = chat.bind_tools([TOOL])
    shaped = chat.with_structured_output(ASKED["schema"], method="json_schema", strict=True)
    return {
        "ask_plain": _steady(chat.invoke(conversation(ASKED["plain"]))),
        "ask_streamed": [_steady(chunk) for chunk in chat.stream(conversation(ASKED["streamed"]))],
        "call_tool": _call_tool(tooled),
        "call_tool_streamed": [_steady(chunk) for chunk in tooled.stream(ASKED["weather"])],
        "ask_shape": shaped.invoke(conversation(ASKED["shape"])),
        "ask_look": _steady(chat.invoke([HumanMessage(look_at(ASKED["look"])[0]["content"])])),
        **asyncio.run(_ask_async(chat)),
    }


def _call_tool(tooled: Any) -> list[Any]:
    asked = HumanMessage(ASKED["weather"])
    called = tooled.invoke([asked])
    (call,) = called.tool_calls
    told = tooled.invoke([asked, called, ToolMessage(ASKED["tool_result"], tool_call_id=call["id"])])
    return [_steady(called), _steady(told)]


async def _ask_async(chat: ChatOpenAI) -> dict[str, Any]:
    plain = await chat.ainvoke(conversation(ASKED["plain"]))
    chunks = [_steady(chunk) async for chunk in chat.astream(conversation(ASKED["streamed"]))]
    return {"ask_plain_async": _steady(plain), "ask_streamed_async": chunks}


def _steady(message: BaseMessage) -> Any:
    """Return a message without its id, which differs from run to run."""
    said = json.loads(json.dumps(message_to_dict(message), default=str))
    said["data"].pop("id")
    return said


if __name__ == "__main__":
    run_driver(ask_all)
