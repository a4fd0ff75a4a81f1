"""The records that readers find in a source, and their conversion to requests. The functions are pure.

A reader yields records one by one. Each has a place in its source, such as `notes/team.md:12`.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

from mnema_cli.installation import RemoteServer, TextLimits

Json = dict[str, Any]
SPOKEN = ("user", "assistant")
"""The roles of messages that belong to a conversation."""
SILENT = ("system", "developer", "tool", "function", "summary", "approval")
"""The other known roles. A report counts all unknown roles together, so that it stays short."""
CONTINUE = "run the same command again to continue"
"""The advice after a stop that a later run may get over, such as a server that is away."""
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
MEMORIES = "/memory"
"""The route of memories and turns."""


@dataclass(frozen=True, slots=True)
class Write:
    """A request to send. `identity` names the record in its source, and is the same in every run.

    `mapped`: its category comes from the source. `path` is the route.
    """

    place: str
    identity: str
    body: Json
    mapped: bool = True
    path: str = MEMORIES

    @property
    def kind(self) -> str:
        """The kind of what is written: turn, memory or item."""
        if self.path != MEMORIES:
            return "item"
        return "turn" if self.body.get("type") == "turn" else "memory"

    @property
    def lane(self) -> str:
        """The thread of a turn, else the user. Requests of one lane are sent in order."""
        return f"{self.kind} {self.body.get('thread_id') if self.kind == 'turn' else self.body.get('user_id')}"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A record that is not imported on purpose. `reason` is the same text for all records of its kind."""

    reason: str


@dataclass(frozen=True, slots=True)
class Bad:
    """A record that cannot be imported, its place and what is wrong with it."""

    place: str
    problem: str


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence about the source for the end of the report."""

    text: str


Found: TypeAlias = Write | LeftOut | Bad | Note


class SourceFailed(Exception):
    """A source that cannot be read at all, or no further. The message says where and why.

    `advice` says how a later run may go on, "" if it depends on the source's records.
    """

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(message)
        self.advice = advice


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices of the caller.

    A record keeps its own category if `renamed` or `known` has its name, else it gets `default_category`. Turns get
    `turn_category`. `user` and `thread` are those of records without one.
    """

    product: str
    known: Collection[str]
    default_category: str
    turn_category: str
    renamed: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    thread: str | None = None
    limits: TextLimits = RemoteServer.text_limits

    def find_category(self, names: Iterable[object]) -> str | None:
        """Return Mnema's category for the first of these names that it knows, None if it knows none."""
        by_name = {normalise_name(name): name for name in self.known} | dict(self.renamed)
        texts = (normalise_name(name) for name in names if isinstance(name, str))
        return next((by_name[name] for name in texts if name in by_name), None)

    def make_memory(
        self, place: str, identity: str, text: object, *, names: Iterable[object] = (), **fields: object
    ) -> Write | Bad:
        """Return the request for a memory. `names` may name its category; absent and empty `fields` are left out."""
        user = fields.pop("user_id", None) or self.user
        if problem := _find_problem(text, user):
            return Bad(place, problem)
        category = self.find_category(names)
        body = {"user_id": user, "text": text, "category": category or self.default_category}
        return Write(place, identity, body | self._details(identity, fields), mapped=category is not None)

    def make_turn(self, place: str, identity: str, text: object, *, role: object, **fields: object) -> Found:
        """Return the request for a message. Messages of tools and of the system are left out."""
        if role not in SPOKEN:
            return LeftOut(f"messages of the role {role}" if role in SILENT else "messages of another role or of none")
        user = fields.pop("user_id", None) or self.user
        thread = fields.pop("thread_id", None) or self.thread
        if problem := _find_problem(text, user):
            return Bad(place, problem)
        if not thread:
            return Bad(place, "missing thread_id; name the thread with --thread")
        body = {"type": "turn", "category": self.turn_category, "user_id": user, "thread_id": thread, "role": role}
        return Write(place, identity, body | {"text": text} | self._details(identity, fields))

    def _details(self, identity: str, fields: Mapping[str, object]) -> Json:
        """Return the other fields of a body, with the origin of the record in its metadata.

        The id in the metadata is the field `id`, or `identity` without that field. An `id` of None leaves it out.
        """
        own = fields.get("metadata")
        number = fields.get("id", identity)
        origin = {"imported_from": self.product} | ({"id": number} if number else {})
        kept = {name: value for name, value in (own.items() if isinstance(own, dict) else ()) if _is_given(value)}
        given = {name: value for name, value in fields.items() if name != "id" and _is_given(value)}
        return given | {"metadata": kept | origin}


def creation_time(found: Found) -> datetime:
    """Return the creation time of a record. Records without a readable time sort last."""
    try:
        moment = datetime.fromisoformat(found.body["created_at"]) if isinstance(found, Write) else datetime.max
    except (KeyError, TypeError, ValueError):
        moment = datetime.max
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _find_problem(text: object, user: object) -> str | None:
    if not isinstance(text, str) or not text.strip():
        return "missing text"
    return None if user else "missing user; name the user with --user"


def _is_given(value: object) -> bool:
    return value is not None and value not in ("", [], {})


def normalise_name(name: str) -> str:
    """Return a category's name in lower case with underscores."""
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def hash_text(*parts: object) -> str:
    """Return a digest of these parts, for an identity of a record that has no id of its own."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]


def split_text(text: str, limit: int) -> Iterator[str]:
    """Yield a text in parts of at most `limit` characters, cut between sentences.

    A sentence that is longer stays whole: the server refuses or trims it.
    """
    part = ""
    for sentence in SENTENCE_END.split(text.strip()) if len(text) > limit else [text.strip()]:
        joined = f"{part} {sentence}" if part else sentence
        if part and len(joined) > limit:
            yield part
            joined = sentence
        part = joined
    if part:
        yield part
