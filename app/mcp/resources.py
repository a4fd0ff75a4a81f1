"""MCP resources: a user's profile, the header of a thread and a memory, each as the connection may see it."""

from urllib.parse import quote, unquote
from uuid import UUID

from mcp.types import ReadResourceResult, Resource, ResourceTemplate, TextResourceContents

from app.api.schemas.memory.memories import memory_body
from app.bootstrap import Application
from app.domain.errors import InvalidInput, NotFound, ScopeRequired
from app.domain.filters import Filters
from app.domain.ids import check_identifier
from app.domain.memory.listing import MemoryListing
from app.domain.rendering.lines import bullet, plain_line
from app.domain.rendering.model_text import ModelText, join_lines
from app.mcp.connection import Connection

SCHEME = "mnema://"
PROFILE = "profile"
"""The category of the memories that are part of a user's profile."""
MOST_MEMORIES = 50
TEXT = "text/plain"
JSON = "application/json"
USER = "User profile"
THREAD = "Thread header"
USER_HELP = "What is known about a user with their consent, in one line, and the memories of the category profile."
THREAD_HELP = "What changed in a conversation since the agent's last query of it. Reading it marks nothing as seen."
MEMORY_HELP = "One memory with all its fields."
NO_PROFILE = plain_line("Nothing is known about this user.")
NO_CHANGES = plain_line("Nothing changed in this thread since the last query.")


def list_fixed(connection: Connection) -> list[Resource]:
    """Return the resources of the user and the thread that the connection fixes."""
    if not connection.may_read:
        return []
    fixed = connection.fixed
    found = list[Resource]()
    if "user" in fixed and PROFILE in connection.readable:
        uri = f"{SCHEME}users/{quote(fixed['user'], safe='')}/profile"
        found.append(Resource(uri=uri, name="user_profile", title=USER, description=USER_HELP, mime_type=TEXT))
    if "thread" in fixed:
        uri = f"{SCHEME}threads/{quote(fixed['thread'], safe='')}/header"
        found.append(Resource(uri=uri, name="thread_header", title=THREAD, description=THREAD_HELP, mime_type=TEXT))
    return found


def list_templates(connection: Connection) -> list[ResourceTemplate]:
    """Return the templates of the resources whose user or thread the connection leaves open."""
    if not connection.may_read:
        return []
    open_ones = [("memory", "memories/{memory_id}", "Memory", MEMORY_HELP, JSON)]
    if "user" not in connection.fixed and PROFILE in connection.readable:
        open_ones.append(("user_profile", "users/{user_id}/profile", USER, USER_HELP, TEXT))
    if "thread" not in connection.fixed:
        open_ones.append(("thread_header", "threads/{thread_id}/header", THREAD, THREAD_HELP, TEXT))
    return [
        ResourceTemplate(uri_template=SCHEME + path, name=name, title=title, description=help_, mime_type=kind)
        for name, path, title, help_, kind in open_ones
    ]


async def read_resource(app: Application, connection: Connection, uri: str) -> ReadResourceResult:
    """Return the content of a resource.

    Raise NotFound for an address that names no resource, and for one that the connection may not see. Raise
    ScopeRequired, AgentNotAllowed for a key whose agents do not see profiles, or InvalidInput for another user or
    thread than the fixed one.
    """
    if not connection.may_read:
        raise ScopeRequired("resources need a key with scope 'query'")
    match uri.removeprefix(SCHEME).split("/") if uri.startswith(SCHEME) else []:
        case ["users", user, "profile"]:
            user_id = connection.resolve_value("user", _identifier(user), "the user")
            text = (await _profile_text(app, connection, user_id)).text
            kind = TEXT
        case ["threads", thread, "header"]:
            thread_id = connection.resolve_value("thread", _identifier(thread), "the thread")
            text = (await _header_text(app, connection, thread_id)).text
            kind = TEXT
        case ["memories", id_]:
            text = await _memory_text(app, connection, _memory_id(id_))
            kind = JSON
        case _:
            raise NotFound("no such resource; see resources/templates/list")
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=kind, text=text)])


async def _profile_text(app: Application, connection: Connection, user_id: str) -> ModelText:
    lines: list[ModelText] = []
    try:
        lines.append((await app.consent.load_context(connection.caller, user_id)).profile)
    except NotFound:
        return NO_PROFILE
    if PROFILE in connection.readable:
        listing = MemoryListing(filters=Filters(user_id=user_id, category=PROFILE))
        page = await app.memory.read.list_memories(connection.caller, listing, None, MOST_MEMORIES)
        names = app.parts.policies.of(connection.caller).categories.tag_names
        lines += [bullet(PROFILE, memory.text, names) for memory in page.items]
    return join_lines(lines) or NO_PROFILE


async def _header_text(app: Application, connection: Connection, thread_id: str) -> ModelText:
    user = connection.fixed.get("user")
    delta = await app.recall.delta.read_delta(connection.caller, thread_id, None, connection.agent, user)
    return delta.header.text if delta.header else NO_CHANGES


async def _memory_text(app: Application, connection: Connection, memory_id: UUID) -> str:
    memory = await app.memory.read.get_memory(connection.caller, memory_id)
    connection.require_user(memory.user_id)
    if not memory.is_answered(app.parts.clock.now()):  # a forgotten memory is in no context
        raise NotFound()
    return memory_body(memory).model_dump_json(exclude_none=True)


def _identifier(part: str) -> str:
    try:
        return check_identifier(unquote(part, errors="strict"))
    except (InvalidInput, UnicodeDecodeError):
        raise NotFound("an id in the address of a resource is percent-encoded UTF-8") from None


def _memory_id(part: str) -> UUID:
    try:
        return UUID(part)
    except ValueError:
        raise NotFound() from None
