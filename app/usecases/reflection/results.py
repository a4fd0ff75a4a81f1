"""The results and the bounds of reading conversations, and the categories that facts of a turn may have."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from app.domain.categories import CategoryPolicy
from app.domain.reflection.transcript import Cooldown, ReadPosition, ReflectionKind
from app.storage.reflection.fact_extraction import ExtractionState

SkipReason: TypeAlias = Literal[
    "no_model", "off", "resting", "nothing_new", "nothing", "cap", "known", "erased", "overtaken", "unusable"
]
"""The reason why a reading stored nothing."""


@dataclass(frozen=True, slots=True)
class ReflectionResult:
    """The result of one reading of a thread, or of a user if `thread_id` is None.

    `why`: the reason why nothing was stored. `texts`: the texts that were stored, or would be without `dry_run`.
    `rest`: the number of the user's turns that can be read at once after this reading.
    """

    kind: ReflectionKind
    user_id: str
    thread_id: str | None = None
    why: SkipReason | None = None
    created: int = 0
    updated: int = 0
    texts: Sequence[str] = ()
    tokens: int = 0
    rest: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the counts for a job's report, without any text of a user."""
        if self.why is not None:
            return {"why": self.why, **({"tokens": self.tokens} if self.tokens else {})}
        return {"created": self.created, "updated": self.updated, "tokens": self.tokens}


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of reading a thread: when, how often in one job, and how many turns each time.

    `category`: the category of the generated memories; turns of agents that cannot see it are left out.
    `per_user_day`: memories created for a user in a day at most; None: no limit.
    """

    cooldown: Cooldown
    rounds: int
    window: int
    category: str
    per_user_day: int | None = None


@dataclass(frozen=True, slots=True)
class ReadStep:
    """One step of reading: `old` is the position before it (None: never read), `new` the position after it."""

    user_id: str
    thread_id: str
    kind: ReflectionKind
    old: ReadPosition | None
    new: ReadPosition


def summed_results(rounds: Sequence[ReflectionResult]) -> ReflectionResult:
    """Return several readings of one thread, at least one, as one result."""
    stored = [result for result in rounds if result.why is None] or rounds
    created = sum(result.created for result in stored)
    updated = sum(result.updated for result in stored)
    return replace(stored[-1], created=created, updated=updated, tokens=sum(result.tokens for result in rounds))


def visible_categories(state: ExtractionState, policy: CategoryPolicy) -> frozenset[str] | None:
    """Return the categories that the turn's agent, or its key's agents, may see. None means all."""
    return None if state.agents is None else policy.visible_to(state.agents)


def writable_categories(names: Iterable[str], state: ExtractionState, policy: CategoryPolicy) -> list[str]:
    """Return those of `names` that the turn's agent may write. An agent without an allowlist may write to all."""
    visible = visible_categories(state, policy)
    if state.turn is not None and state.turn.agent_id not in (None, *policy.allowlists):
        visible = None
    return [name for name in names if visible is None or name in visible]
