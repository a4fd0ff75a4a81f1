"""The receipt of an answered memory.query."""

from collections.abc import Iterable, Iterator
from typing import Literal
from uuid import UUID

from app.domain.recall.delta_header import DeltaEntry
from app.domain.receipts.receipt import QueryReceipt, ToldItem
from app.storage.access_log import AccessLog
from app.storage.identity import new_id
from app.usecases.recall.answer import Answer, AnswerItem
from app.usecases.recall.request import QueryState


def leave_receipt(access: AccessLog, work: QueryState) -> UUID | None:
    """Record the receipt of an answer; return its id, or None if too many receipts are waiting."""
    receipt = _receipt_of(work)
    return receipt.id if access.record_receipt(work.ranking.principal, receipt) else None


def _receipt_of(work: QueryState) -> QueryReceipt:
    query = work.query
    answer = work.answer
    delta = answer.delta if work.bullets and answer.delta else {}
    return QueryReceipt(
        id=new_id(),
        via=query.via,
        agent=work.agent,
        key_id=work.ranking.principal.key_id,
        user_id=query.filters.user_id,
        thread_id=query.thread_id,
        items=(
            *map(_told_bullet, work.bullets),
            *_told_facts(answer),
            *_told_memories("item", answer.items),
            *_told_memories("related", answer.related),
        ),
        header_from=delta.get("since_rev"),
        header_to=delta.get("rev"),
        tokens=answer.tokens,
        relevance=answer.answerable,
        degraded=answer.degraded,
        as_of=query.moments.as_of,
        valid_at=query.moments.valid_at,
    )


def _told_bullet(entry: DeltaEntry) -> ToldItem:
    assert entry.memory_id is not None  # every row of a delta has one
    shown = {name: getattr(entry, name) for name in ("rev", "kind", "label", "importance", "combined")}
    return ToldItem(
        part="header",
        memory_id=entry.memory_id,
        category=entry.category,
        user_pk=entry.user_pk,
        version=entry.version,
        bullet={**shown, "told": bool(entry.text)},
    )


def _told_facts(answer: Answer) -> Iterator[ToldItem]:
    for fact in answer.fact_answer.facts if answer.fact_answer else ():
        yield ToldItem("fact", fact.id, fact.category, fact.user_id)


def _told_memories(part: Literal["item", "related"], items: Iterable[AnswerItem]) -> Iterator[ToldItem]:
    for item in items:
        memory = item.memory
        relevance = item.scored.relevance if item.scored else None
        yield ToldItem(part, memory.id, memory.category, memory.user_id, None, memory.version, relevance)
