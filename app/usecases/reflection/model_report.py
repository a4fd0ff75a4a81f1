"""How the prompts fare and what they cost (seed 003 §9: of what is generated, 95 % keep the rules at once)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from app.domain.principal import Scope
from app.domain.reflection.model_usage import LlmPolicy, PromptReport
from app.ports import Clock
from app.storage.reflection.model_calls import LlmStorage


@dataclass(frozen=True, slots=True)
class ModelReport:
    """By version of each prompt; `spent_today` of `daily_tokens`, those reserved for calls under way included."""

    prompts: Sequence[PromptReport]
    spent_today: int
    daily_tokens: int


class ReportModel:
    """Of one tenant."""

    def __init__(self, storage: LlmStorage, policy: LlmPolicy, clock: Clock) -> None:
        self._storage = storage
        self._policy = policy
        self._clock = clock

    async def of(self, scope: Scope, days: int) -> ModelReport:
        """The calls of the last so many days."""
        now = self._clock.now()
        prompts = await self._storage.report(scope, now - timedelta(days=days))
        return ModelReport(prompts, await self._storage.spent(scope, now.date()), self._policy.daily_tokens)
