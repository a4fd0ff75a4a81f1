"""The console's process: its port, and an environment that holds no login of the database and no other key."""

import importlib.util
import socket
from collections.abc import Mapping

from app.embedded.home import Home

PASSED_ON = ("HOME", "LANG", "LC_", "PATH", "PYTHON", "SSL_CERT_", "TMPDIR", "TZ", "VIRTUAL_ENV", "MNEMA_CONSOLE_")
"""Beginnings of the names of variables that the console gets."""
NEEDED = ("nicegui", "mnema_client")


def console_address(port: int) -> str:
    """Return the address of the console's first page."""
    return f"http://127.0.0.1:{port}/console"


def find_obstacle(port: int) -> str | None:
    """Return the reason why the console cannot start, and what to do; None if it can."""
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        return (
            f"no package {missing[0]}: pip install --require-hashes -r requirements-console.lock, pip install -e ./sdk"
        )
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return f"port {port} is taken; choose another: MNEMA_CONSOLE_PORT={port + 1} make run"
    return None


def console_environment(home: Home, environment: Mapping[str, str], api_url: str, port: int) -> dict[str, str]:
    """Return the environment of the console: of `environment` only what it needs."""
    kept = {name: value for name, value in environment.items() if name.startswith(PASSED_ON)}
    return {
        "MNEMA_CONSOLE_SECRET": home.load_console_secret(),
        **kept,
        "MNEMA_CONSOLE_API_URL": api_url,
        "MNEMA_CONSOLE_PORT": str(port),
    }
