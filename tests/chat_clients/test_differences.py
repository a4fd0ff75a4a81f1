"""The comparison of clients lets pass what Mnema may change, and nothing else."""

import json
from typing import Any

import pytest

from bench.chat_clients.differences import compare_answers, compare_bodies, strip_memories

BODY = '{"model": "m", "messages": [{"role": "user", "content": "Hi ü"}, {"role": "user","content":"Hi \\u00fc"}] }'
WITH_MEMORIES = BODY.replace('"Hi \\u00fc"', '"Long-term memory:\\n- [fact] x\\n\\nCurrent message: Hi \\u00fc"')
RESULT = BODY.replace('"role": "user","', '"role": "tool","')


def complaints(before: str, after: str) -> list[str]:
    """Return the differences of one request."""
    return list(compare_bodies([before.encode()], [after.encode()]))


def test_memories_before_the_last_message_are_no_difference() -> None:
    assert complaints(BODY, BODY) == []
    assert complaints(BODY, WITH_MEMORIES) == []
    assert strip_memories(json.loads(WITH_MEMORIES)) == json.loads(BODY)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (BODY, WITH_MEMORIES.replace("\\u00fc", "ü")),
        (BODY, WITH_MEMORIES.replace('"model": "m"', '"model":"m"')),
        (BODY, WITH_MEMORIES.replace('"m", ', '"m", "memory_id": "a", ')),
        (BODY, BODY.replace('"m", ', '"m", "memory_id": "a", ')),
        (BODY, BODY.replace('"Hi ü"', '"Current message: Hi ü"')),
        (BODY, BODY.replace('"Hi \\u00fc"', '"Hi \\u00fc, you"')),
        (BODY, BODY.replace(" }", "}")),
        (RESULT, WITH_MEMORIES.replace('"role": "user","', '"role": "tool","')),
    ],
)
def test_any_other_change_of_a_body_is_a_difference(before: str, after: str) -> None:
    assert len(complaints(before, after)) == 1


def test_a_missing_or_added_request_is_a_difference() -> None:
    assert list(compare_bodies([b"{}"], [])) == ["request 0: only directly"]
    assert list(compare_bodies([], [b"{}"])) == ["request 0: only through Mnema"]


def test_an_image_part_stays() -> None:
    parts: list[dict[str, Any]] = [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": "x"}}]
    body = json.dumps({"messages": [{"role": "user", "content": parts}]})
    assert complaints(body, body.replace('"See"', '"Memory\\n\\nCurrent message: See"')) == []
    assert len(complaints(body, body.replace('"x"', '"Current message: x"'))) == 1


def test_a_list_of_models_may_have_more_of_them() -> None:
    models = [{"id": "a", "object": "model"}, {"id": "b", "object": "model"}]
    more = [{"id": "c"}, *(model | {"type": "model"} for model in models)]
    assert list(compare_answers({"list_models": models}, {"list_models": more})) == []
    assert list(compare_answers({"list_models": ["a"]}, {"list_models": ["b", "a"]})) == []
    for wrong in (more[:2], [], [models[0] | {"object": "x"}, models[1]]):
        assert len(list(compare_answers({"list_models": models}, {"list_models": wrong}))) >= 1
    assert len(list(compare_answers({"list_models": ["a"]}, {"list_models": [{"id": "a"}]}))) == 1
    assert len(list(compare_answers({"others": models}, {"others": more}))) > 0, "no other list may have more"


def test_only_the_members_of_memory_may_be_added_to_an_answer() -> None:
    answer = {"id": "1", "choices": [{"index": 0, "text": None}]}
    assert list(compare_answers(answer, answer | {"memory_hits": [], "model_label": "x", "meta": {}})) == []
    assert list(compare_answers(answer, answer | {"extra": 1})) == [".extra: only through Mnema, 1"]
    assert list(compare_answers(answer, {"id": "2", "choices": []})) == [
        ".id: '1' became '2'",
        ".choices: 1 items became 0",
    ]
    assert list(compare_answers(answer, {"id": "1"})) == [".choices: only directly"]
    changed = {"id": "1", "choices": [{"index": 0, "text": ""}]}
    assert list(compare_answers(answer, changed)) == [".choices[0].text: None became ''"]
