"""The blocks of turn memories, feedback and assistant signals that agents read.

The items are JSON objects as the server answers them. An item or a part of one that is malformed is left out. Every
text is put on one line without marks of Mnema's formats, so that no text of a user looks like a header or a line of its
own, and in quotes if it has signs that part the statements of a line. The module uses the
standard library alone, because the domain of the server uses it.
"""

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from mnema_wire.marks import defuse_marks

MAX_TURNS: Final = 16
"""The most turns of a block of turn memories."""
NEWEST_FIRST: Final = "newest→oldest"
NONE: Final = "(none)"
LEGEND: Final = "Legend: A=assertions, E=exceptions, F=facts"
_SHORT: Final = (("A", "assertions"), ("E", "exceptions"), ("F", "facts"))
_NOT_PRINTED: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_PARTING: Final = re.compile(r'[;|()\[\]"]')
_PARTING_IN_LIST: Final = re.compile(r'[;|()\[\]"=,]')
_LONGEST_TIME: Final = 64
_SHORT_TEXT: Final = 512
_MINUTES_OF_HOUR = 60
_HOURS_OF_DAY = 24
_DAYS_OF_WEEK = 7
_DAYS_OF_MONTH = 30


def format_turn_memories_block(
    turn_memories: Iterable[Any],
    *,
    max_items: int = MAX_TURNS,
    order_label: str = NEWEST_FIRST,
    scope_label: str = "conversation",
    current_turn_id: str | None = None,
) -> str:
    """Return the block of fingerprints, newest first: at most `max_items`, and never more than 16.

    `order_label` and `scope_label` stand in the header; an empty `order_label` is left out.
    """
    turns = sort_newest(turn_memories, "made_at")[: max(0, min(max_items, MAX_TURNS))]
    lines = [line for turn in turns for line in _memory_lines(turn, current_turn_id)]
    return _join_block("TURN MEMORIES", order_label, scope_label, [LEGEND, *(lines or [NONE])])


def format_feedback_block(
    feedback_items: Iterable[Any],
    *,
    order_label: str = NEWEST_FIRST,
    scope_label: str = "conversation",
    now: datetime,
) -> str:
    """Return the block of reactions, newest first. `now` is the time that `time_since` is counted to."""
    lines = []
    for item in sort_newest(feedback_items, "ts"):
        reaction = quote_statement(item.get("reaction")) or "null"
        origin = quote_statement(item.get("origin")) or "user"
        lines.append(f"{_dated_line(item, 'ts', now)} | origin={origin} | reaction={reaction}")
        lines += [f"  - {name}: {text}" for name in ("objective", "text") if (text := one_line(item.get(name)))]
    return _join_block("USER FEEDBACK", order_label, scope_label, lines or [NONE])


def format_assistant_signals_block(
    items: Iterable[Any],
    *,
    order_label: str = NEWEST_FIRST,
    scope_label: str = "user_cross_conversation",
    now: datetime,
) -> str:
    """Return the block of what the assistant mentioned or promoted, by turn, newest first.

    The items are fingerprints; one without assistant signals is left out.
    """
    lines = []
    for item in sort_newest(items, "made_at"):
        if signals := format_signals(item.get("assistant_signals"), " = "):
            lines.append(_dated_line(item, "made_at", now))
            lines += [f"  - signal: {signal}" for signal in signals]
    return _join_block("ASSISTANT SIGNALS", order_label, scope_label, lines or [NONE])


