"""The memory label: what memory did for an answer, with counts (`docs/facts.md`)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mnema_wire.limits import DEFAULT_MODEL

from app.domain.facts.fact import FactOutcome


def build_model_label(
    used_web: bool,
    memory_actions: Mapping[str, Any] | None = None,
    escalated: bool = True,
    *,
    model: str = DEFAULT_MODEL,
) -> str:
    """Return the label of an answer, such as `Model: Memory-S(3) + Memory-R(1) + GPT-5`.

    `memory_actions` has the counts `S` (stored), `U` (updated), `R` (topics retrieved) and the flag `F` (a part of the
    memory failed). A failure replaces the counts; a count of 0 is left out. `used_web` puts `Brave` before the model.
    The model is always named, also if it was not asked (`escalated` False).
    """
    actions = memory_actions or {}
    if actions.get("F"):
        parts = ["Memory-F"]
    else:
        parts = [f"Memory-{name}({actions[name]})" for name in ("S", "U", "R") if actions.get(name, 0) > 0]
    if used_web:
        parts.append("Brave")
    return f"Model: {' + '.join([*parts, model])}"


@dataclass(frozen=True, slots=True)
class MemoryActions:
    """The counts of what memory did: facts stored, facts whose value changed, topics retrieved; and a failure flag."""

    stored: int = 0
    updated: int = 0
    retrieved: int = 0
    failed: bool = False

    @classmethod
    def from_outcomes(cls, outcomes: Iterable[FactOutcome]) -> "MemoryActions":
        """Return the counts of what the database did. A fact stated again counts as neither."""
        actions = [stated.action for outcome in outcomes for stated in outcome.stated]
        return cls(stored=actions.count("store"), updated=actions.count("update"))

    def as_counts(self) -> dict[str, Any]:
        """Return the counts by letter, as `build_model_label` takes them."""
        return {"S": self.stored, "U": self.updated, "R": self.retrieved, "F": self.failed}

    def label(self, model: str = DEFAULT_MODEL, *, used_web: bool = False, escalated: bool = True) -> str:
        """Return the label of an answer with these counts."""
        return build_model_label(used_web, self.as_counts(), escalated, model=model)
