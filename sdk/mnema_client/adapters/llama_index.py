"""LlamaIndex: a memory block that recalls before each message, and keeps what leaves the short-term memory.

async with AsyncMnema() as memory:
    block = MnemaMemoryBlock(client=memory, user_id="maya", agent="planner", thread_id="chat-1")
    chat = Memory.from_defaults(session_id="chat-1", memory_blocks=[block])
"""

from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import BaseMemoryBlock

from mnema_client.adapters.threads import Entry, Place, ThreadLog
from mnema_client.client import AsyncMnema


class MnemaMemoryBlock(BaseMemoryBlock[str]):
    """A block with what Mnema remembers of one user, as a text in the prompt. It raises MnemaError.

    `agent`: queries under this name, so its allowlist applies; without one, the default agent's. Messages that leave
    LlamaIndex's short-term memory are stored as turns of the thread, from which background jobs extract facts.
    """

    name: str = "mnema"
    client: AsyncMnema
    user_id: str
    agent: str | None = None
    thread_id: str
    top_k: int = 5

    async def _aget(self, messages: list[ChatMessage] | None = None, **_options: Any) -> str:
        """Query with the newest message of the user; an empty text if there is none or nothing is known."""
        asked = next((m.content for m in reversed(messages or []) if m.role is MessageRole.USER and m.content), None)
        if asked is None:
            return ""
        answer = await self.client.query(
            asked, agent=self.agent, filters={"user_id": self.user_id}, thread_id=self.thread_id, top_k=self.top_k
        )
        return answer.prompt()

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Store messages as turns: one request each, a large message in several."""
        log = ThreadLog(self.client, Place(self.user_id, self.thread_id, "llama_index"))
        await log.append(Entry(m.role.value, m.content or "", m.model_dump(mode="json")) for m in messages)
