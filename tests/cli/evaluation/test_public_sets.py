"""The loaders of public sets, on made-up files of the same shape."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bench.evaluation.data import Conversation, DataError, DataSet
from bench.evaluation.loading import load_data
from bench.evaluation.public_sets import NO_EVIDENCE, NO_TEXT
from tests.cli.evaluation import public_files


def load(tmp_path: Path, data: Any, format_: str = "auto", name: str = "data.json") -> DataSet:
    file = tmp_path / name
    file.write_text(json.dumps(data), encoding="utf-8")
    return load_data([file], format_)[0]


def asked(conversation: Conversation) -> list[tuple[str, str, list[str]]]:
    return [(one.text, one.kind, sorted(one.evidence)) for one in conversation.questions]


def expected(conversation: Conversation) -> list[str | None]:
    return [one.answer for one in conversation.questions]


def test_locomo(tmp_path: Path) -> None:
    data = load(tmp_path, public_files.LOCOMO)
    [one] = data.conversations
    assert [(u.id, u.actor, u.role, u.thread, u.seq) for u in one.units] == [
        ("D1:1", "Ana", "user", "conv-1/s1", 1),
        ("D1:2", "Ben", "assistant", "conv-1/s1", 2),
    ]
    assert one.units[0].at == datetime(2023, 5, 8, 13, 56, 1, tzinfo=UTC)
    assert asked(one) == [
        ("Where did Ben buy his boat?", "single-hop", ["D1:1", "D1:2"]),
        ("Where did Ana buy her boat?", "adversarial", []),
    ]
    assert expected(one) == ["Porto", None]  # the adversarial answer is a wrong one
    assert data.left_out == {NO_EVIDENCE: 1, NO_TEXT: 1}


@pytest.mark.parametrize("format_", ["auto", "conversations", "beam", "realtalk"])
def test_plain_conversations(tmp_path: Path, format_: str) -> None:
    data = load(tmp_path, public_files.CONVERSATIONS, format_)
    [one] = data.conversations
    assert [(u.id, u.actor, u.thread, u.seq) for u in one.units] == [("0", "user", "a", 0), ("1", "assistant", "a", 1)]
    assert asked(one) == [("What do I grow?", "information", ["0"]), ("Where do I live?", "abstention", [])]
    assert expected(one) == ["figs", None]
    assert data.left_out == {NO_EVIDENCE: 1}


def test_realtalk(tmp_path: Path) -> None:
    [one] = load(tmp_path, public_files.REALTALK, name="Chat_1_Ana_Ben.json").conversations
    assert one.id == "Chat_1_Ana_Ben"
    assert [(u.id, u.actor, u.role) for u in one.units] == [("D1:1", "Ana", "user"), ("D1:2", "Ben", "assistant")]
    assert one.units[1].at == datetime(2023, 12, 29, 0, 51, 31, tzinfo=UTC)
    assert asked(one) == [("When did Ana run?", "2", ["D1:1"])]
    assert expected(one) == ["2023"]


def test_longmemeval_has_a_conversation_for_each_question(tmp_path: Path) -> None:
    first, second = load(tmp_path, public_files.LONGMEMEVAL).conversations
    assert [(u.id, u.text) for u in first.units] == [  # by time
        ("1:0", "Hello."),
        ("1:1", "Hello!"),
        ("2:0", "I bought a green lamp."),
    ]
    assert asked(first) == [("Which lamp did I buy?", "single-session-user", ["2:0"])]
    assert first.questions[0].at == datetime(2023, 5, 30, 23, 41, tzinfo=UTC)
    assert asked(second) == [("Which car did I buy?", "abstention", [])]
    assert (expected(first), expected(second)) == (["a green one"], ["not said"])


def test_a_chat_of_beam_is_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "7"
    (folder / "probing_questions").mkdir(parents=True)
    (folder / "chat.json").write_text(json.dumps(public_files.BEAM_CHAT), encoding="utf-8")
    questions = folder / "probing_questions" / "probing_questions.json"
    questions.write_text(json.dumps(public_files.BEAM_QUESTIONS), encoding="utf-8")
    data, files = load_data([folder])
    [one] = data.conversations
    assert [u.text for u in one.units] == ["I plan a shop.", "A shop needs a name.", "It is called Lumen."]
    assert one.units[2].at == datetime(2024, 3, 15, 0, 1, 30, tzinfo=UTC)
    assert asked(one) == [
        ("Who is my landlord?", "abstention", []),
        ("What is my shop called?", "knowledge_update", ["0", "2"]),
    ]
    assert data.left_out == {NO_EVIDENCE: 1}
    assert expected(one) == ["You did not mention a landlord.", "Lumen"]
    assert [len(file.sha256) for file in files] == [64, 64]


@pytest.mark.parametrize(
    ("data", "format_", "said"),
    [
        ({"rows": []}, "auto", "does not look like one of the formats jsonl"),
        (public_files.LOCOMO, "longmemeval", "does not look like the format longmemeval"),
        ([{"conv": "c", "turns": [{"id": 1}], "qs": []}], "auto", "not a file of conversations: KeyError: 'text'"),
        ([{**public_files.LONGMEMEVAL[0], "question_date": "May"}], "auto", "'May' is no time such as"),
        ([{"conv": "c", "turns": [], "qs": []}], "auto", "the data has no questions"),
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path: Path, data: Any, format_: str, said: str) -> None:
    with pytest.raises(DataError, match=said.replace("(", r"\(")):
        load(tmp_path, data, format_)


def test_a_folder_that_is_no_chat_of_beam_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a folder is read only as a chat of BEAM"):
        load_data([tmp_path])
