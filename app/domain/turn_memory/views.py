"""The views: the blocks of a conversation that each agent reads, built from index rows alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from mnema_wire.blocks import MAX_TURNS, sort_newest
from mnema_wire.turn_limits import MAX_SELECTED

from app.domain.rendering.model_text import ModelText
from app.domain.rendering.views import (
    ORDER,
    Object,
    assistant_signals_block,
    candidates_block,
    current_block,
    feedback_block,
    prior_block,
    turn_memories_block,
)
from app.domain.turn_memory.active_set import ActiveSet, resolve_turn_ids


class ViewName(StrEnum):
    """The readers of a conversation: `gate` and `reconciler` before the memories are selected, the others after."""

    gate = "gate"
    reconciler = "reconciler"
    downstream = "downstream"
    final = "final"


@dataclass(frozen=True, slots=True)
class ContextRows:
    """The index rows of a conversation that a view is built from, as JSON objects.

    - `logs`: the newest snapshots of turn logs, without the current turn's.
    - `window`: the newest fingerprints, with those that are not reconciled yet.
    - `named`: the fingerprints whose turn ids are selected, or begin like a selected one.
    - `current_log`, `current`: snapshot and fingerprint of the current turn, None if they are not stored.
    - `signals`: fingerprints with assistant signals, from all conversations of the user.
    """

    active_set: ActiveSet | None = None
    logs: Sequence[Object] = ()
    window: Sequence[Object] = ()
    named: Sequence[Object] = ()
    current_log: Object | None = None
    current: Object | None = None
    feedback: Sequence[Object] = ()
    signals: Sequence[Object] = ()


@dataclass(frozen=True, slots=True)
class ViewRequest:
    """The view to build.

    `turn_id` names the current turn; None: there is none. `selection` has the ids, or their beginnings, of the selected
    turns, in place of those in the active set; None: those count.
    """

    view: ViewName
    turn_id: str | None = None
    selection: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a view, as a model reads it."""

    shown: ModelText

    @property
    def header(self) -> str:
        """The first line, for a face to send."""
        return self.shown.text.partition("\n")[0]

    @property
    def text(self) -> str:
        """The whole block with its header, for a face to send."""
        return self.shown.text


def build_view(request: ViewRequest, rows: ContextRows, now: datetime) -> list[Block]:
    """Return the blocks of a view in their order."""
    selected = _select_turns(request, rows)
    memories = _choose_memories(request, rows, selected)
    if request.view is ViewName.final:
        shown = [
            turn_memories_block(memories, "selected", request.turn_id),
            feedback_block(rows.feedback, "", now),
            assistant_signals_block(rows.signals, "", now),
        ]
    else:
        shown = [
            current_block(request.turn_id, rows.current_log, rows.current),
            prior_block(rows.logs),
            _tabulate_candidates(request.turn_id, rows.logs, selected or (), memories),
            feedback_block(rows.feedback, ORDER, now),
            turn_memories_block(memories, ORDER, request.turn_id),
        ]
    return [Block(text) for text in shown]


def _select_turns(request: ViewRequest, rows: ContextRows) -> tuple[str, ...] | None:
    """Return the ids of the selected turns that have a fingerprint, None if nothing was ever selected."""
    names = request.selection
    if names is None and rows.active_set is not None:
        names = rows.active_set.selected_local_memories_turn_ids
    return None if names is None else resolve_turn_ids(names, [turn["turn_id"] for turn in rows.named], MAX_SELECTED)


def _choose_memories(request: ViewRequest, rows: ContextRows, selected: tuple[str, ...] | None) -> list[Object]:
    """Return the fingerprints of the view, newest first. A cut at 16 spares the selected turns and the current one."""
    kept = {turn["turn_id"]: turn for turn in rows.named if turn["turn_id"] in (selected or ())}
    if rows.current is not None:
        kept[rows.current["turn_id"]] = rows.current
    if selected is None or request.view in (ViewName.gate, ViewName.reconciler):
        for turn in sort_newest(rows.window, "made_at"):
            if len(kept) < MAX_TURNS:
                kept.setdefault(turn["turn_id"], turn)
    return sort_newest(kept.values(), "made_at")


def _tabulate_candidates(
    turn_id: str | None, logs: Sequence[Object], selected: Sequence[str], memories: Sequence[Object]
) -> ModelText:
    """Return the table of turns that may matter, each with the reasons why it stands there."""
    reasons: dict[str, list[str]] = {}
    turns: dict[str, dict[str, Any]] = {}
    for log in logs:
        reasons.setdefault(log["turn_id"], []).append("recent_turn")
        turns[log["turn_id"]] = {**log, "made_at": log.get("ts")}
    for turn in memories:
        name = turn["turn_id"]
        reasons.setdefault(name, []).extend(["selected", "memory"] if name in selected else ["memory"])
        turns[name] = {**turn, "made_at": turns.get(name, turn).get("made_at")}
    return candidates_block([turn for name, turn in turns.items() if name != turn_id], reasons)
