"""The names that the Python blocks of the pages take for granted, and the running of one block."""

import ast
import asyncio
import inspect
import operator
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from importlib import import_module
from typing import Annotated, Any, TypedDict

from anthropic import Anthropic
from langgraph.graph import START, StateGraph
from mnema_client import AsyncMnema, Mnema, RecallValve
from openai import OpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.pages.blocks import Block
from tests.pages.reader import Reader

Names = dict[str, Any]
Given = Callable[[Reader, AsyncExitStack], Awaitable[Names]]
COMMENTARY = ("shown once", "also in another process", "what was said in the thread, in order")
"""Comments behind a `print` that are not its output."""


async def run_program(block: Block, text: str, names: Names) -> str:
    """Run a block with these names, which keep what it defines; return what it prints. `await` needs no function."""
    printed: list[str] = []
    names["print"] = lambda *values: printed.append(" ".join(str(value) for value in values))
    code = compile(text, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:
        await eval(code, names)
    else:
        await asyncio.to_thread(exec, code, names)
    return "".join(f"{line}\n" for line in printed)


def promised_lines(block: Block) -> list[str]:
    """Return the comments behind calls of `print`: they are what is printed."""
    found = re.findall(r"^ *print\(.*\)  # (.+)$", block.text, re.MULTILINE)
    return [line for line in found if line not in COMMENTARY]


class State(TypedDict):
    """The state of a graph of one node."""

    done: Annotated[list[str], operator.add]


def _builder() -> StateGraph[State]:
    return StateGraph(State).add_node("work", lambda _state: {"done": ["work"]}).add_edge(START, "work")


async def nothing_more(_reader: Reader, _stack: AsyncExitStack) -> Names:
    """Take nothing else for granted."""
    return {}


async def _client(_reader: Reader, stack: AsyncExitStack) -> Names:
    return {"memory": stack.enter_context(Mnema()), "RecallValve": RecallValve}


async def _question(_reader: Reader, _stack: AsyncExitStack) -> Names:
    return {"question": "When do we deploy?", "thread": "launch", "number": 7}


async def _graph(_reader: Reader, _stack: AsyncExitStack) -> Names:
    return {"builder": _builder()}


async def _deployment(reader: Reader, _stack: AsyncExitStack) -> Names:
    await reader.post("/memory", user_id="maya", category="tasks", text="Maya deploys on Thursdays.")
    return {"Mnema": Mnema}


async def _turn(_reader: Reader, stack: AsyncExitStack) -> Names:
    memory = await stack.enter_async_context(AsyncMnema())
    return {"memory": memory, "user": "maya", "chat": "desk", "turn_id": "desk-1", "text": "Always greet by name."}


async def _chat_clients(_reader: Reader, _stack: AsyncExitStack) -> Names:
    clients = {"OpenAI": OpenAI, "Anthropic": Anthropic}
    return {**clients, "OpenAIProvider": OpenAIProvider, "OpenAIChatModel": OpenAIChatModel, "Agent": Agent}


async def _chats_for_agents(_reader: Reader, _stack: AsyncExitStack) -> Names:
    """Let the OpenAI Agents SDK use the API that the scripted model has, and send nothing else."""
    agents = import_module("agents")
    agents.set_default_openai_api("chat_completions")
    agents.set_tracing_disabled(True)
    return {}


GIVEN: Mapping[str, Given] = {
    "README.md 3": nothing_more,
    "docs/adapters.md 1": _chats_for_agents,
    "docs/adapters.md 2": nothing_more,
    "docs/adapters.md 3": nothing_more,
    "docs/adapters.md 4": _deployment,
    "docs/changes.md 1": nothing_more,
    "docs/chat.md 1": _chat_clients,
    "docs/langgraph.md 1": nothing_more,
    "docs/operations.md 10": nothing_more,
    "docs/python.md 2": nothing_more,
    "docs/python.md 4": nothing_more,
    "docs/python.md 5": nothing_more,
    "docs/python.md 6": nothing_more,
    "docs/receipts.md 2": _deployment,
    "docs/turn-memory.md 1": nothing_more,
    "docs/turn-memory.md 3": _turn,
    "sdk/README.md 2": nothing_more,
    "sdk/README.md 4": _client,
    "sdk/README.md 5": nothing_more,
    "sdk/README.md 6": _question,
    "sdk/README.md 7": _graph,
}
"""The names that each block takes for granted besides those of the blocks before it."""
FRAMEWORKS: Mapping[str, str] = {
    "docs/adapters.md 1": "agents",
    "docs/adapters.md 5": "llama_index",
    "docs/adapters.md 6": "autogen_agentchat",
    "docs/mem0.md 1": "mem0",
}
"""The blocks that need a package which the lock has not: they run only where it is installed."""


def parts_that_run(block: Block) -> str:
    """Return the text of a block; of docs/chat.md, the parts whose client is installed."""
    if block.page != "docs/chat.md":
        return block.text
    parts = block.text.split("\n\n")
    return "\n\n".join(part for part in parts if not re.match(r"# (LangChain|LlamaIndex)\b", part))
