"""Server-sent events: parsing them, and what a stream of a model's answer may end with."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mnema_client import BrokenOff, UnexpectedAnswer
from mnema_client.errors import Unavailable
from mnema_client.model_events import Restart, TextDelta
from mnema_client.streams import Event, ServerEvents
from mnema_client.turn_extraction import stream_summary
from mnema_wire.turn_extraction import SummarizedOut

ANSWER: dict[str, Any] = {
    "summary": "Grüße\u2028 and more.",
    "assistant_signals": [],
    "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
}
STREAM = (
    ": the model is at work\n\n"
    'event: delta\r\ndata: {"text": "Grü"}\r\n\r\n'
    'event:restart\ndata:{"reason": "malformed"}\n\n'
    "event: foreseen\ndata: [1,\ndata: 2]\n\n"
    f"id: 7\nevent: result\ndata: {json.dumps(ANSWER, ensure_ascii=False)}\n\n"
).encode()
EVENTS = [
    Event("delta", {"text": "Grü"}),
    Event("restart", {"reason": "malformed"}),
    Event("foreseen", [1, 2]),
    Event("result", ANSWER),
]
CALL = stream_summary("talk", "t1", user_id="maya")


@given(st.sets(st.integers(1, len(STREAM) - 1)))
def test_events_are_the_same_wherever_the_chunks_end(cuts: set[int]) -> None:
    parser, places = ServerEvents(), [0, *sorted(cuts), len(STREAM)]
    found = [event for a, b in itertools.pairwise(places) for event in parser.feed_chunk(STREAM[a:b])]
    parser.check_end()
    assert found == EVENTS


def test_a_stream_that_breaks_off_or_is_no_json_is_an_error() -> None:
    for end in ("event: delta\nda", 'data: {"text": "x"}\n'):
        parser = ServerEvents()
        parser.feed_chunk(STREAM + end.encode())
        with pytest.raises(BrokenOff):
            parser.check_end()
    with pytest.raises(UnexpectedAnswer):
        ServerEvents().feed_chunk(b"data: <html>\n\n")


def test_events_become_pieces_and_a_result() -> None:
    read = [CALL.read_event(event) for event in EVENTS]
    assert read[:3] == [TextDelta("Grü"), Restart("malformed"), None]
    result = read[3]
    assert isinstance(result, SummarizedOut)
    assert result.usage.total_tokens == 3
    CALL.check_end(result)
    with pytest.raises(BrokenOff):
        CALL.check_end(read[0])
    problem = {"status": 503, "code": "chat_model_unavailable", "detail": "later"}
    with pytest.raises(Unavailable, match="chat_model_unavailable: later"):
        CALL.read_event(Event("error", problem))
    for bad in (Event("delta", {}), Event("result", {"summary": 1}), Event("restart", None), Event("error", [])):
        with pytest.raises(UnexpectedAnswer):
            CALL.read_event(bad)
