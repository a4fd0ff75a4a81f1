"""A grace time for missing files: some editors move a file away and write it anew a moment later."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

GRACE_S: Final = 3.0
"""Seconds that a file must stay away until a watch deletes its entry."""


@dataclass(slots=True)
class GraceTime:
    """The ids whose files are missing, and since when. `clock` returns seconds that only grow."""

    clock: Callable[[], float]
    since: dict[str, float] = field(default_factory=dict)

    def hold_missing(self, ids: Iterable[str]) -> frozenset[str]:
        """Return those of the missing ids whose files have not been missing for long enough."""
        now = self.clock()
        seen = {entry_id: self.since.get(entry_id, now) for entry_id in ids}
        self.since = {entry_id: since for entry_id, since in seen.items() if now - since < GRACE_S}
        return frozenset(self.since)

    @property
    def is_over(self) -> bool:
        """True if a missing file has stayed away for long enough."""
        return any(self.clock() - since >= GRACE_S for since in self.since.values())
