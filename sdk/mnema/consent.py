"""What is known of a user with their consent: calls and their answers, field by field as HTTP has it."""

import uuid
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from mnema.calls import JSON, build_body, model_reader, path_segment
from mnema.models import Answered, Page
from mnema.requests import Sent
from mnema.transport import Call

ProposalState = Literal["pending", "approved", "rejected", "expired", "applied"]


class NewProposal(Sent):
    """A value that may be known of a user. `evidence`: the memory it was learnt from; `agent_id`: who proposes it."""

    field: str
    value: str
    evidence: UUID | None = None
    thread_id: str | None = None
    agent_id: str | None = None


class NewQuestion(Sent):
    """A question that is put to the user in a thread. `turn_id`: the stored assistant's turn that ends with it."""

    thread_id: str
    question: str
    turn_id: UUID | None = None


class Withdrawal(Sent):
    """What is not to be known any more; of a field that holds several values, `value`."""

    field: str
    value: str | None = None


class Signal(Answered):
    """A memory that speaks for a value. Turns and facts whose text `says` the value are counted, those with the same
    `root` as one; an insight that Mnema drew speaks by its `confidence` alone."""

    memory_id: UUID
    root: str
    kind: str
    confidence: float | None
    actor: str
    at: datetime
    says: bool = False


class Question(Answered):
    """What the user was asked and has not answered yet."""

    thread_id: str
    question: str
    asked_at: datetime
    turn_id: UUID | None = None


class Proposal(Answered):
    """A proposal and what became of it. `sensitive`: it takes the user's own decision; `way`: how it was decided."""

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
    """The same with `action`: created, joined (the same value waits already), unchanged (it is known) or rejected (it
    was, lately)."""

    action: str


class KnownValue(Answered):
    """A value that is known, and the proposal that was decided; `field` as it was proposed, such as goals_add."""

    field: str
    value: str
    patch_id: UUID
    updated_at: datetime


class Context(Answered):
    """What is known of a user, field by field, and as one line for a prompt."""

    user_id: str
    values: list[KnownValue]
    profile: str


class Withdrawn(Answered):
    """How many values are not known any more."""

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
    """Propose a value. A sensitive one (preferred_name, pronouns, city, language) waits for the user's decision; a
    benign one (tone, goals_add) applies once turns or facts of different origin, or one sure insight of Mnema's, say
    it.

    `evidence`: the id of the memory it was learnt from.
    """
    told = {"field": field, "value": value, "evidence": evidence, "thread_id": thread_id, "agent_id": agent_id}
    content = build_body(NewProposal, **told).body()
    return Call(
        "POST",
        f"{_context_path(user_id)}/patches",
        model_reader(Proposed),
        content=content,
        headers=_idempotency_headers(idempotency_key),
    )


def proposals(
    user_id: str, *, state: ProposalState | None = None, limit: int | None = None, cursor: str | None = None
) -> Call[Page[Proposal]]:
    """One page of a user's proposals, newest first; `limit`: of one page, 1 to 200."""
    params = {"state": state, "limit": limit, "cursor": cursor}
    sent = {name: str(value) for name, value in params.items() if value is not None}
    return Call("GET", f"{_context_path(user_id)}/patches", model_reader(Page[Proposal]), sent)


def approve(user_id: str, proposal_id: UUID | str, *, idempotency_key: str | None = None) -> Call[Proposal]:
    """Approve a proposal in the user's name: its value is known from now on; needs a key with scope approve."""
    return _decision_call(user_id, proposal_id, "approve", idempotency_key)


def reject(user_id: str, proposal_id: UUID | str, *, idempotency_key: str | None = None) -> Call[Proposal]:
    """Reject a proposal in the user's name; needs a key with scope approve."""
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
    """Bind a question, which contains the proposed value, to the thread's newest turn.

    Store the assistant's turn that ends with the question first. The next turn there is the answer: a plain yes or no
    of the user decides, if another key stores it than those that proposed and asked; anything else changes nothing.
    """
    content = build_body(NewQuestion, thread_id=thread_id, question=question, turn_id=turn_id).body()
    headers = _idempotency_headers(idempotency_key)
    return Call(
        "POST", _patch_path(user_id, proposal_id, "ask"), model_reader(Proposal), content=content, headers=headers
    )


def context(user_id: str) -> Call[Context]:
    """What is known of a user."""
    return Call("GET", _context_path(user_id), model_reader(Context))


def withdraw(user_id: str, field: str, value: str | None = None) -> Call[Withdrawn]:
    """Forget what is known in a field, or one value of several; needs a key with scope approve."""
    content = build_body(Withdrawal, field=field, value=value).body()
    return Call("POST", f"{_context_path(user_id)}/withdraw", model_reader(Withdrawn), content=content, headers=JSON)


def _decision_call(user_id: str, proposal_id: UUID | str, what: str, key: str | None) -> Call[Proposal]:
    headers: dict[str, Any] = {"Idempotency-Key": key or uuid.uuid4().hex}
    return Call("POST", _patch_path(user_id, proposal_id, what), model_reader(Proposal), headers=headers)


def _idempotency_headers(key: str | None) -> dict[str, str]:
    return {**JSON, "Idempotency-Key": key or uuid.uuid4().hex}


def _context_path(user_id: str) -> str:
    return f"/users/{path_segment(user_id)}/context"


def _patch_path(user_id: str, proposal_id: UUID | str, what: str) -> str:
    return f"{_context_path(user_id)}/patches/{path_segment(str(proposal_id))}/{what}"
