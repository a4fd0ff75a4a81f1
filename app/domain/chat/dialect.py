"""Dialects: what differs between the chat APIs that Mnema speaks.

A dialect reads a request and an answer of its API, whole or as events. It writes answers and errors of Mnema's own.
Everything else about a chat is the same for all dialects.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from app.domain.chat.members import Item, Member, add_members, find_items, find_members
from app.domain.chat.upstream import UpstreamDialect
from app.domain.client_prompts import is_client_note
from app.domain.errors import MnemaError

MAX_READ: Final = 100_000
"""The characters of a message that memory reads; all of it is forwarded."""
BETWEEN_TEXTS: Final = "\n\n"
"""The text between two texts of one answer that do not follow each other."""
NO_CERTAIN_TOOL: Final = (None, "auto", "none")
"""The values of `tool_choice` that demand no tool."""


@dataclass(frozen=True, slots=True)
class UserMessage:
    """The last message of a request, if a user wrote it.

    `text` joins its text parts. Text that is put before it belongs at `place` in the JSON text, inside the string.
    """

    text: str
    place: int


@dataclass(frozen=True, slots=True)
class Question:
    """The question of a request.

    `message` is None if the last message is not a user's or has no text. `texts` are the texts of all messages.
    `is_plain`: a short text answers it, because it has text only and asks for no format, sound or certain tool.
    `is_alone`: it has this one message. `choices`: the number of answers.
    """

    message: UserMessage | None
    texts: tuple[str, ...]
    is_plain: bool
    is_alone: bool
    choices: int = 1
    include_usage: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """The meaning of an event of a stream.

    `text` continues the first choice's answer. `takes_members`: Mnema's members belong into this event, unless a later
    one takes them. `completes`: the answer has ended as it should. `fails`: the endpoint tells of an error. `ends`: the
    stream is over. `value` is the event's data.
    """

    text: str = ""
    takes_members: bool = False
    completes: bool = False
    fails: bool = False
    ends: bool = False
    value: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WholeAnswer:
    """The text of an answer that came as one object. `is_complete`: the endpoint says that it has all of it."""

    text: str
    is_complete: bool = True


class PartReader(ABC):
    """A reader of the events of one stream."""

    @abstractmethod
    def read_part(self, data: bytes) -> Part:
        """Return what the data of the next event mean; an empty part for data of another kind."""

    def add_to_event(self, event: bytes, added: bytes) -> bytes:
        """Return an event that takes Mnema's members, with the members `added`."""
        return add_members(event, added)

    def own_event(self, part: Mapping[str, Any], added: bytes, created: int) -> bytes:
        """Return an event with the members `added`, for a stream that ended without one to take them.

        `part` is the data of the last event, `created` the time in Unix seconds.
        """
        del part, added, created
        return b""


@dataclass(frozen=True, slots=True)
class OwnAnswer:
    """An answer that Mnema gives without calling an endpoint. It costs no tokens.

    `id` is unique and has no prefix. `created`: Unix seconds. `choices`: how often the answer is given.
    """

    id: str
    created: int
    model: str
    text: str
    choices: int = 1
    include_usage: bool = False


class Dialect(ABC):
    """A chat API. `path` follows the base URL. Upstreams of the dialect `upstream` serve it.

    `own_fields`: fields of a request that this API does not have, so that only Mnema reads them.
    """

    path: ClassVar[str]
    upstream: ClassVar[UpstreamDialect]
    own_fields: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def read_question(self, raw: str, members: Sequence[Member]) -> Question:
        """Return what a request asks: the JSON text `raw`, an object with these members."""

    @abstractmethod
    def read_answer(self, answer: Mapping[str, Any]) -> WholeAnswer | None:
        """Return what a whole answer says; None if it is none, so that nothing is added to it."""

    @abstractmethod
    def new_reader(self) -> PartReader:
        """Return a reader for a stream of events."""

    @abstractmethod
    def write_answer(self, answer: OwnAnswer, added: bytes) -> bytes:
        """Return Mnema's own answer as one JSON object, with the members `added`."""

    @abstractmethod
    def write_events(self, answer: OwnAnswer, added: bytes) -> bytes:
        """Return Mnema's own answer as a stream of events, with the members `added` in the last one."""

    @abstractmethod
    def write_error(self, error: MnemaError) -> bytes:
        """Return the event that tells of an error in mid-stream: the status has left already."""


def last_member(members: Sequence[Member], name: str) -> Member | None:
    """Return the member of this name that counts: the last one."""
    return next((member for member in reversed(members) if member.name == name), None)


def find_user_message(raw: str, place: Item | Member, kinds: tuple[str, ...]) -> UserMessage | None:
    """Return the message of the object at `place` if a user wrote it and it has text.

    `kinds` are the types of parts that are text.
    """
    if not isinstance(place.value, dict) or place.value.get("role") != "user":
        return None
    content = last_member(find_members(raw, place.start), "content")
    if content is None or not (text := content_text(content.value, kinds)).strip():
        return None
    if isinstance(content.value, str):
        return UserMessage(text, content.start + 1)
    part = next(item for item in find_items(raw, content.start) if is_text(item.value, kinds))
    first = last_member(find_members(raw, part.start), "text")
    return None if first is None else UserMessage(text, first.start + 1)


def find_last_item(raw: str, array: Member | None) -> Item | None:
    """Return the last item of an array, None if it is no array or empty."""
    if array is None or not isinstance(array.value, list) or not array.value:
        return None
    *_, item = find_items(raw, array.start)
    return item


def content_text(content: Any, kinds: tuple[str, ...]) -> str:
    """Return the text of a message's content, a string or the text parts of a list, at most MAX_READ characters."""
    if isinstance(content, str):
        return content[:MAX_READ]
    if not isinstance(content, list):
        return ""
    return "\n".join(part["text"][:MAX_READ] for part in content if is_text(part, kinds))[:MAX_READ]


def message_texts(messages: Sequence[Any], kinds: tuple[str, ...]) -> list[str]:
    """Return the texts of messages that have one."""
    texts = (content_text(message.get("content"), kinds) for message in messages if isinstance(message, dict))
    return [text for text in texts if text]


def is_text(part: Any, kinds: tuple[str, ...]) -> bool:
    """Return True if a part of a content is text of one of these types, and no note of the client."""
    if not isinstance(part, dict) or part.get("type") not in kinds or not isinstance(part.get("text"), str):
        return False
    return not is_client_note(part["text"])


def is_text_only(message: Any, kinds: tuple[str, ...]) -> bool:
    """Return True unless a message has a part that is no text."""
    content = message.get("content") if isinstance(message, dict) else None
    return not isinstance(content, list) or all(is_text(part, kinds) for part in content)


def object_member(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a member that is an object, an empty one if it is none."""
    value = values.get(name)
    return value if isinstance(value, dict) else {}


def list_member(values: Mapping[str, Any], name: str) -> Sequence[Any]:
    """Return a member that is an array, an empty one if it is none."""
    value = values.get(name)
    return value if isinstance(value, list) else ()


def string_member(values: Mapping[str, Any], name: str) -> str:
    """Return a member that is a string, an empty one if it is none."""
    value = values.get(name)
    return value if isinstance(value, str) else ""
