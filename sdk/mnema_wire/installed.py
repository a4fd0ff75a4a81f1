"""The address and the key of the server, as the Python client and the commands find them.

The module uses the standard library alone, because a command that loads more starts late.
"""

import os
from collections.abc import Mapping
from pathlib import Path

ADDRESS = "MNEMA_URL"
KEY = "MNEMA_API_KEY"


def find_connection(address: str | None = None, key: str | None = None) -> dict[str, str]:
    """Return MNEMA_URL and MNEMA_API_KEY: as given, else of the environment, else of the `demo.env` of `mnema up`.

    If one of them is known, the file is not read: its key never goes to an address that another place names. The file
    is in the folder MNEMA_HOME, by default `.mnema` in the folder where the program runs.
    """
    known = {ADDRESS: address or os.environ.get(ADDRESS), KEY: key or os.environ.get(KEY)}
    given = {name: value for name, value in known.items() if value}
    return given or pick_connection(read_env(Path(os.environ.get("MNEMA_HOME") or ".mnema") / "demo.env"))


def pick_connection(values: Mapping[str, str]) -> dict[str, str]:
    """Return the address and the key of these variables, as far as they are there."""
    return {name: values[name] for name in (ADDRESS, KEY) if name in values}


def read_env(file: Path) -> dict[str, str]:
    """Return the lines NAME=value and export NAME=value of a file, {} if it cannot be read."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    return dict(
        line.removeprefix("export ").split("=", 1) for line in lines if "=" in line and not line.startswith("#")
    )
