"""Rate limits of keys and tenants: sliding windows, each computed from two fixed windows (docs/limits.md)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from uuid import UUID

SECOND_US = 1_000_000


class LimitKind(Enum):
    """The limited quantities, each with the length of its window."""

    requests = ("requests a minute", 60)
    memories = ("memories a day", 86_400)

    def __init__(self, phrase: str, seconds: int) -> None:
        self.phrase = phrase
        self.seconds = seconds
        self.window_us = seconds * SECOND_US


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The limit in one window, of each key and of all keys of a tenant together. None means no limit."""

    key: int | None = None
    tenant: int | None = None

    def __post_init__(self) -> None:
        if any(limit is not None and limit < 1 for limit in (self.key, self.tenant)):
            raise ValueError("a limit must be at least 1, or null for no limit")


@dataclass(frozen=True, slots=True)
class Allowance:
    """The limits of one tenant."""

    requests_per_minute: Ceiling = field(default_factory=Ceiling)
    memories_per_day: Ceiling = field(default_factory=Ceiling)

    def ceiling_for(self, what: LimitKind) -> Ceiling:
        """Return the limit of one kind."""
        return self.requests_per_minute if what is LimitKind.requests else self.memories_per_day


@dataclass(frozen=True, slots=True)
class LimitPolicy:
    """The usual limits, and the limits of tenants that differ, by tenant id or name."""

    usual: Allowance = field(default_factory=Allowance)
    tenants: Mapping[str, Allowance] = field(default_factory=dict)

    @property
    def has_named_tenants(self) -> bool:
        """True if some tenant is listed by name, so that a lookup needs the name."""
        return not all(_is_id(tenant) for tenant in self.tenants)

    def allowance_for(self, tenant_id: UUID, name: str | None) -> Allowance:
        """Return the limits of this tenant. An entry for its id takes precedence over one for its name."""
        return self.tenants.get(str(tenant_id)) or self.tenants.get(name or "") or self.usual


def _is_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


class Tally:
    """The counts of the current fixed window (`now`) and of the previous one (`before`).

    The sliding window counts all of the current window and the part of the previous one that it still covers. So two
    full loads never fit around a border. Counts are integers and times are microseconds since 1970, so that nothing is
    rounded. `untold` and `untold_before` are the counts of the two windows that the other replicas do not have yet.
    `unread` is the number of times that the previous window must still be read from them.
    """

    __slots__ = ("before", "index", "name", "now", "unread", "untold", "untold_before", "window_us")

    def __init__(self, name: str, window_us: int, at_us: int) -> None:
        self.name = name
        self.window_us = window_us
        self.index = at_us // window_us
        self.now = self.before = 0
        self.untold = self.untold_before = 0
        self.unread = 2

    def advance_window(self, at_us: int) -> None:
        """Move to the window of `at_us`. A clock that was set back by up to one window changes nothing."""
        index = at_us // self.window_us
        if index == self.index or index == self.index - 1:
            return
        follows = index == self.index + 1
        self.before, self.now = self.now if follows else 0, 0
        self.untold_before, self.untold = self.untold if follows else 0, 0
        self.index = index
        self.unread = 2

    def wait_us(self, most: int, at_us: int, count: int = 1) -> int:
        """Return the microseconds until `count` more fit into the limit `most`; 0 if they fit now.

        The result assumes that nothing else is counted. `count` must be at most `most`.
        """
        window = self.window_us
        into = at_us - self.index * window  # negative if the clock was set back
        room = most - count - self.now
        if room >= 0:
            if self.before * (window - max(0, into)) <= room * window:
                return 0
            return window - room * window // self.before - into
        covered = min(window, (most - count) * window // self.now)
        return window - into + window - covered

    def add_count(self, count: int) -> None:
        """Add `count` to the current window. A negative count subtracts; the total never falls below 0."""
        count = max(count, -self.now)
        self.now += count
        self.untold += count

    def restore_unsent(self, index: int, count: int) -> None:
        """Mark `count` of the window `index` as not sent to the other replicas. Ignore older windows."""
        if index == self.index:
            self.untold += count
        elif index == self.index - 1:
            self.untold_before += count

    def merge_total(self, index: int, total: int) -> None:
        """Take over the `total` that all replicas counted in the window `index`.

        The count never decreases, because the shared memory may be lost.
        """
        if index == self.index:
            self.now = max(self.now, total + self.untold)
        elif index == self.index - 1:
            self.before = max(self.before, total + self.untold_before)


def retry_after_s(wait_us: int) -> int:
    """Return the wait in whole seconds, rounded up, at least 1."""
    return max(1, -(-wait_us // SECOND_US))
