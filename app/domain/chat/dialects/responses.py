"""OpenAI's Responses."""

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
    UserMessage,
    WholeAnswer,
    content_text,
    find_last_item,
    find_user_message,
    is_text_only,
    last_member,
    list_member,
    object_member,
    string_member,
)
from app.domain.chat.event_text import add_to_object, encode_event, read_event
from app.domain.chat.members import Member, add_members, dump_compact
from app.domain.chat.upstream import OPENAI
from app.domain.errors import BackgroundNotServed, MnemaError

_TEXT: Final = ("input_text", "output_text", "text")
_COMPLETED: Final = "response.completed"
_ENDINGS: Final = (_COMPLETED, "response.incomplete")
_FAILURES: Final = ("response.failed", "error")


class Responses(Dialect):
    """`POST /v1/responses`."""

    path = "/responses"
    upstream = OPENAI

    def read_question(self, raw: str, members: Sequence[Member]) -> Question:
        """Return what a request asks in its `input`, a text or items.

        It is alone if it continues nothing: instructions, a previous response, a conversation or a stored prompt.
        Raise BackgroundNotServed.
        """
        values = {member.name: member.value for member in members}
        if values.get("background") is True:
            raise BackgroundNotServed(param="background")
        asked = last_member(members, "input")
        items = _items(values)
        before = ("instructions", "previous_response_id", "conversation", "prompt")
        return Question(
            message=_find_message(raw, asked),
            texts=_texts(values, items),
            is_plain=_is_plain(values, items),
            is_alone=len(items) == 1 and not any(values.get(name) for name in before),
        )

    def read_answer(self, answer: Mapping[str, Any]) -> WholeAnswer | None:
        """Return the text of the messages among the items of the output; None if there is no list of items.

        An answer with another status than `completed` is incomplete.
        """
        if not isinstance(answer.get("output"), list):
            return None
        texts = (_output_text(item) for item in answer["output"])
        said = BETWEEN_TEXTS.join(text for text in texts if text)
        return WholeAnswer(said, is_complete=answer.get("status") in (None, "completed"))

    def new_reader(self) -> PartReader:
        """Return a reader of events."""
        return _EventReader()

    def write_answer(self, answer: OwnAnswer, added: bytes) -> bytes:
        """Return the answer as a response with one message."""
        return add_members(dump_compact(_completed(answer)), added)

    def write_events(self, answer: OwnAnswer, added: bytes) -> bytes:
        """Return the answer as the events of a response with one message."""
        part = _text_part(answer.text)
        item = _message(answer)
        place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
        begun = _response(answer, "in_progress", []) | {"usage": None}
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": begun},
            {"type": "response.in_progress", "response": begun},
            {
                "type": "response.output_item.added",
                "output_index": 0,
                "item": item | {"status": "in_progress", "content": []},
            },
            {"type": "response.content_part.added", **place, "part": part | {"text": ""}},
            {"type": "response.output_text.delta", **place, "delta": answer.text, "logprobs": []},
            {"type": "response.output_text.done", **place, "text": answer.text, "logprobs": []},
            {"type": "response.content_part.done", **place, "part": part},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": _COMPLETED, "response": _completed(answer)},
        ]
        *first, last = (encode_event(event | {"sequence_number": number}) for number, event in enumerate(events))
        return b"".join([*first, add_to_object(last, "response", added)])

    def write_error(self, error: MnemaError) -> bytes:
        """Return an event of the type `error`. Clients read the error in the event, or in its member `error`."""
        told = {"code": error.code, "message": error.detail, "param": None}
        return encode_event({"type": "error", **told, "sequence_number": 0, "error": {"type": "server_error"} | told})


class _EventReader(PartReader):
    """A reader of events up to the one that has the whole response."""

    def __init__(self) -> None:
        self._message: object = None

    def read_part(self, data: bytes) -> Part:
        """Return what an event means."""
        event = read_event(data)
        kind = event.get("type")
        if kind == "response.output_text.delta":
            return Part(text=self._continue(event))
        if kind in _ENDINGS:
            takes_members = isinstance(event.get("response"), dict)
            return Part(takes_members=takes_members, completes=kind == _COMPLETED, ends=True)
        if kind in _FAILURES or (kind is None and event.get("error") is not None):
            return Part(fails=True, ends=kind == "response.failed")
        return Part()

    def add_to_event(self, event: bytes, added: bytes) -> bytes:
        """Return the last event with the members in its response."""
        return add_to_object(event, "response", added)

    def _continue(self, event: Mapping[str, Any]) -> str:
        text = string_member(event, "delta")
        message = event.get("output_index")
        is_next = self._message is not None and message != self._message
        self._message = message
        return BETWEEN_TEXTS + text if is_next else text


RESPONSES: Final = Responses()


def _items(values: Mapping[str, Any]) -> Sequence[Any]:
    asked = values.get("input")
    return [{"role": "user", "content": asked}] if isinstance(asked, str) else list_member(values, "input")


def _find_message(raw: str, asked: Member | None) -> UserMessage | None:
    if asked is not None and isinstance(asked.value, str):
        text = content_text(asked.value, _TEXT)
        return UserMessage(text, asked.start + 1) if text.strip() else None
    last = find_last_item(raw, asked)
    if last is None or not _is_message(last.value):
        return None
    return find_user_message(raw, last, _TEXT)


def _is_message(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type", "message") == "message"


def _texts(values: Mapping[str, Any], items: Sequence[Any]) -> tuple[str, ...]:
    contents = [values.get("instructions"), *(item.get("content") for item in items if _is_message(item))]
    return tuple(text for content in contents if (text := content_text(content, _TEXT)))


def _is_plain(values: Mapping[str, Any], items: Sequence[Any]) -> bool:
    """Return True if a short text answers the request.

    An answer that the endpoint shall store is the endpoint's to give: a later request may name it as the previous one.
    """
    form = object_member(object_member(values, "text"), "format").get("type", "text")
    is_stored = values.get("store") is not False or bool(values.get("conversation"))
    is_mixed = bool(items) and not is_text_only(items[-1], _TEXT)
    is_free = form == "text" and values.get("tool_choice") in NO_CERTAIN_TOOL
    return is_free and not is_stored and not is_mixed


def _output_text(item: Any) -> str:
    if not isinstance(item, dict) or item.get("type") != "message":
        return ""
    parts = (part for part in list_member(item, "content") if isinstance(part, dict))
    return "".join(string_member(part, "text") for part in parts if part.get("type") == "output_text")


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _message(answer: OwnAnswer) -> dict[str, Any]:
    return {
        "id": f"msg_{answer.id}",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [_text_part(answer.text)],
    }


def _completed(answer: OwnAnswer) -> dict[str, Any]:
    return _response(answer, "completed", [_message(answer)])


def _response(answer: OwnAnswer, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"resp_{answer.id}",
        "object": "response",
        "created_at": answer.created,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "model": answer.model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": {
            "input_tokens": 0,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 0,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 0,
        },
        "user": None,
        "metadata": {},
    }
