"""Clients of chat endpoints behind the `UpstreamClient` port."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from app.domain.chat.upstream import ANTHROPIC, OPENAI, Upstream, UpstreamDialect
from app.domain.errors import ConfigError, UpstreamNotAllowed
from app.providers.addresses import is_printable_ascii
from app.providers.api_keys import KeySource, open_key
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
    key_file: str = ""
    anthropic_url: str = ""
    anthropic_key: str = field(default="", repr=False)
    anthropic_key_file: str = ""
    hosts: tuple[str, ...] = ()
    private: bool = False
    bounds: UpstreamBounds = field(default_factory=UpstreamBounds)


def build_upstream_client(settings: UpstreamSettings) -> HttpUpstreamClient:
    """Build the client. It opens nothing yet."""
    return HttpUpstreamClient(AddressRules(settings.hosts, settings.private), settings.bounds)


class InstalledUpstreams(Mapping[UpstreamDialect, Upstream]):
    """The installation's own chat endpoints, each with the present key of its key file."""

    def __init__(self, endpoints: Mapping[UpstreamDialect, tuple[str, KeySource]]) -> None:
        self._endpoints = endpoints

    def __getitem__(self, dialect: UpstreamDialect) -> Upstream:
        """Return the endpoint of a dialect. Raise KeyError if there is none."""
        url, key = self._endpoints[dialect]
        return Upstream(url, key.current_key(), trusted=True, dialect=dialect)

    def __iter__(self) -> Iterator[UpstreamDialect]:
        """Iterate over the dialects."""
        return iter(self._endpoints)

    def __len__(self) -> int:
        """Return the number of endpoints."""
        return len(self._endpoints)

    def __contains__(self, dialect: object) -> bool:
        """Tell whether there is an endpoint, without reading its key."""
        return dialect in self._endpoints


def installation_upstreams(settings: UpstreamSettings) -> InstalledUpstreams:
    """Return the installation's own chat endpoints. Raise ConfigError, naming the setting."""
    openai = _Endpoint(settings.url, settings.key, settings.key_file)
    anthropic = _Endpoint(settings.anthropic_url, settings.anthropic_key, settings.anthropic_key_file)
    given: dict[UpstreamDialect, tuple[str, _Endpoint]] = {
        OPENAI: ("MNEMA_CHAT_UPSTREAM", openai),
        ANTHROPIC: ("MNEMA_CHAT_ANTHROPIC", anthropic),
    }
    read = {dialect: _read_endpoint(setting, endpoint) for dialect, (setting, endpoint) in given.items()}
    return InstalledUpstreams({dialect: endpoint for dialect, endpoint in read.items() if endpoint is not None})


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """The settings of one endpoint. `key_file` goes before `key`."""

    url: str
    key: str = field(repr=False)
    key_file: str


def _read_endpoint(setting: str, given: _Endpoint) -> tuple[str, KeySource] | None:
    if not is_printable_ascii(given.key):
        raise ConfigError(f"{setting}_KEY: must be printable ASCII characters only")
    if not given.url:
        if given.key or given.key_file:
            raise ConfigError(f"{setting}_URL: must be set, since {setting}_KEY{'' if given.key else '_FILE'} is")
        return None
    try:
        parse_endpoint(given.url)
    except UpstreamNotAllowed as error:
        raise ConfigError(f"{setting}_URL: {error.detail}") from None
    return given.url, open_key(f"{setting}_KEY", given.key, given.key_file)
