"""MCP on stdin and stdout. The bridge sends each request to a running server, which answers it.

The server keeps no state between requests, so it may start later, restart, or be one of several replicas.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar
from urllib.parse import quote

import httpx
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.types import (
    INTERNAL_ERROR,
    CallToolRequestParams,
    CallToolResult,
    CompleteResult,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    ReadResourceResult,
    TextContent,
)
from mcp.types.version import LATEST_HANDSHAKE_VERSION
from pydantic import BaseModel

from app.config.version import VERSION
from app.mcp import FIXED_HEADERS, INSTRUCTIONS, NAME

Name: TypeAlias = Literal["agent", "user", "thread"]
Context: TypeAlias = ServerRequestContext[Any]
R = TypeVar("R", bound=BaseModel)

HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "MCP-Protocol-Version": LATEST_HANDSHAKE_VERSION,
}


class RequestRefused(Exception):
    """A refused request, with the server's problem document, or with one made here if no Mnema server answers."""

    def __init__(self, problem: dict[str, Any]) -> None:
        self.problem = problem
        super().__init__(f"{problem['code']}: {problem['detail']}")


class Bridge:
    """The MCP handlers. Each forwards its request to the server. `names`: the names of tools to list."""

    def __init__(self, client: httpx.AsyncClient, names: str) -> None:
        self._client = client
        self._names = names

    def build_server(self) -> Server[Any]:
        """Return the SDK's server with these handlers."""
        return Server(
            NAME,
            version=VERSION,
            instructions=INSTRUCTIONS,
            on_list_tools=self._forwards("tools/list", ListToolsResult),
            on_call_tool=self.call_tool,
            on_list_resources=self._forwards("resources/list", ListResourcesResult),
            on_list_resource_templates=self._forwards("resources/templates/list", ListResourceTemplatesResult),
            on_read_resource=self._forwards("resources/read", ReadResourceResult, "uri"),
            on_list_prompts=self._forwards("prompts/list", ListPromptsResult),
            on_get_prompt=self._forwards("prompts/get", GetPromptResult, "name", "arguments"),
            on_completion=self._forwards("completion/complete", CompleteResult, "ref", "argument", "context"),
        )

    async def call_tool(self, _context: Context, params: CallToolRequestParams) -> CallToolResult:
        """Answer tools/call. A refusal is a tool result, so that the model can read it."""
        try:
            arguments = {"name": params.name, "arguments": params.arguments or {}}
            return CallToolResult.model_validate(await self._send_request("tools/call", arguments))
        except RequestRefused as refused:
            text = TextContent(text=str(refused))
            return CallToolResult(content=[text], structured_content=refused.problem, is_error=True)

    def _forwards(self, method: str, result: type[R], *sent: str) -> Callable[[Context, Any], Awaitable[R]]:
        """Return the handler of a method: it forwards the parameters `sent`, and returns the server's result.

        It raises MCPError if the server refuses or does not answer.
        """

        async def forward(_context: Context, params: BaseModel | None) -> R:
            given = (
                params.model_dump(mode="json", by_alias=True, exclude_none=True, include=set(sent)) if params else {}
            )
            return result.model_validate(await self._forward(method, given))

        return forward

    async def _forward(self, method: str, params: dict[str, Any]) -> Any:
        """Return the result of one request. Raise MCPError if the server refuses or does not answer."""
        try:
            return await self._send_request(method, params)
        except RequestRefused as refused:
            raise MCPError(INTERNAL_ERROR, str(refused), refused.problem) from None

    async def _send_request(self, method: str, params: dict[str, Any]) -> Any:
        """Return the result of one JSON-RPC request. Raise RequestRefused, or MCPError for a protocol error."""
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        try:
            # json.dumps escapes characters that UTF-8 cannot encode, so that the server can refuse them; httpx fails
            content = json.dumps(request)
            names = {"names": self._names}
            response = await self._client.post("/mcp", content=content, headers=HEADERS, params=names)
            body = response.json()
            if response.is_success:
                if (error := body.get("error")) is not None:
                    raise MCPError(error["code"], error["message"], error.get("data"))
                return body["result"]
            problem = {"code": body["code"], "detail": body["detail"]} | body
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            problem = self._unanswered_problem("server_unreachable", str(error) or type(error).__name__)
        except (ValueError, KeyError, TypeError, AttributeError):
            problem = self._unanswered_problem("not_mnema", "this is not a Mnema server; check MNEMA_URL")
        raise RequestRefused(problem)

    def _unanswered_problem(self, code: str, reason: str) -> dict[str, Any]:
        return {"code": code, "detail": f"{self._client.base_url}: {reason}"}


def fixed_headers(fixed: Mapping[Name, str | None]) -> dict[str, str]:
    """Return the headers that fix these values for every request; None fixes nothing."""
    return {FIXED_HEADERS[name]: quote(value, safe="") for name, value in fixed.items() if value is not None}


async def serve_stdio(client: httpx.AsyncClient, names: str) -> None:
    """Serve MCP until stdin ends. Only MCP messages go to stdout; the SDK redirects every other print to stderr."""
    protocol = Bridge(client, names).build_server()
    async with client, stdio_server() as (read, write):
        await protocol.run(read, write, protocol.create_initialization_options())
