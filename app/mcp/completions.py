"""MCP completions: the agents, users and threads that an argument of a prompt or of a resource may name."""

import re
from collections.abc import Iterable

from mcp.types import CompleteRequestParams, Completion, PromptReference

from app.bootstrap import Application
from app.domain.errors import InvalidInput
from app.domain.ids import check_identifier, list_names
from app.mcp import resources
from app.mcp.connection import Connection
from app.mcp.prompts import Prompts

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
    if connection.may_read and name == "thread_id":
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
