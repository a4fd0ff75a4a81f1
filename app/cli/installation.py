"""The installation on this machine, as the commands of the client ask it."""

import os
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime, time
from functools import cached_property
from pathlib import Path
from typing import Any

from app.config.loader import Policies, load_policies
from app.config.settings import Settings
from app.domain.errors import MnemaError
from app.domain.facts.nouns import read_noun
from app.domain.ids import check_identifier, check_json, past_moment
from app.domain.text_rules import TextLimits, check_text
from app.embedded.home import Home


class LocalInstallation:
    """The settings of this machine, and the server that `mnema up` runs. Nothing is read before a command asks."""

    @cached_property
    def _policies(self) -> Policies:
        settings = Settings()
        return load_policies(settings.embedding_model, settings.config_dir)

    @property
    def folder(self) -> Path:
        """The folder of the embedded installation."""
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
    def text_limits(self) -> TextLimits:
        """The longest texts that the server takes."""
        return self._policies.write.text_limits

    def read_connection(self) -> Mapping[str, str]:
        """Return MNEMA_URL and MNEMA_API_KEY of the environment, else of the embedded installation."""
        given = {name: os.environ[name] for name in ("MNEMA_URL", "MNEMA_API_KEY") if name in os.environ}
        return {**Home().demo_env(), **given}

    def find_refusal(self, body: Mapping[str, Any], trim: bool, now: datetime) -> str | None:
        """Return why the server would refuse to write this memory, None if it looks right."""
        return find_refusal(body, self.text_limits, trim, now)

    def find_topic(self, topic: str) -> str | None:
        """Return the key of a topic: a word with an underscore is one, any other word is a noun of `facts.yaml`."""
        if "_" in topic:
            return topic
        line = " ".join(topic.casefold().split()).removeprefix("my ").removeprefix("favorite ")
        noun, end = read_noun(line, 0)
        return self._policies.facts.topics.find_topic(noun) if end == len(line) else None


IDENTIFIERS = ("user_id", "thread_id", "agent_id", "run_id", "actor_id", "role", "category")
IMPORTANCES = range(1, 6)


def find_refusal(body: Mapping[str, Any], limits: TextLimits, trim: bool, now: datetime) -> str | None:
    """Return why the server would refuse to write a memory, None if it looks right. The server knows more than this."""
    name = ""
    try:
        check_text(body["text"], body.get("type") or "semantic", limits, trim)
        for name in IDENTIFIERS:
            if name in body:
                _check_name(body[name])
        name = "created_at"
        past_moment(_parse_moment(body.get(name)), now)
        name = "metadata"
        check_json(body.get(name, {}))
        name = "importance"
        _check_importance(body.get(name))
    except MnemaError as error:
        return f"{error.code}: {name and f'{name}: '}{error.detail}"
    except (TypeError, ValueError, OverflowError):
        return f"invalid_request: {name}: {body.get(name)!r} is not valid"
    return None


def _check_name(value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError
    check_identifier(value)


def _check_importance(value: Any) -> None:
    """Raise ValueError if the server would refuse an importance. It reads 4.0 as 4."""
    if value is not None and (isinstance(value, bool) or value not in IMPORTANCES):
        raise ValueError


def _parse_moment(value: Any) -> datetime | None:
    """Return the time that the server would read. Raise ValueError or TypeError."""
    if value is None:
        return None
    if len(value) == len("2026-01-31"):
        return datetime.combine(date.fromisoformat(value), time(), UTC)
    moment = datetime.fromisoformat(value)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
