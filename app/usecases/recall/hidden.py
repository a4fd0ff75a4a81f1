"""The search for better matches that an answer does not have, for the explanation of a query."""

from dataclasses import replace

from app.config.tenant_policies import TenantPolicies
from app.domain.categories import PROCEDURAL
from app.domain.principal import Principal
from app.domain.recall.hidden import Hidden, best_relevance, hidden_by_allowlist, hidden_by_cut
from app.storage.uow import UnitOfWork
from app.usecases.recall.ranking import RankMemories
from app.usecases.recall.request import Query, QueryState


class FindHidden:
    """The stage of an explained query that finds what the least relevance or the agent's allowlist hides."""

    def __init__(self, uow: UnitOfWork, ranks: RankMemories, policies: TenantPolicies) -> None:
        self._uow = uow
        self._ranks = ranks
        self._policies = policies

    async def find_hidden(self, work: QueryState) -> list[Hidden]:
        """Return what the answer hides. A match counts only if it is better than each one in the answer."""
        ranked = [item.ranked.scored for item in work.answer.items if item.ranked is not None]
        answered = best_relevance(ranked)
        limits = work.ranking.limits
        cut = hidden_by_cut(work.ranking.dropped, answered, limits)
        refused = await self._search_other_categories(work, answered)
        return [one for one in (refused, cut) if one is not None]

    async def _search_other_categories(self, work: QueryState, answered: float) -> Hidden | None:
        """Search the categories that the agent lacks, with the same filters.

        Only a key that is bound to no agent learns of them: it may ask as any agent. It learns nothing if it chose the
        categories itself, or asks about another time.
        """
        principal = work.ranking.principal
        query = work.query
        others = self._list_others(principal, work)
        chose = query.categories or query.filters.category is not None
        if principal.agents is not None or chose or not query.moments.is_now or not others:
            return None
        known = self._policies.of(principal).categories
        lengths = {name: known.get_category(name).rag_length for name in others}
        request: Query = replace(query, threshold=work.ranking.threshold)
        ranking = await self._ranks.prepare_ranking(principal, request, others, lengths)
        async with self._uow.calls_anywhere(principal) as tx:
            # no cross-encoder: it reads only what the agent may see
            found = await self._ranks.choose_ranked(tx, ranking, None)
        return hidden_by_allowlist(found, answered, ranking.limits)

    def _list_others(self, principal: Principal, work: QueryState) -> list[str]:
        known = self._policies.of(principal).categories
        seen = {*known.agent_categories(principal, work.agent), PROCEDURAL}
        return [name for name in known.categories if name not in seen]
