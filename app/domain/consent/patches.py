"""Proposals of values for a user's context, and the rules of their decision (docs/security.md, Consent).

Sensitive fields need the user's consent. Several agreeing signals may also decide benign ones.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Final, Literal
from uuid import UUID

from app.domain.consent.statements import describes_manner, is_instruction, states_value
from app.domain.errors import EmptyText, TextTooLong, UnknownField
from app.domain.rendering.lines import profile_line
from app.domain.rendering.model_text import ModelText
from app.domain.settable import COUNT, SETTABLE
from app.domain.text_rules import normalise_text, text_key

ALWAYS_SENSITIVE: Final = ("preferred_name", "pronouns", "city", "language")
"""Fields that always need consent. Configuration may add more; the database has the same list."""
MULTI_VALUE_SUFFIX: Final = "_add"
"""The ending of a field that holds several values, each proposed alone. The profile names it without the ending."""
MAX_SIGNALS: Final = 20
COUNTED_KINDS: Final = frozenset({"turn", "semantic"})
"""Types of memory that come from one turn.

Episodes come from several turns and insights from other memories, so they may repeat a counted signal.
"""
TONE: Final = "tone"
_FIELD: Final = re.compile("[a-z][a-z_]{0,63}")
DecisionWay = Literal["route", "chat", "signals", "insight", "expiry"]


class PatchState(StrEnum):
    """The states of a proposal. `approved` and `rejected`: a person decided. `applied`: signals agreed."""

    pending = "pending"
    approved = "approved"
    rejected = "rejected"
    expired = "expired"
    applied = "applied"


@dataclass(frozen=True, slots=True)
class ConsentPolicy:
    """The fields of a user's context, and the limits and deadlines of their proposals."""

    sensitive: Annotated[tuple[str, ...], SETTABLE] = ALWAYS_SENSITIVE
    benign: Annotated[tuple[str, ...], SETTABLE] = ("tone", "goals_add")
    category: Annotated[str, SETTABLE] = "profile"
    pending_days: Annotated[int, SETTABLE] = 7
    signals: Annotated[int, SETTABLE] = 2
    insight_confidence: Annotated[float, SETTABLE] = 0.9
    rejected_days: Annotated[int, SETTABLE] = 30
    value_chars: Annotated[int, SETTABLE] = 200
    pending: Annotated[int, COUNT] = 50
    values: Annotated[int, COUNT] = 50
    batch: int = 200

    def __post_init__(self) -> None:
        if missing := sorted(set(ALWAYS_SENSITIVE) - set(self.sensitive)):
            raise ValueError(f"sensitive must list {', '.join(missing)}: these fields always need consent")
        if wrong := sorted(name for name in self.field_names if not _FIELD.fullmatch(name)):
            raise ValueError(f"a field has lower-case letters and _ only: {', '.join(wrong)}")
        if len(set(self.field_names)) < len(self.field_names):
            raise ValueError("a field is listed twice")
        if not 2 <= self.signals <= MAX_SIGNALS:
            raise ValueError(f"signals must be from 2 to {MAX_SIGNALS}")
        if not 0.5 <= self.insight_confidence <= 1:
            raise ValueError("insight_confidence must be from 0.5 to 1")
        for name, limit in (("pending_days", 365), ("rejected_days", 3650), ("value_chars", 500)):
            if not 1 <= getattr(self, name) <= limit:
                raise ValueError(f"{name} must be from 1 to {limit}")
        if min(self.pending, self.values, self.batch) < 1:
            raise ValueError("pending, values and batch must be at least 1")

    @property
    def field_names(self) -> tuple[str, ...]:
        """All fields, in the order of the profile."""
        return (*self.sensitive, *self.benign)

    def is_sensitive(self, name: str) -> bool:
        """Tell whether the field needs consent. Raise UnknownField unless `name` is its exact name."""
        if name not in self.field_names:
            raise UnknownField(f"field is one of {', '.join(self.field_names)}")
        return name in self.sensitive

    def checked_value(self, value: str) -> str:
        """Return the value in its stored form, on one line. Raise EmptyText, TextTooLong or NulByte."""
        clean = normalise_text(value)
        if not any(char.isalnum() for char in clean):
            raise EmptyText
        if len(clean) > self.value_chars:
            raise TextTooLong(f"A value may have {self.value_chars} characters.", limit=self.value_chars)
        return clean

    def expires_at(self, now: datetime) -> datetime:
        """Return the time until which a proposal made at `now` can be decided."""
        return now + timedelta(days=self.pending_days)

    def is_too_soon(self, rejected_at: datetime, now: datetime) -> bool:
        """Tell whether a value rejected at `rejected_at` may not be proposed again yet."""
        return now < rejected_at + timedelta(days=self.rejected_days)


