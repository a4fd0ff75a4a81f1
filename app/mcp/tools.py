"""The MCP tools: arguments, answers and descriptions. They share models and use-cases with the HTTP routes."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any
from uuid import UUID

from mcp.types import ToolAnnotations
from mnema_wire.bases import Request
from mnema_wire.facts import FactPage, FactQuestion, TopicKey
from mnema_wire.fields import Identifier, Limit, Moment
from mnema_wire.marks import TagNames
from mnema_wire.memory import Corrected, Correction, Forgetting, HistoryEntry, HistoryPage, NewMemory, Written
from mnema_wire.recall import AgentQuestion
from pydantic import Field, model_validator

from app.api.forgetting import forget_memories
from app.api.schemas.facts.facts import fact_body, fact_reply_body
from app.api.schemas.memory.memories import to_correction, to_new_memory
from app.api.schemas.recall.query import answer_body, to_query
from app.api.schemas.stored import withhold_contents
from app.bootstrap import Application
from app.config.settings import ToolKind
from app.domain.facts.fact import FactFilter
from app.domain.memory.moments import Moments
from app.domain.rendering.model_text import ModelText
from app.mcp.connection import Connection, Places
from app.mcp.schemas import output_schema
from app.mcp.text import (
    answer_text,
    corrected_text,
    fact_answer_text,
    facts_text,
    forgotten_text,
    history_text,
    written_text,
)

Cursor = Annotated[str, Field(max_length=500)]
CURSOR_HELP = "`next_cursor` of the previous page"
QuestionText = Annotated[str, Field(min_length=1, max_length=8000)]
PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Tool names that OpenAI and Anthropic accept."""


class RememberIn(NewMemory):
    """A memory to write."""

    trim: bool = Field(default=False, strict=True, description="shorten a text that is too long instead of refusing it")


class HistoryIn(Request):
    """The memory whose history to list, and the page."""

    memory_id: UUID
    limit: Limit = 50
    cursor: Cursor | None = Field(default=None, description=CURSOR_HELP)


class ReadFactsIn(Request):
    """The user whose facts to list, and the page; or a question about them."""

    user_id: Identifier
    thread_id: Identifier | None = Field(
        default=None, description="list only this thread's facts; answer from this thread first"
    )
    topic_key: TopicKey | None = Field(default=None, description="list only this topic")
    question: QuestionText | None = Field(
        default=None, description="answer this in place of a list", examples=["What's my second favorite color?"]
    )
    as_of: Moment | None = Field(default=None, description="the facts that Mnema knew at this time")
    valid_at: Moment | None = Field(default=None, description="what the user had stated by this time")
    limit: Limit = 50
    cursor: Cursor | None = Field(default=None, description=CURSOR_HELP)

    @model_validator(mode="after")
    def _check_question(self) -> "ReadFactsIn":
        if self.question is not None and (self.topic_key is not None or self.cursor is not None):
            raise ValueError("topic_key and cursor are for a list; leave them out with a question")
        return self


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """A tool's answer, as text for models and as data for programs."""

    text: ModelText
    structured: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `scope` is the scope that the caller's key must have, `places` has the arguments to fix."""

    kind: ToolKind
    title: str
    description: str
    scope: str
    takes: type[Request]
    places: Places
    output_schema: dict[str, Any]
    annotations: ToolAnnotations
    run: Callable[[Application, Connection, Any], Awaitable[ToolOutcome]]


async def _run_query(app: Application, connection: Connection, arguments: AgentQuestion) -> ToolOutcome:
    query = replace(to_query(arguments), identified=app.parts.settings.mcp_ids, via="mcp")
    answer = await app.recall.query.answer_query(connection.caller, query)
    body = answer_body(answer, full=arguments.returns == "full", explain=arguments.explain)
    return ToolOutcome(answer_text(answer), body.model_dump(mode="json", by_alias=True, exclude_none=True))


async def _run_remember(app: Application, connection: Connection, arguments: RememberIn) -> ToolOutcome:
    draft = to_new_memory(arguments, app.parts.policies.of(connection.caller).write)
    written = await app.memory.write.write_memory(connection.caller, draft, trim=arguments.trim)
    body = Written.model_validate(written, from_attributes=True)
    return ToolOutcome(written_text(body), body.model_dump(mode="json"))


async def _run_history(app: Application, connection: Connection, arguments: HistoryIn) -> ToolOutcome:
    if "user" in connection.fixed:
        connection.require_user((await app.memory.read.get_memory(connection.caller, arguments.memory_id)).user_id)
    rows = await app.memory.history.list_history(
        connection.caller, arguments.memory_id, arguments.cursor, arguments.limit
    )
    page = HistoryPage(items=[HistoryEntry.model_validate(row) for row in rows.items], next_cursor=rows.next_cursor)
    return ToolOutcome(history_text(page, _names(app, connection)), page.model_dump(mode="json"))


async def _run_facts(app: Application, connection: Connection, arguments: ReadFactsIn) -> ToolOutcome:
    principal = connection.caller
    user = arguments.user_id
    thread = arguments.thread_id
    moments = Moments(arguments.as_of, arguments.valid_at)
    if arguments.question is not None:
        question = FactQuestion(user_id=user, thread_id=thread, query=arguments.question)
        counted = await app.facts.answer.answer_question(principal, user, thread, question.query, moments)
        reply = fact_reply_body(counted.answer, question)
        return ToolOutcome(fact_answer_text(reply, _names(app, connection)), reply.model_dump(mode="json"))
    filters = FactFilter(user, thread, arguments.topic_key)
    found = await app.facts.read.list_facts(principal, filters, arguments.cursor, arguments.limit, moments)
    page = FactPage(items=[fact_body(fact) for fact in found.items], next_cursor=found.next_cursor)
    return ToolOutcome(facts_text(page, _names(app, connection)), page.model_dump(mode="json"))


