"""Conversions between the bodies of /facts and the domain."""

from typing import Any

from mnema_wire import facts as wire

from app.domain.facts.answers import FactAnswer
from app.domain.facts.fact import Fact, FactKind, FactOutcome, StatedFact
from app.domain.facts.label import MemoryActions
from app.domain.rendering.model_text import ModelText
from app.usecases.facts.store import FactPlace, NewFact


def to_new_fact(body: wire.NewFact) -> NewFact:
    """Return the domain object."""
    return NewFact(body.topic_key, FactKind(body.kind), body.rank, body.value)


def to_place(body: wire.Statement) -> FactPlace:
    """Return the place of the statement."""
    return FactPlace(body.user_id, body.thread_id, body.source_message_id, body.created_at)


def fact_body(fact: Fact) -> wire.Fact:
    """Return the body for a domain object."""
    return wire.Fact.model_validate(fact)


def _stated_body(stated: StatedFact) -> wire.StatedFact:
    """Return the body for a domain object."""
    return wire.StatedFact.model_validate({**fact_body(stated.fact).model_dump(), "action": stated.action})


def actions_body(actions: MemoryActions) -> wire.MemoryActions:
    """Return the body for a domain object."""
    return wire.MemoryActions(**actions.as_counts())


def stored_facts_body(outcome: FactOutcome, model: str) -> wire.StoredFacts:
    """Return the body for a domain object."""
    actions = MemoryActions.from_outcomes([outcome])
    return wire.StoredFacts(
        facts=[_stated_body(stated) for stated in outcome.stated],
        memory_actions=actions_body(actions),
        model_label=actions.label(model),
        revision=outcome.revision,
    )


def to_actions(body: wire.ActionsSoFar, retrieved: int = 0) -> MemoryActions:
    """Return the domain object with `retrieved` more topics."""
    return MemoryActions(body.S, body.U, body.R + retrieved, body.F)


def fact_answer_body(answer: FactAnswer, line: ModelText) -> wire.FactAnswer:
    """Return the body for a domain object. `line` is its text, as a model reads it."""
    facts = list(map(wire.ToldFact.model_validate, answer.facts))
    return wire.FactAnswer(answered=answer.answered, text=line.text, facts=facts)


def fact_reply_body(answer: FactAnswer, question: wire.FactQuestion) -> wire.FactReply:
    """Return the body for a domain object."""
    actions = to_actions(question.memory_actions or wire.ActionsSoFar(), len(answer.topic_keys))
    return wire.FactReply(
        answered=answer.answered,
        text=answer.text or None,
        facts=list(map(fact_body, answer.facts)),
        memory_actions=actions_body(actions),
        **label_and_meta(actions, question),
    )


def label_and_meta(actions: MemoryActions, question: wire.FactQuestion) -> dict[str, Any]:
    """Return the fields `model_label` and `meta` of a response with these actions."""
    used_web = question.meta is not None and question.meta.usedWebSearch
    meta = wire.ReplyMeta(
        usedWebSearch=used_web,
        usedMemory=actions.retrieved > 0,
        memory_actions=actions_body(actions),
    )
    return {"model_label": actions.label(question.model, used_web=used_web), "meta": meta}
