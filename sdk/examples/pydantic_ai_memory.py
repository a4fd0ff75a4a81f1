"""A pydantic-ai agent with a stored history, memories before each prompt, and tools to ask and to remember.

pip install 'mnema-client[pydantic-ai]'
export MNEMA_URL=http://127.0.0.1:8000 MNEMA_API_KEY=mnema_…
export OPENAI_API_KEY=… OPENAI_BASE_URL=… MODEL=…               # any OpenAI-compatible model
python pydantic_ai_memory.py maya chat-1 "I deploy on Thursdays. Remember that."
"""

import asyncio
import os
import sys

from mnema_client import AsyncMnema
from mnema_client.adapters.pydantic_ai import MnemaHistory, memory_toolset, recall_processor
from pydantic_ai import Agent
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.models.openai import OpenAIChatModel


async def run(user: str, thread: str, question: str) -> str:
    """Return the agent's answer to one message."""
    async with AsyncMnema() as memory:
        toolset = memory_toolset(memory, user_id=user, agent="planner", categories=["tasks", "goals"])
        recall = ProcessHistory[None](recall_processor(memory, user_id=user, agent="planner"))
        model = OpenAIChatModel(os.environ.get("MODEL", "gpt-4o"))
        agent = Agent(model, toolsets=[toolset], capabilities=[recall], instructions="Answer briefly.")
        history = MnemaHistory(memory, thread, user_id=user)
        result = await agent.run(question, message_history=await history.load())
        await history.save(result.new_messages())
        return result.output


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python pydantic_ai_memory.py USER THREAD MESSAGE")
    print(asyncio.run(run(*sys.argv[1:])))
