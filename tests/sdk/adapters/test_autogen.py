"""AutoGen against a real server: a memory of its agents."""

import asyncio

import pytest
from mnema_client import AsyncMnema, CannotBeSent, NotAllowed, Unauthenticated

pytest.importorskip("autogen_agentchat", reason="autogen is not installed: it needs another protobuf than our pins")

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import MemoryQueryEvent
from autogen_core import CancellationToken, Image
from autogen_core.memory import MemoryContent, MemoryMimeType
from autogen_core.model_context import BufferedChatCompletionContext
from autogen_core.models import SystemMessage, UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient
from mnema_client.adapters.autogen import MnemaMemory

from tests.factories import Caller
from tests.fake_chat import fake_chat
from tests.sdk.example_runs import run_example


def memory_of(client: AsyncMnema, user: str = "maya", **options: str) -> MnemaMemory:
    """Return the memory of a user, queried as the supervisor."""
    return MnemaMemory(client, **{"user_id": user, "agent": "supervisor", "category": "tasks", **options})


def text(content: str, **metadata: object) -> MemoryContent:
    return MemoryContent(content=content, mime_type=MemoryMimeType.TEXT, metadata=metadata or None)


async def test_an_agent_recalls_for_its_user_alone(memory: AsyncMnema, elsewhere: AsyncMnema) -> None:
    await memory_of(memory).add(text("Maya's launch is on 12 March."))

    async def shown(client: AsyncMnema, user: str) -> str:
        model = ReplayChatCompletionClient(["On 12 March."])
        helper = AssistantAgent("helper", model_client=model, memory=[memory_of(client, user)])
        result = await helper.run(task="When is the launch?")
        events = [message for message in result.messages if isinstance(message, MemoryQueryEvent)]
        assert len(events) == (1 if (client, user) == (memory, "maya") else 0)
        return str(model.create_calls[0]["messages"])

    assert "Maya's launch is on 12 March." in await shown(memory, "maya")
    for other, user in ((memory, "ben"), (elsewhere, "maya")):
        assert "12 March" not in await shown(other, user)


async def test_what_is_added_is_found_with_its_metadata(memory: AsyncMnema) -> None:
    kept = memory_of(memory, thread_id="chat-1")
    await kept.add(text("Maya sails to Lisbon.", category="goals", ticket=7))
    await kept.add(MemoryContent(content={"harbour": "Trieste"}, mime_type=MemoryMimeType.JSON))
    found = (await kept.query("Where does Maya sail?", top_k=1)).results
    assert [(one.content, one.mime_type) for one in found] == [("Maya sails to Lisbon.", MemoryMimeType.TEXT)]
    assert found[0].metadata is not None
    assert found[0].metadata.items() >= {"ticket": 7, "category": "goals", "thread_id": "chat-1"}.items()
    asked = MemoryContent(content={"harbour": "Trieste"}, mime_type=MemoryMimeType.JSON)
    assert any("Trieste" in str(one.content) for one in (await kept.query(asked)).results)
    with pytest.raises(CannotBeSent, match="not image"):
        await kept.add(MemoryContent(content=Image.from_base64(PIXEL), mime_type=MemoryMimeType.IMAGE))


async def test_a_context_gets_one_message_and_only_for_a_question(memory: AsyncMnema) -> None:
    kept, context = memory_of(memory), BufferedChatCompletionContext(buffer_size=9)
    assert (await kept.update_context(context)).memories.results == []
    await context.add_message(UserMessage(content=["When is the launch?", Image.from_base64(PIXEL)], source="user"))
    await kept.update_context(context)
    assert len(await context.get_messages()) == 1  # nothing is known
    await kept.add(text("The launch is on 12 March."))
    assert len((await kept.update_context(context)).memories.results) == 1
    [_, added] = await context.get_messages()
    assert isinstance(added, SystemMessage)
    assert added.content == "What is remembered:\nThe launch is on 12 March."


async def test_clearing_deletes_what_this_agent_wrote_of_this_user(memory: AsyncMnema) -> None:
    await memory.remember("Maya rows.", user_id="maya", category="tasks", agent_id="planner")
    await memory_of(memory, "ben").add(text("Ben packs the lamps."))
    kept = memory_of(memory)
    await kept.add(text("Maya books the hall."))
    await kept.clear()
    await kept.close()
    assert sorted([item.text async for item in memory.list()]) == ["Ben packs the lamps.", "Maya rows."]


async def test_without_an_agent_the_default_one_asks_and_nothing_is_cleared(memory: AsyncMnema) -> None:
    shared = MnemaMemory(memory, user_id="maya", category="profile")
    await shared.add(MemoryContent(content="Maya fears heights.", mime_type=MemoryMimeType.TEXT))
    [found] = (await shared.query("What does Maya fear?")).results
    assert found.content == "Maya fears heights."
    with pytest.raises(CannotBeSent, match="give MnemaMemory an agent"):
        await shared.clear()
    assert len((await memory.page(user_id="maya")).items) == 1


async def test_refusals_are_errors_and_a_token_cancels(memory: AsyncMnema, refused: AsyncMnema) -> None:
    with pytest.raises(Unauthenticated):
        await memory_of(refused).query("When is the launch?")
    with pytest.raises(NotAllowed):
        await memory_of(memory, agent="stylist").query("When is the launch?", categories=["tasks"])
    token = CancellationToken()
    token.cancel()
    for work in (memory_of(memory).query("x", token), memory_of(memory).add(text("Maya rows."), token)):
        with pytest.raises(asyncio.CancelledError):
            await work
    assert [item async for item in memory.list()] == []


async def test_the_example_remembers_from_run_to_run(server: str, caller: Caller) -> None:
    async with fake_chat("Noted.", "On Thursdays.") as model:
        said = ("maya", "chat-1", "I deploy on Thursdays.")
        assert await run_example("autogen_memory.py", server, caller, model.base_url, *said) == "Noted."
        asked = ("maya", "chat-1", "When do I deploy?")
        assert await run_example("autogen_memory.py", server, caller, model.base_url, *asked) == "On Thursdays."
        assert model.said_to_it(0).count("I deploy on Thursdays.") == 1  # the question alone
        assert "maya said: I deploy on Thursdays." in model.said_to_it(1)


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
