"""Proposals that the workers make of what a model found in turns and insights (SPEC §8)."""

from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeVar
from uuid import UUID

from app.domain.consent.patches import ConsentPolicy
from app.domain.consent.profile_fields import ProfileField, sensitive_fields
from app.domain.errors import ErasedText, InvalidInput, TooManyPatches
from app.domain.principal import Principal
from app.usecases.consent.proposals import Proposal, Proposals

T = TypeVar("T")
REFUSED: Final = (ErasedText, InvalidInput, TooManyPatches)
"""A value that cannot be proposed is left out: it says nothing about the others."""


class ProposeProfileFields:
    """Idempotent: the same value is proposed once."""

    def __init__(self, proposals: Proposals, policy: ConsentPolicy) -> None:
        self._proposals = proposals
        self._policy = policy

    def is_visible_in(self, categories: Collection[str] | None) -> bool:
        """Whether an agent that sees these categories (None: all) may propose at all."""
        return categories is None or self._policy.category in categories

    def split_sensitive(
        self, found: Sequence[T], parts: Callable[[T], tuple[str, str, str]]
    ) -> tuple[list[T], list[ProfileField]]:
        """The generated facts that tell no sensitive field of the user, and the fields that the others tell.

        `parts`: text, quote and category of one.
        """
        kept, told = [], []
        for one in found:
            fields = sensitive_fields(*parts(one), self._policy.category)
            told += fields
            if not fields:
                kept.append(one)
        return kept, told

    async def propose_fields(
        self,
        scope: Principal,
        user_id: str,
        told: Sequence[ProfileField],
        evidence: UUID | None = None,
        thread_id: str | None = None,
    ) -> int:
        """Propose each field that has a value; how many wait or apply now. Raises WriteContention."""
        made = 0
        for one in dict.fromkeys(told):
            if one.value is None or one.field not in self._policy.field_names:
                continue
            try:
                proposal = Proposal(user_id, one.field, one.value, evidence, thread_id)
                done = await self._proposals.propose_value(scope, proposal)
            except REFUSED:
                continue
            made += done.action in ("created", "joined")
        return made
