"""The LoCoMo converter, on a small invented conversation."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench import locomo

SAMPLE: dict[str, Any] = {
    "sample_id": "conv-x",
    "conversation": {
        "speaker_a": "Ada",
        "speaker_b": "Ben",
        "session_10_date_time": "12:05 am on 1 February, 2024",
        "session_10": [{"speaker": "Ben", "dia_id": "D10:1", "text": "The kiln is fixed."}],
        "session_2_date_time": "1:56 pm on 8 May, 2023",
        "session_2": [
            {"speaker": "Ada", "dia_id": "D2:1", "text": "My first bowl cracked."},
            {"speaker": "Ben", "dia_id": "D2:2", "text": "Mine too! ", "blip_caption": "a blue bowl in two halves"},
            {"speaker": "Ada", "dia_id": "D2:3", "text": "", "blip_caption": "a bag of clay"},
        ],
        "session_11_date_time": "4:10 pm on 3 March, 2024",
        "session_12_date_time": "4:10 pm on 4 March, 2024",
        "session_12": [],
    },
    "qa": [
        {"question": "What cracked?", "answer": "a bowl", "category": 4, "evidence": ["D2:1", "D2:2"]},
        {"question": "How many bowls?", "answer": 2, "category": 1, "evidence": ["D2:1; D2:2", "D:10:1", "D2:01"]},
        {"question": "Who flew?", "adversarial_answer": "Ada", "category": 5, "evidence": ["D2:1"]},
        {"question": "Is Ada patient?", "answer": "likely", "category": 3, "evidence": []},
    ],
}


@pytest.fixture
def locomo_file(tmp_path: Path) -> Path:
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps([SAMPLE]), encoding="utf-8")
    return path


def test_a_session_becomes_a_thread_in_session_order() -> None:
    lines = list(locomo.import_lines(SAMPLE))
    assert [(line["thread_id"], line["seq"]) for line in lines] == [
        ("conv-x/s2", 1),
        ("conv-x/s2", 2),
        ("conv-x/s2", 3),
        ("conv-x/s10", 1),
    ]
    assert {line["user_id"] for line in lines} == {"locomo-conv-x"}


def test_a_turn_keeps_speaker_time_and_id() -> None:
    assert list(locomo.import_lines(SAMPLE))[1] == {
        "user_id": "locomo-conv-x",
        "thread_id": "conv-x/s2",
        "role": "assistant",
        "actor_id": "Ben",
        "content": "Mine too! [shares a photo: a blue bowl in two halves]",
        "seq": 2,
        "created_at": "2023-05-08T13:56:02+00:00",
        "metadata": {"dia_id": "D2:2"},
    }


def test_a_photo_without_words_is_still_a_turn() -> None:
    assert list(locomo.import_lines(SAMPLE))[2]["content"] == "[shares a photo: a bag of clay]"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1:56 pm on 8 May, 2023", "2023-05-08T13:56:00+00:00"),
        ("12:05 am on 1 February, 2024", "2024-02-01T00:05:00+00:00"),
        ("12:30 pm  on 29 February, 2024", "2024-02-29T12:30:00+00:00"),
    ],
)
def test_session_time_is_utc(text: str, expected: str) -> None:
    assert locomo.session_time(text).isoformat() == expected


def test_a_session_time_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ValueError, match="does not match"):
        locomo.session_time("some day in May")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (["D1:3"], ("D1:3",)),
        (["D8:6; D9:17"], ("D8:6", "D9:17")),
        (["D9:1 D4:4 D4:6"], ("D9:1", "D4:4", "D4:6")),
        (["D:11:26"], ("D11:26",)),
        (["D30:05", "d30 : 5"], ("D30:5",)),
        (["(D1:3)", "D1:3"], ("D1:3",)),
        (["D"], ()),
        ([], ()),
        ("D2:1", ("D2:1",)),
        (None, ()),
        ([None, 7], ()),
    ],
)
def test_evidence_is_normalised(raw: object, expected: tuple[str, ...]) -> None:
    assert locomo.normalise_evidence(raw) == expected


def test_questions_keep_file_order_and_leave_out_the_adversarial(locomo_file: Path) -> None:
    questions = locomo.load_questions(locomo_file, 1)
    assert [question.category for question in questions] == [4, 1, 3]
    assert questions[1] == locomo.Question("How many bowls?", "2", 1, ("D2:1", "D2:2", "D10:1"))


def test_questions_of_chosen_categories(locomo_file: Path) -> None:
    assert [q.question for q in locomo.load_questions(locomo_file, 1, categories=(4,))] == ["What cracked?"]


@pytest.mark.parametrize("conversation", [0, 2])
def test_a_conversation_that_is_not_there(locomo_file: Path, conversation: int) -> None:
    with pytest.raises(ValueError, match="there is no conversation"):
        locomo.load_conversation(locomo_file, conversation)


def test_convert_writes_one_line_per_turn(locomo_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "turns.jsonl"
    assert locomo.main(["convert", str(locomo_file), "--conversation", "1", "--out", str(out)]) == 0
    written = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert written == list(locomo.import_lines(SAMPLE))


def test_options_may_come_before_the_file(locomo_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert locomo.main(["questions", "--conversation", "1", "--limit", "1", str(locomo_file)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("1. [4] What cracked?")
    assert "D2:1, D2:2" in printed
    assert "How many" not in printed


def server(answer: Callable[[httpx.Request], httpx.Response]) -> httpx.Client:
    return httpx.Client(base_url="http://mnema.test", transport=httpx.MockTransport(answer))


def test_ask_counts_the_evidence_turns_among_the_items(locomo_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bodies: list[dict[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/memory/query"
        bodies.append(json.loads(request.content))
        items = [
            {"id": "1", "category": "activity", "text": "My first bowl\ncracked." + " x" * 99, "metadata": None},
            {"id": "2", "category": "activity", "text": "Mine too!", "metadata": {"dia_id": "D2:2"}},
        ]
        return httpx.Response(200, json={"items": items, "related": []})

    with server(answer) as client:
        locomo.ask_all(client, "locomo-conv-x", locomo.load_questions(locomo_file, 1))
    printed = capsys.readouterr().out
    assert bodies[0] == {
        "agent": "supervisor",
        "query": "What cracked?",
        "categories": ["activity"],
        "filters": {"user_id": "locomo-conv-x"},
        "top_k": 10,
        "return": "full",
        "budget_tokens": 4096,
    }
    assert "D2:1: not found" in printed
    assert "D2:2: found, place 2" in printed
    assert "questions: 3 (2 with evidence)" in printed
    assert "evidence turns: 5, hits: 2, misses: 3" in printed
    assert "evidence recall@10: 0.400 of turns, 0.417 mean of questions" in printed


def test_a_refusal_of_the_server_is_raised() -> None:
    with (
        server(lambda request: httpx.Response(403, json={"code": "category_not_allowed"})) as client,
        pytest.raises(httpx.HTTPStatusError),
    ):
        locomo.ask_server(client, "locomo-conv-x", "What cracked?")


def test_ask_without_a_key_says_so(
    locomo_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MNEMA_API_KEY", raising=False)
    assert locomo.main(["ask", str(locomo_file)]) == 1
    assert "MNEMA_API_KEY is not set" in capsys.readouterr().err
