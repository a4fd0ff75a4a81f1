"""Fingerprints: the compact memory of one turn."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from mnema_wire.blocks import format_time
from mnema_wire.turn_limits import MAX_OBJECTIVE, MAX_QUERIES, MAX_QUERY, MAX_TITLE, MAX_TOPIC, MAX_TOPICS

from app.domain.errors import InvalidInput
from app.domain.turn_memory.signals import Signal, SignalKind, read_signals, read_text, signal_tag

VERSION: Final = "v1"
FINGERPRINT: Final = "artifact:turn.fingerprint.v1"
SIGNAL_TAG: Final = "assistant_signal"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The memory of one turn: its objective and topics, and its signals by kind. `made_at` is aware, in UTC."""

    turn_id: str
    made_at: datetime
    objective: str = ""
    topics: tuple[str, ...] = ()
    assertions: tuple[Signal, ...] = ()
    exceptions: tuple[Signal, ...] = ()
    facts: tuple[Signal, ...] = ()
    assistant_signals: tuple[Signal, ...] = ()
    ctx_retrieval_queries: tuple[str, ...] = ()
    conversation_title: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the fingerprint as it is stored and answered."""
        lists = {kind.value: [signal.as_json() for signal in getattr(self, kind)] for kind in SignalKind}
        return {
            "version": VERSION,
            "turn_id": self.turn_id,
            "objective": self.objective,
            "topics": list(self.topics),
            **lists,
            "ctx_retrieval_queries": list(self.ctx_retrieval_queries),
            "made_at": format_time(self.made_at),
            "conversation_title": self.conversation_title,
        }

    def tags(self) -> list[str]:
        """Return the tags of the artifact: its kind and, with assistant signals, one tag for all and one for each."""
        keys = sorted({signal_tag(signal.key) for signal in self.assistant_signals} - {""})
        signals = [SIGNAL_TAG, *(f"{SIGNAL_TAG}:{key}" for key in keys)] if self.assistant_signals else []
        return [FINGERPRINT, *signals]


def read_fingerprint(turn_id: str, made_at: datetime, raw: Mapping[str, Any]) -> Fingerprint:
    """Return the fingerprint of a turn from JSON. Raise InvalidInput for a part that is not valid."""
    signals = {kind.value: read_signals(kind, raw.get(kind.value) or ()) for kind in SignalKind}
    return Fingerprint(
        turn_id=turn_id,
        made_at=whole_milliseconds(made_at),
        objective=read_text(raw.get("objective"), "objective", MAX_OBJECTIVE),
        topics=read_texts(raw.get("topics") or (), "topics", MAX_TOPICS, MAX_TOPIC),
        ctx_retrieval_queries=read_texts(
            raw.get("ctx_retrieval_queries") or (), "ctx_retrieval_queries", MAX_QUERIES, MAX_QUERY
        ),
        conversation_title=read_text(raw.get("conversation_title"), "conversation_title", MAX_TITLE),
        **signals,
    )


def parse_fingerprint(raw: Mapping[str, Any]) -> Fingerprint:
    """Return a stored fingerprint from its JSON."""
    return read_fingerprint(raw["turn_id"], parse_time(raw["made_at"]), raw)


def read_texts(raw: Iterable[Any], name: str, most: int, longest: int) -> tuple[str, ...]:
    """Return texts on one line each, without empty and equal ones. Raise InvalidInput beyond the limits."""
    given = list(raw)
    if len(given) > most:
        raise InvalidInput(f"{name} may have at most {most} items", param=name)
    return tuple(dict.fromkeys(text for item in given if (text := read_text(item, name, longest))))


def whole_milliseconds(moment: datetime) -> datetime:
    """Return a time in UTC without the part of a millisecond, which `format_time` leaves out."""
    return moment.astimezone(UTC).replace(microsecond=moment.microsecond // 1000 * 1000)


def parse_time(text: str) -> datetime:
    """Return the aware time of a text that `format_time` wrote."""
    return datetime.fromisoformat(text).astimezone(UTC)
