"""Addresses of endpoints and their keys, as settings give them."""

from urllib.parse import urlsplit

from app.domain.errors import ConfigError


def check_endpoint(prefix: str, what: str, base_url: str, api_key: str) -> None:
    """Raises ConfigError, naming the setting, for what could not be called: without an address of its own a client
    would send texts to its default host."""
    if not is_http(base_url):
        raise ConfigError(f"{prefix}_BASE_URL: must be where POST {what} is, http:// or https://")
    if not (api_key.isascii() and api_key.isprintable()):
        raise ConfigError(f"{prefix}_API_KEY: must be of characters that a header can hold")


def is_http(url: str) -> bool:
    """Whether it can be called."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, an address that is none
        return False
