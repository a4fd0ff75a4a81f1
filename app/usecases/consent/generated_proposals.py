"""Proposals that the workers make from the facts that a model found in turns and insights."""

from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeVar
from uuid import UUID

from app.config.tenant_policies import TenantPolicies
from app.domain.consent.profile_fields import ProfileField, sensitive_fields
from app.domain.errors import ErasedText, InvalidInput, TooManyPatches
from app.domain.principal import Principal
from app.usecases.consent.proposals import Proposal, Proposals

T = TypeVar("T")
REFUSED: Final = (ErasedText, InvalidInput, TooManyPatches)
"""Errors of a value that cannot be proposed; it is skipped, the other values are proposed."""


class ProposeProfileFields:
    """The use-case that proposes profile fields. Idempotent: it proposes a value once."""

    def __init__(self, proposals: Proposals, policies: TenantPolicies) -> None:
        self._proposals = proposals
        self._policies = policies

    def is_visible_in(self, principal: Principal, categories: Collection[str] | None) -> bool:
        """Return True if an agent that sees these categories (None means all) may propose values."""
        return categories is None or self._policies.of(principal).consent.category in categories

    def split_sensitive(
        self, principal: Principal, facts: Sequence[T], parts: Callable[[T], tuple[str, str, str]]
    ) -> tuple[list[T], list[ProfileField]]:
        """Split facts into those without a sensitive field, and the sensitive fields of the others.

        `parts` returns text, quote and category of a fact.
        """
        category = self._policies.of(principal).consent.category
        harmless = list[T]()
        sensitive: list[ProfileField] = []
        for fact in facts:
            fields = sensitive_fields(*parts(fact), category)
            sensitive += fields
            if not fields:
                harmless.append(fact)
        return harmless, sensitive

    async def propose_fields(
        self,
        principal: Principal,
        user_id: str,
        fields: Sequence[ProfileField],
        evidence: UUID | None = None,
        thread_id: str | None = None,
    ) -> int:
        """Propose each field that has a value. Return how many wait or are applied. Raise WriteContention."""
        proposed = 0
        for field in dict.fromkeys(fields):
            if field.value is None or field.field not in self._policies.of(principal).consent.field_names:
                continue
            try:
                proposal = Proposal(user_id, field.field, field.value, evidence, thread_id)
                result = await self._proposals.propose_value(principal, proposal)
            except REFUSED:
                continue
            proposed += result.action in ("created", "joined")
        return proposed
