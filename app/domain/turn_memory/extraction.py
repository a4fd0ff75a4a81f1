"""The results of reading a turn with a chat model, and the specification of the assistant signals to look for."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mnema_wire.turn_limits import MAX_DESCRIPTION, MAX_KEY, MAX_SPEC, MAX_SPEC_ENTRIES, MAX_SPEC_VALUE, MAX_SPEC_VALUES

from app.domain.errors import InvalidInput
from app.domain.rendering.model_text import ModelText
from app.domain.turn_memory.signals import Signal, read_text, signal_tag

MAX_FOUND: Final = 12
"""The most signals of one kind that are read from one turn."""
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class ReconciledTurn:
    """The reading of a user's message: its signals, and the earlier turns, memories and buckets that matter for it."""

    objective: str = ""
    topics: tuple[str, ...] = ()
    assertions: tuple[Signal, ...] = ()
    exceptions: tuple[Signal, ...] = ()
    facts: tuple[Signal, ...] = ()
    turn_ids: tuple[str, ...] = ()
    memory_bucket_ids: tuple[str, ...] = ()
    local_memories_turn_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SummarisedTurn:
    """The summary of a turn, perhaps empty, and what the assistant mentioned or promoted in it."""

    summary: str = ""
    assistant_signals: tuple[Signal, ...] = ()


@dataclass(frozen=True, slots=True)
class Journal:
    """The part of a conversation that a chat model reads.

    - `text`: the reconciler's view.
    - `turn_ids`: the earlier turns in it, newest first. `memory_turn_ids`: those with turn memories.
    - `buckets`: the text of each bucket's card by the bucket's id.
    """

    text: ModelText
    turn_ids: Sequence[str] = ()
    memory_turn_ids: Sequence[str] = ()
    buckets: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class SpecEntry:
    """One assistant signal to look for. With `values`, only these count."""

    key: str
    description: str = ""
    values: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the entry as a model reads it."""
        shown: dict[str, Any] = {"key": self.key, "description": self.description}
        return {**shown, "values": list(self.values)} if self.values else shown


@dataclass(frozen=True, slots=True)
class SignalSpec:
    """The assistant signals to look for: entries, or a text that names their keys. An empty one looks for none."""

    entries: tuple[SpecEntry, ...] = ()
    text: str = ""

    @property
    def is_empty(self) -> bool:
        """True if no signal is looked for."""
        return not self.entries and not self.text

    def find_entry(self, key: str) -> SpecEntry | None:
        """Return the entry of a signal's key, None if the specification has no such key.

        Keys are compared as tags are. A text has the key if the key's words stand in it, one after the other.
        """
        tag = signal_tag(key)
        if not tag:
            return None
        if entry := next((entry for entry in self.entries if signal_tag(entry.key) == tag), None):
            return entry
        words = _joined_words(key)
        text = _joined_words(self.text)
        if not words.strip():
            return None
        spellings = words, words.replace("_", " "), f" {words.strip().replace(' ', '_')} "
        return SpecEntry(key, self.text) if any(spelling in text for spelling in spellings) else None


NO_SPEC: Final = SignalSpec()


def read_signal_spec(raw: str | Iterable[SpecEntry] | None) -> SignalSpec:
    """Return the specification of a text or of entries. Raise InvalidInput beyond the limits."""
    name = "assistant_signal_spec"
    if raw is None or isinstance(raw, str):
        return SignalSpec(text=read_text(raw, name, MAX_SPEC))
    entries = tuple(_read_entry(entry) for entry in raw)
    if len(entries) > MAX_SPEC_ENTRIES:
        raise InvalidInput(f"{name} may have at most {MAX_SPEC_ENTRIES} entries", param=name)
    if sum(len(text) for entry in entries for text in (entry.key, entry.description, *entry.values)) > MAX_SPEC:
        raise InvalidInput(f"{name} may have at most {MAX_SPEC} characters", param=name)
    return SignalSpec(entries)


def _read_entry(entry: SpecEntry) -> SpecEntry:
    name = "assistant_signal_spec"
    key = read_text(entry.key, f"{name}.key", MAX_KEY)
    if not signal_tag(key):
        raise InvalidInput(f"{name}: an entry needs a key with a letter or a digit", param=name)
    if len(entry.values) > MAX_SPEC_VALUES:
        raise InvalidInput(f"{name}: an entry may have at most {MAX_SPEC_VALUES} values", param=name)
    values = (read_text(value, f"{name}.values", MAX_SPEC_VALUE) for value in entry.values)
    description = read_text(entry.description, f"{name}.description", MAX_DESCRIPTION)
    return SpecEntry(key, description, tuple(dict.fromkeys(value for value in values if value)))


def _joined_words(text: str) -> str:
    return f" {' '.join(_WORD.findall(text.casefold()))} "
