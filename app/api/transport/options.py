"""The command line of `python -m app.api`, which `mnema serve` runs."""

import argparse
import ipaddress
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from app.config.server_worker import ServerWorker

GRACE_S = 15.0


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The options of a server. `grace_s`: seconds that open requests have when the server stops.

    Only a supervisor sets the last three, for its workers. `worker` is the worker's place, `listeners` are the file
    descriptors of the bound sockets, and `channel` is that of the connection to the supervisor.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    grace_s: float = GRACE_S
    workers: int = 1
    worker: ServerWorker | None = None
    listeners: tuple[int, ...] = ()
    channel: int = -1

    def worker_arguments(self, worker: ServerWorker, listeners: Sequence[int], channel: int) -> list[str]:
        """Return the arguments with which a supervisor starts a worker."""
        shared = ["--host", self.host, "--port", str(self.port), "--grace", str(self.grace_s)]
        inherited = ["--listeners", ",".join(map(str, listeners)), "--channel", str(channel)]
        return [*shared, "--worker", worker.encode(), *inherited]


def read_options(arguments: Sequence[str] | None = None) -> ServerOptions:
    """Return the options of a command line, by default this process's. Exit with 2 if they are wrong."""
    parser = argparse.ArgumentParser(prog="mnema serve", description="Serve the HTTP API.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument(
        "--grace", type=float, default=GRACE_S, help="seconds that open requests have when the server stops"
    )
    parser.add_argument("--workers", type=int, default=1, help="number of processes that share the address")
    parser.add_argument("--worker", type=ServerWorker.decode, help=argparse.SUPPRESS)
    parser.add_argument("--listeners", default="", help=argparse.SUPPRESS)
    parser.add_argument("--channel", type=int, default=-1, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    try:
        read_networks(trusted_proxies())
    except ValueError as error:
        parser.error(f"FORWARDED_ALLOW_IPS: {error}; give addresses or networks with commas between them, or *")
    if chosen.workers < 1:
        parser.error("argument --workers: at least 1")
    if chosen.workers > 1 and sys.platform == "win32":
        parser.error("argument --workers: Windows allows 1 only")
    listeners = tuple(int(number) for number in chosen.listeners.split(",") if number)
    return ServerOptions(
        chosen.host, chosen.port, chosen.grace, chosen.workers, chosen.worker, listeners, chosen.channel
    )


def trusted_proxies() -> str:
    """Return the proxies whose X-Forwarded-Proto counts: the value of FORWARDED_ALLOW_IPS or its default."""
    return os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1")


def read_networks(proxies: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network] | None:
    """Return the networks of addresses with commas between them; None stands for all (`*`). Raise ValueError."""
    return None if proxies == "*" else [ipaddress.ip_network(one.strip()) for one in proxies.split(",")]


def address_refusal(host: str, port: int, error: OSError) -> str:
    """Return the line that says why nothing can listen on an address."""
    return f"error address_unavailable: cannot listen on {host} port {port}: {error.strerror}\n"
