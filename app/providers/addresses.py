"""Addresses of endpoints, as settings give them."""

from urllib.parse import urlsplit


def is_http(url: str) -> bool:
    """Whether it can be called."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, an address that is none
        return False
