"""The tools: what each takes, answers and reads like. Models and use-cases are those of the HTTP routes."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field

from app.api.errors import Problem
from app.api.schemas.fields import Limit, Request
from app.api.schemas.memory.memories import HistoryOut, HistoryPageOut, MemoryIn, WrittenOut
from app.api.schemas.recall.query import AnswerOut, QueryIn
from app.bootstrap import Application
from app.config.settings import ToolKind
from app.domain.principal import Principal
from app.mcp.text import answer_text, history_text, written_text


class RememberIn(MemoryIn):
    """A memory to write."""

    trim: bool = Field(default=False, strict=True, description="shorten a too long text instead of refusing it")


class HistoryIn(Request):
    """Whose history."""

    memory_id: UUID
    limit: Limit = 50
    cursor: Annotated[str, Field(max_length=500)] | None = Field(default=None, description="`next_cursor` of a page")


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """A tool's answer: for models and for programs."""

    text: str
    structured: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `scope` is what its caller's key must have."""

    kind: ToolKind
    title: str
    description: str
    scope: str
    takes: type[Request]
    answers: type[BaseModel]
    annotations: ToolAnnotations
    run: Callable[[Application, Principal, Any], Awaitable[ToolOutcome]]

    def input_schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        return self.takes.model_json_schema(by_alias=True)

    def output_schema(self) -> dict[str, Any]:
        """JSON Schema of the structured answer: the tool's own, or a problem.

        Both, because there are clients that check the structured part of an error against it too.
        """
        definitions: dict[str, Any] = {}
        for model in (self.answers, Problem):
            schema = model.model_json_schema(by_alias=True, mode="serialization")
            definitions |= schema.pop("$defs", {})
            definitions[model.__name__] = schema
        either = [{"$ref": f"#/$defs/{model.__name__}"} for model in (self.answers, Problem)]
        return {"type": "object", "anyOf": either, "$defs": definitions}


async def _run_query(app: Application, scope: Principal, arguments: QueryIn) -> ToolOutcome:
    answer = await app.query.answer_query(scope, arguments.to_domain())
    shown = AnswerOut.from_answer(answer, full=arguments.returns == "full", explain=arguments.explain)
    return ToolOutcome(answer_text(answer), shown.model_dump(mode="json", by_alias=True, exclude_none=True))


async def _run_remember(app: Application, scope: Principal, arguments: RememberIn) -> ToolOutcome:
    draft = arguments.to_domain(app.policies.write.default_importance)
    written = await app.write.write_memory(scope, draft, trim=arguments.trim)
    shown = WrittenOut.model_validate(written, from_attributes=True)
    return ToolOutcome(written_text(shown), shown.model_dump(mode="json"))


async def _run_history(app: Application, scope: Principal, arguments: HistoryIn) -> ToolOutcome:
    found = await app.history.list_history(scope, arguments.memory_id, arguments.cursor, arguments.limit)
    page = HistoryPageOut(items=[HistoryOut.model_validate(r) for r in found.items], next_cursor=found.next_cursor)
    return ToolOutcome(history_text(page), page.model_dump(mode="json"))


TOOLS = (
    Tool(
        kind="query",
        title="Ask the memory",
        description="What `agent` should know for a question: the memories of its allowed categories that match best, "
        "as bullets within a token budget. With thread_id, first what changed in that thread since it last asked.",
        scope="query",
        takes=QueryIn,
        answers=AnswerOut,
        # no memory changes; how far an agent has been shown a thread does, so the same call may answer differently
        annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=False, open_world_hint=False),
        run=_run_query,
    ),
    Tool(
        kind="remember",
        title="Write a memory",
        description="Store what will matter later: a self-contained sentence in the third person, of one user and "
        "category. A text that says what a stored memory says updates that one; the old text stays in its history.",
        scope="write",
        takes=RememberIn,
        answers=WrittenOut,
        annotations=ToolAnnotations(
            read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
        ),
        run=_run_remember,
    ),
    Tool(
        kind="history",
        title="History of a memory",
        description="Everything that ever happened to a memory, newest first.",
        scope="query",
        takes=HistoryIn,
        answers=HistoryPageOut,
        annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
        run=_run_history,
    ),
)
