"""Responses and Messages: where the message is, what an answer says, and a stream whose other bytes stay."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.chat.answer import EventStream, read_plain_answer
from app.domain.chat.dialect import Dialect, OwnAnswer, WholeAnswer
from app.domain.chat.dialects.messages import MESSAGES
from app.domain.chat.dialects.responses import RESPONSES
from app.domain.chat.event_text import add_to_object
from app.domain.chat.request import ChatRequest, read_chat_request
from app.domain.outages import UpstreamTimeout
from app.domain.rendering.lines import chat_preface

ADDED = b'"model_label":"Model: m"'
TOOL_RESULT = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "rain"}]}
NOTE = {"type": "text", "text": "<system-reminder>\nA file changed.\n</system-reminder>"}


def read(dialect: Dialect, **fields: Any) -> ChatRequest:
    """Return a request with these fields."""
    return read_chat_request(json.dumps({"model": "m"} | fields, indent=1).encode(), dialect)


def user(content: Any) -> dict[str, Any]:
    """Return a user's message."""
    return {"role": "user", "content": content}


REQUESTS: list[tuple[Dialect, dict[str, Any], str | None]] = [
    (RESPONSES, {"input": "Hi ü"}, "Hi ü"),
    (RESPONSES, {"input": [user("Hi")]}, "Hi"),
    (RESPONSES, {"input": [{"type": "message"} | user([{"type": "input_text", "text": "Hi"}])]}, "Hi"),
    (RESPONSES, {"input": [user("Hi"), {"type": "function_call_output", "call_id": "c", "output": "rain"}]}, None),
    (RESPONSES, {"input": [user("Hi"), {"type": "item_reference", "id": "x", "role": "user", "content": "y"}]}, None),
    (RESPONSES, {"input": [{"role": "developer", "content": "Be terse."}]}, None),
    (RESPONSES, {"input": " "}, None),
    (RESPONSES, {"input": [user([{"type": "input_image", "image_url": "x"}])]}, None),
    (RESPONSES, {"input": 7}, None),
    (RESPONSES, {}, None),
    (MESSAGES, {"messages": [user("Hi")]}, "Hi"),
    (MESSAGES, {"messages": [user([{"type": "text", "text": "Hi"}])]}, "Hi"),
    (MESSAGES, {"messages": [user([TOOL_RESULT])]}, None),
    (MESSAGES, {"messages": [user([TOOL_RESULT, {"type": "text", "text": "And now?"}])]}, "And now?"),
    (MESSAGES, {"messages": [user([NOTE, {"type": "text", "text": "Fix it."}, NOTE])]}, "Fix it."),
    (MESSAGES, {"messages": [user([TOOL_RESULT, NOTE])]}, None),
    (MESSAGES, {"messages": [user("Hi"), {"role": "assistant", "content": "He"}]}, None),
    (MESSAGES, {"messages": [{"type": ["unhashable"]}, user([{"type": ["unhashable"], "text": "x"}])]}, None),
    (MESSAGES, {"messages": "x"}, None),
]


@pytest.mark.parametrize(("dialect", "fields", "text"), REQUESTS)
def test_the_users_message_and_nothing_else_gets_memories(
    dialect: Dialect, fields: dict[str, Any], text: str | None
) -> None:
    request = read(dialect, **fields)
    before = chat_preface(None, [("memory", 'Maya says "hi" – ü')])
    changed = request.forwarded_body(before).decode()
    assert request.forwarded_body().decode() == request.raw
    if text is None:
        assert (request.message, changed) == (None, request.raw)
        return
    assert request.message is not None
    assert request.message.text == text
    inserted = json.dumps(before.text, ensure_ascii=False)[1:-1]
    assert changed.replace(inserted, "") == request.raw
    assert before.text + text in json.dumps(json.loads(changed), ensure_ascii=False).replace("\\n", "\n").replace(
        '\\"', '"'
    )


PLAIN = {"input": "Hi", "store": False}
ASKED = {"messages": [user("Hi")]}


@pytest.mark.parametrize(
    ("dialect", "fields", "is_plain", "is_alone"),
    [
        (RESPONSES, PLAIN, True, True),
        (RESPONSES, {"input": "Hi"}, False, True),
        (RESPONSES, PLAIN | {"previous_response_id": "resp_1"}, True, False),
        (RESPONSES, PLAIN | {"conversation": "conv_1"}, False, False),
        (RESPONSES, PLAIN | {"instructions": "Be terse."}, True, False),
        (RESPONSES, PLAIN | {"text": {"format": {"type": "json_schema"}}}, False, True),
        (RESPONSES, PLAIN | {"tool_choice": "required"}, False, True),
        (RESPONSES, PLAIN | {"background": False}, True, True),
        (RESPONSES, {"store": False, "input": [user([{"type": "input_image"}])]}, False, True),
        (MESSAGES, ASKED, True, True),
        (MESSAGES, ASKED | {"system": "Be terse."}, True, False),
        (MESSAGES, ASKED | {"system": [{"type": "text", "text": "Be terse."}]}, True, False),
        (MESSAGES, ASKED | {"tool_choice": {"type": "any"}}, False, True),
        (MESSAGES, ASKED | {"tool_choice": {"type": "auto"}}, True, True),
        (MESSAGES, ASKED | {"output_config": {"format": {"type": "json_schema"}}}, False, True),
        (MESSAGES, {"messages": [user([{"type": "image"}])]}, False, True),
    ],
)
def test_a_request_that_a_short_text_answers(
    dialect: Dialect, fields: dict[str, Any], is_plain: bool, is_alone: bool
) -> None:
    request = read(dialect, **fields)
    assert (request.is_plain, request.is_alone) == (is_plain, is_alone)


