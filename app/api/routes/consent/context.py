"""Routes of /users/{user_id}/context: values known with the user's consent (`docs/contract.md`, Consent).

A key with scope `write` may propose values and ask questions. A decision for the user needs scope `approve`. A key that
is bound to agents may use these routes if one of its agents may see the category `profile`.
"""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query
from mnema_wire import consent as wire
from mnema_wire.fields import Identifier, Limit

from app.api import links
from app.api.deps import App, Approver, Reader, Writer
from app.api.errors import body_errors, key_errors
from app.api.transport.idempotency import IdempotencyHeader, retry_key
from app.api.transport.parameters import StrictRoute
from app.domain.consent.patches import Patch, PatchState, UserContext
from app.usecases.consent.proposals import Proposal, ProposalResult

router = APIRouter(prefix="/users", tags=["consent"], route_class=StrictRoute)
UserId = Annotated[Identifier, Path()]
_CONTEXT = "/{user_id:path}/context"
_PATCH = _CONTEXT + "/patches/{patch_id:uuid}"
_DECIDED = {200: {"links": links.DECIDED}, **key_errors(404, 409)}


def to_proposal(body: wire.NewProposal, user_id: str) -> Proposal:
    """Return the proposal that the use-case takes."""
    return Proposal(user_id=user_id, **body.model_dump())


def proposal_body(patch: Patch) -> wire.Proposal:
    """Return the body for a domain object."""
    return wire.Proposal.model_validate(patch)


def proposed_body(proposed: ProposalResult) -> wire.Proposed:
    """Return the body for the use-case's result."""
    return wire.Proposed(**proposal_body(proposed.patch).model_dump(), action=proposed.action)


def context_body(user_id: str, context: UserContext) -> wire.Context:
    """Return the body for a domain object."""
    values = [wire.KnownValue.model_validate(known) for known in context.values]
    return wire.Context(user_id=user_id, values=values, profile=context.profile.text)


@router.post(_CONTEXT + "/patches", status_code=201, responses={201: {"links": links.PROPOSED}, **body_errors(409)})
async def propose(
    app: App, principal: Writer, user_id: UserId, body: wire.NewProposal, idempotency_key: IdempotencyHeader = None
) -> wire.Proposed:
    """Propose a value of a user, who may be new.

    A sensitive value waits for the user's decision and expires without one. A benign value also applies by itself once
    turns and facts of different origin state it, or one confident insight that Mnema drew.

    Retry with the same `Idempotency-Key` and body to get the same proposal in its current state.
    """
    key = retry_key("POST context/patches", idempotency_key, user_id, body)
    return proposed_body(await app.consent.proposals.propose_value(principal, to_proposal(body, user_id), key))


@router.get(_CONTEXT + "/patches", responses={200: {"links": links.PATCHES}, **key_errors(404)})
async def page(
    app: App,
    principal: Reader,
    user_id: UserId,
    state: Annotated[PatchState | None, Query()] = None,
    limit: Annotated[Limit, Query()] = 50,
    cursor: Annotated[str | None, Query(max_length=500, description="`next_cursor` of the previous page")] = None,
) -> wire.ProposalPage:
    """List a user's proposals, newest first."""
    patches = await app.consent.list_patches(principal, user_id, state, cursor, limit)
    return wire.ProposalPage(items=[proposal_body(patch) for patch in patches.items], next_cursor=patches.next_cursor)


@router.post(_PATCH + "/approve", responses=_DECIDED)
async def approve(
    app: App, principal: Approver, user_id: UserId, patch_id: UUID, idempotency_key: IdempotencyHeader = None
) -> wire.Proposal:
    """Approve a proposal, so that its value becomes known. Needs scope `approve`: this is the user's own decision."""
    key = retry_key("POST context/patches/approve", idempotency_key, user_id, patch_id)
    return proposal_body(await app.consent.decide_patch(principal, user_id, patch_id, approve=True, key=key))


@router.post(_PATCH + "/reject", responses=_DECIDED)
async def reject(
    app: App, principal: Approver, user_id: UserId, patch_id: UUID, idempotency_key: IdempotencyHeader = None
) -> wire.Proposal:
    """Reject a proposal. The same value cannot be proposed again for some time. Needs scope `approve`."""
    key = retry_key("POST context/patches/reject", idempotency_key, user_id, patch_id)
    return proposal_body(await app.consent.decide_patch(principal, user_id, patch_id, approve=False, key=key))


@router.post(_PATCH + "/ask", responses={200: {"links": links.DECIDED}, **body_errors(404, 409)})
async def ask(
    app: App,
    principal: Writer,
    user_id: UserId,
    patch_id: UUID,
    body: wire.NewQuestion,
    idempotency_key: IdempotencyHeader = None,
) -> wire.Proposal:
    """Bind a question about a proposal to the newest turn of a thread.

    That turn must be an assistant's turn for this user and end with the question, otherwise the answer is
    `question_not_asked`. The question must contain the proposed value, otherwise it is `question_without_value`.

    The next turn in the thread is the answer. A plain yes or no of this user decides. The key that stores it must not
    be the key that proposed the value or asked. Any other answer leaves the proposal as it is. A thread has one open
    question, the last one.
    """
    key = retry_key("POST context/patches/ask", idempotency_key, user_id, patch_id, body)
    return proposal_body(
        await app.consent.chat.ask_question(
            principal, user_id, patch_id, body.thread_id, body.question, key, body.turn_id
        )
    )


@router.get(_CONTEXT, responses={200: {"links": links.CONTEXT}, **key_errors(404)})
async def context(app: App, principal: Reader, user_id: UserId) -> wire.Context:
    """Return the known values of a user, field by field and as one line for a prompt."""
    return context_body(user_id, await app.consent.load_context(principal, user_id))


@router.post(_CONTEXT + "/withdraw", responses={200: {"links": links.CONTEXT}, **body_errors(404)})
async def withdraw(app: App, principal: Approver, user_id: UserId, body: wire.Withdrawal) -> wire.Withdrawn:
    """Remove the known values of a field; history keeps a record. Needs scope `approve`. Idempotent."""
    return wire.Withdrawn(withdrawn=await app.consent.withdraw_values(principal, user_id, body.field, body.value))
