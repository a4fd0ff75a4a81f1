"""MCP on stdin and stdout, answered by a running server: what it lists and refuses is what the server does.

Each request stands alone there, so a server that starts later, restarts or is one of many makes no difference.
"""

import json
from typing import Any

import httpx
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.types import (
    INTERNAL_ERROR,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
)
from mcp.types.version import LATEST_HANDSHAKE_VERSION

from app.config.version import VERSION
from app.mcp import INSTRUCTIONS, NAME

HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "MCP-Protocol-Version": LATEST_HANDSHAKE_VERSION,
}


class RequestRefused(Exception):
    """The server's problem document, or one of ours when no Mnema answers."""

    def __init__(self, problem: dict[str, Any]) -> None:
        self.problem = problem
        super().__init__(f"{problem['code']}: {problem['detail']}")


class Bridge:
    """The handlers: each sends its request on."""

    def __init__(self, client: httpx.AsyncClient, names: str) -> None:
        self._client = client
        self._names = names

    def build_server(self) -> Server[Any]:
        """The SDK's server around them."""
        return Server(
            NAME, version=VERSION, instructions=INSTRUCTIONS, on_list_tools=self.list_tools, on_call_tool=self.call_tool
        )

    async def list_tools(
        self, _context: ServerRequestContext[Any], _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        """tools/list."""
        try:
            return ListToolsResult.model_validate(await self._send_request("tools/list", {}))
        except RequestRefused as refused:
            raise MCPError(INTERNAL_ERROR, str(refused), refused.problem) from None

    async def call_tool(self, _context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        """tools/call; a refusal is an answer that the model can read."""
        try:
            arguments = {"name": params.name, "arguments": params.arguments or {}}
            return CallToolResult.model_validate(await self._send_request("tools/call", arguments))
        except RequestRefused as refused:
            text = TextContent(text=str(refused))
            return CallToolResult(content=[text], structured_content=refused.problem, is_error=True)

    async def _send_request(self, method: str, params: dict[str, Any]) -> Any:
        """The result of one JSON-RPC request; raises Refused, or MCPError for an error of the protocol."""
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        try:
            # dumped here and not by httpx: what UTF-8 cannot encode is escaped, and the server's to refuse
            content, names = json.dumps(request), {"names": self._names}
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
            problem = self._unanswered_problem("not_mnema", "the answer is not one of Mnema's; is MNEMA_URL right?")
        raise RequestRefused(problem)

    def _unanswered_problem(self, code: str, what: str) -> dict[str, Any]:
        return {"code": code, "detail": f"{self._client.base_url}: {what}"}


async def serve_stdio(client: httpx.AsyncClient, names: str) -> None:
    """Serve until stdin ends. Only MCP is written to stdout: the SDK turns every other print to stderr."""
    protocol = Bridge(client, names).build_server()
    async with client, stdio_server() as (read, write):
        await protocol.run(read, write, protocol.create_initialization_options())
