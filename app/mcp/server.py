"""The MCP server of one application. It offers the tools, resources and prompts that the caller's key allows."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, cast

import structlog
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    PromptReference,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
)
from mcp.types import Tool as ListedTool
from pydantic import ValidationError
from starlette.requests import Request

from app.api import errors
from app.bootstrap import Application
from app.config.version import VERSION
from app.domain.errors import InvalidInput, MnemaError, ScopeRequired, Unauthenticated
from app.domain.ids import check_identifier, list_names
from app.mcp import INSTRUCTIONS, NAME, resources
from app.mcp.coercion import ArgumentReader, read_fields
from app.mcp.connection import Connection
from app.mcp.prompts import Prompts
from app.mcp.schemas import input_schema
from app.mcp.tools import Tool, ToolNames, ToolOutcome
from app.shares import acting_tenant

log = structlog.get_logger(__name__)
Context: TypeAlias = ServerRequestContext[Any]


class MemoryServer:
    """The MCP handlers. `McpEndpoint` puts a request's connection and its choice of names into the request's state."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._tools = ToolNames(app.parts.settings.mcp_tool_names)
        self._prompts = Prompts(app, self._tools)

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
            on_list_resources=self.list_resources,
            on_list_resource_templates=self.list_templates,
            on_read_resource=self.read_resource,
            on_list_prompts=self.list_prompts,
            on_get_prompt=self.get_prompt,
            on_completion=self.complete_argument,
            get_tool_input_schema=lambda _name: None,
        )

    async def list_tools(self, context: Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
        """Answer tools/list with the tools that the key may call. Raise MCPError if a rate limit is reached."""
        state = _admitted_state(context)
        connection: Connection = state.connection
        listed = self._tools.listed_for(connection, dotted=state.dotted_names)
        return ListToolsResult(tools=[_listed_tool(name, tool, connection) for name, tool in listed])

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        """Answer tools/call. An error is a tool result with the same code as over HTTP, so the model can read it.

        Raise MCPError for an unknown tool.
        """
        state = _request_state(context)
        connection: Connection = state.connection
        tool = self._tools.find(params.name)
        if tool is None:
            known = ", ".join(name for name, _ in self._tools.listed_for(connection, dotted=state.dotted_names))
            raise MCPError(INVALID_PARAMS, f"no such tool: {params.name[:64]!r}; this key may call: {known}")
        reader = ArgumentReader(connection)
        result = await self._run_tool(state, tool, reader, params.arguments or {})
        if reader.told:
            result.meta = {**(result.meta or {}), "coerced": reader.told}
        return result

    async def _run_tool(self, state: Any, tool: Tool, reader: ArgumentReader, given: dict[str, Any]) -> CallToolResult:
        connection: Connection = state.connection
        try:
            if (refused := state.refusal) is not None:
                raise refused
            if not connection.caller.has_scope(tool.scope):
                raise ScopeRequired(f"this tool needs a key with scope {tool.scope!r}")
            # First the usual form, then the fixed values: no other spelling gets past them.
            arguments = connection.fill_arguments(tool.places, reader.read_arguments(read_fields(tool.takes), given))
            return _tool_result(await tool.run(self._app, connection, tool.takes.model_validate(arguments)))
        except ValidationError as error:
            return refusal_result(errors.validation_problem(state.request_id, error.errors()))
        except MnemaError as error:
            if error.status >= 500:
                log.warning("request_failed", code=error.code, detail=error.detail, request_id=state.request_id)
            return refusal_result(_error_document(error, state.request_id))
        except Exception:
            log.exception("tool_crashed", tool=tool.kind)
            return refusal_result(_defect(state.request_id))

    async def list_resources(self, context: Context, _params: PaginatedRequestParams | None) -> ListResourcesResult:
        """Answer resources/list with the resources that the connection fixes."""
        return ListResourcesResult(resources=resources.list_fixed(_admitted_state(context).connection))

    async def list_templates(
        self, context: Context, _params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """Answer resources/templates/list with the templates of what the connection leaves open."""
        return ListResourceTemplatesResult(
            resource_templates=resources.list_templates(_admitted_state(context).connection)
        )

    async def read_resource(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        """Answer resources/read. Raise MCPError with the problem document as its data."""
        state = _admitted_state(context)
        with _protocol_errors(state.request_id, uri=str(params.uri)):
            return await resources.read_resource(self._app, state.connection, str(params.uri))

    async def list_prompts(self, context: Context, _params: PaginatedRequestParams | None) -> ListPromptsResult:
        """Answer prompts/list with the prompts that the key may use."""
        return ListPromptsResult(prompts=self._prompts.list_prompts(_admitted_state(context).connection))

    async def get_prompt(self, context: Context, params: GetPromptRequestParams) -> GetPromptResult:
        """Answer prompts/get. Raise MCPError with the problem document as its data."""
        state = _admitted_state(context)
        with _protocol_errors(state.request_id):
            return await self._prompts.get_prompt(state.connection, params.name, params.arguments or {})

    async def complete_argument(self, context: Context, params: CompleteRequestParams) -> CompleteResult:
        """Answer completion/complete. Raise MCPError with the problem document as its data."""
        state = _admitted_state(context)
        with _protocol_errors(state.request_id):
            return CompleteResult(
                completion=await complete_argument(self._app, self._prompts, state.connection, params)
            )


def refusal_result(problem: dict[str, Any]) -> CallToolResult:
    """Return a problem document as a tool result."""
    text = f"{problem['code']}: {problem['detail']}"
    return CallToolResult(content=[TextContent(text=text)], structured_content=problem, is_error=True)


def _error_document(error: MnemaError, request_id: str) -> dict[str, Any]:
    return errors.problem_document(request_id, error.status, error.code, _detail(error), **error.extra)


def _detail(error: MnemaError) -> str:
    """Return the error's text for a model, which sees no status, no header and no further member."""
    if isinstance(error, Unauthenticated):
        return "the key of this connection is not valid any more; the MCP client needs another one"
    seconds = error.extra.get("retry_after")
    return error.detail if seconds is None else f"{error.detail}; wait {seconds} s, then call again"


@contextmanager
def _protocol_errors(request_id: str, **extra: str) -> Iterator[None]:
    """Raise refusals as MCPError; its data is the problem document with `extra`.

    The code says that the parameters are wrong, unless the server is to blame or a limit is reached.
    """
    try:
        yield
    except MnemaError as error:
        code = INTERNAL_ERROR if error.status in (429, *range(500, 600)) else INVALID_PARAMS
        problem = _error_document(error, request_id) | extra
        raise MCPError(code, f"{error.code}: {problem['detail']}", problem) from None
    except MCPError:
        raise
    except Exception:
        log.exception("request_crashed")
        problem = _defect(request_id)
        raise MCPError(INTERNAL_ERROR, f"{problem['code']}: {problem['detail']}", problem) from None


def _defect(request_id: str) -> dict[str, Any]:
    return errors.problem_document(request_id, 500, "internal_error", "This is a defect of the server.")


def _tool_result(outcome: ToolOutcome) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=outcome.text.text)], structured_content=outcome.structured)


