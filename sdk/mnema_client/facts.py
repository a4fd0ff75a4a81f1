"""Facts of a user, stored and answered without any model: calls and their bodies."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal
from uuid import UUID

from mnema_wire.bases import Page
from mnema_wire.facts import (
    Fact,
    FactQuestion,
    FactReply,
    MemoryActions,
    NewFact,
    NewValue,
    QuestionMeta,
    Statement,
    StoredFacts,
)
from mnema_wire.memory import HistoryEntry

from mnema_client.calls import (
    JSON,
    get_call,
    idempotency_headers,
    json_body,
    model_reader,
    path_id,
    path_segment,
    where_text,
)
from mnema_client.requests import Moment
from mnema_client.transport import Call

FactKind = Literal["ranked", "single"]


def store_facts(
    user_id: str,
    *,
    text: str | None = None,
    facts: Sequence[NewFact | Mapping[str, Any]] | None = None,
    thread_id: str | None = None,
    source_message_id: str | None = None,
    created_at: Moment | None = None,
    model: str | None = None,
    idempotency_key: str | None = None,
) -> Call[StoredFacts]:
    """Store facts of a user: those that a message of the user states (`text`), or given ones (`facts`).

    A message that states no facts stores nothing. `created_at`: the time of the statement; an older one never
    overwrites a newer one. `model`: the name of the model in the label.
    """
    content = json_body(
        Statement,
        user_id=user_id,
        thread_id=thread_id,
        text=text,
        facts=facts,
        source_message_id=source_message_id,
        created_at=created_at,
        model=model,
    )
    headers = idempotency_headers(idempotency_key, JSON)
    return Call("POST", "/facts", model_reader(StoredFacts), content=content, headers=headers)


def facts(
    user_id: str,
    *,
    thread_id: str | None = None,
    topic_key: str | None = None,
    as_of: Moment | None = None,
    valid_at: Moment | None = None,
    where: Mapping[str, Any] | str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[Page[Fact]]:
    """Return one page of a user's facts by topic, thread and rank. `limit`: facts a page, 1 to 200.

    `as_of`: those that Mnema knew then; `valid_at`: those that the user had stated by then; `where`: those that match.
    With a cursor, name `where` again; the cursor keeps the times.
    """
    whose = {"user_id": user_id, "thread_id": thread_id, "topic_key": topic_key, "where": where_text(where)}
    return get_call("/facts", Page[Fact], **whose, as_of=as_of, valid_at=valid_at, limit=limit, cursor=cursor)


def fact(fact_id: UUID | str, *, as_of: Moment | None = None, valid_at: Moment | None = None) -> Call[Fact]:
    """Return one fact, as it was at that time. Raise NotFound also if it was removed."""
    return get_call(_fact_path(fact_id), Fact, as_of=as_of, valid_at=valid_at)


def fact_at(
    user_id: str,
    topic_key: str,
    rank: int,
    *,
    thread_id: str | None = None,
    as_of: Moment | None = None,
    valid_at: Moment | None = None,
) -> Call[Fact]:
    """Return the fact at a rank of a user's list in a thread; without `thread_id`, of the facts without a thread."""
    path = f"/facts/{path_segment(topic_key)}/{path_segment(str(rank))}"
    return get_call(path, Fact, user_id=user_id, thread_id=thread_id, as_of=as_of, valid_at=valid_at)


def set_fact(fact_id: UUID | str, value: str, *, idempotency_key: str | None = None) -> Call[Fact]:
    """Give a fact another value."""
    headers = idempotency_headers(idempotency_key, JSON)
    content = json_body(NewValue, value=value)
    return Call("PATCH", _fact_path(fact_id), model_reader(Fact), content=content, headers=headers)


def delete_fact(fact_id: UUID | str, *, idempotency_key: str | None = None) -> Call[Fact]:
    """Remove a fact and return it. The other ranks of its list stay as they are."""
    return Call("DELETE", _fact_path(fact_id), model_reader(Fact), headers=idempotency_headers(idempotency_key))


def answer_fact(
    query: str,
    *,
    user_id: str,
    thread_id: str | None = None,
    model: str | None = None,
    used_web_search: bool | None = None,
    memory_actions: MemoryActions | Mapping[str, Any] | None = None,
    as_of: Moment | None = None,
    valid_at: Moment | None = None,
) -> Call[FactReply]:
    """Answer an ordinal or list question, such as "What's my second favorite color?", from stored facts alone.

    `memory_actions`: the counts of the same response so far, such as those of `store_facts`; the answer's are added.
    `model`, `used_web_search`: for the label. `as_of`, `valid_at`: the time that the question is about.
    """
    given = memory_actions.model_dump() if isinstance(memory_actions, MemoryActions) else memory_actions
    content = json_body(
        FactQuestion,
        user_id=user_id,
        thread_id=thread_id,
        query=query,
        model=model,
        meta=None if used_web_search is None else QuestionMeta(usedWebSearch=used_web_search),
        memory_actions=given,
        as_of=as_of,
        valid_at=valid_at,
    )
    return Call("POST", "/facts/answer", model_reader(FactReply), content=content, headers=JSON)


def fact_history(
    fact_id: UUID | str, *, limit: int | None = None, cursor: str | None = None
) -> Call[Page[HistoryEntry]]:
    """Return one page of a fact's history, newest first. `limit`: entries a page, 1 to 200."""
    return get_call(f"{_fact_path(fact_id)}/history", Page[HistoryEntry], limit=limit, cursor=cursor)


def _fact_path(fact_id: UUID | str) -> str:
    return f"/facts/{path_id(fact_id)}"
