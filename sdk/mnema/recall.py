"""The recall valve (seed 003 §11): ask the memory in the middle of a turn, only when the agent is not sure.

What an agent should know is put before its turn. The valve mends the rare miss; it should open in fewer than one turn
in ten. Where it opens more often a warning goes to the logger `mnema.recall`: then what is put before the turn, or the
threshold, is wrong.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Unpack

from mnema.client import AsyncMnema, Mnema
from mnema.models import Answer
from mnema.requests import QuestionFields

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RecallPolicy:
    """`threshold`: confidence, 0 to 1, below which the valve opens. `budget_tokens` and `top_k`: of each answer.

    `most`: the share of turns above which it warns, looking at the last `window` turns once there are `least_turns`.
    """

    threshold: float = 0.5
    budget_tokens: int = 256
    top_k: int = 3
    most: float = 0.10
    window: int = 200
    least_turns: int = 20

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1 or not 0 <= self.most <= 1:
            raise ValueError("threshold and most are shares, 0 to 1")
        if not 1 <= self.least_turns <= self.window:
            raise ValueError("least_turns is at least 1 and at most window")


class RecallGauge:
    """Decides and counts; threads may share it. `turns`, `recalled` (turns) and `asked` (questions) since the start."""

    def __init__(self, policy: RecallPolicy | None = None) -> None:
        self.policy = policy or RecallPolicy()
        self.turns = 0
        self.recalled = 0
        self.asked = 0
        self._recent: OrderedDict[Hashable, bool] = OrderedDict()
        self._above = False
        self._lock = threading.Lock()

    @property
    def share(self) -> float:
        """Of the last turns, how many opened the valve, 0 to 1."""
        with self._lock:
            return self._recalled_share()

    def opens(self, turn: Hashable, confidence: float) -> bool:
        """Whether to ask, now that the agent is this sure; counts it. Raises ValueError outside 0 to 1."""
        if not 0 <= confidence <= 1:
            raise ValueError("confidence is a number from 0 to 1")
        opens = confidence < self.policy.threshold
        with self._lock:
            self._count_turn(turn, opens)
            share, turns = self._recalled_share(), len(self._recent)
            above = turns >= self.policy.least_turns and share > self.policy.most
            warn, self._above = above and not self._above, above
        if warn:
            log.warning("recall opened in %.0f %% of the last %d turns", 100 * share, turns)
        return opens

    def _count_turn(self, turn: Hashable, opens: bool) -> None:
        before = self._recent.get(turn)
        self.turns += before is None
        self.recalled += opens and not before
        self.asked += opens
        self._recent[turn] = opens or bool(before)
        if len(self._recent) > self.policy.window:
            self._recent.popitem(last=False)

    def _recalled_share(self) -> float:
        return sum(self._recent.values()) / len(self._recent) if self._recent else 0.0

    def question(self, fields: QuestionFields) -> QuestionFields:
        """The fields of a question with the valve's own: bullets, few and short."""
        return {
            **fields,
            "returns": "bullets",
            "top_k": self.policy.top_k,
            "budget_tokens": self.policy.budget_tokens,
        }


class RecallValve:
    """The valve for programs that wait; `gauge` has the counts."""

    def __init__(self, memory: Mnema, policy: RecallPolicy | None = None) -> None:
        self._memory = memory
        self.gauge = RecallGauge(policy)

    def recall(
        self, query: str, *, turn: Hashable, confidence: float, **fields: Unpack[QuestionFields]
    ) -> Answer | None:
        """What the memory says, or None when the agent is sure enough. Call it in every turn, with what names the turn
        (such as its thread and number) and how sure the agent is, 0 to 1. Raises MnemaError."""
        if not self.gauge.opens(turn, confidence):
            return None
        return self._memory.query(query, **self.gauge.question(fields))


class AsyncRecallValve:
    """The same on asyncio."""

    def __init__(self, memory: AsyncMnema, policy: RecallPolicy | None = None) -> None:
        self._memory = memory
        self.gauge = RecallGauge(policy)

    async def recall(
        self, query: str, *, turn: Hashable, confidence: float, **fields: Unpack[QuestionFields]
    ) -> Answer | None:
        """As `RecallValve.recall`."""
        if not self.gauge.opens(turn, confidence):
            return None
        return await self._memory.query(query, **self.gauge.question(fields))
