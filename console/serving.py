"""The process of the console: an HTTP server of one worker, without an access log."""

import logging

import uvicorn

from console.main import build_console
from console.settings import ConsoleSettings

SOCKET_BYTES = 1 << 20
GRACE_S = 3


def serve_console(settings: ConsoleSettings) -> None:
    """Serve until SIGTERM or SIGINT. Addresses are not logged: they name users and threads."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs the address of each request
    config = uvicorn.Config(
        build_console(settings),
        host=settings.host,
        port=settings.port,
        ws="websockets-sansio",
        ws_max_size=SOCKET_BYTES,
        limit_concurrency=settings.connections,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies or None,
        timeout_graceful_shutdown=GRACE_S,
        log_config=None,
    )
    uvicorn.Server(config).run()
