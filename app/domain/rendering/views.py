"""The blocks of a view of a conversation, made of raw index rows."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from mnema_wire import blocks
from mnema_wire.blocks import NONE, format_minute, format_sections, one_line, quote_statement, sort_newest

from app.domain.rendering.model_text import ModelText

ORDER: Final = "newest->oldest"
_CURRENT_HEADER: Final = "[CURRENT TURN]"
_PRIOR_HEADER: Final = f"[PRIOR TURNS ({ORDER}) - COMPRESSED VIEWS]"
_CANDIDATES_HEADER: Final = "[TURNS CANDIDATES TABLE]"

Object = Mapping[str, Any]


def turn_memories_block(turns: Iterable[Object], order_label: str, current_turn_id: str | None) -> ModelText:
    """Return the block of fingerprints, newest first."""
    return ModelText(blocks.format_turn_memories_block(turns, order_label=order_label, current_turn_id=current_turn_id))


def feedback_block(reactions: Iterable[Object], order_label: str, now: datetime) -> ModelText:
    """Return the block of reactions, newest first."""
    return ModelText(blocks.format_feedback_block(reactions, order_label=order_label, now=now))


def assistant_signals_block(turns: Iterable[Object], order_label: str, now: datetime) -> ModelText:
    """Return the block of what the assistant mentioned or promoted."""
    return ModelText(blocks.format_assistant_signals_block(turns, order_label=order_label, now=now))


def current_block(turn_id: str | None, log: Object | None, fingerprint: Object | None) -> ModelText:
    """Return the block of the current turn: what is stored of it, perhaps nothing."""
    if turn_id is None:
        return ModelText(f"{_CURRENT_HEADER}\n{NONE}")
    shown = log or {}
    made_at = shown.get("ts") or (fingerprint or {}).get("made_at")
    lines = [_CURRENT_HEADER, f"turn_id: {one_line(turn_id)}"]
    lines += [f"time: {format_minute(made_at)}"] if made_at else []
    lines += _field_lines(shown, "", "user", "assistant", "summary")
    if fingerprint is not None:
        lines += [*_field_lines(fingerprint, "", "objective"), format_sections(fingerprint)]
    return ModelText("\n".join(lines))


def prior_block(logs: Sequence[Object]) -> ModelText:
    """Return the block of earlier turns, newest first."""
    lines = [_PRIOR_HEADER]
    for log in sort_newest(logs, "ts"):
        lines.append(f"- {quote_statement(log['turn_id'])} ({format_minute(log.get('ts'))})")
        lines += _field_lines(log, "  ", "user", "assistant", "summary")
    return ModelText("\n".join(lines if logs else [*lines, NONE]))


def candidates_block(turns: Iterable[Object], reasons: Mapping[str, Sequence[str]]) -> ModelText:
    """Return the table of turns that may matter, each with the reasons why it stands there."""
    lines = [
        f"- {quote_statement(turn['turn_id'])} ({format_minute(turn['made_at'])})"
        f" | {', '.join(reasons[turn['turn_id']])} | objective: {one_line(turn.get('objective')) or NONE}"
        for turn in sort_newest(turns, "made_at")
    ]
    return ModelText("\n".join([_CANDIDATES_HEADER, *(lines or [NONE])]))


def shorten_block(block: ModelText, most: int) -> ModelText:
    """Return the block, cut after a whole line if it has more than `most` characters. The first line stays."""
    if len(block.text) <= most:
        return block
    return ModelText(block.text[:most].rpartition("\n")[0]) or block.lines[0]


def _field_lines(values: Object, indent: str, *names: str) -> list[str]:
    return [f"{indent}{name}: {text}" for name in names if (text := one_line(values.get(name)))]
