"""Bodies of the search with citations (`docs/contract.md`, Recall)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

from mnema_wire.bases import Request, is_absent
from mnema_wire.fields import Identifier, TypeName, Whole, Zone
from pydantic import BaseModel, ConfigDict, Field

from app.api.schemas.recall.query import Neighbours, Share, round_relevance
from app.domain.errors import InvalidInput
from app.domain.filters import Filters
from app.domain.memory.memory import Memory, MemoryType
from app.usecases.recall.search import SearchAnswer, SearchQuery, SearchResult

EXAMPLE: Final[dict[str, Any]] = {"user_id": "maya", "query": "which city does Maya live in?", "top_k": 5}
Kind = Literal["turn", "memory", "chunk"]
_APART: Final = frozenset({MemoryType.turn, MemoryType.chunk})
_TYPES: Final[dict[str, frozenset[MemoryType]]] = {
    "turn": frozenset({MemoryType.turn}),
    "chunk": frozenset({MemoryType.chunk}),
    "memory": frozenset(MemoryType) - _APART - {MemoryType.procedural},
}
Count = Annotated[int, Field(ge=1, le=50, strict=True), Whole]


class MemorySearchIn(Request):
    """The body of a search. `project_id`, `chat_id` and `limit` are other names, for clients that use them."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [EXAMPLE]})
    query: Annotated[str, Field(min_length=1, max_length=8000)]
    user_id: Identifier | None = Field(default=None, description="absent: all users of the tenant")
    thread_id: Identifier | None = Field(default=None, description="decides near ties; never filters")
    top_k: Count | None = Field(default=None, description="maximum number of results, by default 5")
    types: Annotated[list[Kind], Field(max_length=3)] | None = Field(
        default=None, description="absent or empty: all; `memory`: every type but turn, chunk and procedural"
    )
    budget_tokens: Annotated[int, Field(ge=1, le=8192, strict=True), Whole] | None = Field(
        default=None, description="tokens of the lines; absent: no line is left out"
    )
    min_relevance: Share | None = Field(
        default=None, description="minimum relevance of a result; 0: no minimum; absent: the category's default"
    )
    exclude_ids: Annotated[list[UUID], Field(max_length=200)] | None = Field(
        default=None, description="memories to leave out, such as those in the prompt already"
    )
    snippet: Annotated[int, Field(ge=20, le=32_000, strict=True), Whole] | None = Field(
        default=None, description="a text of more characters is cut at a sentence or word end; by default 1,000"
    )
    neighbours: Neighbours | None = Field(
        default=None, description="chunks before and after each chunk that are answered with it, within the snippet"
    )
    timezone: Zone = Field(
        default="UTC", description='IANA time zone of a time that the query names, such as "last week"'
    )
    project_id: Identifier | None = Field(default=None, description="the id or the name of the key's own tenant")
    chat_id: Identifier | None = Field(default=None, description="another name of `thread_id`")
    limit: Count | None = Field(default=None, description="another name of `top_k`")

    def to_domain(self) -> SearchQuery:
        """Return the query that the use-case takes. Raise InvalidInput if two names of a field disagree."""
        return SearchQuery(
            query=self.query,
            filters=Filters(user_id=self.user_id),
            thread_id=self._one_of("thread_id", "chat_id"),
            types=frozenset().union(*(_TYPES[kind] for kind in self.types or ())),
            top_k=self._one_of("top_k", "limit"),
            budget_tokens=self.budget_tokens,
            min_relevance=self.min_relevance,
            exclude_ids=tuple(self.exclude_ids or ()),
            snippet=self.snippet,
            neighbours=self.neighbours or 0,
            zone=ZoneInfo(self.timezone),
        )

    def _one_of(self, name: str, other: str) -> Any:
        value = getattr(self, name)
        same = getattr(self, other)
        if value is not None and same is not None and value != same:
            raise InvalidInput(f"{name} and {other} are names of one field and differ; send one of them")
        return same if value is None else value


