"""The native form of mnema eval: its lines, its errors, and the choice of conversations and roles."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.evaluation import data as evaluation_data
from bench.evaluation.data import FIRST_TIME, STEP, DataError, DataSet
from bench.evaluation.loading import NOT_STORED, choose_conversations, keep_roles, load_chosen, load_data

OWN = Path(__file__).with_name("own.jsonl")
ONE_QUESTION = '{"question": "?", "evidence": ["a"]}'


def load(tmp_path: Path, *lines: str) -> DataSet:
    file = tmp_path / "own.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    return load_data([file])[0]


def test_the_lines_become_conversations() -> None:
    data, [file] = load_data([OWN])
    maya, omar, lena = data.conversations
    assert (file.name, file.format) == ("own.jsonl", "jsonl")
    assert [unit.id for unit in maya.units] == ["t1", "t2", "t3", "t4", "t5", "t6", "t7"]
    assert maya.units[0].at == datetime(2026, 3, 2, 9, tzinfo=UTC)
    assert [(unit.thread, unit.seq) for unit in maya.units[2:5]] == [("spring", 2), ("summer", 0), ("summer", 1)]
    assert [unit.category for unit in omar.units] == ["preferences", "tasks", "relationships", "preferences"]
    assert [one.place for one in omar.questions] == [6, 7, 8, 9]
    assert [one.answer for one in omar.questions[2:]] == ["nurse", None]
    assert [unit.id for unit in lena.units] == ["t1", "t2"]  # ids belong to their conversation
    assert data.question_count == 10


def test_what_a_line_leaves_out_has_a_default(tmp_path: Path) -> None:
    [one] = load(tmp_path, '{"turn": 7, "text": "x"}', '{"memory": "a", "text": "y"}', "", ONE_QUESTION).conversations
    turn, memory = one.units
    assert (turn.id, turn.role, turn.actor, turn.thread, turn.seq, turn.at) == ("7", "user", None, "1", 0, FIRST_TIME)
    assert (memory.category, memory.at) == ("preferences", FIRST_TIME + STEP)
    assert one.questions[0].kind == "question"
    assert one.asked_at == datetime(2025, 1, 2, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["{"], "own.jsonl:1: not a JSON object in UTF-8"),
        (["[1]"], "own.jsonl:1: a line is a JSON object"),
        (['{"text": "x"}'], "own.jsonl:1: a line has one of the keys turn, memory, question; this one has 0"),
        (['{"turn": "a", "memory": "b", "text": "x"}'], "this one has 2"),
        (["", '{"turn": "a"}'], "own.jsonl:2: text: Field required"),
        (['{"turn": "a", "text": "x", "sequence": 1}'], "own.jsonl:1: sequence: Extra inputs are not permitted"),
        (['{"turn": "a", "text": "x", "at": "soon"}'], "own.jsonl:1: at: "),
        (['{"turn": " a", "text": "x"}'], "own.jsonl:1: turn: .*no outer blanks"),
        (['{"turn": "a", "text": ""}'], "own.jsonl:1: text: .*at least 1 character"),
        (['{"turn": "a", "text": "x"}'] * 2, "own.jsonl:2: 'a' is already the id of own.jsonl:1"),
        (['{"question": "?"}'], "own.jsonl:1: evidence: Field required"),
        (['{"turn": "b", "text": "x"}', ONE_QUESTION], "own.jsonl:2: evidence 'a' is no id of conversation '1'"),
        ([ONE_QUESTION], "own.jsonl:1: conversation '1' has no turn and no memory"),
        (['{"turn": "a", "text": "x"}'], "the data has no questions"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, lines: list[str], said: str) -> None:
    with pytest.raises(DataError, match=said):
        load(tmp_path, *lines)


def test_the_number_of_units_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation_data, "MOST_UNITS", 1)
    with pytest.raises(DataError, match=r"own\.jsonl:2: more than 1 turns and memories"):
        load(tmp_path, '{"turn": "a", "text": "x"}', '{"turn": "b", "text": "x"}')


def test_lines_of_one_conversation_may_be_in_two_files(tmp_path: Path) -> None:
    units, questions = tmp_path / "units.jsonl", tmp_path / "questions.jsonl"
    questions.write_text(ONE_QUESTION, encoding="utf-8")
    units.write_text('{"turn": "a", "text": "x"}', encoding="utf-8")
    data, files = load_data([questions, units])
    assert (data.question_count, len(files)) == (1, 2)


def test_conversations_are_chosen_by_their_places() -> None:
    data, _ = load_data([OWN])
    assert [one.id for one in choose_conversations(data, [2]).conversations] == ["omar"]
    kept = keep_roles(choose_conversations(data, [2]), {"user"})
    assert [(one.id, len(one.units)) for one in kept.spare] == [("maya", 4), ("lena", 1)]
    with pytest.raises(DataError, match="there is no conversation 4: the data has 3"):
        choose_conversations(data, [1, 4])


def test_evidence_of_other_roles_does_not_count() -> None:
    data = keep_roles(load_data([OWN])[0], {"user"})
    maya, omar, _ = data.conversations
    assert [unit.id for unit in maya.units] == ["t1", "t3", "t5", "t6"]
    assert [sorted(one.evidence) for one in maya.questions] == [["t1"], ["t3"], ["t5"], ["t6"], []]
    assert data.left_out == {}
    assert len(omar.units) == 4  # memories have no role
    data = keep_roles(load_data([OWN])[0], {"assistant"})
    assert [sorted(one.evidence) for one in data.conversations[0].questions] == [["t2", "t4"], []]
    assert data.left_out == {NOT_STORED: 4}


def test_data_that_loses_all_questions_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "own.jsonl"
    file.write_text('{"turn": "a", "text": "x", "role": "assistant"}\n' + ONE_QUESTION, encoding="utf-8")
    with pytest.raises(DataError, match="no question is left: questions whose evidence is not stored: 1"):
        load_chosen([file], "auto", [], ["user"])