def test_a_field_that_anthropic_does_not_have_stays_here() -> None:
    asked = ASKED | {"user": "maya", "memory_id": "c1", "metadata": {"user_id": "x"}}
    assert json.loads(read(MESSAGES, **asked).forwarded_body()).keys() == {"model", "messages", "metadata"}
    assert "user" in json.loads(read(RESPONSES, input="Hi", user="maya").forwarded_body())


def text_item(text: str) -> dict[str, Any]:
    """Return a message of a response's output."""
    return {"type": "message", "content": [{"type": "output_text", "text": text}, {"type": "refusal", "refusal": "x"}]}


def block(text: str) -> dict[str, Any]:
    """Return a block of text."""
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    ("dialect", "answer", "text"),
    [
        (RESPONSES, {"output": [{"type": "reasoning", "summary": []}, text_item("a"), text_item("b")]}, "a\n\nb"),
        (RESPONSES, {"output": [{"type": "function_call"}, 7, {"type": "message", "content": [None]}]}, ""),
        (RESPONSES, {"output_text": "a"}, None),
        (
            MESSAGES,
            {"type": "message", "content": [{"type": "thinking", "thinking": "x"}, block("a"), block("b")]},
            "ab",
        ),
        (MESSAGES, {"type": "message", "content": [block("a"), {"type": "tool_use"}, block("b")]}, "a\n\nb"),
        (MESSAGES, {"type": "message", "content": "a"}, None),
        (MESSAGES, {"content": [block("a")]}, None),
    ],
)
def test_the_text_of_a_whole_answer(dialect: Dialect, answer: dict[str, Any], text: str | None) -> None:
    read = read_plain_answer(json.dumps(answer).encode(), dialect)
    assert read == (None if text is None else WholeAnswer(text))


@pytest.mark.parametrize(
    ("dialect", "answer", "is_complete"),
    [
        (RESPONSES, {"status": "completed", "output": [text_item("a")]}, True),
        (RESPONSES, {"status": "incomplete", "output": [text_item("a")]}, False),
        (RESPONSES, {"status": "failed", "output": [text_item("a")]}, False),
        (RESPONSES, {"status": None, "output": [text_item("a")]}, True),
        (MESSAGES, {"type": "message", "stop_reason": "max_tokens", "content": [block("a")]}, True),
    ],
)
def test_an_answer_that_the_endpoint_calls_incomplete_is_incomplete(
    dialect: Dialect, answer: dict[str, Any], is_complete: bool
) -> None:
    assert read_plain_answer(json.dumps(answer).encode(), dialect) == WholeAnswer("a", is_complete)


def stream_of(*events: dict[str, Any], end: str = "\n") -> bytes:
    """Return a stream of these events, each with its name."""
    lines = (f"event: {e['type']}{end}data: {json.dumps(e, ensure_ascii=False)}{end}{end}" for e in events)
    return "".join(lines).encode()


def delta(text: str, index: int = 0) -> dict[str, Any]:
    """Return a delta of Responses."""
    return {"type": "response.output_text.delta", "output_index": index, "delta": text}


def block_delta(text: str, index: int = 0, kind: str = "text_delta") -> dict[str, Any]:
    """Return a delta of Messages."""
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, "text": text, "thinking": text}}


COMPLETED = {"type": "response.completed", "response": {"id": "r", "status": "completed"}, "sequence_number": 9}
STOP = {"type": "message_stop"}
THOUGHT = block_delta("x", 0, "thinking_delta")
STREAMS: list[tuple[Dialect, list[dict[str, Any]], str]] = [
    (RESPONSES, [delta("Grün "), delta("🍀"), delta("b", 2), COMPLETED], "Grün 🍀\n\nb"),
    (RESPONSES, [{"type": None, "error": None}, delta("a"), COMPLETED], "a"),
    (MESSAGES, [THOUGHT, block_delta("Grün ", 1), block_delta("🍀", 2), STOP], "Grün 🍀"),
    (MESSAGES, [{"type": "ping"}, block_delta("a"), block_delta("b", 2), STOP], "a\n\nb"),
]


