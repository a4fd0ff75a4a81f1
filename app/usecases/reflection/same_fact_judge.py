"""Same fact or not, judged by a chat model where the deterministic rule says no (SPEC §1, §7; seed 003 §2, §4)."""

import asyncio
import math
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import groupby

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
from app.domain.outages import ChatModelUnavailable, TokensSpent
from app.domain.principal import Principal
from app.prompts.same_fact import MAX_PAIRS, SameFactVerdict, read_same_fact, same_fact_prompt
from app.usecases.reflection.model_gateway import ModelGateway


class ModelJudge:
    """A SameFactJudge. What the rule holds to be one fact costs no tokens; of the rest the model sees texts, no ids."""

    def __init__(self, ask: ModelGateway, numeric_categories: Collection[str] = ()) -> None:
        self._ask = ask
        self._numeric = numeric_categories

    async def judge_pairs(self, scope: Principal, pairs: Sequence[Pair]) -> Judgement:
        """Five to ten pairs a prompt, of one user. What the model gives no usable verdict on is left."""
        verdicts = await asyncio.to_thread(judge_by_rule, pairs, self._numeric)
        sure, open_ = [one for one in verdicts if one.rule], [one.pair for one in verdicts if not one.rule]
        tokens = 0
        stopped: StopReason | None = None
        fault = ""
        for batch in _even_batches(open_):
            try:
                judged = await self._judge_batch(scope, batch)
            except (TokensSpent, ChatModelUnavailable) as error:
                stopped, fault = _stop_reason(error), error.detail
                break
            sure += judged.verdicts
            tokens += judged.tokens
        return Judgement(sure, tokens, left=len(pairs) - len(sure), stopped=stopped, fault=fault)

    async def _judge_batch(self, scope: Principal, batch: Sequence[Pair]) -> Judgement:
        ordered = [sorted((pair.first, pair.second), key=_age_key) for pair in batch]
        texts = [(older.text, newer.text) for older, newer in ordered]
        asked = await self._ask.ask_model(scope, same_fact_prompt(texts), partial(read_same_fact, texts))
        found = sorted((asked.value or {}).items())
        verdicts = [Verdict(batch[at], self._pair_rule(batch[at], told)) for at, told in found]
        return Judgement(verdicts, asked.usage.total_tokens)

    def _pair_rule(self, pair: Pair, told: SameFactVerdict) -> Rule | None:
        return rule_from_verdict(pair.first, pair.second, told, self._numeric)


def _even_batches(pairs: Sequence[Pair]) -> Iterator[Sequence[Pair]]:
    """As few as MAX_PAIRS allows, and as even as can be."""
    for _user, group in groupby(sorted(pairs, key=_user_id), key=_user_id):
        some = list(group)
        size = math.ceil(len(some) / math.ceil(len(some) / MAX_PAIRS))
        for start in range(0, len(some), size):
            yield some[start : start + size]


def _user_id(pair: Pair) -> str:
    return pair.first.user_id


def _age_key(memory: Memory) -> tuple[object, ...]:
    return memory.created_at, memory.updated_at, memory.id


def _stop_reason(error: Exception) -> StopReason:
    return "spent" if isinstance(error, TokensSpent) else "unavailable"
