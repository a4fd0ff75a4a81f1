"""A model's thoughts are no part of its answer."""

import pytest

from app.domain.chat.answer import EventStream
from app.domain.chat.dialects.completions import CHAT_COMPLETIONS
from app.domain.chat.thoughts import shorten_thoughts, strip_thoughts


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("<think>\nThe user wants a hotel.\n</think>\n\nTry the Weitzer.", "Try the Weitzer."),
        ("<thinking>hm</thinking>Yes.", "Yes."),
        ("<THINK>hm</THINK>Yes.", "Yes."),
        ("First.\n<think>more</think>\nSecond.", "First.\n\nSecond."),
        ("<think>one <thinking> two</think>Yes.", "Yes."),
        ("The prompt opened this thought.\n</think>\n\nYes.", "Yes."),
        ("<think>\nIt never ends", ""),
        ("<think></think>", ""),
        ("Yes.\n<think>\nIt never ends", "Yes."),
        ("Put `<think>` before the thought.", "Put `<think>` before the thought."),
        ("A <think> tag is no HTML.", "A <think> tag is no HTML."),
        ("Nothing to strip.", "Nothing to strip."),
    ],
)
def test_thoughts_are_cut(answer: str, said: str) -> None:
    assert strip_thoughts(answer) == said


@pytest.mark.parametrize("size", [1, 3, 7])
def test_a_long_thought_leaves_room_for_the_answer_of_a_stream(size: int) -> None:
    text = f"<think>{'hm, ' * 500}</think>Try the Weitzer."
    stream = EventStream(100, CHAT_COMPLETIONS.new_reader())
    for at in range(0, len(text), size):
        content = text[at : at + size].replace('"', "")
        stream.feed(b'data: {"choices": [{"index": 0, "delta": {"content": "%s"}}]}\n\n' % content.encode())
    assert strip_thoughts(stream.text) == "Try the Weitzer."


def test_an_answer_without_thoughts_is_cut_where_it_was() -> None:
    assert shorten_thoughts("a" * 50) == "a" * 50
