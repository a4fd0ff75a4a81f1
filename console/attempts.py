"""A limit on wrong keys by address: no more than `most` within `minutes`."""

import ipaddress
from collections import OrderedDict, deque
from datetime import datetime, timedelta

MOST_ADDRESSES = 10_000


class SignInAttempts:
    """Counts of wrong keys, by address, in memory. IPv6 addresses of one /64 count as one."""

    def __init__(self, most: int, minutes: float) -> None:
        self._most = most
        self._window = timedelta(minutes=minutes)
        self._failed: OrderedDict[str, deque[datetime]] = OrderedDict()

    def begin_attempt(self, address: str, now: datetime) -> float:
        """Count an attempt before its key is checked. Return 0, or the seconds to wait if there were too many."""
        failed = self._failed.setdefault(_network(address), deque())
        self._failed.move_to_end(_network(address))
        while failed and failed[0] <= now - self._window:
            failed.popleft()
        if len(failed) >= self._most:
            return max(1.0, (failed[0] + self._window - now).total_seconds())
        failed.append(now)
        if len(self._failed) > MOST_ADDRESSES:
            self._failed.popitem(last=False)
        return 0.0

    def forgive_attempt(self, address: str) -> None:
        """Take the newest attempt back: its key was right, or it could not be checked."""
        if failed := self._failed.get(_network(address)):
            failed.pop()


def _network(address: str) -> str:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 6 and parsed.ipv4_mapped is None:
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
