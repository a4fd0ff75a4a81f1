"""Conversions between the bodies of memory.query and the domain."""

from typing import Any, Literal
from zoneinfo import ZoneInfo

from mnema_wire import recall as wire

from app.api.schemas.facts.facts import fact_answer_body
from app.domain.errors import InvalidInput
from app.domain.filters import Filters
from app.domain.memory.memory import Memory
from app.domain.memory.moments import Moments
from app.domain.recall.candidates import Candidate
from app.domain.recall.hidden import Hidden
from app.domain.recall.scoring import ScoredCandidate
from app.domain.recall.selection import DropReason
from app.domain.where.parsing import parse_where
from app.domain.where.tree import Node
from app.usecases.recall.answer import Answer, AnswerItem
from app.usecases.recall.request import Query


def to_filters(body: wire.Filters, where: Node | None, user_id: str | None) -> Filters:
    """Return the domain object. Raise InvalidInput for an empty range, and for two different users."""
    if user_id is not None and body.user_id not in (None, user_id):
        raise InvalidInput("user_id and filters.user_id are names of one field and differ; send one of them")
    values = {name: getattr(body, name) for name in type(body).model_fields}
    return Filters(**(values if user_id is None else values | {"user_id": user_id}), where=where)


def to_query(body: wire.AgentQuestion, user_id: str | None = None) -> Query:
    """Return the query that the use-case takes. Raise InvalidInput for an empty range, or a wrong `where`."""
    return Query(
        agent=body.agent,
        query=body.query,
        categories=tuple(body.categories or ()),
        filters=to_filters(body.filters or wire.Filters(), parse_where(body.where), user_id),
        top_k=body.top_k,
        budget_tokens=body.budget_tokens,
        threshold=body.threshold,
        min_relevance=body.min_relevance,
        thread_id=body.thread_id,
        before_seq=body.before_seq,
        exclude_ids=tuple(body.exclude_ids or ()),
        since_rev=body.since_rev,
        explain=body.explain,
        profile=body.profile,
        zone=ZoneInfo(body.timezone),
        full=body.returns == "full",
        neighbours=body.neighbours or 0,
        dates=body.dates,
        moments=Moments(body.as_of, body.valid_at),
    )


def answer_body(answer: Answer, *, full: bool, explain: bool) -> wire.Answer:
    """Return the body for the use-case's answer. The whole body is validated once."""
    return wire.Answer.model_validate(
        {
            "items": [_item_fields(i, full, explain) for i in answer.items],
            "related": [_item_fields(i, full, explain) for i in answer.related],
            "header": answer.header,
            "delta": answer.delta or None,
            "tokens": answer.tokens,
            "took_ms": answer.took_ms,
            "fact_answer": answer.fact_answer and fact_answer_body(answer.fact_answer, answer.fact_line),
            "answerable": round_relevance(answer.answerable),
            "degraded": answer.degraded,
            "dropped": _all_dropped(answer) if explain else None,
            "hidden": [_hidden_out(one) for one in answer.hidden] if explain else None,
            "query_id": answer.query_id,
        }
    )


_OF_ANSWER = {"score", "strength", "relevance", "also", "superseded_by", "mark", "instruction"}
"""The fields of an item that its memory has not."""
_FULL = set(wire.Item.model_fields) - _OF_ANSWER


def _item_fields(item: AnswerItem, full: bool, explain: bool) -> dict[str, Any]:
    memory = item.memory
    values: dict[str, Any] = {"id": memory.id, "category": memory.category, "text": item.text}
    if full:
        values = {name: getattr(memory, name) for name in _FULL} | {"tags": list(memory.tags)}
    if explain:
        values["origin"] = memory.origin
        if (applied := item.instruction) is not None:
            values["instruction"] = {"condition": applied.condition, "nearness": applied.nearness}
    if (ranked := item.ranked) is not None:
        values |= {"relevance": round_relevance(ranked.scored.relevance), "also": list(ranked.also) or None}
        if full or explain:
            values["score"] = _score_out(ranked.scored)
        if explain:
            values["superseded_by"] = ranked.superseded_by
    if item.mark is not None:
        values |= {"mark": item.mark, "source": memory.source}
    return values | {"strength": item.strength}


def round_relevance(relevance: float | None) -> float | None:
    """Return the relevance with four decimals, None if it is not known."""
    return None if relevance is None else round(relevance, 4)


def _score_out(scored: ScoredCandidate) -> wire.Score:
    return wire.Score(total=scored.total, parts=scored.parts, similarity=scored.candidate.similarity)


def _all_dropped(answer: Answer) -> list[wire.Dropped]:
    early = [_dropped_out(d.scored.candidate, d.reason, d.scored) for d in answer.dropped]
    # a dropped candidate may also be a related memory that did not fit into the budget
    late = answer.left_out.keys() - {dropped.id for dropped in early}
    return early + [_dropped_out(i.memory, "budget", i.scored) for id_, i in answer.left_out.items() if id_ in late]


def _hidden_out(hidden: Hidden) -> wire.Hidden:
    best = round_relevance(hidden.best_relevance) or 0.0
    least = round_relevance(hidden.least_relevance) or 0.0
    if hidden.reason == "relevance":
        message = f"the best match is below the least relevance ({best:.4f} < {least:.4f}); min_relevance 0 shows it"
    else:
        names = ", ".join(hidden.categories)
        message = f"better matches are in categories that the agent may not see: {names} (relevance {best:.4f})"
    return wire.Hidden(
        reason=hidden.reason,
        categories=list(hidden.categories),
        count=hidden.count,
        best_relevance=best,
        least_relevance=least,
        message=message,
    )


def _dropped_out(
    memory: Candidate | Memory, reason: DropReason | Literal["budget"], scored: ScoredCandidate | None
) -> wire.Dropped:
    score = _score_out(scored) if scored else None
    return wire.Dropped(id=memory.id, category=memory.category, reason=reason, score=score)
