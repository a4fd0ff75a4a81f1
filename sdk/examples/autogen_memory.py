"""An AutoGen agent that recalls before each answer, and remembers what it was told.

pip install 'mnema-client[autogen]' autogen-agentchat 'autogen-ext[openai]'
export MNEMA_URL=http://127.0.0.1:8000 MNEMA_API_KEY=mnema_…
export OPENAI_API_KEY=… OPENAI_BASE_URL=… MODEL=…               # any OpenAI-compatible model
python autogen_memory.py maya chat-1 "I deploy on Thursdays."
"""

import asyncio
import os
import sys

from autogen_agentchat.agents import AssistantAgent
from autogen_core.memory import MemoryContent, MemoryMimeType
from autogen_core.models import ModelFamily, ModelInfo
from autogen_ext.models.openai import OpenAIChatCompletionClient
from mnema_client import AsyncMnema
from mnema_client.adapters.autogen import MnemaMemory

ABLE = ModelInfo(
    vision=False,
    function_calling=True,
    json_output=True,
    family=ModelFamily.UNKNOWN,
    structured_output=False,
    multiple_system_messages=True,  # a memory adds one
)


async def run(user: str, thread: str, said: str) -> str:
    """Return the agent's answer to one message, and remember the message."""
    model = OpenAIChatCompletionClient(model=os.environ.get("MODEL", "gpt-4o"), model_info=ABLE)
    async with AsyncMnema() as client:
        memory = MnemaMemory(client, user_id=user, agent="planner", category="tasks", thread_id=thread)
        result = await AssistantAgent("helper", model_client=model, memory=[memory]).run(task=said)
        await memory.add(MemoryContent(content=f"{user} said: {said}", mime_type=MemoryMimeType.TEXT))
    await model.close()
    return result.messages[-1].to_text()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python autogen_memory.py USER THREAD MESSAGE")
    print(asyncio.run(run(*sys.argv[1:])))