class CitationOut(BaseModel):
    """The source of a citation. The fields after `created_at` are the place of a chunk.

    A chunk that a client stored has the `path`, `start` and `end` of its metadata.
    """

    memory_id: UUID
    user_id: str
    thread_id: str | None
    chat_id: str | None = Field(description="the same as `thread_id`")
    seq: int | None
    role: str | None
    actor_id: str | None
    message_id: str | None = Field(description="the turn that the memory names as its source, or the turn itself")
    created_at: datetime
    source_id: UUID | None = Field(default=None, exclude_if=is_absent)
    file_id: UUID | None = Field(default=None, exclude_if=is_absent)
    turn_id: UUID | None = Field(default=None, exclude_if=is_absent, description="the turn that the chunk is a part of")
    path: str | None = Field(default=None, exclude_if=is_absent)
    page: int | None = Field(default=None, exclude_if=is_absent)
    heading: str | None = Field(default=None, exclude_if=is_absent)
    start: int | None = Field(default=None, exclude_if=is_absent, description="first character in the file or turn")
    end: int | None = Field(default=None, exclude_if=is_absent, description="character after the last one")

    @classmethod
    def from_memory(cls, memory: Memory, place: Mapping[str, Any] | None = None) -> "CitationOut":
        """Return the source that a memory is. `place` is that of a chunk of a document or a turn."""
        named = (memory.source or {}).get("turn_id")
        itself = str(memory.id) if memory.type is MemoryType.turn else None
        return cls(
            memory_id=memory.id,
            user_id=memory.user_id,
            thread_id=memory.thread_id,
            chat_id=memory.thread_id,
            seq=memory.seq,
            role=memory.role,
            actor_id=memory.actor_id,
            message_id=itself if named is None else named,
            created_at=memory.created_at,
            **(place or (_chunk_place(memory.metadata) if memory.type is MemoryType.chunk else {})),
        )


def _chunk_place(metadata: Any) -> dict[str, Any]:
    """Return path and positions of a chunk. The caller wrote the metadata: values of another type are left out."""
    kinds: dict[str, type] = {"path": str, "start": int, "end": int}
    return {name: metadata[name] for name, kind in kinds.items() if type(metadata.get(name)) is kind}


class FoundOut(BaseModel):
    """One source of the answer, with its mark. The text is the stored one, cut if it is longer than the snippet."""

    mark: str = Field(description="`M1`, `M2` and so on: the number of its line")
    id: UUID
    type: TypeName
    text: str
    score: float
    relevance: float | None = Field(
        default=None,
        exclude_if=is_absent,
        description="probability from 0 to 1 that the source helps to answer; absent if it is not known",
    )
    also: list[UUID] | None = Field(
        default=None, exclude_if=is_absent, description="memories that say the same and are not listed"
    )
    source: CitationOut


class MemorySearchOut(BaseModel):
    """The answer of a search, best source first.

    Put `text` into a prompt; `citations` leads from the marks that a model repeats to their sources. A mark that a
    stored text contains has round brackets in `text`: `[M7]` becomes `(M7)`.
    """

    results: list[FoundOut]
    text: str = Field(description="one line for each result: `[M1] …`")
    citations: dict[str, CitationOut] = Field(description="the source of each mark")
    tokens: int | None = Field(
        default=None, exclude_if=is_absent, description="tokens of the lines; only with `budget_tokens`"
    )
    took_ms: float
    degraded: str | None = Field(
        default=None, exclude_if=is_absent, description="a part that was not available, such as embedder_unavailable"
    )

    @classmethod
    def from_answer(cls, answer: SearchAnswer) -> "MemorySearchOut":
        """Return the body for the use-case's answer."""
        results = [_found_out(result) for result in answer.results]
        return cls(
            results=results,
            text=answer.text,
            citations={result.mark: result.source for result in results},
            tokens=answer.tokens,
            took_ms=answer.took_ms,
            degraded=answer.degraded,
        )


def _found_out(result: SearchResult) -> FoundOut:
    memory = result.memory
    scored = result.ranked.scored
    return FoundOut(
        mark=result.mark,
        id=memory.id,
        type=memory.type.value,
        text=result.text,
        score=scored.total,
        relevance=round_relevance(scored.relevance),
        also=list(result.ranked.also) or None,
        source=CitationOut.from_memory(memory, result.place),
    )
