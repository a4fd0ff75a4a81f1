"""Rules for the addresses of chat endpoints: which hosts and networks a server may call for a tenant."""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import httpx2

from app.domain.errors import UpstreamNotAllowed

URL_RULE = (
    "must be the http:// or https:// URL before /chat/completions or /messages, without user name, query and fragment"
)
MAX_URL = 2048
"""The longest base URL, in characters."""
DEFAULT_PORTS = {"http": 80, "https": 443}
METADATA = frozenset(
    ip_address(one)
    for one in ("169.254.169.254", "fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "192.0.0.192", "168.63.129.16")
)
"""Addresses at which clouds tell machines their credentials."""
NAT64 = IPv6Network("64:ff9b::/96")
NEVER = (IPv6Network("64:ff9b:1::/48"), IPv6Network("2002::/16"), IPv6Network("2001::/32"))
"""IPv6 networks that lead to an IPv4 address which cannot be checked reliably."""
IPAddress = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The parts of a base URL. `host` is lower-case ASCII without brackets; `path` has no slash at its end."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port."""
        return self.scheme, self.host, self.port

    @property
    def host_header(self) -> str:
        """The value of the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def make_url(self, address: str, path: str) -> httpx2.URL:
        """Return the URL of `path` below the base URL, with `address` instead of the host's name."""
        host = f"[{address}]" if ":" in address else address
        return httpx2.URL(f"{self.scheme}://{host}:{self.port}{self.path}{path}")


def parse_endpoint(base_url: str) -> Endpoint:
    """Return the parts of a base URL. Raise UpstreamNotAllowed if it is no URL of a chat endpoint."""
    try:
        url = httpx2.URL(base_url)
        host = url.raw_host.decode("ascii").lower().removesuffix(".")
        port = DEFAULT_PORTS.get(url.scheme, 0) if url.port is None else url.port
        parts = Endpoint(url.scheme, host, port, url.raw_path.decode())
    except (httpx2.InvalidURL, UnicodeError, ValueError):
        raise UpstreamNotAllowed(URL_RULE) from None
    if parts.scheme not in DEFAULT_PORTS or not host or not 0 < parts.port < 1 << 16 or len(base_url) > MAX_URL:
        raise UpstreamNotAllowed(URL_RULE)
    if url.userinfo or "%" in host or "?" in base_url or "#" in base_url:
        raise UpstreamNotAllowed(URL_RULE)
    return Endpoint(*parts.origin, parts.path.rstrip("/"))


@dataclass(frozen=True, slots=True)
class AddressRules:
    """The rules for endpoints that tenants set; for the operator's own, only the fixed refusals hold.

    `hosts`: exact names, or `*.example.com` for the names below a domain; empty allows all. `private`: loopback and
    private addresses are allowed. `what` and `setting` are the words of the errors.
    """

    hosts: tuple[str, ...] = ()
    private: bool = False
    what: str = "chat endpoints"
    setting: str = "MNEMA_CHAT_PRIVATE_UPSTREAMS"

    def check_host(self, host: str) -> None:
        """Raise UpstreamNotAllowed if the list of hosts does not have the host."""
        if self.hosts and not any(_matches_host(host, allowed.lower()) for allowed in self.hosts):
            allowed = ", ".join(self.hosts)
            raise UpstreamNotAllowed(f"{self.what} at this host are not allowed; allowed hosts: {allowed}")

    def check_addresses(self, addresses: Sequence[str], trusted: bool) -> None:
        """Raise UpstreamNotAllowed if any of a host's addresses is refused. `trusted`: the operator set the endpoint.

        The error tells the kind of address only: what a name resolves to inside the network is not the tenant's.
        """
        for address in addresses:
            kind = classify_address(address)
            if kind == "private" and not (trusted or self.private):
                raise UpstreamNotAllowed(
                    f"{self.what} at loopback and private addresses are not allowed ({self.setting})"
                )
            if kind == "never":
                raise UpstreamNotAllowed(
                    f"{self.what} at link-local, metadata, multicast and reserved addresses are not allowed"
                )


def classify_address(address: str) -> str:
    """Return `public`, `private` (also loopback), or `never` for an address that no endpoint may have."""
    try:
        ip = _unwrap_address(ip_address(address))
    except ValueError:
        return "never"
    if ip in METADATA or ip.is_link_local or ip.is_multicast or ip.is_unspecified:
        return "never"
    if ip.is_loopback:
        return "private"
    if ip.is_reserved or (ip.version == 4 and int(ip) < 1 << 24):
        return "never"
    if isinstance(ip, IPv6Address) and (ip.scope_id is not None or any(ip in network for network in NEVER)):
        return "never"
    return "public" if ip.is_global and not (isinstance(ip, IPv6Address) and ip.is_site_local) else "private"


def _unwrap_address(ip: IPAddress) -> IPAddress:
    """Return the IPv4 address inside an IPv4-mapped or NAT64 IPv6 address, any other address as it is."""
    if isinstance(ip, IPv6Address):
        if ip.ipv4_mapped is not None:
            return ip.ipv4_mapped
        if ip in NAT64:
            return IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip


def _matches_host(host: str, allowed: str) -> bool:
    if allowed.startswith("*."):
        return host.endswith(allowed[1:])
    return host == allowed
