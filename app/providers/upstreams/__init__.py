"""Clients of chat endpoints behind the `UpstreamClient` port."""

from dataclasses import dataclass, field

from app.domain.chat.upstream import ANTHROPIC, OPENAI, Upstream, UpstreamDialect
from app.domain.errors import ConfigError, UpstreamNotAllowed
from app.providers.addresses import is_printable_ascii
from app.providers.upstreams.addresses import AddressRules, parse_endpoint
from app.providers.upstreams.client import HttpUpstreamClient, UpstreamBounds


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamSettings:
    """The installation's own chat endpoints (none if a URL is empty), and the bounds of calls to any endpoint.

    `hosts`: the hosts that tenants' endpoints may have, all if empty. `private`: tenants' endpoints may have loopback
    and private addresses.
    """

    url: str = ""
    key: str = field(default="", repr=False)
    anthropic_url: str = ""
    anthropic_key: str = field(default="", repr=False)
    hosts: tuple[str, ...] = ()
    private: bool = False
    bounds: UpstreamBounds = field(default_factory=UpstreamBounds)


def build_upstream_client(settings: UpstreamSettings) -> HttpUpstreamClient:
    """Build the client. It opens nothing yet."""
    return HttpUpstreamClient(AddressRules(settings.hosts, settings.private), settings.bounds)


def installation_upstreams(settings: UpstreamSettings) -> dict[UpstreamDialect, Upstream]:
    """Return the installation's own chat endpoints. Raise ConfigError, naming the setting."""
    return {
        **_read_endpoint("MNEMA_CHAT_UPSTREAM", OPENAI, settings.url, settings.key),
        **_read_endpoint("MNEMA_CHAT_ANTHROPIC", ANTHROPIC, settings.anthropic_url, settings.anthropic_key),
    }


def _read_endpoint(setting: str, dialect: UpstreamDialect, url: str, key: str) -> dict[UpstreamDialect, Upstream]:
    if not is_printable_ascii(key):
        raise ConfigError(f"{setting}_KEY: must be printable ASCII characters only")
    if not url:
        if key:
            raise ConfigError(f"{setting}_URL: must be set, since {setting}_KEY is")
        return {}
    try:
        parse_endpoint(url)
    except UpstreamNotAllowed as error:
        raise ConfigError(f"{setting}_URL: {error.detail}") from None
    return {dialect: Upstream(url, key, trusted=True, dialect=dialect)}
