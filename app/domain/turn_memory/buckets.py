"""Buckets: the weighted signals of a conversation, one bucket for each objective."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

from mnema_wire.blocks import format_time

from app.domain.turn_memory.fingerprint import Fingerprint, parse_time
from app.domain.turn_memory.signals import Signal, SignalKind

MIN_WEIGHT: Final = 0.05
MAX_WEIGHT: Final = 1.0
START_WEIGHT: Final = 0.5
"""The weight of a signal that one turn stated."""
GAIN: Final = 0.1
"""The weight that each further turn adds."""
DECAY: Final = 0.02
"""The weight that each later turn of the bucket takes if it does not state the signal."""
CONFLICT_SHARE: Final = 0.5
"""The share of its weight that a signal keeps while another value contradicts it."""
SLUG_CHARS: Final = 32
MAX_BUCKET_TURNS: Final = 64
"""The newest turns that count in a bucket."""
MAX_BUCKET_SIGNALS: Final = 128
MAX_BUCKET_TOPICS: Final = 16
CARD_SIGNALS: Final = 8
"""The strongest signals in a bucket's index."""
KINDS: Final = (SignalKind.facts, SignalKind.assertions, SignalKind.exceptions)
"""The kinds of signals that buckets keep. If a turn states one identity in two kinds, the later kind counts."""
GENERAL: Final = "general"
"""The objective of a bucket for turns without objective and topics."""
_NOT_OF_A_SLUG: Final = re.compile(r"[^a-z0-9]+")
_WORD: Final = re.compile(r"\w+")


class BucketStatus(StrEnum):
    """The states of a bucket. A disabled one is kept; a fingerprint that fits revives it."""

    active = "active"
    disabled = "disabled"


class CitedTurn(NamedTuple):
    """A turn whose fingerprint is in a bucket, and the time of the fingerprint. They sort by time."""

    made_at: datetime
    turn_id: str


@dataclass(frozen=True, slots=True)
class BucketSignal:
    """A signal of a bucket. `turn_ids`: the turns that state it, oldest first, of those that count in the bucket.

    Its kind, value and severity are those of the newest turn that stated it.
    """

    signal: Signal
    weight: float
    first_seen: datetime
    last_seen: datetime
    turn_ids: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the signal as it is stored."""
        return {
            **signal_card(self),
            "first_seen": format_time(self.first_seen),
            "last_seen": format_time(self.last_seen),
            "turn_ids": list(self.turn_ids),
        }


@dataclass(frozen=True, slots=True)
class Bucket:
    """The memory of one objective.

    - `turns`: the newest turns in the bucket, oldest first.
    - `updated_at`: the last change. `used_at`: when a fingerprint was last taken.
    """

    bucket_id: str
    objective: str
    updated_at: datetime
    used_at: datetime
    topics: tuple[str, ...] = ()
    status: BucketStatus = BucketStatus.active
    signals: tuple[BucketSignal, ...] = ()
    turns: tuple[CitedTurn, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the whole bucket as its blob has it."""
        return {
            "bucket_id": self.bucket_id,
            "objective": self.objective,
            "topics": list(self.topics),
            "status": self.status.value,
            "updated_at": format_time(self.updated_at),
            "used_at": format_time(self.used_at),
            "signals": [signal.as_json() for signal in self.signals],
            "turns": [{"turn_id": turn.turn_id, "made_at": format_time(turn.made_at)} for turn in self.turns],
        }

    def as_card(self) -> dict[str, Any]:
        """Return the index: the bucket with its strongest signals."""
        strongest = sorted(self.signals, key=lambda one: (-one.weight, one.signal.identity))[:CARD_SIGNALS]
        whole = self.as_json()
        return {
            **{name: whole[name] for name in ("bucket_id", "objective", "topics", "status", "updated_at", "used_at")},
            "signal_count": len(self.signals),
            "turn_count": len(self.turns),
            "signals": [signal_card(signal) for signal in strongest],
        }


def signal_card(one: BucketSignal) -> dict[str, Any]:
    """Return what a signal states, with its weight."""
    signal = one.signal
    return {
        "kind": signal.kind.value,
        "key": signal.key,
        "value": signal.value,
        "severity": signal.severity,
        "scope": signal.scope,
        "applies_to": signal.applies_to,
        "weight": one.weight,
    }


def parse_bucket(raw: Mapping[str, Any]) -> Bucket:
    """Return a stored bucket from its JSON."""
    return Bucket(
        raw["bucket_id"],
        raw["objective"],
        parse_time(raw["updated_at"]),
        parse_time(raw["used_at"]),
        tuple(raw["topics"]),
        BucketStatus(raw["status"]),
        tuple(_parse_signal(one) for one in raw["signals"]),
        tuple(CitedTurn(parse_time(turn["made_at"]), turn["turn_id"]) for turn in raw["turns"]),
    )


def bucket_objective(fingerprint: Fingerprint) -> str:
    """Return the objective of a fingerprint; without one its topics, and without topics GENERAL."""
    return fingerprint.objective or ", ".join(fingerprint.topics) or GENERAL


def bucket_id(objective: str) -> str:
    """Return `obj-`, a slug of the objective, and the first 8 hex digits of its SHA-1.

    Both are of the objective in lower case; the hash is of its UTF-8. The slug is empty without Latin letters and
    digits.
    """
    text = objective.casefold()
    slug = _NOT_OF_A_SLUG.sub("-", text).strip("-")[:SLUG_CHARS].strip("-")
    digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:8]
    return f"obj-{slug}-{digest}"