def _request_state(context: Context) -> Any:
    """Return the state that `McpEndpoint` put into the HTTP request. Let the task work for the request's tenant."""
    state = cast(Request, context.request).state
    acting_tenant.set(state.connection.caller.tenant_id)  # the SDK handles a request in a task of its own
    return state


def _admitted_state(context: Context) -> Any:
    """Return the request's state. Raise MCPError if a rate limit is reached."""
    state = _request_state(context)
    if (refused := state.refusal) is not None:
        problem = _error_document(refused, state.request_id)
        raise MCPError(INTERNAL_ERROR, f"{refused.code}: {problem['detail']}", problem)
    return state


def _listed_tool(name: str, tool: Tool, connection: Connection) -> ListedTool:
    return ListedTool(
        name=name,
        title=tool.title,
        description=tool.description,
        input_schema=input_schema(tool.takes, tool.places, connection),
        output_schema=tool.output_schema,
        annotations=tool.annotations,
    )


MOST_VALUES = 100
"""The most values of one answer, by the specification."""
NOTHING = Completion(values=[], has_more=False)


async def complete_argument(
    app: Application, prompts: Prompts, connection: Connection, params: CompleteRequestParams
) -> Completion:
    """Return values that begin with what was typed; none for an argument of free text.

    A user that the other arguments name, or that the connection fixes, limits the threads. Raise InvalidInput for a
    prompt, a resource or an argument that this connection does not have.
    """
    name = params.argument.name
    typed = params.argument.value
    _check_argument(name, _arguments_of(prompts, connection, params))
    if name == "agent":
        found = [agent for agent in connection.agents if agent.startswith(typed)]
        return Completion(values=found[:MOST_VALUES], total=len(found), has_more=len(found) > MOST_VALUES)
    given = (params.context and params.context.arguments) or {}
    try:
        prefix = check_identifier(typed) if typed else None
        user = connection.fixed.get("user") or (given.get("user_id") and check_identifier(given["user_id"])) or None
    except InvalidInput:  # no id begins with that
        return NOTHING
    if connection.may_read and name == "user_id":
        users = await app.operations.overview.list_users(connection.caller, prefix, None, MOST_VALUES)
        return Completion(values=[one.user_id for one in users.items], has_more=users.next_cursor is not None)
    if connection.may_read and name == "thread_id" and (user is not None or connection.caller.reads_all):
        threads = await app.operations.overview.list_threads(connection.caller, user, prefix, None, MOST_VALUES)
        return Completion(values=[one.thread_id for one in threads.items], has_more=threads.next_cursor is not None)
    return NOTHING


def _arguments_of(prompts: Prompts, connection: Connection, params: CompleteRequestParams) -> list[str]:
    """Return the arguments of the prompt or of the template of a request. Raise InvalidInput if there is none."""
    if isinstance(params.ref, PromptReference):
        offered = {prompt.name: prompt for prompt in prompts.list_prompts(connection)}
        _check_reference("prompt", params.ref.name, offered)
        return [argument.name for argument in offered[params.ref.name].arguments or ()]
    templates = [template.uri_template for template in resources.list_templates(connection)]
    _check_reference("resource template", params.ref.uri, templates)
    return re.findall(r"\{(\w+)\}", params.ref.uri)


def _check_reference(kind: str, name: str, offered: Iterable[str]) -> None:
    if name not in offered:
        raise InvalidInput(f"no such {kind}: {name[:64]!r}; this key may use: {list_names(offered)}")


def _check_argument(name: str, known: list[str]) -> None:
    if name not in known:
        raise InvalidInput(f"unknown argument {name[:64]!r}; there are: {list_names(known)}")