def value_key(value: str) -> bytes:
    """Return 32 bytes that are equal for values equal after normalisation. Similar values count as different."""
    return text_key(value)


def erasure_text(name: str, value: str) -> str:
    """Return the text from which the tombstone of an erased value is computed."""
    return f"{name}: {value}"


@dataclass(frozen=True, slots=True)
class Signal:
    """A memory that supports a proposed value.

    - `root`: the turn that it comes from, or the memory itself. Signals with the same root count once.
    - `confidence`: set only for an unchanged insight of Mnema's own job.
    - `says`: the text states the value.
    """

    memory_id: UUID
    root: str
    kind: str
    confidence: float | None
    actor: str
    at: datetime
    says: bool = False

    @property
    def is_counted(self) -> bool:
        """True if it counts towards `ConsentPolicy.signals`, once for each root."""
        return self.says and self.kind in COUNTED_KINDS


@dataclass(frozen=True, slots=True)
class Question:
    """A question to the user about a proposal.

    `turn_id` is the assistant's turn that asks it, and `rev` the thread's revision that stored this turn. `key_id` is
    the API key that bound the question to the proposal, None if no key did.
    """

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
    """A proposal of a value for a field. `keys` are the API keys that proposed it."""

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
        """Tell whether the proposal can be decided at `now`."""
        return self.state is PatchState.pending and now < self.expires_at

    def as_of(self, now: datetime) -> "Patch":
        """Return the proposal in its state at `now`. An undecided one past its deadline is expired, stored or not."""
        late = self.state is PatchState.pending and now >= self.expires_at
        return replace(self, state=PatchState.expired) if late else self

    def accepts_signal(self, signal: Signal) -> bool:
        """Tell whether the signal is new and fits the limit. Counted and uncounted signals have separate limits."""
        alike = {s.root for s in self.signals if s.is_counted == signal.is_counted}
        return len(alike) < MAX_SIGNALS and signal.root not in alike


@dataclass(frozen=True, slots=True)
class ContextValue:
    """A known value of one field of a user. `patch_id` is the decided proposal."""

    field: str
    value: str
    patch_id: UUID
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class UserContext:
    """All known values of a user in the order of the fields, and the same as one line for a prompt."""

    values: list[ContextValue]
    profile: ModelText


@dataclass(frozen=True, slots=True)
class ConsentEntry:
    """A history entry about a proposal.

    `old_ref` is the proposal whose value the user had before, `new_ref` the one whose value the user has now.
    """

    patch: UUID
    action: str
    meta: Mapping[str, object] = field(default_factory=dict)
    old_ref: UUID | None = None
    new_ref: UUID | None = None


def states_field_value(name: str, value: str, text: str) -> bool:
    """Tell whether a text states this value of a field. The words of a tone may be in any order."""
    return states_value(text, value, ordered=name != TONE)


def automatic_way(patch: Patch, policy: ConsentPolicy) -> DecisionWay | None:
    """Return the way in which a proposal is applied without a person's decision; None if it needs one.

    A sensitive value needs a decision, and so does a value that reads like an instruction to a model or a tone that is
    not a plain manner. A field is benign only if it was when the value was proposed and still is in `policy`.
    `patch.signals` must be up to date.
    """
    if (
        patch.sensitive
        or patch.field not in policy.benign
        or is_instruction(patch.value)
        or (patch.field == TONE and not describes_manner(patch.value))
    ):
        return None
    insights = (s for s in patch.signals if s.kind == "insight" and s.says)
    if any(policy.insight_confidence <= (s.confidence or 0) <= 1 for s in insights):
        return "insight"
    return "signals" if len({s.root for s in patch.signals if s.is_counted}) >= policy.signals else None


def profile_label(name: str) -> str:
    """Return the field's name in a profile."""
    return name.removesuffix(MULTI_VALUE_SUFFIX).replace("_", " ")


def render_profile(values: Sequence[ContextValue]) -> ModelText:
    """Return the values as one line for a prompt: `Preferred name: Ana; city: Lisbon; goals: ship v1, learn Greek`."""
    return profile_line((profile_label(one.field), one.value) for one in values)
