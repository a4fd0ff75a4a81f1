"""LlamaIndex against a real server: a memory block of its Memory."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from mnema_client import AsyncMnema, Unauthenticated

pytest.importorskip(
    "llama_index.core", reason="llama-index-core is not installed: it brings 17 packages, nltk among them"
)

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory
from mnema_client.adapters.llama_index import MnemaMemoryBlock
from sqlalchemy.ext.asyncio import create_async_engine

Chat = Callable[..., Memory]


@pytest.fixture
async def chat() -> AsyncIterator[Chat]:
    """Return a function that makes LlamaIndex's memory of a conversation with the block."""
    engines = []

    def build(client: AsyncMnema, user: str = "maya", **options: Any) -> Memory:
        block = MnemaMemoryBlock(client=client, user_id=user, agent="supervisor", thread_id="chat-1")
        engines.append(create_async_engine("sqlite+aiosqlite:///:memory:"))
        return Memory.from_defaults(session_id="chat-1", memory_blocks=[block], async_engine=engines[-1], **options)

    yield build
    for engine in engines:
        await engine.dispose()


async def shown(memory: Memory, question: str) -> list[str | None]:
    """Return the texts of all messages that go to the model."""
    await memory.aput(ChatMessage(role="user", content=question))
    return [message.content for message in await memory.aget()]


async def test_a_block_recalls_for_its_user_alone(chat: Chat, memory: AsyncMnema, elsewhere: AsyncMnema) -> None:
    await memory.remember("The launch is on 12 March.", user_id="maya", category="tasks")
    assert "12 March" in str(await shown(chat(memory), "When is the launch?"))
    for other, user in ((memory, "ben"), (elsewhere, "maya")):
        assert "12 March" not in str(await shown(chat(other, user), "When is the launch?"))


async def test_what_leaves_the_short_term_memory_is_remembered_by_the_next_run(chat: Chat, memory: AsyncMnema) -> None:
    first = chat(memory, token_limit=60, chat_history_token_ratio=0.5, token_flush_size=20)
    said = [
        "My door is blue, and it has been blue for seven years.",
        *(f"Something else, number {n}." for n in range(12)),
    ]
    for number, text in enumerate(said):
        await first.aput(ChatMessage(role="assistant" if number % 2 else "user", content=text))
    turns = [turn async for turn in memory.thread_turns("chat-1", user_id="maya")]
    assert (turns[0].role, turns[0].content) == ("user", said[0])
    assert [turn.content for turn in turns] == said[: len(turns)]
    assert "My door is blue" in str(await shown(chat(memory), "What colour is my door?"))


async def test_a_refused_key_is_an_error(chat: Chat, refused: AsyncMnema) -> None:
    with pytest.raises(Unauthenticated, match="unauthenticated"):
        await shown(chat(refused), "When is the launch?")
