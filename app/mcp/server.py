"""The MCP server of one application. It lists and calls the tools that the caller's key allows."""

import re
from typing import Any, cast

import structlog
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
)
from mcp.types import Tool as ListedTool
from pydantic import ValidationError
from starlette.requests import Request

from app.api import errors
from app.api.deps import has_scope
from app.bootstrap import Application
from app.config.version import VERSION
from app.domain.errors import MnemaError, ScopeRequired
from app.mcp import INSTRUCTIONS, NAME
from app.mcp.tools import TOOLS, Tool, ToolOutcome

log = structlog.get_logger(__name__)
PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Tool names that OpenAI and Anthropic accept."""


class ToolServer:
    """The MCP handlers. `McpEndpoint` puts a request's principal and its choice of names into the request's state."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._tools = {name: tool for tool in TOOLS for name in app.settings.mcp_tool_names.get(tool.kind, ())}
        self._listed = {name: _listed_tool(name, tool) for name, tool in self._tools.items()}

    def build_server(self) -> Server[Any]:
        """Return the SDK's server with these handlers.

        `get_tool_input_schema` returns None, because no schema here mirrors an argument into a header.
        """
        return Server(
            NAME,
            version=VERSION,
            instructions=INSTRUCTIONS,
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            get_tool_input_schema=lambda _name: None,
        )

    async def list_tools(
        self, context: ServerRequestContext[Any], _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        """Answer tools/list with the tools that the key may call. Raise MCPError if a rate limit is reached."""
        caller, plain, refused = (
            _request_state(context).caller,
            _request_state(context).plain_names,
            _request_state(context).refusal,
        )
        if refused is not None:
            problem = _error_document(refused, _request_state(context).request_id)
            raise MCPError(INTERNAL_ERROR, f"{refused.code}: {refused.detail}", problem)
        names = (name for name, tool in self._tools.items() if has_scope(caller, tool.scope))
        return ListToolsResult(tools=[self._listed[name] for name in names if not plain or PLAIN_NAME.fullmatch(name)])

    async def call_tool(self, context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        """Answer tools/call. An error is a tool result with the same code as over HTTP, so the model can read it.

        Raise MCPError for an unknown tool.
        """
        tool = self._tools.get(params.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, "no such tool")
        caller, request_id = _request_state(context).caller, _request_state(context).request_id
        try:
            if (refused := _request_state(context).refusal) is not None:
                raise refused
            if not has_scope(caller, tool.scope):
                raise ScopeRequired(f"this tool needs a key with scope {tool.scope!r}")
            arguments = tool.takes.model_validate(params.arguments or {})
            return _tool_result(await tool.run(self._app, caller, arguments))
        except ValidationError as error:
            return refusal_result(errors.validation_problem(request_id, error.errors()))
        except MnemaError as error:
            if error.status >= 500:
                log.warning("request_failed", code=error.code, detail=error.detail, request_id=request_id)
            return refusal_result(_error_document(error, request_id))
        except Exception:
            log.exception("tool_crashed", tool=tool.kind)
            return refusal_result(
                errors.problem_document(request_id, 500, "internal_error", "This is a defect of the server.")
            )


def refusal_result(problem: dict[str, Any]) -> CallToolResult:
    """Return a problem document as a tool result."""
    text = f"{problem['code']}: {problem['detail']}"
    return CallToolResult(content=[TextContent(text=text)], structured_content=problem, is_error=True)


def _error_document(error: MnemaError, request_id: str) -> dict[str, Any]:
    return errors.problem_document(request_id, error.status, error.code, error.detail, **error.extra)


def _tool_result(outcome: ToolOutcome) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=outcome.text)], structured_content=outcome.structured)


def _request_state(context: ServerRequestContext[Any]) -> Any:
    """Return the state that `McpEndpoint` put into the HTTP request."""
    return cast(Request, context.request).state


def _listed_tool(name: str, tool: Tool) -> ListedTool:
    return ListedTool(
        name=name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema(),
        output_schema=tool.output_schema(),
        annotations=tool.annotations,
    )
