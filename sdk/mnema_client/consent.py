"""Consented context of a user: calls and their results, with the field names of the HTTP API."""

import uuid
from typing import Any
from uuid import UUID

from mnema_wire.bases import Page
from mnema_wire.consent import (
    Context,
    NewProposal,
    NewQuestion,
    Proposal,
    ProposalState,
    Proposed,
    Withdrawal,
    Withdrawn,
)

from mnema_client.calls import JSON, get_call, idempotency_headers, json_body, model_reader, path_id, path_segment
from mnema_client.transport import Call


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
    content = json_body(NewProposal, **fields)
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
    content = json_body(NewQuestion, thread_id=thread_id, question=question, turn_id=turn_id)
    headers = idempotency_headers(idempotency_key, JSON)
    return Call(
        "POST", _patch_path(user_id, proposal_id, "ask"), model_reader(Proposal), content=content, headers=headers
    )


def context(user_id: str) -> Call[Context]:
    """Return the user's consented context."""
    return get_call(_context_path(user_id), Context)


def withdraw(user_id: str, field: str, value: str | None = None) -> Call[Withdrawn]:
    """Withdraw a field's value, or one of several values. Needs a key with scope approve."""
    content = json_body(Withdrawal, field=field, value=value)
    return Call("POST", f"{_context_path(user_id)}/withdraw", model_reader(Withdrawn), content=content, headers=JSON)


def _decision_call(user_id: str, proposal_id: UUID | str, what: str, key: str | None) -> Call[Proposal]:
    headers: dict[str, Any] = {"Idempotency-Key": key or uuid.uuid4().hex}
    return Call("POST", _patch_path(user_id, proposal_id, what), model_reader(Proposal), headers=headers)


def _context_path(user_id: str) -> str:
    return f"/users/{path_segment(user_id)}/context"


def _patch_path(user_id: str, proposal_id: UUID | str, what: str) -> str:
    return f"{_context_path(user_id)}/patches/{path_id(proposal_id)}/{what}"
