"""Checks of endpoint addresses and their keys, as settings give them."""

from urllib.parse import urlsplit

from app.domain.errors import ConfigError


def check_endpoint(prefix: str, what: str, base_url: str, api_key: str) -> None:
    """Raise ConfigError, naming the setting, if the endpoint cannot be called.

    A client without an address would send texts to its own default host.
    """
    if not is_http(base_url):
        raise ConfigError(f"{prefix}_BASE_URL: must be the http:// or https:// URL before {what}")
    if not is_printable_ascii(api_key):
        raise ConfigError(f"{prefix}_API_KEY: must be printable ASCII characters only")


def is_printable_ascii(value: str) -> bool:
    """Tell whether a header can carry `value`, such as a key."""
    return value.isascii() and value.isprintable()


def is_http(url: str) -> bool:
    """Tell whether `url` is a complete http or https URL."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port or address
        return False
