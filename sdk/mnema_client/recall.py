"""The recall valve: a query in the middle of a turn, only if the agent is not sure.

Give the agent what it should know before its turn. The valve is for the rare gap, and should open in fewer than one
turn in ten. If it opens more often, it warns on the logger `mnema_client.recall`: then the threshold, or the
context before the turn, needs work.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Unpack

from mnema_wire.recall import Answer

from mnema_client.client import AsyncMnema, Mnema
from mnema_client.errors import CannotBeSent
from mnema_client.requests import QuestionFields

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RecallPolicy:
    """Settings of the valve. `threshold`: the confidence, 0 to 1, below which it opens.

    `budget_tokens`, `top_k`: limits of each answer. `most`: the share of turns above which it warns, measured over the
    last `window` turns once there are `least_turns`.
    """

    threshold: float = 0.5
    budget_tokens: int = 256
    top_k: int = 3
    most: float = 0.10
    window: int = 200
    least_turns: int = 20

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1 or not 0 <= self.most <= 1:
            raise CannotBeSent("threshold and most must be from 0 to 1")
        if not 1 <= self.least_turns <= self.window:
            raise CannotBeSent("least_turns must be at least 1 and at most window")


class RecallGauge:
    """The decision and its counts since the start: `turns`, `recalled` (turns), `asked` (queries). Thread-safe."""

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
        """The share of the last turns that opened the valve, 0 to 1."""
        with self._lock:
            return self._recalled_share()

    def opens(self, turn: Hashable, confidence: float) -> bool:
        """Count the turn, and tell whether to query at this confidence. Raise CannotBeSent outside 0 to 1."""
        if not 0 <= confidence <= 1:
            raise CannotBeSent(f"confidence must be from 0 to 1, got {confidence}")
        opens = confidence < self.policy.threshold
        with self._lock:
            self._count_turn(turn, opens)
            share = self._recalled_share()
            turns = len(self._recent)
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
        """Return a query's fields with the valve's own: few and short bullets."""
        return {
            **fields,
            "returns": "bullets",
            "top_k": self.policy.top_k,
            "budget_tokens": self.policy.budget_tokens,
        }


class RecallValve:
    """The valve for synchronous programs; `gauge` has the counts."""

    def __init__(self, memory: Mnema, policy: RecallPolicy | None = None) -> None:
        self._memory = memory
        self.gauge = RecallGauge(policy)

    def recall(
        self, query: str, *, turn: Hashable, confidence: float, **fields: Unpack[QuestionFields]
    ) -> Answer | None:
        """Query the memory, or return None if the agent is sure enough. Call it in every turn. Raise MnemaError.

        `turn`: a name of the turn, such as its thread and number. `confidence`: how sure the agent is, 0 to 1.
        """
        if not self.gauge.opens(turn, confidence):
            return None
        return self._memory.query(query, **self.gauge.question(fields))


class AsyncRecallValve:
    """The valve for asyncio; `gauge` has the counts."""

    def __init__(self, memory: AsyncMnema, policy: RecallPolicy | None = None) -> None:
        self._memory = memory
        self.gauge = RecallGauge(policy)

    async def recall(
        self, query: str, *, turn: Hashable, confidence: float, **fields: Unpack[QuestionFields]
    ) -> Answer | None:
        """Query the memory as `RecallValve.recall` does."""
        if not self.gauge.opens(turn, confidence):
            return None
        return await self._memory.query(query, **self.gauge.question(fields))
