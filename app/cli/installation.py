"""The installation on this machine, as the commands of the client ask it.

A module of the server is imported where a command asks for it: most commands need only the address and the key.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mnema_wire.installed import find_connection, pick_connection

if TYPE_CHECKING:
    from app.config.loader import Policies
    from app.domain.text_rules import TextLimits


class LocalInstallation:
    """The settings of this machine, and the server that `mnema up` runs. Nothing is read before a command asks."""

    @cached_property
    def _policies(self) -> "Policies":
        from app.config.loader import load_policies
        from app.config.settings import Settings

        settings = Settings()
        return load_policies(settings.embedding_model, settings.config_dir)

    @property
    def folder(self) -> Path:
        """The folder of the embedded installation."""
        from app.embedded.home import Home

        return Home().path

    @property
    def turn_category(self) -> str:
        """The category of turns."""
        return self._policies.turn_category

    @property
    def categories(self) -> Collection[str]:
        """The categories of `memory_cat_config.yaml`."""
        return self._policies.categories.categories

    @property
    def text_limits(self) -> "TextLimits":
        """The longest texts that the server takes."""
        return self._policies.write.text_limits

    def read_connection(self) -> Mapping[str, str]:
        """Return MNEMA_URL and MNEMA_API_KEY of the environment, else of the embedded installation."""
        if found := find_connection():
            return found
        from app.embedded.home import Home  # the settings name another folder

        return pick_connection(Home().demo_env())

    def find_refusal(self, body: Mapping[str, Any], trim: bool, now: datetime) -> str | None:
        """Return why the server would refuse to write this memory, None if it looks right."""
        from app.cli.memory_checks import find_refusal

        return find_refusal(body, self.text_limits, trim, now)

    def find_topic(self, topic: str) -> str | None:
        """Return the key of a topic: a word with an underscore is one, any other word is a noun of `facts.yaml`."""
        if "_" in topic:
            return topic
        from app.domain.facts.nouns import read_noun

        line = " ".join(topic.casefold().split()).removeprefix("my ").removeprefix("favorite ")
        noun, end = read_noun(line, 0)
        return self._policies.facts.topics.find_topic(noun) if end == len(line) else None
