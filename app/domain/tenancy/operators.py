"""The operator's access: its errors, and the limit of wrong keys by client address."""

import ipaddress
from collections import OrderedDict
from typing import Final

from app.domain.errors import LimitReached, MnemaError

MOST_WRONG: Final = 10
"""Wrong keys of one address in a window."""
WINDOW_S: Final = 60.0
MOST_ADDRESSES: Final = 10_000
_IPV6_NETWORK: Final = 64


class OperatorDisabled(MnemaError, status=404):
    """This server has no operator key; set MNEMA_OPERATOR_KEY_FILE."""


class TooManyAttempts(LimitReached):
    """Too many wrong operator keys came from this address; wait for the seconds in Retry-After."""


class WrongAttempts:
    """The wrong keys of each address in a fixed window. Addresses of one IPv6 network /64 count as one.

    It remembers MOST_ADDRESSES addresses and forgets the one whose window began first.
    """

    def __init__(self) -> None:
        self._windows: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def wait_s(self, address: str | None, now: float) -> float:
        """Return the seconds until this address may try again; 0 if it may try now. `now` is in seconds."""
        began, count = self._windows.get(_network_of(address), (now, 0))
        return max(0.0, began + WINDOW_S - now) if count >= MOST_WRONG else 0.0

    def add_wrong(self, address: str | None, now: float) -> None:
        """Count a wrong key."""
        name = _network_of(address)
        began, count = self._windows.get(name, (now, 0))
        if now >= began + WINDOW_S:
            self._windows.pop(name, None)
            began = now
            count = 0
        self._windows[name] = (began, count + 1)
        while len(self._windows) > MOST_ADDRESSES:
            self._windows.popitem(last=False)


def _network_of(address: str | None) -> str:
    """Return the address, or the network of an IPv6 address. Clients without an address count as one."""
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return address or ""
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed), _IPV6_NETWORK), strict=False))
