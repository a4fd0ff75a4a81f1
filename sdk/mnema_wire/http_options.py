"""Options of an HTTP client of Mnema: the Python client and the commands connect alike.

The module uses the standard library alone, because a command that loads the whole client starts late.
"""

from typing import Any, Final
from urllib.parse import urlsplit

_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


def is_loopback(url: str) -> bool:
    """Return True if a URL names this machine: the proxies of the environment do not count there."""
    try:
        return urlsplit(url).hostname in _LOOPBACK
    except ValueError:  # no URL: whoever connects says so
        return False


def client_options(base_url: str, api_key: str, timeout_s: float) -> dict[str, Any]:
    """Return the options of an httpx client for the server at `base_url`."""
    return {
        "base_url": base_url.rstrip("/"),
        "headers": {"Authorization": f"Bearer {api_key}"},
        "timeout": timeout_s,
        "trust_env": not is_loopback(base_url),
    }
