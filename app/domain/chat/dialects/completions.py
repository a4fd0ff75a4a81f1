"""OpenAI's Chat Completions."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.domain.chat.dialect import (
    NO_CERTAIN_TOOL,
    Dialect,
    OwnAnswer,
    Part,
    PartReader,
    Question,
    WholeAnswer,
    find_last_item,
    find_user_message,
    is_text_only,
    last_member,
    list_member,
    message_texts,
    object_member,
)
from app.domain.chat.event_text import read_event
from app.domain.chat.members import Member, add_members, dump_compact
from app.domain.chat.upstream import OPENAI
from app.domain.errors import MnemaError

DONE: Final = b"[DONE]"
_TEXT: Final = ("text",)
_NO_USAGE: Final = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
_MOST_CHOICES: Final = 128


class ChatCompletions(Dialect):
    """`POST /v1/chat/completions`."""

    path = "/chat/completions"
    upstream = OPENAI

    def read_question(self, raw: str, members: Sequence[Member]) -> Question:
        """Return what a request asks in its `messages`."""
        values = {member.name: member.value for member in members}
        messages = list_member(values, "messages")
        last = find_last_item(raw, last_member(members, "messages"))
        choices = values.get("n")
        return Question(
            message=None if last is None else find_user_message(raw, last, _TEXT),
            texts=tuple(message_texts(messages, _TEXT)),
            is_plain=_is_plain(values, messages),
            is_alone=len(messages) == 1,
            choices=choices if isinstance(choices, int) and 1 <= choices <= _MOST_CHOICES else 1,
            include_usage=object_member(values, "stream_options").get("include_usage") is True,
        )

    def read_answer(self, answer: Mapping[str, Any]) -> WholeAnswer | None:
        """Return the text of the first choice."""
        choice = _first_choice(answer)
        if choice is None:
            return None
        return WholeAnswer(_text_of(object_member(choice, "message").get("content")))

    def new_reader(self) -> PartReader:
        """Return a reader of chunks."""
        return _ChunkReader()

    def write_answer(self, answer: OwnAnswer, added: bytes) -> bytes:
        """Return the answer as a completion."""
        message = {"role": "assistant", "content": answer.text, "refusal": None}
        choices = [
            {"index": n, "message": message, "logprobs": None, "finish_reason": "stop"} for n in range(answer.choices)
        ]
        return add_members(dump_compact(_chunk(answer, "chat.completion", choices) | {"usage": _NO_USAGE}), added)

    def write_events(self, answer: OwnAnswer, added: bytes) -> bytes:
        """Return the answer as chunks."""
        deltas: list[tuple[dict[str, Any], str | None]] = [
            ({"role": "assistant", "content": ""}, None),
            ({"content": answer.text}, None),
            ({}, "stop"),
        ]
        parts = [
            _chunk(
                answer,
                "chat.completion.chunk",
                [{"index": n, "delta": d, "logprobs": None, "finish_reason": reason} for n in range(answer.choices)],
            )
            for d, reason in deltas
        ]
        if answer.include_usage:
            parts = [part | {"usage": None} for part in parts]
            parts.append(_chunk(answer, "chat.completion.chunk", []) | {"usage": _NO_USAGE})
        *first, last = map(dump_compact, parts)
        return b"".join(b"data: " + part + b"\n\n" for part in (*first, add_members(last, added), DONE))

    def write_error(self, error: MnemaError) -> bytes:
        """Return an event with the member `error`."""
        told = {"message": error.detail, "type": "server_error", "param": None, "code": error.code}
        return b"data: " + dump_compact({"error": told}) + b"\n\n"


class _ChunkReader(PartReader):
    """A reader of chunks up to `[DONE]`."""

    def read_part(self, data: bytes) -> Part:
        """Return what a chunk means."""
        if data.strip() == DONE:
            return Part(ends=True, completes=True)
        chunk = read_event(data)
        if chunk.get("error") is not None:
            return Part(fails=True)
        choices = list_member(chunk, "choices")
        delta = object_member(_first_choice(chunk) or {}, "delta")
        is_last = any(isinstance(choice, dict) and choice.get("finish_reason") for choice in choices)
        return Part(
            text=_text_of(delta.get("content")),
            takes_members=is_last or (not choices and bool(chunk.get("usage"))),
            completes=is_last,
            value=chunk,
        )

    def own_event(self, part: Mapping[str, Any], added: bytes, created: int) -> bytes:
        """Return an empty chunk with the members."""
        own = {"id": "", "object": "chat.completion.chunk", "created": created, "model": ""} | dict(part)
        own["choices"] = [{"index": 0, "delta": {}, "finish_reason": None}]
        own.pop("usage", None)
        return b"data: " + add_members(dump_compact(own), added) + b"\n\n"


CHAT_COMPLETIONS: Final = ChatCompletions()


def _is_plain(values: Mapping[str, Any], messages: Sequence[Any]) -> bool:
    form = object_member(values, "response_format").get("type", "text")
    is_sound = "audio" in list_member(values, "modalities")
    is_mixed = bool(messages) and not is_text_only(messages[-1], _TEXT)
    return form == "text" and not is_sound and not is_mixed and values.get("tool_choice") in NO_CERTAIN_TOOL


def _first_choice(answer: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the choice with index 0."""
    choices = list_member(answer, "choices")
    return next((choice for choice in choices if isinstance(choice, dict) and choice.get("index", 0) == 0), None)


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(p["text"] for p in content if isinstance(p, dict) and isinstance(p.get("text"), str))


def _chunk(answer: OwnAnswer, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{answer.id}",
        "object": kind,
        "created": answer.created,
        "model": answer.model,
        "choices": choices,
    }
