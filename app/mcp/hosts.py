"""Protection against DNS rebinding: the hosts under which /mcp may be called, and the pages that may call it."""

import ipaddress
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.requests import Request

from app.domain.errors import MnemaError

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class OriginNotAllowed(MnemaError):
    """Web pages of this origin may not call /mcp; MNEMA_CORS_ORIGINS lists the allowed origins."""

    code = "origin_not_allowed"
    status = 403


class HostNotAllowed(MnemaError):
    """This machine does not serve /mcp under this Host; MNEMA_MCP_HOSTS lists the allowed names."""

    code = "host_not_allowed"
    status = 403


def check_host(request: Request, named: Sequence[str]) -> None:
    """Raise HostNotAllowed if a request that arrived on a loopback address names a foreign host.

    Otherwise a page could rebind its own name to a server that listens on this machine only. An IP address is never
    rebound. `named` are the names that a proxy on this machine passes on.
    """
    if not _is_loopback(request):
        return
    host, _ = _split_origin(f"http://{request.headers.get('host', '')}")
    if host is None or not (host in LOOPBACK or host in named or host.endswith(".localhost") or _is_address(host)):
        raise HostNotAllowed()


def check_origin(request: Request, named: Sequence[str]) -> None:
    """Raise OriginNotAllowed for a web page that may not call this endpoint. Other programs send no Origin.

    A page served from this machine may call the host it came from. Pages of any other host need an origin in `named`.
    Otherwise a page could rebind its own name to this address (DNS rebinding) and send that name as Host and Origin.
    """
    for origin in request.headers.getlist("origin"):
        host, netloc = _split_origin(origin)
        own = host in LOOPBACK and netloc == request.headers.get("host", "").lower()
        if not (own or origin in named or "*" in named):
            raise OriginNotAllowed()


def _is_loopback(request: Request) -> bool:
    """Return True if the connection arrived on a loopback address of this machine."""
    server = request.scope.get("server")
    return server is not None and _is_address(server[0]) and ipaddress.ip_address(server[0]).is_loopback


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _split_origin(origin: str) -> tuple[str | None, str]:
    """Return the host of an origin, and the host with its port."""
    try:
        parts = urlsplit(origin)
        return parts.hostname, parts.netloc.lower()
    except ValueError:  # such as http://[
        return None, ""
