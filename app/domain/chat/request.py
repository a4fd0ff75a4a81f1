"""A chat request as it arrived, and the one that is forwarded: only Mnema's fields and one text differ."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mnema_wire.limits import MAX_CHAT_MEMORIES
from mnema_wire.near_names import MAX_NAME_CHARS, nearest_hint

from app.domain.chat.json_places import Member, cut_members, find_items, find_members, skip_space
from app.domain.errors import InvalidInput, MalformedState
from app.domain.ids import check_identifier
from app.domain.rendering.model_text import NOTHING, ModelText

DEFAULT_CONVERSATION: Final = "default"
MAX_READ: Final = 100_000
"""The characters of a message that memory reads; all of it is forwarded."""
FIELDS: Final = frozenset({"memory_id", "memory_top_k", "memory_recency_weight", "memory_score_threshold"})
"""The fields that only Mnema reads. An upstream never gets them."""
PREFIX: Final = "memory_"
META: Final = "meta"
USED_WEB: Final = "usedWebSearch"
"""The one member of `meta` that only Mnema reads."""


@dataclass(frozen=True, slots=True)
class UserMessage:
    """The last message of a request, if a user wrote it.

    `text` joins its text parts. Text that is put before it belongs at `place` in the JSON text, inside the string.
    """

    text: str
    place: int


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A chat request. `top_k`, `recency_weight` and `score_threshold` are None if it does not name them.

    `message` is None if the last message is not a user's or has no text. `texts` are the texts of all messages.
    `is_plain`: a short text answers it, because it has text only and asks for no format, sound or certain tool.
    `is_alone`: it has this one message. `choices` is its `n`.
    """

    raw: str
    cuts: tuple[tuple[int, int], ...]
    message: UserMessage | None
    texts: tuple[str, ...]
    model: str = ""
    memory_id: str = DEFAULT_CONVERSATION
    user: str | None = None
    top_k: int | None = None
    recency_weight: float | None = None
    score_threshold: float | None = None
    stream: bool = False
    include_usage: bool = False
    used_web: bool = False
    is_plain: bool = True
    is_alone: bool = True
    choices: int = 1

    def forwarded_body(self, before: ModelText = NOTHING) -> bytes:
        """Return the body for the upstream, with the text `before` put before the user's message."""
        edits = [(start, end, "") for start, end in self.cuts]
        if before and self.message is not None:
            edits.append((self.message.place, self.message.place, json.dumps(before.text, ensure_ascii=False)[1:-1]))
        parts: list[str] = []
        at = 0
        for start, end, text in sorted(edits):
            parts += (self.raw[at:start], text)
            at = end
        return "".join((*parts, self.raw[at:])).encode()


def read_chat_request(body: bytes) -> ChatRequest:
    """Read the body of a chat request. Fields that are not Mnema's are for the upstream to check.

    Raise MalformedState if it is not JSON, InvalidInput if it is no object or one of Mnema's fields is not valid.
    """
    try:
        raw = body.decode()
        begin = skip_space(raw, 0)
        whole = json.loads(raw)
    except (ValueError, RecursionError):
        raise MalformedState("the body is not JSON") from None
    if not isinstance(whole, dict):
        raise InvalidInput("the body must be a JSON object")
    members = find_members(raw, begin)
    values = {member.name: member.value for member in members}
    _refuse_unknown(values)
    used_web = _member(values, META).get(USED_WEB, False)
    if not isinstance(used_web, bool):
        raise InvalidInput(f"{META}.{USED_WEB} must be true or false", param=META)
    return ChatRequest(
        raw=raw,
        cuts=tuple(_cuts(raw, members, values)),
        message=_last_user_message(raw, members),
        texts=tuple(_message_texts(values.get("messages"))),
        model=values["model"] if isinstance(values.get("model"), str) else "",
        memory_id=_identifier(values, "memory_id") or DEFAULT_CONVERSATION,
        user=_identifier(values, "user"),
        top_k=_whole(values, "memory_top_k", MAX_CHAT_MEMORIES),
        recency_weight=_share(values, "memory_recency_weight"),
        score_threshold=_share(values, "memory_score_threshold"),
        stream=values.get("stream") is True,
        include_usage=_member(values, "stream_options").get("include_usage") is True,
        used_web=used_web,
        is_plain=_is_plain(values),
        is_alone=isinstance(values.get("messages"), list) and len(values["messages"]) == 1,
        choices=values["n"] if isinstance(values.get("n"), int) and 1 <= values["n"] <= 128 else 1,
    )


