"""A judge of "same fact" that asks a chat model about the pairs which the deterministic rule does not join."""

import asyncio
import math
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import groupby

from app.config.tenant_policies import TenantPolicies
from app.domain.consolidation.comparison import (
    Judgement,
    Pair,
    Rule,
    StopReason,
    Verdict,
    judge_by_rule,
    rule_from_verdict,
)
from app.domain.memory.memory import Memory
from app.domain.outages import ChatModelUnavailable, TokensSpent, UserTokensSpent
from app.domain.principal import Principal
from app.prompts.same_fact import MAX_PAIRS, SameFactVerdict, read_same_fact, same_fact_prompt
from app.usecases.reflection.model_gateway import ModelGateway


class ModelJudge:
    """A SameFactJudge. Pairs that the rule joins cost no tokens; the model sees the texts of the others, but no ids."""

    def __init__(self, ask: ModelGateway, policies: TenantPolicies) -> None:
        self._ask = ask
        self._policies = policies

    async def judge_pairs(self, principal: Principal, pairs: Sequence[Pair]) -> Judgement:
        """Judge the pairs, one user and at most MAX_PAIRS in a prompt. Leave pairs without a valid verdict."""
        verdicts = await asyncio.to_thread(judge_by_rule, pairs, self._policies.of(principal).categories.numeric_names)
        sure = [verdict for verdict in verdicts if verdict.rule]
        refused: list[Pair] = []
        open_ = [verdict.pair for verdict in verdicts if not verdict.rule]
        tokens = 0
        stopped: StopReason | None = None
        fault = ""
        for batch in _even_batches(open_):
            try:
                judged = await self._judge_batch(principal, batch)
            except (TokensSpent, ChatModelUnavailable) as error:
                stopped = _stop_reason(error)
                fault = error.detail
                break
            sure += judged.verdicts
            refused += judged.refused
            tokens += judged.tokens
        return Judgement(sure, tokens, left=len(pairs) - len(sure), stopped=stopped, fault=fault, refused=refused)

    async def _judge_batch(self, principal: Principal, batch: Sequence[Pair]) -> Judgement:
        ordered = [sorted((pair.first, pair.second), key=_age_key) for pair in batch]
        texts = [(older.text, newer.text) for older, newer in ordered]
        answer = await self._ask.ask_model(
            principal, same_fact_prompt(texts), partial(read_same_fact, texts), user_id=batch[0].first.user_id
        )
        by_number = sorted((answer.value or {}).items())
        numeric = self._policies.of(principal).categories.numeric_names
        verdicts = [Verdict(batch[at], _pair_rule(batch[at], verdict, numeric)) for at, verdict in by_number]
        judged = {at for at, _ in by_number}
        refused = [pair for at, pair in enumerate(batch) if at not in judged]
        return Judgement(verdicts, answer.usage.total_tokens, refused=refused)


def _pair_rule(pair: Pair, verdict: SameFactVerdict, numeric: Collection[str]) -> Rule | None:
    return rule_from_verdict(pair.first, pair.second, verdict, numeric)


def _even_batches(pairs: Sequence[Pair]) -> Iterator[Sequence[Pair]]:
    """Yield each user's pairs in as few batches as MAX_PAIRS allows, of about equal size."""
    for _user, group in groupby(sorted(pairs, key=_user_id), key=_user_id):
        user_pairs = list(group)
        size = math.ceil(len(user_pairs) / math.ceil(len(user_pairs) / MAX_PAIRS))
        for start in range(0, len(user_pairs), size):
            yield user_pairs[start : start + size]


def _user_id(pair: Pair) -> str:
    return pair.first.user_id


def _age_key(memory: Memory) -> tuple[object, ...]:
    return memory.created_at, memory.updated_at, memory.id


def _stop_reason(error: Exception) -> StopReason:
    if isinstance(error, UserTokensSpent):
        return "share_spent"
    return "spent" if isinstance(error, TokensSpent) else "unavailable"
