"""AutoGen: a memory that recalls before each answer of an agent, and keeps what the program adds.

async with AsyncMnema() as client:
    memory = MnemaMemory(client, user_id="maya", agent="planner", category="tasks")
    helper = AssistantAgent("helper", model_client=model, memory=[memory])
"""

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, TypeVar

from autogen_core import CancellationToken
from autogen_core.memory import Memory, MemoryContent, MemoryMimeType, MemoryQueryResult, UpdateContextResult
from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import SystemMessage, UserMessage
from mnema_wire.recall import Answer, Item

from mnema_client.client import AsyncMnema
from mnema_client.errors import CannotBeSent

T = TypeVar("T")
SHOWN = ("category", "type", "relevance", "thread_id", "created_at")
"""The fields of a memory in the metadata of a result, besides `id` and the memory's own `metadata`."""


class MnemaMemory(Memory):
    """The memory of one user, queried as one agent, so the agent's allowlist applies. Methods raise MnemaError.

    Without an `agent`, the default agent asks, and what is added carries no agent.

    `category`: of what is added, unless its metadata has `category`. `thread_id`: of the conversation, for the header
    of changes and as the source of what is added. The program closes the client. A component's configuration cannot
    hold the client, so the memory cannot be dumped.
    """

    def __init__(
        self,
        client: AsyncMnema,
        *,
        user_id: str,
        agent: str | None = None,
        category: str,
        thread_id: str | None = None,
        top_k: int = 5,
    ) -> None:
        self._client = client
        self._user_id = user_id
        self._agent = agent
        self._category = category
        self._thread_id = thread_id
        self._top_k = top_k

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Query with the newest message of the user, and add the answer as a system message, if there is one."""
        messages = await model_context.get_messages()
        asked = next((text for m in reversed(messages) if isinstance(m, UserMessage) and (text := _text_of(m))), None)
        if asked is None:
            return UpdateContextResult(memories=MemoryQueryResult(results=[]))
        answer = await self._ask(asked)
        if prompt := answer.prompt():
            await model_context.add_message(SystemMessage(content=f"What is remembered:\n{prompt}"))
        return UpdateContextResult(memories=_result_of(answer))

    async def query(
        self, query: str | MemoryContent, cancellation_token: CancellationToken | None = None, **kwargs: Any
    ) -> MemoryQueryResult:
        """Return what this agent should know, best first. `kwargs` are arguments of `AsyncMnema.query`, as `top_k`."""
        asked = query if isinstance(query, str) else _content_text(query)
        return _result_of(await _await_linked(self._ask(asked, **kwargs), cancellation_token))

    async def add(self, content: MemoryContent, cancellation_token: CancellationToken | None = None) -> None:
        """Store a text or a JSON object. Its metadata is kept. Raise ValueError for an image or bytes."""
        metadata = dict(content.metadata or {})
        writing = self._client.remember(
            _content_text(content),
            user_id=self._user_id,
            category=metadata.pop("category", self._category),
            agent_id=self._agent,
            thread_id=self._thread_id,
            metadata=metadata,
        )
        await _await_linked(writing, cancellation_token)

    async def clear(self) -> None:
        """Delete the memories of the user that this agent wrote; they can be restored until they are purged.

        Raise CannotBeSent without an agent: all memories of the user would match.
        """
        if self._agent is None:
            raise CannotBeSent("clear() deletes what one agent wrote: give MnemaMemory an agent")
        await self._client.delete_matching({"user_id": self._user_id, "agent_id": self._agent, "type": "semantic"})

    async def close(self) -> None:
        """Do nothing: the program closes the client."""

    async def _ask(self, text: str, **options: Any) -> Answer:
        return await self._client.query(
            text,
            agent=self._agent,
            filters={"user_id": self._user_id},
            **{"thread_id": self._thread_id, "top_k": self._top_k, **options, "returns": "full"},
        )


async def _await_linked(work: Coroutine[Any, Any, T], token: CancellationToken | None) -> T:
    """Return the result of `work`, which the token cancels."""
    task = asyncio.ensure_future(work)
    if token is not None:
        token.link_future(task)
    return await task


def _text_of(message: UserMessage) -> str:
    content = message.content
    return content if isinstance(content, str) else "\n".join(part for part in content if isinstance(part, str))


def _content_text(content: MemoryContent) -> str:
    if isinstance(content.content, str):
        return content.content
    if isinstance(content.content, dict):
        return json.dumps(content.content, ensure_ascii=False)
    kind = content.mime_type.value if isinstance(content.mime_type, MemoryMimeType) else content.mime_type
    raise CannotBeSent(f"Mnema stores texts and JSON objects, not {kind}")


def _result_of(answer: Answer) -> MemoryQueryResult:
    return MemoryQueryResult(results=[_memory_content(item) for item in answer.items])


def _memory_content(item: Item) -> MemoryContent:
    fields = item.model_dump(mode="json")
    known = {name: fields[name] for name in SHOWN if fields[name] is not None}
    metadata = {**(item.metadata or {}), "id": str(item.id), **known}
    return MemoryContent(content=item.text, mime_type=MemoryMimeType.TEXT, metadata=metadata)