def bucket_words(objective: str) -> frozenset[str]:
    """Return the words of an objective in lower case."""
    return frozenset(_WORD.findall(objective.casefold()))


def take_fingerprint(bucket: Bucket, fingerprint: Fingerprint, now: datetime) -> Bucket:
    """Return the bucket with a fingerprint in place of the one before of the same turn. It is active then.

    A bucket counts its newest MAX_BUCKET_TURNS turns, so an older fingerprint changes no weight.
    """
    cleared = drop_turn(bucket, fingerprint.turn_id, now)
    cited = CitedTurn(fingerprint.made_at, fingerprint.turn_id)
    turns = tuple(sorted([*cleared.turns, cited]))[-MAX_BUCKET_TURNS:]
    stated = {one.signal.identity: one for one in cleared.signals}
    for kind in KINDS:
        for signal in getattr(fingerprint, kind):
            stated[signal.identity] = _state_signal(stated.get(signal.identity), signal, cited)
    topics = tuple(dict.fromkeys((*fingerprint.topics, *cleared.topics)))[:MAX_BUCKET_TOPICS]
    signals = _weigh_signals(stated.values(), turns)
    changed = replace(cleared, topics=topics, status=BucketStatus.active, signals=signals, turns=turns)
    return replace(changed, updated_at=now, used_at=now)


def drop_turn(bucket: Bucket, turn_id: str, now: datetime) -> Bucket:
    """Return the bucket without what a turn stated. A signal that this turn alone ever stated goes."""
    turns = tuple(turn for turn in bucket.turns if turn.turn_id != turn_id)
    if len(turns) == len(bucket.turns):
        return bucket
    times = {turn.turn_id: turn.made_at for turn in turns}
    signals = []
    for one in bucket.signals:
        left = tuple(turn for turn in one.turn_ids if turn != turn_id)
        if len(left) < len(one.turn_ids) and not left and one.first_seen == one.last_seen:
            continue
        last_seen = times[left[-1]] if left and len(left) < len(one.turn_ids) else one.last_seen
        signals.append(replace(one, turn_ids=left, last_seen=last_seen))
    return replace(bucket, signals=_weigh_signals(signals, turns), turns=turns, updated_at=now)


def _state_signal(before: BucketSignal | None, signal: Signal, cited: CitedTurn) -> BucketSignal:
    """Return a signal that one more turn states."""
    moment, turn_id = cited
    if before is None:
        return BucketSignal(signal, START_WEIGHT, moment, moment, (turn_id,))
    first = min(before.first_seen, moment)
    last = max(before.last_seen, moment)
    newest = signal if cited >= (before.last_seen, before.turn_ids[-1] if before.turn_ids else "") else before.signal
    return replace(before, signal=newest, first_seen=first, last_seen=last, turn_ids=(*before.turn_ids, turn_id))


def _weigh_signals(signals: Iterable[BucketSignal], turns: tuple[CitedTurn, ...]) -> tuple[BucketSignal, ...]:
    """Return the signals with their weights, by identity, at most MAX_BUCKET_SIGNALS, the strongest and newest."""
    order = {turn.turn_id: place for place, turn in enumerate(turns)}
    weighed: list[BucketSignal] = []
    rivals: dict[tuple[str, str, str], list[BucketSignal]] = {}
    for one in signals:
        cited = tuple(sorted((turn for turn in set(one.turn_ids) if turn in order), key=order.__getitem__))
        weight = MIN_WEIGHT
        if cited:
            idle = len(turns) - 1 - order[cited[-1]]
            weight = min(MAX_WEIGHT, START_WEIGHT + GAIN * (len(cited) - 1)) - DECAY * idle
        signal = replace(one, turn_ids=cited, weight=weight)
        if weight > MIN_WEIGHT:
            rivals.setdefault(_question(one), []).append(signal)
        else:
            weighed.append(signal)
    for values in rivals.values():
        weighed += _weigh_rivals(values, order)
    rounded = [replace(one, weight=round(max(MIN_WEIGHT, one.weight), 4)) for one in weighed]
    strongest = sorted(rounded, key=lambda one: (-one.weight, -one.last_seen.timestamp(), one.signal.identity))
    return tuple(sorted(strongest[:MAX_BUCKET_SIGNALS], key=lambda one: one.signal.identity))


def _weigh_rivals(values: list[BucketSignal], order: Mapping[str, int]) -> list[BucketSignal]:
    """Return the values of one thing with the weights of a conflict, if there are several.

    The latest value weighs as much as the strongest: a value that was said more often may be out of date.
    """
    if len(values) == 1:
        return values
    strongest = max(one.weight for one in values)
    latest = max(values, key=lambda one: (order[one.turn_ids[-1]], one.weight, one.signal.identity))
    return [replace(one, weight=CONFLICT_SHARE * (strongest if one is latest else one.weight)) for one in values]


def _question(one: BucketSignal) -> tuple[str, str, str]:
    """Return the part of the identity that two values of one thing share."""
    key, _value, scope, applies_to = one.signal.identity
    return key, scope, applies_to


def _parse_signal(raw: Mapping[str, Any]) -> BucketSignal:
    parts = {name: raw[name] for name in ("key", "value", "severity", "scope", "applies_to")}
    return BucketSignal(
        Signal(SignalKind(raw["kind"]), **parts),
        raw["weight"],
        parse_time(raw["first_seen"]),
        parse_time(raw["last_seen"]),
        tuple(raw["turn_ids"]),
    )
