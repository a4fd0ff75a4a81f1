"""The OpenAI Agents SDK: a session that is a thread of Mnema, and the memory as function tools.

async with AsyncMnema() as memory:
    tools = memory_tools(memory, user_id="maya", agent="planner", categories=["tasks"])
    session = MnemaSession(memory, "chat-1", user_id="maya")
    result = await Runner.run(Agent("helper", tools=tools), "When do we deploy?", session=session)
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agents import FunctionTool
from agents.memory import SessionSettings

from mnema_client.adapters.memory_tools import MemoryTool, build_memory_tools
from mnema_client.adapters.threads import Entry, Place, ThreadLog
from mnema_client.client import AsyncMnema

if TYPE_CHECKING:
    from agents import TResponseInputItem
    from agents.tool_context import ToolContext

ROLES = frozenset({"user", "assistant", "system", "developer"})
"""Roles of turns that other programs stored, which a session reads as messages."""


class MnemaSession:
    """A session of the OpenAI Agents SDK: one user's thread. The same id of another user is another session.

    `session_settings.limit`: the newest items that a run gets. Methods raise MnemaError. Turns that another program
    stored in the thread are read as messages.
    """

    def __init__(
        self,
        memory: AsyncMnema,
        session_id: str,
        *,
        user_id: str,
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        self._log = ThreadLog(memory, Place(user_id, session_id, "openai_agents"))

    async def get_items(self, limit: int | None = None) -> "list[TResponseInputItem]":
        """Return the newest `limit` items, by default the limit of the settings, in the order of the thread."""
        entries = await self._log.read(self.session_settings.limit if limit is None else limit)
        return [item for entry in entries if (item := _item_of(entry)) is not None]

    async def add_items(self, items: "list[TResponseInputItem]") -> None:
        """Store items as turns: one request each, a large item in several."""
        await self._log.append(_entry_of(dict(item)) for item in items)

    async def pop_item(self) -> "TResponseInputItem | None":
        """Delete the newest item and return it; None if the session is empty."""
        entry = await self._log.pop()
        return None if entry is None else _item_of(entry)

    async def clear_session(self) -> None:
        """Delete all turns of the thread; they can be restored until they are purged."""
        await self._log.clear()


def memory_tools(
    memory: AsyncMnema,
    *,
    user_id: str,
    agent: str | None = None,
    categories: Sequence[str],
    thread_id: str | None = None,
    top_k: int = 5,
) -> list[FunctionTool]:
    """Return `memory_query` and `memory_remember` of an agent; `build_memory_tools` explains the arguments."""
    tools = build_memory_tools(
        memory, user_id=user_id, agent=agent, categories=categories, thread_id=thread_id, top_k=top_k
    )
    return [_function_tool(tool) for tool in tools]


def _function_tool(tool: MemoryTool) -> FunctionTool:
    async def invoke(_context: "ToolContext[Any]", arguments: str) -> str:
        return await tool.run(arguments)

    return FunctionTool(
        name=tool.name, description=tool.description, params_json_schema=tool.schema, on_invoke_tool=invoke
    )


def _entry_of(item: dict[str, Any]) -> Entry:
    kind = item.get("type", "message")
    if kind == "message":
        return Entry(item.get("role", "assistant"), _text_of(item.get("content")), item)
    if kind.endswith("_output"):
        return Entry("tool", _text_of(item.get("output")), item)
    called = f"{item['name']}({item.get('arguments', '')})" if "name" in item else f"({kind})"
    return Entry("assistant", called, item)


def _text_of(content: Any) -> str:
    """Return the text of a message's content or of a tool's output; images and files have none."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def _item_of(entry: Entry) -> Any:
    if entry.payload is not None:
        return entry.payload
    return {"role": entry.role, "content": entry.text} if entry.role in ROLES else None
