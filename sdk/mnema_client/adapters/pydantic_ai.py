"""pydantic-ai: the memory as a toolset, a thread as message history, and a processor that puts memories in a prompt.

async with AsyncMnema() as memory:
    history = MnemaHistory(memory, "chat-1", user_id="maya")
    toolset = memory_toolset(memory, user_id="maya", agent="planner", categories=["tasks"])
    recall = recall_processor(memory, user_id="maya", agent="planner")
    agent = Agent(model, toolsets=[toolset], capabilities=[ProcessHistory(recall)])
    result = await agent.run("When do we deploy?", message_history=await history.load())
    await history.save(result.new_messages())
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai import FunctionToolset, Tool
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    UserPromptPart,
)

from mnema_client.adapters.memory_tools import MemoryTool, build_memory_tools
from mnema_client.adapters.threads import Entry, Place, ThreadLog
from mnema_client.client import AsyncMnema

RECALLED = "What is remembered of the user:"
"""The first line of the part that a processor adds. It is never stored."""


class MnemaHistory:
    """The message history of a conversation: one user's thread. The same id of another user is another history.

    Methods raise MnemaError. Turns that another program stored in the thread are read as prompts and answers.
    """

    def __init__(self, memory: AsyncMnema, thread_id: str, *, user_id: str) -> None:
        self._log = ThreadLog(memory, Place(user_id, thread_id, "pydantic_ai"))

    async def load(self, limit: int | None = None) -> list[ModelMessage]:
        """Return the newest `limit` messages, by default all, for `message_history`."""
        read = (_message_of(entry) for entry in await self._log.read(limit))
        return [message for message in read if message is not None]

    async def save(self, messages: Sequence[ModelMessage]) -> None:
        """Store the new messages of a run (`result.new_messages()`), without what a processor added."""
        kept = without_recalled(messages)
        values = ModelMessagesTypeAdapter.dump_python(kept, mode="json")
        await self._log.append(_entry_of(message, value) for message, value in zip(kept, values, strict=True))

    async def clear(self) -> None:
        """Delete all turns of the thread; they can be restored until they are purged."""
        await self._log.clear()


def memory_toolset(
    memory: AsyncMnema,
    *,
    user_id: str,
    agent: str | None = None,
    categories: Sequence[str],
    thread_id: str | None = None,
    top_k: int = 5,
) -> FunctionToolset[Any]:
    """Return `memory_query` and `memory_remember` of an agent; `build_memory_tools` explains the arguments."""
    tools = build_memory_tools(
        memory, user_id=user_id, agent=agent, categories=categories, thread_id=thread_id, top_k=top_k
    )
    return FunctionToolset([_tool_of(tool) for tool in tools])


def recall_processor(
    memory: AsyncMnema, *, user_id: str, agent: str | None = None, top_k: int = 5, thread_id: str | None = None
) -> Callable[[list[ModelMessage]], Awaitable[list[ModelMessage]]]:
    """Return a history processor that queries the memory with the newest prompt and puts the answer before it.

    It queries once for each prompt, and takes the memories of earlier prompts out. It raises MnemaError.
    """

    async def recall(messages: list[ModelMessage]) -> list[ModelMessage]:
        place = max((i for i, message in enumerate(messages) if _prompt_of(message)), default=None)
        if place is None:
            return messages
        asked = messages[place]
        plain = without_recalled(messages[:place])
        if isinstance(asked, ModelRequest) and not any(_is_recalled(part) for part in asked.parts):
            filters = {"user_id": user_id}
            answer = await memory.query(
                _prompt_of(asked), agent=agent, filters=filters, thread_id=thread_id, top_k=top_k
            )
            if known := answer.prompt():
                asked = replace(asked, parts=[SystemPromptPart(f"{RECALLED}\n{known}"), *asked.parts])
        return [*plain, asked, *messages[place + 1 :]]

    return recall


def without_recalled(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Return the messages without the parts that `recall_processor` added."""
    return [
        replace(message, parts=[part for part in message.parts if not _is_recalled(part)])
        if isinstance(message, ModelRequest)
        else message
        for message in messages
    ]


def _tool_of(tool: MemoryTool) -> Tool[Any]:
    async def invoke(**arguments: Any) -> str:
        return await tool.run(arguments)

    return Tool[Any].from_schema(invoke, tool.name, tool.description, tool.schema)


def _is_recalled(part: Any) -> bool:
    return isinstance(part, SystemPromptPart) and part.content.startswith(RECALLED)


def _prompt_of(message: ModelMessage) -> str:
    """Return the text that the user wrote in a request; empty if there is none."""
    return "\n".join(_content_text(part.content) for part in message.parts if isinstance(part, UserPromptPart)).strip()


def _content_text(content: Any) -> str:
    parts = [content] if isinstance(content, str) else content if isinstance(content, list | tuple) else []
    return "\n".join(part for part in parts if isinstance(part, str))


def _entry_of(message: ModelMessage, value: Any) -> Entry:
    if prompt := _prompt_of(message):
        return Entry("user", prompt, value)
    role = "assistant" if isinstance(message, ModelResponse) else "tool"
    texts = (_content_text(getattr(part, "content", "")) for part in message.parts)
    return Entry(role, "\n".join(text for text in texts if text), value)


def _message_of(entry: Entry) -> ModelMessage | None:
    if entry.payload is not None:
        return ModelMessagesTypeAdapter.validate_python([entry.payload])[0]
    if entry.role == "user":
        return ModelRequest([UserPromptPart(entry.text)])
    return ModelResponse([TextPart(entry.text)]) if entry.role == "assistant" else None
