"""Facts of a user, stored and answered without any model: calls and their bodies."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal
from uuid import UUID

from mnema_client.calls import JSON, build_body, idempotency_headers, model_reader, path_id, path_segment, query_params
from mnema_client.fact_models import Fact, FactReply, MemoryActions, StoredFacts
from mnema_client.models import HistoryEntry, Page
from mnema_client.requests import Moment, Sent
from mnema_client.transport import Call

FactKind = Literal["ranked", "single"]


class NewFact(Sent):
    """A value to store. Kind ranked needs a `rank` (from 1 to 10 by default), kind single has none."""

    topic_key: str
    value: str
    kind: FactKind = "ranked"
    rank: int | None = None


class Statement(Sent):
    """A user's own message, from which facts are read, or facts to store: `text` or `facts`."""

    user_id: str
    thread_id: str | None = None
    text: str | None = None
    facts: list[NewFact] | None = None
    source_message_id: str | None = None
    created_at: Moment | None = None
    model: str | None = None


class NewValue(Sent):
    """The new value of a fact."""

    value: str


class ActionsSoFar(Sent):
    """The counts of one response so far."""

    S: int = 0
    U: int = 0
    R: int = 0
    F: bool = False


class QuestionMeta(Sent):
    """The caller's notes on the response."""

    usedWebSearch: bool = False


class FactQuestion(Sent):
    """A question about a user's facts."""

    user_id: str
    thread_id: str | None = None
    query: str
    model: str | None = None
    meta: QuestionMeta | None = None
    memory_actions: ActionsSoFar | None = None


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
    body = build_body(
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
    return Call("POST", "/facts", model_reader(StoredFacts), content=body.body(), headers=headers)


def facts(
    user_id: str,
    *,
    thread_id: str | None = None,
    topic_key: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[Page[Fact]]:
    """Return one page of a user's facts by topic, thread and rank. `limit`: facts a page, 1 to 200."""
    params = query_params(user_id=user_id, thread_id=thread_id, topic_key=topic_key, limit=limit, cursor=cursor)
    return Call("GET", "/facts", model_reader(Page[Fact]), params)


def fact(fact_id: UUID | str) -> Call[Fact]:
    """Return one fact. Raise NotFound also if it was removed."""
    return Call("GET", _fact_path(fact_id), model_reader(Fact))


def fact_at(user_id: str, topic_key: str, rank: int, *, thread_id: str | None = None) -> Call[Fact]:
    """Return the fact at a rank of a user's list in a thread; without `thread_id`, of the facts without a thread."""
    path = f"/facts/{path_segment(topic_key)}/{path_segment(str(rank))}"
    return Call("GET", path, model_reader(Fact), query_params(user_id=user_id, thread_id=thread_id))


def set_fact(fact_id: UUID | str, value: str, *, idempotency_key: str | None = None) -> Call[Fact]:
    """Give a fact another value."""
    headers = idempotency_headers(idempotency_key, JSON)
    content = NewValue(value=value).body()
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
) -> Call[FactReply]:
    """Answer an ordinal or list question, such as "What's my second favorite color?", from stored facts alone.

    `memory_actions`: the counts of the same response so far, such as those of `store_facts`; the answer's are added.
    `model`, `used_web_search`: for the label.
    """
    given = memory_actions.model_dump() if isinstance(memory_actions, MemoryActions) else memory_actions
    body = build_body(
        FactQuestion,
        user_id=user_id,
        thread_id=thread_id,
        query=query,
        model=model,
        meta=None if used_web_search is None else QuestionMeta(usedWebSearch=used_web_search),
        memory_actions=given,
    )
    return Call("POST", "/facts/answer", model_reader(FactReply), content=body.body(), headers=JSON)


def fact_history(
    fact_id: UUID | str, *, limit: int | None = None, cursor: str | None = None
) -> Call[Page[HistoryEntry]]:
    """Return one page of a fact's history, newest first. `limit`: entries a page, 1 to 200."""
    params = query_params(limit=limit, cursor=cursor)
    return Call("GET", f"{_fact_path(fact_id)}/history", model_reader(Page[HistoryEntry]), params)


def _fact_path(fact_id: UUID | str) -> str:
    return f"/facts/{path_id(fact_id)}"
