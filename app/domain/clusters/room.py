"""The room of a cluster: the bytes that its database has, and the most that its operator gives it."""

from dataclasses import dataclass
from typing import Final

SHARE: Final = 0.9
"""The share of its bound from which on a cluster counts as nearly full."""
_UNITS: Final = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


@dataclass(frozen=True, slots=True)
class Room:
    """The room of a cluster. PostgreSQL cannot say how much its disk has, so without `most` nothing is known of it."""

    used: int
    most: int | None

    @property
    def is_short(self) -> bool:
        """True if the database is nearly as large as it may be."""
        return self.most is not None and self.used > SHARE * self.most

    def takes(self, size: int) -> bool:
        """Return True unless so many bytes more are too many."""
        return self.most is None or self.used + size <= self.most

    def __str__(self) -> str:
        bound = "" if self.most is None else f" of {write_bytes(self.most)}"
        return f"{write_bytes(self.used)}{bound}"


def write_bytes(size: int) -> str:
    """Return a size as people read it, such as `1.2 GB`."""
    for unit, least in _UNITS:
        if size >= least:
            return f"{size / least:.1f} {unit}"
    return f"{size} bytes"
