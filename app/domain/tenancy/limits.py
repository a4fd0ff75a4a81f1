"""How much a tenant and a key may do in a while (SPEC §17): sliding windows, each made of two fixed ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from uuid import UUID

SECOND_US = 1_000_000


class LimitKind(Enum):
    """What is limited, and in how long a window."""

    requests = ("requests a minute", 60)
    memories = ("memories a day", 86_400)

    def __init__(self, phrase: str, seconds: int) -> None:
        self.phrase = phrase
        self.seconds = seconds
        self.window_us = seconds * SECOND_US


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most in a window, by one key and by all keys of a tenant together; None: no limit."""

    key: int | None = None
    tenant: int | None = None

    def __post_init__(self) -> None:
        if any(most is not None and most < 1 for most in (self.key, self.tenant)):
            raise ValueError("a limit must be at least 1, or null for none")


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one tenant may do."""

    requests_per_minute: Ceiling = field(default_factory=Ceiling)
    memories_per_day: Ceiling = field(default_factory=Ceiling)

    def ceiling_for(self, what: LimitKind) -> Ceiling:
        """The ceiling of one kind."""
        return self.requests_per_minute if what is LimitKind.requests else self.memories_per_day


@dataclass(frozen=True, slots=True)
class LimitPolicy:
    """What every tenant may do, and those that may do more or less, by id or by name."""

    usual: Allowance = field(default_factory=Allowance)
    tenants: Mapping[str, Allowance] = field(default_factory=dict)

    @property
    def has_named_tenants(self) -> bool:
        """Whether a tenant's name is needed to know what it may do."""
        return not all(_is_id(tenant) for tenant in self.tenants)

    def allowance_for(self, tenant_id: UUID, name: str | None) -> Allowance:
        """What this tenant may do; its id counts before its name."""
        return self.tenants.get(str(tenant_id)) or self.tenants.get(name or "") or self.usual


def _is_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


class Tally:
    """What was counted in the present fixed window and in the one before it.

    The window that slides counts the present one whole and of the one before as much as it still covers, so that no
    two full loads fit around a border. Numbers are whole and times microseconds since 1970, so that nothing rounds:
    `wait_us` says when, to the microsecond. `untold` and `untold_before` are what the other replicas have not been told
    of these two windows; `unread` says how often the one before is still to be read from them.
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
        """Go on to the window of this moment. A clock that was put back a little stays in the window it was in."""
        index = at_us // self.window_us
        if index == self.index or index == self.index - 1:
            return
        follows = index == self.index + 1
        self.before, self.now = self.now if follows else 0, 0
        self.untold_before, self.untold = self.untold if follows else 0, 0
        self.index, self.unread = index, 2

    def wait_us(self, most: int, at_us: int, count: int = 1) -> int:
        """In how many microseconds there is room for `count` more, if nothing else is counted; 0: at once.

        `count` is at most `most`.
        """
        window = self.window_us
        into = at_us - self.index * window  # below nothing when the clock was put back
        room = most - count - self.now
        if room >= 0:
            if self.before * (window - max(0, into)) <= room * window:
                return 0
            return window - room * window // self.before - into
        covered = min(window, (most - count) * window // self.now)
        return window - into + window - covered

    def add_count(self, count: int) -> None:
        """Count so many, or fewer when negative; never below nothing."""
        count = max(count, -self.now)
        self.now += count
        self.untold += count

    def restore_unsent(self, index: int, count: int) -> None:
        """What could not be told of a window is still to be told, as long as it matters."""
        if index == self.index:
            self.untold += count
        elif index == self.index - 1:
            self.untold_before += count

    def merge_total(self, index: int, total: int) -> None:
        """What all replicas together counted in a window. What one knew already is not unlearned: the memory that they
        share may be lost."""
        if index == self.index:
            self.now = max(self.now, total + self.untold)
        elif index == self.index - 1:
            self.before = max(self.before, total + self.untold_before)


def retry_after_s(wait_us: int) -> int:
    """Whole seconds, at least one, after which there is room."""
    return max(1, -(-wait_us // SECOND_US))
