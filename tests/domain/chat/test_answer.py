"""Answers on their way: every byte stays, and Mnema's members stand in the last part."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.domain.chat.answer import (
    MAX_HELD,
    MAX_LINES,
    EventStream,
    read_plain_answer,
)
from app.domain.chat.dialect import OwnAnswer, WholeAnswer
from app.domain.chat.dialects.completions import CHAT_COMPLETIONS
from app.domain.chat.members import add_members, added_members
from app.domain.outages import UpstreamUnusable

ADDED = b'"model_label":"Model: m"'


def part(delta: dict[str, Any] | None = None, reason: str | None = None, **more: Any) -> str:
    """Return one chunk of a streamed answer as JSON."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": reason}]
    return json.dumps({"id": "c1", "created": 7, "model": "m", "choices": choices} | more)


def events(*parts: str, end: str = "\n") -> bytes:
    """Return a stream of events with these data."""
    return "".join(f"data: {one}{end}{end}" for one in parts).encode()


def pass_through(raw: bytes, cuts: list[int] | None = None, most_text: int = 1000) -> tuple[bytes, EventStream]:
    """Feed the bytes in pieces; return all that is sent, and the reader."""
    stream, sent = EventStream(most_text, CHAT_COMPLETIONS.new_reader()), b""
    places = [0, *sorted({cut % (len(raw) + 1) for cut in cuts or []}), len(raw)]
    for start, end in pairwise(places):
        sent += stream.feed(raw[start:end])
        if stream.is_done:
            rest = raw[end:]
            return sent + stream.finish(ADDED, 9) + rest, stream
    return sent + stream.finish(ADDED, 9), stream


SAID = [
    part({"role": "assistant", "content": ""}),
    part({"content": "Grün "}, system_fingerprint="fp"),
    part({"content": "🍀"}),
]
LAST = part({}, "stop")
USAGE = part(None, usage={"total_tokens": 3})


@pytest.mark.parametrize(
    ("parts", "spliced"),
    [
        ([*SAID, LAST, "[DONE]"], LAST),
        ([*SAID, LAST, USAGE, "[DONE]"], USAGE),
        ([*SAID, LAST], LAST),
        ([part({"content": "Grün 🍀"}, "stop"), "[DONE]"], part({"content": "Grün 🍀"}, "stop")),
    ],
)
@given(st.lists(st.integers(0, 2000), max_size=30))
@example(list(range(2000)))
def test_the_last_part_has_the_members_however_the_bytes_arrive(
    parts: list[str], spliced: str, cuts: list[int]
) -> None:
    raw = events(*parts)
    sent, stream = pass_through(raw, cuts)
    changed = spliced.encode()[:-1] + b"," + ADDED + b"}"
    assert sent == changed.join(raw.rsplit(spliced.encode(), 1))
    assert stream.is_complete
    assert stream.text == "Grün 🍀"


def test_all_but_the_last_part_leaves_at_once() -> None:
    stream = EventStream(100, CHAT_COMPLETIONS.new_reader())
    for one in SAID:
        assert stream.feed(events(one)) == events(one)
    assert stream.feed(events(LAST)) == b""
    assert stream.feed(events(USAGE)) == events(LAST), "another part shows that it was not the last"
    assert stream.feed(b"data: [DONE]\n\n") == b""
    assert stream.is_done


def test_comments_names_of_events_and_other_line_ends_stay() -> None:
    raw = (
        b": hello {}\n\nevent: chunk\nid: 4\ndata:"
        + SAID[1].encode()
        + b"\r\n\r\n: ping\n\n"
        + events(LAST, end="\r\n")
    )
    raw += b": } still here\n\n" + b"data:[DONE]\r\n\r\n"
    sent, stream = pass_through(raw, [3, 17, 40])
    assert sent.replace(b"," + ADDED, b"") == raw
    assert b"," + ADDED + b"}\r\n\r\n: } still" in sent
    assert stream.text == "Grün "


def test_a_stream_without_a_last_part_gets_one_of_mnema() -> None:
    sent, stream = pass_through(events(SAID[1], "[DONE]"))
    *_, own, done, _ = sent.decode().split("\n\n")
    assert done == "data: [DONE]"
    told = json.loads(own.removeprefix("data: "))
    assert told["model_label"] == "Model: m"
    assert (told["id"], told["created"], told["model"], told["system_fingerprint"]) == ("c1", 7, "m", "fp")
    assert told["choices"] == [{"index": 0, "delta": {}, "finish_reason": None}]
    assert stream.is_complete


@pytest.mark.parametrize(
    "raw",
    [
        events(*SAID),
        events(*SAID)[:-10],
        events(SAID[1], json.dumps({"error": {"message": "overloaded"}})),
        events(SAID[1], json.dumps({"error": {"message": "overloaded"}}), "[DONE]"),
        b"",
    ],
)
def test_a_stream_that_breaks_off_is_incomplete_and_stays_as_it_is(raw: bytes) -> None:
    sent, stream = pass_through(raw, [5, 9])
    assert not stream.is_complete
    if not stream.is_done:
        assert sent == raw


