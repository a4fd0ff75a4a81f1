"""The errors of the workers that copy a tenant, and the lack of workers: whether they will never end."""

from dataclasses import dataclass

COPY_ERRORS = 3
"""The errors, one soon after the other, from which on a move may be given up. A worker tries again after 5 s."""
QUIET_S = 15.0
"""The seconds without an error after which the next one has another reason."""
MANY_ERRORS = 12
"""The errors without a copied table from which on a move is given up, however rare they are."""


@dataclass(slots=True)
class CopyFaults:
    """The errors since a table was last copied.

    A source or a network that is away for seconds makes errors too. So errors must go on for `patience_s` seconds.
    Those from before the first note do not count: an earlier run of the move has seen them.
    """

    patience_s: float
    _ready: int = -1
    _errors: int = 0
    _before: int = 0
    _before_row: int = 0
    _row_began: float = 0.0
    _last: float = 0.0

    def are_lasting(self, ready: int, errors: int, now: float) -> bool:
        """Note that `ready` tables are copied, with so many errors so far; return True if the copy will never end."""
        if ready > self._ready:
            self._ready, self._errors, self._before, self._before_row = ready, errors, errors, errors
            return False
        if errors > self._errors:
            if self._errors == self._before_row or now - self._last > QUIET_S:
                self._before_row, self._row_began = self._errors, now
            self._errors, self._last = errors, now
        lasts = errors - self._before_row >= COPY_ERRORS and self._last - self._row_began >= self.patience_s
        return lasts or errors - self._before >= MANY_ERRORS


@dataclass(slots=True)
class CopyWaits:
    """The time for which no worker copies. A worker that failed or ended has a pause of seconds before the next one."""

    patience_s: float
    _ready: int = -1
    _since: float | None = None

    def are_lasting(self, ready: int, now: float, *, waits: bool) -> bool:
        """Note how many tables are copied, and whether a worker is missing; return True if none comes."""
        if ready > self._ready or not waits:
            self._ready, self._since = ready, None
            return False
        if self._since is None:
            self._since = now
        return now - self._since >= self.patience_s
