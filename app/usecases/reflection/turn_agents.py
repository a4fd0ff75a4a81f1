"""The categories that facts of a turn may have: those that the agent of the turn may see."""

from collections.abc import Iterable

from app.domain.categories import CategoryPolicy
from app.storage.reflection.fact_extraction import ExtractionState


def visible_categories(state: ExtractionState, policy: CategoryPolicy) -> frozenset[str] | None:
    """Return the categories that the turn's agent, or its key's agents, may see. None means all."""
    return None if state.agents is None else policy.visible_to(state.agents)


def writable_categories(names: Iterable[str], state: ExtractionState, policy: CategoryPolicy) -> list[str]:
    """Return those of `names` that the turn's agent may write. An agent without an allowlist may write to all."""
    visible = visible_categories(state, policy)
    if state.turn is not None and state.turn.agent_id not in (None, *policy.allowlists):
        visible = None
    return [name for name in names if visible is None or name in visible]
