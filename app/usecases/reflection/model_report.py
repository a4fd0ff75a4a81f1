"""A report on the prompts and the rejected turns and facts: calls, tokens, broken rules."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from app.domain.principal import Principal
from app.domain.reflection.model_usage import LlmPolicy, PromptReport
from app.domain.reflection.turn_trace import Rejection
from app.ports import Clock
from app.storage.reflection.model_calls import ModelCallStorage


@dataclass(frozen=True, slots=True)
class ModelReport:
    """The figures by version of each prompt. `spent_today` includes the tokens reserved for calls under way.

    `rejections`: turns and candidate facts that became no memory, by rule. `waiting`: turns that the model could not
    read, which wait for a day or for another model.
    """

    prompts: Sequence[PromptReport]
    rejections: Sequence[Rejection]
    waiting: int
    spent_today: int
    daily_tokens: int


class ReportModel:
    """The use-case that reports on the chat model's calls of a tenant."""

    def __init__(self, storage: ModelCallStorage, policy: LlmPolicy, clock: Clock) -> None:
        self._storage = storage
        self._policy = policy
        self._clock = clock

    async def build_report(self, principal: Principal, days: int) -> ModelReport:
        """Return the report on the calls of the last `days` days; `spent_today` is for the current UTC day."""
        now = self._clock.now()
        since = now - timedelta(days=days)
        return ModelReport(
            prompts=await self._storage.load_reports(principal, since),
            rejections=await self._storage.list_rejections(principal, since),
            waiting=await self._storage.count_waiting(principal),
            spent_today=await self._storage.load_spent_tokens(principal, now.date()),
            daily_tokens=self._policy.daily_tokens,
        )
