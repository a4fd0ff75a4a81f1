"""The checks of a new memory that need no database."""

from dataclasses import replace
from datetime import datetime

from app.config.loader import Policies
from app.domain.errors import AgentNotAllowed, InvalidInput
from app.domain.ids import list_names, past_moment
from app.domain.memory.memory import MemoryType, NewMemory
from app.domain.memory.procedures import check_steps
from app.domain.principal import Principal
from app.domain.text_rules import check_text


def check_draft(policies: Policies, principal: Principal, draft: NewMemory, now: datetime, trim: bool) -> NewMemory:
    """Return `draft` after the text rules and the checks of its fields; `trim` cuts a text that is too long.

    Raise UnknownCategory, CategoryNotAllowed, AgentNotAllowed, EmptyText, TextTooLong or InvalidInput.
    """
    policies.categories.get_category(draft.category, principal)
    principal.require_categories([draft.category])
    if draft.agent_id is not None and principal.agents is not None and draft.agent_id not in principal.agents:
        allowed = list_names(principal.agents)
        raise AgentNotAllowed(f"this key may not speak as {draft.agent_id!r}; it may speak as: {allowed}")
    procedural = draft.type is MemoryType.procedural
    if {draft.category == "procedural", draft.steps_text is not None} != {procedural}:
        raise InvalidInput("type procedural, category procedural and steps_text go together")
    moment = past_moment(draft.created_at, now)
    limits = policies.write.text_limits
    steps = draft.steps_text
    return replace(
        draft,
        text=check_text(draft.text, MemoryType.semantic if procedural else draft.type, limits, trim),
        steps_text=None if steps is None else check_steps(check_text(steps, draft.type, limits, trim)),
        agent_id=draft.agent_id or principal.agent,
        created_at=moment,
    )
