"""The address of a server, and what the commands know of it besides its HTTP API.

A command line that is installed with a server uses that server's own configuration. Alone, it uses `RemoteServer`.
"""

import os
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from mnema_wire.installed import find_connection


class TextLimits(Protocol):
    """The longest text of each memory type, in characters."""

    @property
    def semantic(self) -> int:
        """The limit of a semantic memory."""

    def limit_for(self, type_: str, /) -> int:
        """Return the limit of a type. Raise an error if there is no such type."""


class Installation(Protocol):
    """An address and a key, a folder for notes of the commands, and the settings of the server as far as known."""

    @property
    def folder(self) -> Path:
        """The folder where commands keep what they need to go on."""

    @property
    def turn_category(self) -> str:
        """The category of turns."""

    @property
    def categories(self) -> Collection[str]:
        """The categories, for a key that may not list them. None if they are not known."""

    @property
    def text_limits(self) -> TextLimits:
        """The longest texts that the server takes."""

    def read_connection(self) -> Mapping[str, str]:
        """Return MNEMA_URL and MNEMA_API_KEY, as far as they are known."""

    def find_refusal(self, body: Mapping[str, Any], trim: bool, now: datetime) -> str | None:
        """Return why the server would refuse to write this memory, None if it looks right."""

    def find_topic(self, topic: str) -> str | None:
        """Return the key of a topic of facts that is given as a key or as a noun, None if there is none."""


class _UsualLimits:
    """The limits of a server whose operator changed none."""

    semantic = 280
    _LONGER: Mapping[str, int] = {"turn": 32_000, "summary": 8_000, "chunk": 8_000, "procedural": 8_000}

    def limit_for(self, type_: str, /) -> int:
        """Return the limit of a type. The server refuses an unknown type."""
        return self._LONGER.get(type_, self.semantic)


class RemoteServer:
    """A server on another machine, known by its address and key alone. The server itself checks each request."""

    turn_category = "activity"
    categories: Collection[str] = ()
    text_limits: TextLimits = _UsualLimits()

    @property
    def folder(self) -> Path:
        """The folder MNEMA_HOME, by default `~/.mnema`."""
        return Path(os.environ.get("MNEMA_HOME", "~/.mnema")).expanduser().resolve()

    def read_connection(self) -> Mapping[str, str]:
        """Return MNEMA_URL and MNEMA_API_KEY of the environment, else of `mnema up`."""
        return find_connection()

    def find_refusal(self, body: Mapping[str, Any], trim: bool, now: datetime) -> str | None:
        """Return None: the server itself refuses what is wrong."""
        return None

    def find_topic(self, topic: str) -> str | None:
        """Return the topic as it is, because the server interprets it."""
        return topic


_open: Callable[[], Installation] = RemoteServer


def use_installation(open_installation: Callable[[], Installation]) -> None:
    """Let the commands of this process ask another installation. It is opened when a command first asks."""
    global _open
    _open = open_installation
    installation.cache_clear()


@cache
def installation() -> Installation:
    """Return what this process's commands know of the server."""
    return _open()
