"""An agent of the OpenAI Agents SDK that goes on where the conversation stood, and remembers across conversations.

pip install 'mnema-client[openai-agents]'
export MNEMA_URL=http://127.0.0.1:8000 MNEMA_API_KEY=mnema_…
export OPENAI_API_KEY=… OPENAI_BASE_URL=… MODEL=…               # any OpenAI-compatible model
python openai_agents_session.py maya chat-1 "I deploy on Thursdays. Remember that."
"""

import asyncio
import os
import sys

from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner
from mnema_client import AsyncMnema
from mnema_client.adapters.openai_agents import MnemaSession, memory_tools
from openai import AsyncOpenAI

ORDER = "Answer briefly. Ask your memory before you say that you do not know, and keep what should last."


async def run(user: str, thread: str, question: str) -> str:
    """Return the agent's answer to one message."""
    async with AsyncMnema() as memory, AsyncOpenAI() as client:
        tools = memory_tools(memory, user_id=user, agent="planner", categories=["tasks", "goals"], thread_id=thread)
        model = OpenAIChatCompletionsModel(os.environ.get("MODEL", "gpt-4o"), client)
        agent = Agent("planner", instructions=ORDER, tools=[*tools], model=model)
        session = MnemaSession(memory, thread, user_id=user)
        settings = RunConfig(tracing_disabled=True)
        return str((await Runner.run(agent, question, session=session, run_config=settings)).final_output)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python openai_agents_session.py USER THREAD MESSAGE")
    print(asyncio.run(run(*sys.argv[1:])))