def pass_through(dialect: Dialect, raw: bytes, cuts: list[int]) -> tuple[bytes, EventStream]:
    """Feed the bytes in pieces; return all that is sent, and the reader."""
    stream, sent = EventStream(1000, dialect.new_reader()), b""
    for start, end in pairwise([0, *sorted({cut % (len(raw) + 1) for cut in cuts}), len(raw)]):
        sent += stream.feed(raw[start:end])
        if stream.is_done:
            break
    return sent + stream.finish(ADDED, 9), stream


@given(st.sampled_from(STREAMS), st.lists(st.integers(0, 2000), max_size=9), st.sampled_from(["\n", "\r\n"]))
def test_a_stream_keeps_its_bytes_but_for_the_members(
    case: tuple[Dialect, list[dict[str, Any]], str], cuts: list[int], end: str
) -> None:
    dialect, events, text = case
    raw = stream_of(*events, end=end)
    sent, stream = pass_through(dialect, raw, cuts)
    assert sent.count(ADDED) == 1
    assert sent.replace(b"," + ADDED, b"") == raw
    last = json.loads(sent.decode().strip().rsplit("data: ", 1)[1])
    assert last.get("response", last)["model_label"] == "Model: m"
    assert (stream.text, stream.is_complete, stream.is_done) == (text, True, True)


def test_a_stream_that_ends_early_has_the_members_and_is_incomplete() -> None:
    sent, stream = pass_through(RESPONSES, stream_of(delta("a"), COMPLETED | {"type": "response.incomplete"}), [])
    assert (sent.count(ADDED), stream.text, stream.is_complete, stream.is_done) == (1, "a", False, True)


@pytest.mark.parametrize(
    ("dialect", "events"),
    [
        (RESPONSES, [delta("a"), {"type": "response.failed", "response": {"error": {"code": "x"}}}]),
        (RESPONSES, [delta("a"), {"type": "error", "code": "x", "message": "y"}]),
        (RESPONSES, [delta("a")]),
        (MESSAGES, [block_delta("a"), {"type": "error", "error": {"type": "overloaded_error"}}]),
        (MESSAGES, [block_delta("a"), {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}]),
    ],
)
def test_a_stream_that_fails_or_breaks_off_passes_and_is_incomplete(
    dialect: Dialect, events: list[dict[str, Any]]
) -> None:
    raw = stream_of(*events)
    sent, stream = pass_through(dialect, raw, [])
    assert (sent, stream.text, stream.is_complete) == (raw, "a", False)


@pytest.mark.parametrize("dialect", [RESPONSES, MESSAGES])
@pytest.mark.parametrize(
    "raw", [b"data: {\n\n", b"data: [1]\n\n", b"data: \xff\n\n", b"data: " + b"[" * 90_000 + b"\n\n"]
)
def test_data_that_are_no_event_pass(dialect: Dialect, raw: bytes) -> None:
    sent, stream = pass_through(dialect, raw, [])
    assert (sent, stream.text, stream.is_complete) == (raw, "", False)


def test_members_go_into_the_object_even_over_several_lines() -> None:
    event = b'event: x\r\ndata: {"response":\r\ndata:{"id": "r\xc3\xbc"\r\ndata: }, "n": 1}\r\n\r\n'
    changed = add_to_object(event, "response", b'"a":1')
    assert changed == b'event: x\r\ndata: {"response":\r\ndata:{"id": "r\xc3\xbc"\r\ndata: ,"a":1}, "n": 1}\r\n\r\n'
    assert add_to_object(b'data: {"r":{}}\n\n', "r", b'"a":1') == b'data: {"r":{"a":1}}\n\n'


@pytest.mark.parametrize("dialect", [RESPONSES, MESSAGES])
def test_an_answer_of_mnemas_own_reads_like_one_of_the_api(dialect: Dialect) -> None:
    answer = OwnAnswer("1", 7, "m", "Your second favorite color is green.")
    whole = dialect.write_answer(answer, ADDED)
    assert read_plain_answer(whole, dialect) == WholeAnswer(answer.text)
    assert json.loads(whole)["model_label"] == "Model: m"
    stream = EventStream(1000, dialect.new_reader())
    stream.feed(dialect.write_events(answer, ADDED))
    assert (stream.text, stream.is_complete) == (answer.text, True)


@pytest.mark.parametrize("dialect", [RESPONSES, MESSAGES])
def test_an_error_in_mid_stream_is_one_of_the_api(dialect: Dialect) -> None:
    stream = EventStream(1000, dialect.new_reader())
    told = dialect.write_error(UpstreamTimeout("Nothing came.", phase="idle"))
    assert stream.feed(told) == told
    assert stream.has_failed
    event = json.loads(told.split(b"data: ")[1])
    assert event["type"] == "error"
    assert (event["error"]["code"], event["error"]["message"]) == ("upstream_timeout", "Nothing came.")