def test_an_error_that_is_null_is_none() -> None:
    raw = events(*(part({"content": text}, error=None) for text in "ab"), part({}, "stop", error=None), "[DONE]")
    stream = pass_through(raw)[1]
    assert (stream.text, stream.is_complete, stream.has_failed) == ("ab", True, False)


def test_half_a_character_becomes_a_whole_one() -> None:
    answer = OwnAnswer("1", 7, "\ud800", "Teal.")
    added = added_members([], "Model: \udfff", {})
    told = json.loads(CHAT_COMPLETIONS.write_answer(answer, added))
    assert (told["model"], told["model_label"]) == ("\ufffd", "Model: \ufffd")
    assert "\ufffd".encode() in CHAT_COMPLETIONS.write_events(answer, added)


def test_what_is_not_json_or_huge_passes_unread() -> None:
    raw = events("no JSON", "[1]", '{"choices": 7}', '{"choices": [7]}', '{"choices": [{"delta": 7}]}', "[" * 9999)
    raw += b"data: " + b"x" * (2 * MAX_HELD) + b"\n\n" + events(*SAID, LAST, "[DONE]")
    sent, stream = pass_through(raw, list(range(0, len(raw), 65_536)))
    assert sent.replace(b"," + ADDED, b"") == raw
    assert stream.text == "Grün 🍀"


def test_what_follows_the_last_part_is_not_held_without_end() -> None:
    raw = events(*SAID, LAST) + b":\n\n" * (MAX_HELD // 3 + 1) + events("[DONE]")
    stream = EventStream(1000, CHAT_COMPLETIONS.new_reader())
    sent = stream.feed(raw)
    assert len(sent) > MAX_HELD
    assert (sent + stream.finish(ADDED, 0)).startswith(raw.removesuffix(events("[DONE]")))


def test_a_stream_has_a_bounded_number_of_lines() -> None:
    stream = EventStream(1000, CHAT_COMPLETIONS.new_reader())
    stream.feed(b"\n" * MAX_LINES)
    with pytest.raises(UpstreamUnusable):
        stream.feed(b"\n")


def test_the_text_is_bounded() -> None:
    raw = events(*[part({"content": "abc"})] * 100, LAST)
    assert pass_through(raw, most_text=7)[1].text == "abcabca"


def test_only_the_first_choice_is_read() -> None:
    second = json.dumps({"choices": [{"index": 1, "delta": {"content": "no"}}]})
    assert pass_through(events(second, SAID[1], LAST))[1].text == "Grün "


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"choices": [{"index": 0, "message": {"content": "Hi"}}]}, "Hi"),
        ({"choices": [{"message": {"content": [{"type": "text", "text": "A"}, {"text": "b"}, 7]}}]}, "Ab"),
        ({"choices": [{"index": 0, "message": {"content": None, "tool_calls": []}}]}, ""),
        ({"choices": [{"index": 0}]}, ""),
        ({"choices": []}, None),
        ({"data": []}, None),
        ([], None),
    ],
)
def test_the_text_of_a_plain_answer(answer: Any, text: str | None) -> None:
    read = read_plain_answer(json.dumps(answer).encode(), CHAT_COMPLETIONS)
    assert read == (None if text is None else WholeAnswer(text))


def test_what_is_no_answer_has_no_text() -> None:
    assert read_plain_answer(b"<html>", CHAT_COMPLETIONS) is None
    assert read_plain_answer(b"[" * 100_000, CHAT_COMPLETIONS) is None


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=9), max_size=4), st.booleans())
def test_members_are_added_at_the_end(answer: dict[str, Any], spaced: bool) -> None:
    raw = json.dumps(answer, indent=2 if spaced else None).encode() + b"\n"
    added = added_members([{"content": "ü}"}], "Model: m", {"usedMemory": False})
    whole = add_members(raw, added)
    expected = {"memory_hits": [{"content": "ü}"}], "model_label": "Model: m", "meta": {"usedMemory": False}}
    assert json.loads(whole) == answer | expected
    assert whole.replace(added, b"").replace(b",}", b"}").replace(b"\n,", b"\n").split() == raw.split() or answer


@pytest.mark.parametrize("usage", [False, True])
def test_an_answer_of_mnemas_own_has_openais_shape(usage: bool) -> None:
    answer = OwnAnswer("1", 7, "m", "Your second favorite color is green.", choices=2, include_usage=usage)
    whole = json.loads(CHAT_COMPLETIONS.write_answer(answer, ADDED))
    assert whole["model_label"] == "Model: m"
    assert [choice["message"]["content"] for choice in whole["choices"]] == [answer.text] * 2
    assert set(whole["usage"].values()) == {0}
    data = [line.removeprefix("data: ") for line in CHAT_COMPLETIONS.write_events(answer, ADDED).decode().split("\n\n")]
    assert data[-2:] == ["[DONE]", ""]
    parts = [json.loads(one) for one in data[:-2]]
    assert parts[-1]["model_label"] == "Model: m"
    assert all("model_label" not in one for one in parts[:-1])
    said = "".join(c["delta"].get("content", "") for p in parts for c in p["choices"] if c["index"] == 1)
    assert said == answer.text
    assert ("usage" in parts[-1]) is usage
