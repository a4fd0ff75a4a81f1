"""A chat request as it arrived, and the one that is forwarded: only Mnema's fields and one text differ."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mnema_wire.limits import MAX_CHAT_MEMORIES
from mnema_wire.near_names import MAX_NAME_CHARS, nearest_hint

from app.domain.chat.conversation import first_identifier
from app.domain.chat.dialect import Dialect, UserMessage, list_member, object_member, string_member
from app.domain.chat.members import Member, cut_members, find_members, skip_space
from app.domain.errors import InvalidInput, MalformedState
from app.domain.rendering.model_text import NOTHING, ModelText
from app.domain.text_rules import replace_halves

DEFAULT_CONVERSATION: Final = "default"
FIELDS: Final = frozenset({"memory_id", "memory_top_k", "memory_recency_weight", "memory_score_threshold"})
"""The fields that only Mnema reads. An upstream never gets them."""
PREFIX: Final = "memory_"
META: Final = "meta"
USED_WEB: Final = "usedWebSearch"
"""The one member of `meta` that only Mnema reads."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A chat request. `top_k`, `recency_weight` and `score_threshold` are None if it does not name them.

    `message` is None if the last message is not a user's or has no text. `texts` are the texts of all messages.
    `is_plain`: a short text answers it, because it has text only and asks for no format, sound or certain tool.
    `is_alone`: it has this one message. `choices` is its `n`. `named_users` are the users that it names, by place.
    """

    raw: str
    cuts: tuple[tuple[int, int], ...]
    message: UserMessage | None
    texts: tuple[str, ...]
    model: str = ""
    memory_id: str = DEFAULT_CONVERSATION
    named_users: Mapping[str, Any] = field(default_factory=dict)
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


def read_chat_request(body: bytes, dialect: Dialect, headers: Mapping[str, Any] | None = None) -> ChatRequest:
    """Read the body of a chat request in a dialect. Fields that are not Mnema's are for the upstream to check.

    `headers` are those that name a user.

    Raise MalformedState if it is not JSON, InvalidInput if it is no object or one of Mnema's fields is not valid,
    and what the dialect raises.
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
    used_web = object_member(values, META).get(USED_WEB, False)
    if not isinstance(used_web, bool):
        raise InvalidInput(f"{META}.{USED_WEB} must be true or false", param=META)
    question = dialect.read_question(raw, members)
    return ChatRequest(
        raw=raw,
        cuts=tuple(_cuts(raw, members, values, FIELDS | dialect.own_fields)),
        message=question.message,
        texts=question.texts,
        model=replace_halves(string_member(values, "model")),
        memory_id=first_identifier(values, ["memory_id"]) or DEFAULT_CONVERSATION,
        named_users={
            "user": values.get("user"),
            "name": _last_speaker(values),
            "safety_identifier": values.get("safety_identifier"),
            "metadata.user_id": object_member(values, "metadata").get("user_id"),
            **(headers or {}),
        },
        top_k=_whole(values, "memory_top_k", MAX_CHAT_MEMORIES),
        recency_weight=_share(values, "memory_recency_weight"),
        score_threshold=_share(values, "memory_score_threshold"),
        stream=values.get("stream") is True,
        include_usage=question.include_usage,
        used_web=used_web,
        is_plain=question.is_plain,
        is_alone=question.is_alone,
        choices=question.choices,
    )


def _last_speaker(values: Mapping[str, Any]) -> Any:
    """Return the `name` of the last message of a user, also if a tool's result follows it."""
    messages = (one for one in reversed(list_member(values, "messages")) if isinstance(one, dict))
    return next((one.get("name") for one in messages if one.get("role") == "user"), None)


def _refuse_unknown(values: Mapping[str, Any]) -> None:
    """Refuse a misspelt field of Mnema's: it would do nothing, and the upstream would see it."""
    for name in values:
        if name.startswith(PREFIX) and name not in FIELDS:
            shown = name[:MAX_NAME_CHARS]
            hint = nearest_hint(name, FIELDS) or f"the fields are: {', '.join(sorted(FIELDS))}"
            raise InvalidInput(f"unknown field {shown!r}; {hint}", param=shown)


def _cuts(
    raw: str, members: list[Member], values: Mapping[str, Any], names: frozenset[str]
) -> Iterator[tuple[int, int]]:
    """Yield the spans of the fields `names`. Members of `meta` that are not Mnema's stay."""
    is_ours = set(object_member(values, META)) == {USED_WEB}
    yield from cut_members(members, names | {META} if is_ours else names)
    for member in members:
        if member.name == META and not is_ours and isinstance(member.value, dict):
            yield from cut_members(find_members(raw, member.start), frozenset({USED_WEB}))


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
