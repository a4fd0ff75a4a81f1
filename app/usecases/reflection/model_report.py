"""How the prompts fare and what they cost (seed 003 §9: of what is generated, 95 % keep the rules at once)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from app.domain.principal import Principal
from app.domain.reflection.model_usage import LlmPolicy, PromptReport
from app.ports import Clock
from app.storage.reflection.model_calls import ModelCallStorage


@dataclass(frozen=True, slots=True)
class ModelReport:
    """By version of each prompt; `spent_today` of `daily_tokens`, those reserved for calls under way included."""

    prompts: Sequence[PromptReport]
    spent_today: int
    daily_tokens: int


class ReportModel:
    """Of one tenant."""

    def __init__(self, storage: ModelCallStorage, policy: LlmPolicy, clock: Clock) -> None:
        self._storage = storage
        self._policy = policy
        self._clock = clock

    async def build_report(self, scope: Principal, days: int) -> ModelReport:
        """The calls of the last so many days."""
        now = self._clock.now()
        prompts = await self._storage.load_reports(scope, now - timedelta(days=days))
        return ModelReport(prompts, await self._storage.load_spent_tokens(scope, now.date()), self._policy.daily_tokens)