def time_since(then: datetime, now: datetime) -> str:
    """Return the time from `then` to `now` as `10m`, `2h15m`, `3d4h`, `1w2d` or `2mo1w`.

    A month has 30 days. A time without a zone is UTC. A time in the future gives `0m`.
    """
    minutes = max(0, int((_in_utc(now) - _in_utc(then)).total_seconds() // 60))
    hours, minute = divmod(minutes, _MINUTES_OF_HOUR)
    days, hour = divmod(hours, _HOURS_OF_DAY)
    if not days:
        return f"{hour}h{minute}m" if hour else f"{minute}m"
    if days < _DAYS_OF_WEEK:
        return f"{days}d{hour}h"
    if days < _DAYS_OF_MONTH:
        weeks, day = divmod(days, _DAYS_OF_WEEK)
        return f"{weeks}w{day}d" if day else f"{weeks}w"
    months = days // _DAYS_OF_MONTH
    week = days % _DAYS_OF_MONTH // _DAYS_OF_WEEK
    return f"{months}mo{week}w" if week else f"{months}mo"


def sort_newest(items: Iterable[Any], field: str) -> list[Mapping[str, Any]]:
    """Return the objects with a turn id, newest first by the time in `field`; those without a time come last."""
    dated = [
        (moment.timestamp() if (moment := read_moment(item.get(field))) else float("-inf"), item)
        for item in items or ()
        if isinstance(item, Mapping) and one_line(item.get("turn_id"))
    ]
    return [item for _moment, item in sorted(dated, key=lambda pair: pair[0], reverse=True)]


def format_signals(signals: Any, equals: str = "=") -> list[str]:
    """Return each signal of a list as `key=value (severity, scope=…, applies_to=…)`."""
    given = signals if isinstance(signals, list | tuple) else ()
    return [line for signal in given if (line := _format_signal(signal, equals))]


def format_sections(fingerprint: Mapping[str, Any]) -> str:
    """Return the signals of the user as `A: … | E: … | F: …`."""
    parts = ((short, format_signals(fingerprint.get(name))) for short, name in _SHORT)
    return " | ".join(f"{short}: {'; '.join(signals) or NONE}" for short, signals in parts)


def format_time(moment: datetime) -> str:
    """Return a time in UTC as `2026-01-26T15:03:12.345Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_minute(moment: Any) -> str:
    """Return a time to the minute in UTC as `2026-01-26T15:03Z`; an unreadable one as it is given, or `?`."""
    found = read_moment(moment)
    return found.isoformat(timespec="minutes").replace("+00:00", "Z") if found else one_line(moment) or "?"


def read_moment(value: Any) -> datetime | None:
    """Return the time in UTC of a datetime or an ISO 8601 text, else None."""
    if isinstance(value, str) and len(value) <= _LONGEST_TIME:
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    try:
        return _in_utc(value) if isinstance(value, datetime) else None
    except OverflowError:  # the first or the last day that there is, in another zone
        return None


def one_line(value: Any) -> str:
    """Return a text on one line, without control characters and marks of ours; empty for anything but a text."""
    if not isinstance(value, str):
        return ""
    if _is_word(value):
        return value
    return _clean_short(value) if len(value) <= _SHORT_TEXT else _clean_text(value)


def _clean_text(text: str) -> str:
    return defuse_marks(" ".join(_NOT_PRINTED.sub(" ", text).split()), leading=False)


@lru_cache(maxsize=8192)  # each view of a conversation renders the same turns again
def _clean_short(text: str) -> str:
    return _clean_text(text)


def quote_statement(value: Any) -> str:
    """Return a text that is one statement of a line, in quotes if it has signs that part them; empty if no text."""
    return _quoted(value) if isinstance(value, str) else ""


def _in_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def _memory_lines(turn: Mapping[str, Any], current_turn_id: str | None) -> list[str]:
    current = " (current turn)" if current_turn_id is not None and turn["turn_id"] == current_turn_id else ""
    objective = one_line(turn.get("objective")).replace('"', "'")
    given = turn.get("topics")
    topics = ", ".join(filter(None, map(_list_text, given))) if isinstance(given, list | tuple) else ""
    place = f"{quote_statement(turn['turn_id'])}{current} ({format_minute(turn.get('made_at'))})"
    return [f'- {place} obj="{objective}" topics=[{topics}]', f"  {format_sections(turn)}"]


def _format_signal(signal: Any, equals: str) -> str:
    """Return one signal on a line, empty without a key or with a value that is not JSON."""
    if not isinstance(signal, Mapping) or not (key := _list_text(signal.get("key"))):
        return ""
    value = signal.get("value")
    try:
        shown = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return ""
    text = _quoted(value) if isinstance(value, str) else one_line(shown)
    named = ((f"{name}=", _list_text(signal.get(name))) for name in ("scope", "applies_to"))
    notes = [f"{name}{note}" for name, note in (("", _list_text(signal.get("severity"))), *named) if note]
    return f"{key}{equals}{text}" + (f" ({', '.join(notes)})" if notes else "")


def _quoted(text: str, parting: re.Pattern[str] = _PARTING) -> str:
    """Return the text on one line, in quotes if it has a sign of `parting`: it could look like another statement."""
    if _is_word(text):
        return text
    line = one_line(text)
    return json.dumps(line, ensure_ascii=False) if parting.search(line) else line


def _is_word(text: str) -> bool:
    """Return True for letters and digits alone, which are no mark and have no sign: most values of signals."""
    return text.isascii() and text.isalnum()


def _list_text(value: Any) -> str:
    """Return a text that stands among others, in quotes if it looks like several; empty for anything but a text."""
    return _quoted(value, _PARTING_IN_LIST) if isinstance(value, str) else ""


def _dated_line(item: Mapping[str, Any], field: str, now: datetime) -> str:
    then = item.get(field)
    moment = read_moment(then)
    since = time_since(moment, now) if moment else "?"
    return f"- turn_id={quote_statement(item['turn_id'])} | {format_minute(then)} | time_since={since}"


def _join_block(name: str, order_label: str, scope_label: str, lines: list[str]) -> str:
    order = one_line(order_label)
    scope = f"scope={one_line(scope_label)}"
    return "\n".join([f"[{name} — CHRONOLOGICAL ({f'{order}; {scope}' if order else scope})]", *lines])
