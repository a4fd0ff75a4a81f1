"""A pydantic-ai agent that uses Mnema's MCP server as its memory, without a client library.

pip install 'pydantic-ai-slim[openai,mcp]'
export MNEMA_URL=http://127.0.0.1:8000 MNEMA_API_KEY=mnema_…    # scopes query and write
export OPENAI_API_KEY=… OPENAI_BASE_URL=… MODEL=…               # any OpenAI-compatible model
python pydantic_ai_mcp.py maya "Remember that I deploy on Thursdays."
"""

import asyncio
import os
import sys
from urllib.parse import quote

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.openai import OpenAIChatModel

ORDER = (
    "Answer briefly. Ask memory_query for what is known, and keep what should last with memory_remember, "
    "category tasks."
)


async def run(user: str, question: str) -> str:
    """Return the agent's answer. The headers fix the agent and the user, so the model need not know them."""
    headers = {"X-Mnema-Agent": "planner", "X-Mnema-User": quote(user, safe="")}
    headers["Authorization"] = f"Bearer {os.environ['MNEMA_API_KEY']}"
    memory = MCPToolset[None](f"{os.environ['MNEMA_URL'].rstrip('/')}/mcp", headers=headers)
    model = OpenAIChatModel(os.environ.get("MODEL", "gpt-4o"))
    agent = Agent(model, toolsets=[memory], system_prompt=ORDER)
    async with agent:
        return (await agent.run(question)).output


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python pydantic_ai_mcp.py USER MESSAGE")
    print(asyncio.run(run(*sys.argv[1:])))
