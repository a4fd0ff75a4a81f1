"""A program for test_old_client: it runs with mcp 1.x, lists and calls tools, and prints the results as JSON."""

import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client


async def use(read, write):
    """List and call the tools as a client of the older protocol does."""
    async with ClientSession(read, write) as client:
        opened = await client.initialize()
        listed = await client.list_tools()
        asked = {"agent": "supervisor", "query": "oat milk", "thread_id": "t"}
        answer = await client.call_tool("memory.query", asked)
        refusal = await client.call_tool("memory_query", asked | {"agent": "stylist", "categories": ["tasks"]})
        templates = await client.list_resource_templates()
        header = await client.read_resource("mnema://threads/t/header")
        recalled = await client.get_prompt("recall", {"question": "oat milk", "agent": "supervisor"})
        return {
            "templates": [template.name for template in templates.resourceTemplates],
            "header": header.contents[0].text,
            "recalled": recalled.messages[0].content.text,
            "version": opened.protocolVersion,
            "tools": [tool.name for tool in listed.tools],
            "text": answer.content[0].text,
            "structured": answer.structuredContent,
            "refused": [refusal.isError, refusal.content[0].text],
        }


async def main():
    """Use the tools over both transports."""
    url, key = os.environ["MNEMA_URL"], os.environ["MNEMA_API_KEY"]
    async with streamablehttp_client(f"{url}/mcp", {"Authorization": f"Bearer {key}"}) as (read, write, _):
        by_http = await use(read, write)
    command = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:], env=dict(os.environ))
    async with stdio_client(command) as (read, write):
        by_stdio = await use(read, write)
    print(json.dumps({"http": by_http, "stdio": by_stdio}))


asyncio.run(main())