def _refuse_unknown(values: Mapping[str, Any]) -> None:
    """Refuse a misspelt field of Mnema's: it would do nothing, and the upstream would see it."""
    for name in values:
        if name.startswith(PREFIX) and name not in FIELDS:
            shown = name[:MAX_NAME_CHARS]
            hint = nearest_hint(name, FIELDS) or f"the fields are: {', '.join(sorted(FIELDS))}"
            raise InvalidInput(f"unknown field {shown!r}; {hint}", param=shown)


def _cuts(raw: str, members: list[Member], values: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """Yield the spans of Mnema's fields. Members of `meta` that are not Mnema's stay."""
    is_ours = set(_member(values, META)) == {USED_WEB}
    yield from cut_members(members, FIELDS | {META} if is_ours else FIELDS)
    for member in members:
        if member.name == META and not is_ours and isinstance(member.value, dict):
            yield from cut_members(find_members(raw, member.start), frozenset({USED_WEB}))


def _last_user_message(raw: str, members: list[Member]) -> UserMessage | None:
    messages = next((m for m in reversed(members) if m.name == "messages"), None)
    if messages is None or not isinstance(messages.value, list) or not messages.value:
        return None
    last = messages.value[-1]
    if not isinstance(last, dict) or last.get("role") != "user":
        return None
    *_, item = find_items(raw, messages.start)
    content = [member for member in find_members(raw, item.start) if member.name == "content"][-1:]
    if not content or not (text := _content_text(content[0].value)).strip():
        return None
    if isinstance(content[0].value, str):
        return UserMessage(text, content[0].start + 1)
    part = next(item for item in find_items(raw, content[0].start) if _is_text(item.value))
    place = [member for member in find_members(raw, part.start) if member.name == "text"][-1]
    return UserMessage(text, place.start + 1)


def _message_texts(messages: Any) -> Iterator[str]:
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict) and (text := _content_text(message.get("content"))):
            yield text


def _content_text(content: Any) -> str:
    """Return the text of a message's content, a string or the text parts of a list, at most MAX_READ characters."""
    if isinstance(content, str):
        return content[:MAX_READ]
    parts = (part["text"][:MAX_READ] for part in content if _is_text(part)) if isinstance(content, list) else ()
    return "\n".join(parts)[:MAX_READ]


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)


def _member(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = values.get(name)
    return value if isinstance(value, dict) else {}


def _identifier(values: Mapping[str, Any], name: str) -> str | None:
    value = values.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise InvalidInput(f"{name} must be a string", param=name)
    try:
        return check_identifier(value)
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error.detail}", param=name) from error


def _whole(values: Mapping[str, Any], name: str, most: int) -> int | None:
    """Return a whole number, or None if it is missing or null. JSON Schema counts 3.0 as whole."""
    value = values.get(name)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value > most:
        raise InvalidInput(f"{name} must be a whole number of at most {most}; 0 and less mean no memories", param=name)
    return value


def _share(values: Mapping[str, Any], name: str) -> float | None:
    value = values.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidInput(f"{name} must be a number from 0 to 1", param=name)
    return float(value)


def _is_plain(values: Mapping[str, Any]) -> bool:
    form = _member(values, "response_format").get("type", "text")
    sound = "audio" in values["modalities"] if isinstance(values.get("modalities"), list) else False
    messages = values.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else None
    content = last.get("content") if isinstance(last, dict) else None
    mixed = isinstance(content, list) and not all(map(_is_text, content))
    return form == "text" and not sound and not mixed and values.get("tool_choice") in (None, "auto", "none")
