"""Consented context of a user: calls and their results, with the field names of the HTTP API."""

import uuid
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from mnema_wire.bases import Page

from mnema_client.answered import Answered, Stored
from mnema_client.calls import JSON, build_body, idempotency_headers, model_reader, path_id, path_segment
from mnema_client.requests import Sent
from mnema_client.transport import Call

ProposalState = Literal["pending", "approved", "rejected", "expired", "applied"]


class NewProposal(Sent):
    """A proposed value. `evidence`: the memory it was learnt from; `agent_id`: the agent that proposes it."""

    field: str
    value: str
    evidence: UUID | None = None
    thread_id: str | None = None
    agent_id: str | None = None


class NewQuestion(Sent):
    """A question to the user in a thread. `turn_id`: the stored assistant turn that ends with the question."""

    thread_id: str
    question: str
    turn_id: UUID | None = None


class Withdrawal(Sent):
    """A field to withdraw; `value` names one of several values."""

    field: str
    value: str | None = None


class Signal(Answered):
    """A memory that supports a value.

    Turns and facts count if their text `says` the value; those with the same `root` count once. An insight that Mnema
    drew counts by its `confidence` alone.
    """

    memory_id: UUID
    root: str
    kind: str
    confidence: float | None
    actor: str
    at: datetime
    says: bool = False


class Question(Answered):
    """A question that the user has not answered yet."""

    thread_id: str
    question: str
    asked_at: datetime
    turn_id: UUID | None = None


class Proposal(Stored):
    """A proposal and its state. `sensitive`: only the user may decide; `way`: how it was decided."""

    id: UUID
    user_id: str
    field: str
    value: str
    sensitive: bool
    state: str
    signals: list[Signal]
    actor: str
    thread_id: str | None
    created_at: datetime
    expires_at: datetime
    decided_at: datetime | None
    decided_by: str | None
    way: str | None
    question: Question | None


class Proposed(Proposal):
    """A proposal with `action`: created, joined, unchanged or rejected.

    joined: the same value is pending; unchanged: the value is known; rejected: it was rejected lately.
    """

    action: str


class KnownValue(Answered):
    """A known value and the proposal it came from; `field` as it was proposed, such as goals_add."""

    field: str
    value: str
    patch_id: UUID
    updated_at: datetime


class Context(Answered):
    """A user's consented context: all values, and one line for a prompt."""

    user_id: str
    values: list[KnownValue]
    profile: str


class Withdrawn(Answered):
    """The number of values that were withdrawn."""

    withdrawn: int


def propose(
    user_id: str,
    field: str,
    value: str,
    *,
    evidence: UUID | str | None = None,
    thread_id: str | None = None,
    agent_id: str | None = None,
    idempotency_key: str | None = None,
) -> Call[Proposed]:
    """Propose a value.

    A sensitive field (preferred_name, pronouns, city, language) waits for the user's decision. A benign one (tone,
    goals_add) applies as soon as turns or facts of different origin, or one confident insight of Mnema, support it.

    `evidence`: the id of the memory it was learnt from.
    """
    fields = {"field": field, "value": value, "evidence": evidence, "thread_id": thread_id, "agent_id": agent_id}
    content = build_body(NewProposal, **fields).body()
    return Call(
        "POST",
        f"{_context_path(user_id)}/patches",
        model_reader(Proposed),
        content=content,
        headers=idempotency_headers(idempotency_key, JSON),
    )


def proposals(
    user_id: str, *, state: ProposalState | None = None, limit: int | None = None, cursor: str | None = None
) -> Call[Page[Proposal]]:
    """Return one page of a user's proposals, newest first. `limit`: proposals a page, 1 to 200."""
    params = {"state": state, "limit": limit, "cursor": cursor}
    sent = {name: str(value) for name, value in params.items() if value is not None}
    return Call("GET", f"{_context_path(user_id)}/patches", model_reader(Page[Proposal]), sent)


def approve(user_id: str, proposal_id: UUID | str, *, idempotency_key: str | None = None) -> Call[Proposal]:
    """Approve a proposal in the user's name; its value is known from now on. Needs a key with scope approve."""
    return _decision_call(user_id, proposal_id, "approve", idempotency_key)


def reject(user_id: str, proposal_id: UUID | str, *, idempotency_key: str | None = None) -> Call[Proposal]:
    """Reject a proposal in the user's name. Needs a key with scope approve."""
    return _decision_call(user_id, proposal_id, "reject", idempotency_key)


def ask_consent(
    user_id: str,
    proposal_id: UUID | str,
    *,
    thread_id: str,
    question: str,
    turn_id: UUID | str | None = None,
    idempotency_key: str | None = None,
) -> Call[Proposal]:
    """Bind a question to the thread's newest turn. The question must contain the proposed value.

    First store the assistant's turn that ends with the question. The next turn in the thread is the answer: a plain yes
    or no of the user decides, if a key stores it that neither proposed nor asked. Any other turn changes nothing.
    """
    content = build_body(NewQuestion, thread_id=thread_id, question=question, turn_id=turn_id).body()
    headers = idempotency_headers(idempotency_key, JSON)
    return Call(
        "POST", _patch_path(user_id, proposal_id, "ask"), model_reader(Proposal), content=content, headers=headers
    )


def context(user_id: str) -> Call[Context]:
    """Return the user's consented context."""
    return Call("GET", _context_path(user_id), model_reader(Context))


def withdraw(user_id: str, field: str, value: str | None = None) -> Call[Withdrawn]:
    """Withdraw a field's value, or one of several values. Needs a key with scope approve."""
    content = build_body(Withdrawal, field=field, value=value).body()
    return Call("POST", f"{_context_path(user_id)}/withdraw", model_reader(Withdrawn), content=content, headers=JSON)


def _decision_call(user_id: str, proposal_id: UUID | str, what: str, key: str | None) -> Call[Proposal]:
    headers: dict[str, Any] = {"Idempotency-Key": key or uuid.uuid4().hex}
    return Call("POST", _patch_path(user_id, proposal_id, what), model_reader(Proposal), headers=headers)


def _context_path(user_id: str) -> str:
    return f"/users/{path_segment(user_id)}/context"


def _patch_path(user_id: str, proposal_id: UUID | str, what: str) -> str:
    return f"{_context_path(user_id)}/patches/{path_id(proposal_id)}/{what}"
