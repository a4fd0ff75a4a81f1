"""The standing instructions that come with an answer (`docs/agents.md`)."""

from collections.abc import Callable, Sequence
from uuid import UUID

from app.config.tenant_policies import TenantPolicies
from app.domain.principal import Principal
from app.domain.recall.instructions import MOST_READ, AppliedInstruction, FoundInstruction, choose_instructions
from app.storage.recall.instructions import InstructionStorage
from app.storage.recall.search import Search
from app.storage.uow import ReadTx
from app.usecases.recall.ranking import Ranking


class FindInstructions:
    """The step that finds the instructions of a user that apply to a question."""

    def __init__(self, storage: InstructionStorage, policies: TenantPolicies) -> None:
        self._storage = storage
        self._policies = policies

    async def find_applying(
        self,
        tx: ReadTx,
        principal: Principal,
        ranking: Ranking,
        searches: Sequence[Search] = (),
        is_told: Callable[[str], bool] = lambda _: False,
    ) -> list[AppliedInstruction]:
        """Return the instructions that apply, the most specific first; none without a user.

        `searches` replace the search of the ranking. Texts that `is_told` knows are left out.
        """
        policies = self._policies.of(principal)
        most = policies.query.instructions
        if not most or ranking.search.filters.user_id is None or not ranking.has_instructions:
            return []
        found: dict[UUID, FoundInstruction] = {}
        for search in searches or [ranking.search]:
            rows = await self._storage.find_instructions(tx, principal, search, MOST_READ)
            found |= {one.id: one for one in rows if not is_told(one.text)}
        if not found:
            return []
        newest = sorted(found.values(), key=lambda one: (one.created_at, one.id), reverse=True)[:MOST_READ]
        return choose_instructions(newest, ranking.query.tokens, policies.nearness, most)
