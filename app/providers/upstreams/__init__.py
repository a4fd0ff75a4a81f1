"""Clients of chat endpoints behind the `UpstreamClient` port."""

from dataclasses import dataclass, field

from app.domain.chat.upstream import Upstream
from app.domain.errors import ConfigError, UpstreamNotAllowed
from app.providers.addresses import is_printable_ascii
from app.providers.upstreams.addresses import AddressRules, parse_endpoint
from app.providers.upstreams.client import HttpUpstreamClient, UpstreamBounds


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamSettings:
    """The installation's own chat endpoint (none if `url` is empty), and the bounds of calls to any endpoint.

    `hosts`: the hosts that tenants' endpoints may have, all if empty. `private`: tenants' endpoints may have loopback
    and private addresses.
    """

    url: str = ""
    key: str = field(default="", repr=False)
    hosts: tuple[str, ...] = ()
    private: bool = False
    bounds: UpstreamBounds = field(default_factory=UpstreamBounds)


def build_upstream_client(settings: UpstreamSettings) -> HttpUpstreamClient:
    """Build the client. It opens nothing yet."""
    return HttpUpstreamClient(AddressRules(settings.hosts, settings.private), settings.bounds)


def installation_upstream(settings: UpstreamSettings) -> Upstream | None:
    """Return the installation's own chat endpoint, or None if it has none. Raise ConfigError, naming the setting."""
    if not is_printable_ascii(settings.key):
        raise ConfigError("MNEMA_CHAT_UPSTREAM_KEY: must be printable ASCII characters only")
    if not settings.url:
        if settings.key:
            raise ConfigError("MNEMA_CHAT_UPSTREAM_URL: must be set, since MNEMA_CHAT_UPSTREAM_KEY is")
        return None
    try:
        parse_endpoint(settings.url)
    except UpstreamNotAllowed as error:
        raise ConfigError(f"MNEMA_CHAT_UPSTREAM_URL: {error.detail}") from None
    return Upstream(settings.url, settings.key, trusted=True)
