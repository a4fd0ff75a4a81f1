"""Anthropic's Messages."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.domain.chat.dialect import (
    BETWEEN_TEXTS,
    NO_CERTAIN_TOOL,
    Dialect,
    OwnAnswer,
    Part,
    PartReader,
    Question,
    WholeAnswer,
    content_text,
    find_last_item,
    find_user_message,
    is_text_only,
    last_member,
    list_member,
    message_texts,
    object_member,
    string_member,
)
from app.domain.chat.event_text import encode_event, read_event
from app.domain.chat.members import Member, add_members, dump_compact
from app.domain.chat.upstream import ANTHROPIC
from app.domain.errors import MnemaError

_TEXT: Final = ("text",)
_NO_USAGE: Final = {"input_tokens": 0, "output_tokens": 0}


class Messages(Dialect):
    """`POST /v1/messages`. The API has no field `user`, so only Mnema reads it."""

    path = "/messages"
    upstream = ANTHROPIC
    own_fields = frozenset({"user"})

    def read_question(self, raw: str, members: Sequence[Member]) -> Question:
        """Return what a request asks in its `messages`. It is alone if it has no system prompt either."""
        values = {member.name: member.value for member in members}
        messages = list_member(values, "messages")
        last = find_last_item(raw, last_member(members, "messages"))
        system = content_text(values.get("system"), _TEXT)
        texts = message_texts(messages, _TEXT)
        return Question(
            message=None if last is None else find_user_message(raw, last, _TEXT),
            texts=tuple([system, *texts] if system else texts),
            is_plain=_is_plain(values, messages),
            is_alone=len(messages) == 1 and not system,
        )

    def read_answer(self, answer: Mapping[str, Any]) -> WholeAnswer | None:
        """Return the blocks of text; None if it is no message."""
        if answer.get("type") != "message" or not isinstance(answer.get("content"), list):
            return None
        said = _BlockTexts()
        blocks = enumerate(answer["content"])
        texts = (said.continue_at(n, string_member(block, "text")) for n, block in blocks if _is_said(block))
        return WholeAnswer("".join(texts))

    def new_reader(self) -> PartReader:
        """Return a reader of events."""
        return _EventReader()

    def write_answer(self, answer: OwnAnswer, added: bytes) -> bytes:
        """Return the answer as a message with one block."""
        content = [{"type": "text", "text": answer.text}]
        return add_members(dump_compact(_message(answer, content, "end_turn")), added)

    def write_events(self, answer: OwnAnswer, added: bytes) -> bytes:
        """Return the answer as the events of a message with one block."""
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": _message(answer, [], None)},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": answer.text}},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "usage": _NO_USAGE,
            },
            {"type": "message_stop"},
        ]
        *first, last = map(encode_event, events)
        return b"".join([*first, add_members(last, added)])

    def write_error(self, error: MnemaError) -> bytes:
        """Return an event of the type `error`."""
        kind = "timeout_error" if error.status == 504 else "api_error"
        return encode_event({"type": "error", "error": {"type": kind, "message": error.detail, "code": error.code}})


class _BlockTexts:
    """The texts of the blocks of an answer, joined. Blocks that follow each other are one text, as with citations."""

    def __init__(self) -> None:
        self._index: int | None = None

    def continue_at(self, index: Any, text: str) -> str:
        """Return what the text of the block `index` adds to the answer."""
        if not isinstance(index, int):
            return text
        is_apart = self._index is not None and index > self._index + 1
        self._index = index
        return BETWEEN_TEXTS + text if is_apart else text


class _EventReader(PartReader):
    """A reader of events up to `message_stop`."""

    def __init__(self) -> None:
        self._said = _BlockTexts()

    def read_part(self, data: bytes) -> Part:
        """Return what an event means."""
        event = read_event(data)
        kind = event.get("type")
        if kind == "message_stop":
            return Part(takes_members=True, completes=True, ends=True)
        if kind == "error":
            return Part(fails=True)
        if kind == "content_block_start" and _is_said(block := object_member(event, "content_block")):
            return Part(text=self._said.continue_at(event.get("index"), string_member(block, "text")))
        delta = object_member(event, "delta")
        if kind == "content_block_delta" and delta.get("type") == "text_delta":
            return Part(text=self._said.continue_at(event.get("index"), string_member(delta, "text")))
        return Part()


MESSAGES: Final = Messages()


def _is_plain(values: Mapping[str, Any], messages: Sequence[Any]) -> bool:
    config = object_member(values, "output_config")
    has_form = bool(values.get("output_format") or config.get("format"))
    is_mixed = bool(messages) and not is_text_only(messages[-1], _TEXT)
    choice = object_member(values, "tool_choice").get("type")
    return not has_form and not is_mixed and choice in NO_CERTAIN_TOOL


def _is_said(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "text"


def _message(answer: OwnAnswer, content: list[dict[str, Any]], stop_reason: str | None) -> dict[str, Any]:
    return {
        "id": f"msg_{answer.id}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": _NO_USAGE,
    }
