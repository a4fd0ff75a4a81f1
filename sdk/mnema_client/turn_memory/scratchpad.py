"""The scratchpad of a turn, and the turn that is current in this context."""

import weakref
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, field
from types import EllipsisType
from typing import Any

from mnema_wire.turn_memory import ActiveSetOut

from mnema_client.client import AsyncMnema, Mnema
from mnema_client.requests import Moment

_current: ContextVar["weakref.ref[Scratchpad] | None"] = ContextVar("mnema_current_turn", default=None)


@dataclass(eq=False)
class TurnLog:
    """The log of the current turn in memory. `state["fingerprint"]` is set when the fingerprint is persisted."""

    state: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Scratchpad:
    """Everything about one turn, for as long as it is worked on.

    - `client`: AsyncMnema, or Mnema for `mnema_client.turn_memory.sync`.
    - `user_text`, `assistant_text`, `summary`: the texts of the turn's log; None is not stored.
    - `project_id`: the API key's own tenant by id or name, if the server shall check it.
    - `extracted_prefs`, `proposed_facts`: what the current turn says.
    - `selected_local_memories_turn_ids`: the turns whose memories still matter; None until they are chosen.
    - `turn_memories`, `feedback_items`, `assistant_signals`, `active_set`: what
      `preload_conversation_memory_state` read: fingerprints, reactions and turns with signals, newest first.
    - `fingerprint`: the fingerprint so far; `update_turn_fingerprint` changes it.
    - `tlog.state["fingerprint"]`: the fingerprint as it is stored.
    """

    client: Mnema | AsyncMnema = field(repr=False)
    _: KW_ONLY
    user_id: str
    conversation_id: str
    turn_id: str
    user_text: str | None = None
    assistant_text: str | None = None
    summary: str | None = None
    track_id: str | None = None
    project_id: str | None = None
    made_at: Moment | None = None
    timezone: str | None = None
    conversation_title: str | None = None
    extracted_prefs: dict[str, list[Any]] = field(default_factory=lambda: {"assertions": [], "exceptions": []})
    proposed_facts: list[Any] = field(default_factory=list)
    selected_local_memories_turn_ids: list[str] | None = None
    turn_memories: list[dict[str, Any]] = field(default_factory=list)
    feedback_items: list[dict[str, Any]] = field(default_factory=list)
    assistant_signals: list[dict[str, Any]] = field(default_factory=list)
    active_set: ActiveSetOut | None = None
    fingerprint: dict[str, Any] | None = None
    tlog: TurnLog = field(default_factory=TurnLog)
    stored_texts: Mapping[str, Any] | None = field(default=None, repr=False)
    """The texts of the log as they were last stored."""

    def log_texts(self) -> dict[str, Any]:
        """Return the fields of the turn's log that are given."""
        names = "user_text", "assistant_text", "summary"
        return {name: text for name in names if (text := getattr(self, name)) is not None}


def begin_turn(scratchpad: Scratchpad) -> None:
    """Make this the current turn of the context. The context keeps no turn alive."""
    _current.set(weakref.ref(scratchpad))


def find_turn(scratchpad: "Scratchpad | EllipsisType") -> Scratchpad:
    """Return the given scratchpad; for `...` that of the context's current turn. Raise LookupError if it has none."""
    if isinstance(scratchpad, Scratchpad):
        return scratchpad
    if scratchpad is not ...:
        raise TypeError(f"expected a Scratchpad, got {type(scratchpad).__name__}")
    begun = _current.get()
    if begun is None or (found := begun()) is None:
        raise LookupError(
            "no turn began in this context: call preload_conversation_memory_state(scratchpad) first, "
            "or pass the scratchpad"
        )
    return found
