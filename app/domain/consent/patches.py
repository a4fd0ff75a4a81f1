"""What may be known of a user, and who decides it (seed 003 §10): sensitive fields by the user's consent alone, benign
ones also by several signals that agree."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Literal
from uuid import UUID

from app.domain.consent.statements import describes_manner, is_instruction, states_value
from app.domain.errors import EmptyText, TextTooLong, UnknownField
from app.domain.text_rules import normalise_text, text_key

ALWAYS_SENSITIVE: Final = frozenset({"preferred_name", "pronouns", "city", "language"})
"""Configuration may add to them; the database knows them too."""
MULTI_VALUE_SUFFIX: Final = "_add"
"""A field of this ending holds several values, each proposed alone; the profile names it without the ending."""
MAX_SIGNALS: Final = 20
COUNTED_KINDS: Final = frozenset({"turn", "semantic"})
"""Types of memory that go back to one turn. An episode is made of several turns, an insight of other memories: they may
repeat what is counted already."""
MAX_QUESTION: Final = 500
TONE: Final = "tone"
_FIELD: Final = re.compile("[a-z][a-z_]{0,63}")
DecisionWay = Literal["route", "chat", "signals", "insight", "expiry"]


class PatchState(StrEnum):
    """Where a proposal stands. `approved` and `rejected`: somebody decided; `applied`: signals agreed."""

    pending = "pending"
    approved = "approved"
    rejected = "rejected"
    expired = "expired"
    applied = "applied"


@dataclass(frozen=True, slots=True)
class ConsentPolicy:
    """The fields, and what proposals of them take."""

    sensitive: tuple[str, ...] = tuple(sorted(ALWAYS_SENSITIVE))
    benign: tuple[str, ...] = ("tone", "goals_add")
    category: str = "profile"
    pending_days: int = 7
    signals: int = 2
    insight_confidence: float = 0.9
    rejected_days: int = 30
    value_chars: int = 200
    pending: int = 50
    values: int = 50
    batch: int = 200

    def __post_init__(self) -> None:
        if missing := sorted(ALWAYS_SENSITIVE - set(self.sensitive)):
            raise ValueError(f"always sensitive: {', '.join(missing)}")
        if wrong := sorted(name for name in self.field_names if not _FIELD.fullmatch(name)):
            raise ValueError(f"a field has small letters and _ only: {', '.join(wrong)}")
        if len(set(self.field_names)) < len(self.field_names):
            raise ValueError("a field is named twice")
        if not 2 <= self.signals <= MAX_SIGNALS:
            raise ValueError(f"signals must be from 2 to {MAX_SIGNALS}")
        if not 0.5 <= self.insight_confidence <= 1:
            raise ValueError("insight_confidence must be from 0.5 to 1")
        for name, most in (("pending_days", 365), ("rejected_days", 3650), ("value_chars", 500)):
            if not 1 <= getattr(self, name) <= most:
                raise ValueError(f"{name} must be from 1 to {most}")
        if min(self.pending, self.values, self.batch) < 1:
            raise ValueError("pending, values and batch must be at least 1")

    @property
    def field_names(self) -> tuple[str, ...]:
        """All, in the order they are read in."""
        return (*self.sensitive, *self.benign)

    def is_sensitive(self, name: str) -> bool:
        """Whether the field takes consent. Only its exact name is known: raises UnknownField."""
        if name not in self.field_names:
            raise UnknownField(f"field is one of {', '.join(self.field_names)}")
        return name in self.sensitive

    def checked_value(self, value: str) -> str:
        """The value as it is stored, on one line; raises EmptyText, TextTooLong, NulByte."""
        clean = normalise_text(value)
        if not any(char.isalnum() for char in clean):
            raise EmptyText
        if len(clean) > self.value_chars:
            raise TextTooLong(f"A value may have {self.value_chars} characters.", limit=self.value_chars)
        return clean

    def expires_at(self, now: datetime) -> datetime:
        """Until when a proposal made now can be decided."""
        return now + timedelta(days=self.pending_days)

    def is_too_soon(self, rejected_at: datetime, now: datetime) -> bool:
        """Whether a value that was rejected then is not to be proposed again yet."""
        return now < rejected_at + timedelta(days=self.rejected_days)


def value_key(value: str) -> bytes:
    """32 bytes that two values share when they are equal after normalisation. Nothing less is the same value: here no
    similarity decides."""
    return text_key(value)


def erasure_text(name: str, value: str) -> str:
    """What the tombstone of an erased value is made of."""
    return f"{name}: {value}"


@dataclass(frozen=True, slots=True)
class Signal:
    """A memory that a value was learnt from. `root`: the turn that it goes back to, itself if it names none; signals
    with the same root are one. `confidence`: only of an insight that Mnema's own job drew and nobody changed. `says`:
    its text states the value."""

    memory_id: UUID
    root: str
    kind: str
    confidence: float | None
    actor: str
    at: datetime
    says: bool = False

    @property
    def is_counted(self) -> bool:
        """Whether it is one of several that agree, where it has a root of its own."""
        return self.says and self.kind in COUNTED_KINDS


@dataclass(frozen=True, slots=True)
class Question:
    """What a user was asked about a proposal. `turn_id`: the assistant's turn that asks it; `rev`: the thread's
    revision that stored this turn; `key_id`: the key that bound the question to it, if any."""

    patch_id: UUID
    user_id: str
    thread_id: str
    question: str
    rev: int
    asked_at: datetime
    turn_id: UUID
    key_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Patch:
    """A proposal: this value for this field. `keys`: the API keys that proposed it."""

    id: UUID
    user_id: str
    field: str
    value: str
    sensitive: bool
    state: PatchState
    actor: str
    created_at: datetime
    expires_at: datetime
    signals: tuple[Signal, ...] = ()
    thread_id: str | None = None
    decided_at: datetime | None = None
    decided_by: str | None = None
    way: DecisionWay | None = None
    question: Question | None = None
    keys: tuple[UUID, ...] = ()

    def is_open_at(self, now: datetime) -> bool:
        """Whether it can still be decided."""
        return self.state is PatchState.pending and now < self.expires_at

    def as_of(self, now: datetime) -> "Patch":
        """The same; one that nobody decided in time is expired, whether or not that was stored yet."""
        late = self.state is PatchState.pending and now >= self.expires_at
        return replace(self, state=PatchState.expired) if late else self

    def accepts_signal(self, signal: Signal) -> bool:
        """Whether the signal says anything new; those that count are not crowded out by those that do not."""
        alike = {s.root for s in self.signals if s.is_counted == signal.is_counted}
        return len(alike) < MAX_SIGNALS and signal.root not in alike


@dataclass(frozen=True, slots=True)
class ContextValue:
    """What is known of a user in one field; `patch_id`: the proposal that was decided."""

    field: str
    value: str
    patch_id: UUID
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class UserContext:
    """What is known of a user, in the order of the fields, and as one line for a prompt."""

    values: list[ContextValue]
    profile: str


@dataclass(frozen=True, slots=True)
class ConsentEntry:
    """A line of history about a proposal: what was done, and the value before and after. `old_ref`: the proposal whose
    value was there, `new_ref`: the one whose value is."""

    patch: UUID
    action: str
    meta: Mapping[str, object] = field(default_factory=dict)
    old_ref: UUID | None = None
    new_ref: UUID | None = None


def states_field_value(name: str, value: str, text: str) -> bool:
    """Return whether a text states this value of a field. The words of a tone may stand in any order."""
    return states_value(text, value, ordered=name != TONE)


def automatic_way(patch: Patch, policy: ConsentPolicy) -> DecisionWay | None:
    """Return why a proposal needs nobody's decision; None when it does.

    Every sensitive value does, one that reads like an instruction to a model, and a tone in other words than those of a
    manner. `patch.signals`: as they stand now.
    """
    if patch.sensitive or is_instruction(patch.value) or (patch.field == TONE and not describes_manner(patch.value)):
        return None
    sure = (s for s in patch.signals if s.kind == "insight" and s.says)
    if any(policy.insight_confidence <= (s.confidence or 0) <= 1 for s in sure):
        return "insight"
    return "signals" if len({s.root for s in patch.signals if s.is_counted}) >= policy.signals else None


def profile_label(name: str) -> str:
    """A field as a profile names it."""
    return name.removesuffix(MULTI_VALUE_SUFFIX).replace("_", " ")


def profile_line(values: Sequence[ContextValue]) -> str:
    """One line for a prompt, such as `Preferred name: Ana; city: Lisbon; goals: ship v1, learn Greek`."""
    told: dict[str, list[str]] = {}
    for known in values:
        value = known.value.replace(";", ",")  # or one value could pass for two fields
        told.setdefault(profile_label(known.field), []).append(value)
    line = "; ".join(f"{name}: {', '.join(parts)}" for name, parts in told.items())
    return line[:1].upper() + line[1:]
