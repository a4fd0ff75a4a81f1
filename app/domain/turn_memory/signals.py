"""Signals: the statements of a fingerprint, each a key with a value, a severity and a scope."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from mnema_wire.turn_limits import MAX_APPLIES_TO, MAX_KEY, MAX_SIGNALS

from app.domain.errors import EmptyText, InvalidInput
from app.domain.ids import check_json
from app.domain.text_rules import normalise_text

MAX_VALUE: Final = 1000
"""The longest value, as it is rendered, in characters."""
SCOPES: Final = ("conversation", "objective", "artifact", "thread")
_NOT_OF_A_TAG: Final = re.compile(r"[^\w.-]+")


class SignalKind(StrEnum):
    """The kinds of signals.

    An assertion changes how an agent acts, an exception says what it avoids, a fact describes the world, and an
    assistant signal is what the assistant itself mentioned or promoted.
    """

    assertions = "assertions"
    exceptions = "exceptions"
    facts = "facts"
    assistant_signals = "assistant_signals"


SEVERITIES: Final[Mapping[SignalKind, tuple[str, ...]]] = {
    SignalKind.assertions: ("must", "prefer", "allow"),
    SignalKind.exceptions: ("avoid", "do_not"),
    SignalKind.facts: ("high", "medium", "low"),
    SignalKind.assistant_signals: ("mention", "recommend", "strong_promote"),
}
DEFAULT_SEVERITY: Final[Mapping[SignalKind, str]] = {
    SignalKind.assertions: "prefer",
    SignalKind.exceptions: "avoid",
    SignalKind.facts: "medium",
    SignalKind.assistant_signals: "mention",
}


@dataclass(frozen=True, slots=True)
class Signal:
    """One statement. `value` is any JSON value; `applies_to` may be empty."""

    kind: SignalKind
    key: str
    value: Any = None
    severity: str = ""
    scope: str = "conversation"
    applies_to: str = ""

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """The parts that make two signals the same: key, value, scope and applies_to, in lower case."""
        return (self.key.casefold(), render_value(self.value).casefold(), self.scope, self.applies_to.casefold())

    def as_json(self) -> dict[str, Any]:
        """Return the signal as it is stored; its kind is the name of the list that it stands in."""
        shown = {"key": self.key, "value": self.value, "severity": self.severity, "scope": self.scope}
        return {**shown, "applies_to": self.applies_to} if self.applies_to else shown


def render_value(value: Any) -> str:
    """Return a value on one line: a text as it is, anything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return " ".join(text.split())


def read_signal(kind: SignalKind, raw: Mapping[str, Any]) -> Signal:
    """Return the signal of a JSON object. Raise InvalidInput for a missing key or an unknown severity or scope."""
    key = read_text(raw.get("key"), f"{kind}.key", MAX_KEY)
    if not key:
        raise EmptyText(f"{kind}: a signal needs a key", param=kind.value)
    severity = raw.get("severity") or DEFAULT_SEVERITY[kind]
    scope = raw.get("scope") or SCOPES[0]
    for name, value, known in (("severity", severity, SEVERITIES[kind]), ("scope", scope, SCOPES)):
        if value not in known:
            raise InvalidInput(f"{kind}: {name} must be one of {', '.join(known)}", param=kind.value)
    applies_to = read_text(raw.get("applies_to"), f"{kind}.applies_to", MAX_APPLIES_TO)
    return Signal(kind, key, _read_value(kind, raw.get("value")), severity, scope, applies_to)


def read_signals(kind: SignalKind, raw: Iterable[Mapping[str, Any]]) -> tuple[Signal, ...]:
    """Return the signals of a list, each identity once. Raise InvalidInput for an invalid or too long list."""
    signals = [read_signal(kind, item) for item in raw]
    if len(signals) > MAX_SIGNALS:
        raise InvalidInput(f"{kind} may have at most {MAX_SIGNALS} signals", param=kind.value)
    return tuple({signal.identity: signal for signal in signals}.values())


def signal_tag(key: str) -> str:
    """Return the tag part of a signal's key: lower case, with `_` for anything but letters, digits, `.`, `-`, `_`."""
    return _NOT_OF_A_TAG.sub("_", key.casefold()).strip("_")


def read_text(value: Any, name: str, most: int) -> str:
    """Return a text on one line, empty if it is missing. Raise InvalidInput if it is no text or longer than `most`."""
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > 4 * most:
        raise InvalidInput(f"{name} must be a text of at most {most} characters", param=name)
    text = normalise_text(value)
    if len(text) > most:
        raise InvalidInput(f"{name} must be a text of at most {most} characters", param=name)
    return text


def _read_value(kind: SignalKind, value: Any) -> Any:
    if isinstance(value, str):
        return read_text(value, f"{kind}.value", MAX_VALUE)
    if len(json.dumps(check_json(value), ensure_ascii=False)) > MAX_VALUE:
        raise InvalidInput(f"{kind}.value may have at most {MAX_VALUE} characters as JSON", param=kind.value)
    return value
