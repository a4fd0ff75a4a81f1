"""The rests of a chat model after timeouts, so that an endpoint that hangs does not hold every worker."""

import time
from dataclasses import dataclass
from typing import Final

LONGEST_REST_S: Final = 600.0
KINDS_OF_A_HANG: Final = 2
"""The kinds of calls that must time out, without an answer in between, until no call at all is made for a while."""


@dataclass(slots=True)
class _Rest:
    """A rest of `next_s` seconds after the next timeout; no call is made before `until` (monotonic)."""

    next_s: float
    until: float = 0.0

    def begin(self) -> None:
        """Rest, the next time for twice as long."""
        self.until = time.monotonic() + self.next_s
        self.next_s = min(LONGEST_REST_S, 2 * self.next_s)


class CallRests:
    """The rests of one model. A kind of call, such as `multi_fact`, rests after its own timeout.

    One long answer says nothing of other prompts. If calls of KINDS_OF_A_HANG kinds time out in a row, all calls rest.
    The first rest takes `first_s` seconds, each further one twice as long, up to LONGEST_REST_S.
    """

    def __init__(self, first_s: float) -> None:
        self._first_s = first_s
        self._all = _Rest(first_s)
        self._kinds: dict[str, _Rest] = {}
        self._timed_out: set[str] = set()

    def is_resting(self, kind: str) -> bool:
        """Tell whether no call of this kind shall be made now."""
        rest = self._kinds.get(kind)
        return time.monotonic() < max(self._all.until, 0.0 if rest is None else rest.until)

    def note_timeout(self, kind: str) -> None:
        """Begin the rest after a timeout."""
        self._kinds.setdefault(kind, _Rest(self._first_s)).begin()
        self._timed_out.add(kind)
        if len(self._timed_out) >= KINDS_OF_A_HANG:
            self._all.begin()

    def note_answer(self, kind: str) -> None:
        """End the rests of this kind and of all calls: the endpoint answers."""
        self._kinds.pop(kind, None)
        self._timed_out.clear()
        self._all = _Rest(self._first_s)
