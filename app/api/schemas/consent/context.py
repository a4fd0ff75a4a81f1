"""Conversions between the bodies of /users/{user_id}/context and the domain."""

from mnema_wire import consent as wire

from app.domain.consent.patches import Patch, UserContext
from app.usecases.consent.proposals import Proposal, ProposalResult


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
