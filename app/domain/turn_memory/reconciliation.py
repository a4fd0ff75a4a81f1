"""The reconciliation of buckets with new fingerprints: a pure function, without a model."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from app.domain.turn_memory.active_set import ActiveSet
from app.domain.turn_memory.buckets import (
    KINDS,
    MIN_WEIGHT,
    Bucket,
    BucketStatus,
    bucket_id,
    bucket_objective,
    bucket_words,
    drop_turn,
    take_fingerprint,
)
from app.domain.turn_memory.fingerprint import Fingerprint

MAX_CHANGED: Final = 4
"""The most buckets that one run changes."""
MAX_ADDED: Final = 2
"""The most buckets that one run adds."""
MAX_BUCKETS: Final = 64
"""The most buckets of a conversation. From then on a fingerprint goes to the nearest one."""
FIT: Final = 0.6
"""The least likeness to a bucket's objective and topics with which a fingerprint fits it."""
UNUSED: Final = timedelta(days=90)
"""A bucket that took no fingerprint for longer is disabled."""


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The result of a run: the buckets to store, and the fingerprints that were taken or wait for the next run."""

    changed: tuple[Bucket, ...] = ()
    added: tuple[Bucket, ...] = ()
    taken: tuple[Fingerprint, ...] = ()
    waiting: tuple[Fingerprint, ...] = ()


def reconcile_buckets(buckets: Iterable[Bucket], fingerprints: Iterable[Fingerprint], now: datetime) -> Reconciliation:
    """Take fingerprints into buckets, oldest first, and disable buckets that are worn out.

    A run changes at most MAX_CHANGED buckets and adds at most MAX_ADDED; what does not fit waits. The oldest
    fingerprint always fits. Nothing is deleted. A fingerprint that was taken before counts once.
    """
    run = _Run({bucket.bucket_id: bucket for bucket in buckets}, now)
    taken: list[Fingerprint] = []
    waiting: list[Fingerprint] = []
    for fingerprint in sorted(fingerprints, key=lambda one: (one.made_at, one.turn_id)):
        (taken if run.place_fingerprint(fingerprint) else waiting).append(fingerprint)
    run.disable_buckets()
    return Reconciliation(
        tuple(run.buckets[name] for name in sorted(run.changed)),
        tuple(run.buckets[name] for name in sorted(run.added)),
        tuple(taken),
        tuple(waiting),
    )


def advance_active_set(active: ActiveSet, result: Reconciliation) -> ActiveSet:
    """Return the active set after a run. Its time never passes a fingerprint that waits, and never goes back."""
    first = min((one.made_at for one in result.waiting), default=None)
    times = [one.made_at for one in result.taken if first is None or one.made_at < first]
    if active.last_reconciled_ts is not None:
        times.append(active.last_reconciled_ts)
    left = max(0, active.since_last_reconcile - len(result.taken)) if result.waiting else 0
    return replace(active, last_reconciled_ts=max(times, default=None), since_last_reconcile=left)


class _Run:
    """One run: the buckets by id, and the ids of those that it changed or added."""

    def __init__(self, buckets: dict[str, Bucket], now: datetime) -> None:
        self.buckets = buckets
        self.changed: set[str] = set()
        self.added: set[str] = set()
        self._now = now
        self._words = {name: _Words.of_bucket(bucket) for name, bucket in buckets.items()}

    def place_fingerprint(self, fingerprint: Fingerprint) -> bool:
        """Put the fingerprint into the bucket that it fits, and take it out of others. Return False if it must wait.

        A fingerprint without signals gets no new bucket.
        """
        target = self._find_bucket(fingerprint)
        new = None
        if target is None and any(getattr(fingerprint, kind) for kind in KINDS):
            objective = bucket_objective(fingerprint)
            new = Bucket(bucket_id(objective), objective, self._now, self._now)
        former = {name for name in self._find_citing(fingerprint.turn_id) if name != target}
        touched = self.changed | ((former | {target or ""}) - self.added - {""})
        if len(touched) > MAX_CHANGED or (new is not None and len(self.added) >= MAX_ADDED):
            return False
        for name in former:
            dropped = drop_turn(self.buckets[name], fingerprint.turn_id, self._now)
            self.buckets[name] = replace(dropped, updated_at=self._now)
        if (bucket := new or self.buckets.get(target or "")) is not None:
            self.buckets[bucket.bucket_id] = take_fingerprint(bucket, fingerprint, self._now)
            self._words[bucket.bucket_id] = _Words.of_bucket(self.buckets[bucket.bucket_id])
        self.changed = touched
        self.added |= {new.bucket_id} if new else set()
        return True

    def _find_citing(self, turn_id: str) -> list[str]:
        """Return the ids of the buckets that have a turn."""
        return [name for name, bucket in self.buckets.items() if any(turn.turn_id == turn_id for turn in bucket.turns)]

    def disable_buckets(self) -> None:
        """Disable active buckets that are unused for long or have nothing but the least weights, as far as it fits."""
        for name, bucket in sorted(self.buckets.items(), key=lambda item: (item[1].used_at, item[0])):
            worn = all(signal.weight <= MIN_WEIGHT for signal in bucket.signals)
            if bucket.status is BucketStatus.disabled or not (worn or self._now - bucket.used_at > UNUSED):
                continue
            if name not in self.added:
                if len(self.changed | {name}) > MAX_CHANGED:
                    continue
                self.changed.add(name)
            self.buckets[name] = replace(bucket, status=BucketStatus.disabled, updated_at=self._now)

    def _find_bucket(self, fingerprint: Fingerprint) -> str | None:
        """Return the id of the bucket of the same objective, else of the likest one. None if none is like enough."""
        name = bucket_id(bucket_objective(fingerprint))
        if name in self.buckets or not self.buckets:
            return name if name in self.buckets else None
        words = _Words.of_fingerprint(fingerprint)
        likest = min(self._words, key=lambda one: (-words.likeness(self._words[one]), one))
        enough = 0.0 if len(self.buckets) >= MAX_BUCKETS else FIT
        return likest if words.likeness(self._words[likest]) >= enough else None


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of an objective, and the topics, in lower case."""

    objective: frozenset[str]
    topics: frozenset[str]

    @classmethod
    def of_bucket(cls, bucket: Bucket) -> "_Words":
        return cls(bucket_words(bucket.objective), frozenset(topic.casefold() for topic in bucket.topics))

    @classmethod
    def of_fingerprint(cls, fingerprint: Fingerprint) -> "_Words":
        topics = frozenset(topic.casefold() for topic in fingerprint.topics)
        return cls(bucket_words(bucket_objective(fingerprint)), topics)

    def likeness(self, bucket: "_Words") -> float:
        """Return the common share of both objectives' words and, with topics, the mean with their known share."""
        objective = len(self.objective & bucket.objective) / max(1, len(self.objective | bucket.objective))
        if not self.topics:
            return objective
        return (objective + len(self.topics & bucket.topics) / len(self.topics)) / 2