async def _run_forget(app: Application, connection: Connection, arguments: Forgetting) -> ToolOutcome:
    body = await forget_memories(app, connection.caller, arguments)
    if not connection.may_read:
        body = withhold_contents(body)
    return ToolOutcome(forgotten_text(body, _names(app, connection)), body.model_dump(mode="json"))


async def _run_correct(app: Application, connection: Connection, arguments: Correction) -> ToolOutcome:
    corrected = await app.memory.correct.correct_memory(connection.caller, to_correction(arguments))
    body = Corrected.model_validate(corrected, from_attributes=True)
    return ToolOutcome(corrected_text(body), body.model_dump(mode="json"))


def _names(app: Application, connection: Connection) -> TagNames:
    return app.parts.policies.of(connection.caller).categories.tag_names


TOOLS = (
    Tool(
        kind="query",
        title="Ask the memory",
        description="Get what an agent should know for a question: the best matching memories of its categories, as "
        "bullets within a token budget. Pass filters.user_id for the memories of one user; without it they are of all. "
        "With thread_id, the changes in that thread since the agent's last query come first.",
        scope="query",
        takes=AgentQuestion,
        places={"agent": ("agent",), "user": ("filters", "user_id"), "thread": ("thread_id",)},
        output_schema=output_schema(
            header="text", items="memories", related="memories", fact_answer="object", tokens="number", degraded="text"
        ),
        # memories stay unchanged, but the delta cursor moves, so the same call may answer differently
        annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=False, open_world_hint=False),
        run=_run_query,
    ),
    Tool(
        kind="remember",
        title="Write a memory",
        description="Store a fact that will matter later: a self-contained sentence in the third person, for one user "
        "and category. A text that states the same fact as a stored memory updates that memory; the old text stays in "
        "its history.",
        scope="write",
        takes=RememberIn,
        places={"agent": ("agent_id",), "user": ("user_id",), "thread": ("thread_id",)},
        output_schema=output_schema(
            id="text or null", action="text", matched_id="text", reason="text", state="text", superseded_by="text"
        ),
        annotations=ToolAnnotations(
            read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
        ),
        run=_run_remember,
    ),
    Tool(
        kind="history",
        title="History of a memory",
        description="List every change of a memory, newest first.",
        scope="query",
        takes=HistoryIn,
        places={},
        output_schema=output_schema(items="objects", next_cursor="text or null"),
        annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
        run=_run_history,
    ),
    Tool(
        kind="facts",
        title="Facts of a user",
        description="List the ranked lists and single values that a user has stated, such as favorite colors; or, with "
        "`question`, answer an ordinal or list question from them ('What is my second favorite color?').",
        scope="query",
        takes=ReadFactsIn,
        places={"user": ("user_id",), "thread": ("thread_id",)},
        output_schema=output_schema(
            **{"items": "objects", "next_cursor": "text or null", "text": "text or null"},
            **{"answered": "true or false", "facts": "objects"},
        ),
        annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
        run=_run_facts,
    ),
    Tool(
        kind="forget",
        title="Forget a memory",
        description="Forget what a user no longer wants remembered. First call it with `id` or `description`: it shows "
        "what would go. Then call it with the shown ids in `confirm`: they go to the bin, where a person can restore "
        "them.",
        scope="write",
        takes=Forgetting,
        places={"user": ("user_id",)},
        output_schema=output_schema(matches="memories", forgotten="memories"),
        annotations=ToolAnnotations(
            read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
        ),
        run=_run_forget,
    ),
    Tool(
        kind="correct",
        title="Correct a memory",
        description="Replace a memory by the right text. `was` superseded: the old text was true until now, as after a "
        "move; wrong: it was never true. No answer contains the old text any more; its history keeps it.",
        scope="write",
        takes=Correction,
        places={"user": ("user_id",)},
        output_schema=output_schema(id="text", corrected_id="text", state="text"),
        annotations=ToolAnnotations(
            read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
        ),
        run=_run_correct,
    ),
)


class ToolNames:
    """The tools of an installation by name. A kind of tool without a name is off.

    A tool that is on can also be called as `memory.` and its kind, however the installation names it.
    """

    def __init__(self, configured: Mapping[ToolKind, Sequence[str]]) -> None:
        self._named = {name: tool for tool in TOOLS for name in configured.get(tool.kind, ())}
        self._known = {f"memory.{tool.kind}": tool for tool in self._named.values()} | self._named

    def find(self, name: str) -> Tool | None:
        """Return the tool with this name, None if there is none."""
        return self._known.get(name)

    def listed_for(self, connection: Connection, *, dotted: bool = False) -> list[tuple[str, Tool]]:
        """Return the tools that the key may call, by plain names or by those with a dot."""
        return [
            (name, tool)
            for name, tool in self._named.items()
            if connection.caller.has_scope(tool.scope)
            and (tool.kind != "facts" or connection.may_read_facts)
            and bool(PLAIN_NAME.fullmatch(name)) != dotted
        ]

    def name_of(self, kind: ToolKind) -> str:
        """Return the name to use in a text: the first plain one, else the one with a dot."""
        plain = (name for name, tool in self._named.items() if tool.kind == kind and PLAIN_NAME.fullmatch(name))
        return next(plain, f"memory.{kind}")
