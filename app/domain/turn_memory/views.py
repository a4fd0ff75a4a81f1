"""The views: the blocks of a conversation that each agent reads, built from index rows alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from app.domain.turn_memory.active_set import MAX_SELECTED, ActiveSet
from app.domain.turn_memory.blocks import (
    MAX_TURNS,
    NONE,
    format_assistant_signals_block,
    format_feedback_block,
    format_minute,
    format_sections,
    format_turn_memories_block,
    one_line,
    sort_newest,
)
from app.domain.turn_memory.selection import resolve_turn_ids

_ORDER: Final = "newest->oldest"
_CURRENT_HEADER: Final = "[CURRENT TURN]"
_PRIOR_HEADER: Final = f"[PRIOR TURNS ({_ORDER}) - COMPRESSED VIEWS]"
_CANDIDATES_HEADER: Final = "[TURNS CANDIDATES TABLE]"

Object = Mapping[str, Any]


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
    """A block of a view. `text` begins with the header."""

    header: str
    text: str


def build_view(request: ViewRequest, rows: ContextRows, now: datetime) -> list[Block]:
    """Return the blocks of a view in their order."""
    selected = _select_turns(request, rows)
    memories = _choose_memories(request, rows, selected)
    if request.view is ViewName.final:
        texts = [
            format_turn_memories_block(memories, order_label="selected", current_turn_id=request.turn_id),
            format_feedback_block(rows.feedback, order_label="", now=now),
            format_assistant_signals_block(rows.signals, order_label="", now=now),
        ]
    else:
        texts = [
            _format_current(request.turn_id, rows.current_log, rows.current),
            _format_prior(rows.logs),
            _format_candidates(request.turn_id, rows.logs, selected or (), memories),
            format_feedback_block(rows.feedback, order_label=_ORDER, now=now),
            format_turn_memories_block(memories, order_label=_ORDER, current_turn_id=request.turn_id),
        ]
    return [Block(text.partition("\n")[0], text) for text in texts]


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


def _format_current(turn_id: str | None, log: Object | None, fingerprint: Object | None) -> str:
    if turn_id is None:
        return f"{_CURRENT_HEADER}\n{NONE}"
    shown = log or {}
    made_at = shown.get("ts") or (fingerprint or {}).get("made_at")
    lines = [_CURRENT_HEADER, f"turn_id: {one_line(turn_id)}"]
    lines += [f"time: {format_minute(made_at)}"] if made_at else []
    lines += _field_lines(shown, "", "user", "assistant", "summary")
    if fingerprint is not None:
        lines += [*_field_lines(fingerprint, "", "objective"), format_sections(fingerprint)]
    return "\n".join(lines)


def _format_prior(logs: Sequence[Object]) -> str:
    lines = [_PRIOR_HEADER]
    for log in sort_newest(logs, "ts"):
        lines.append(f"- {one_line(log['turn_id'])} ({format_minute(log.get('ts'))})")
        lines += _field_lines(log, "  ", "user", "assistant", "summary")
    return "\n".join(lines if logs else [*lines, NONE])


def _format_candidates(
    turn_id: str | None, logs: Sequence[Object], selected: Sequence[str], memories: Sequence[Object]
) -> str:
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
    lines = [
        f"- {one_line(turn['turn_id'])} ({format_minute(turn['made_at'])}) | {', '.join(reasons[turn['turn_id']])}"
        f" | objective: {one_line(turn.get('objective')) or NONE}"
        for turn in sort_newest(turns.values(), "made_at")
        if turn["turn_id"] != turn_id
    ]
    return "\n".join([_CANDIDATES_HEADER, *(lines or [NONE])])


def _field_lines(values: Object, indent: str, *names: str) -> list[str]:
    return [f"{indent}{name}: {text}" for name in names if (text := one_line(values.get(name)))]
