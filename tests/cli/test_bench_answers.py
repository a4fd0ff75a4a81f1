"""mnema bench answers: the realistic users, the figures of an answer, and a run."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.domain.memory.memory import MemoryType
from bench import realistic_users
from bench.answers import AnswerFigures
from bench.command import bench_app
from bench.realistic_users import USERS, Question, load_user


@pytest.mark.parametrize("name", USERS)
def test_the_users_are_large_and_mixed(name: str) -> None:
    user = load_user(name)
    assert len(user.memories) >= 120
    assert len(user.questions) >= 80
    assert {m.type for m in user.memories.values()} >= {*MemoryType} - {"insight", "summary", "chunk"}
    assert len({m.thread_id for m in user.memories.values() if m.thread_id}) == 3
    assert len(set(user.groups.values())) >= 6
    assert 0.2 <= sum(not q.relevant for q in user.questions) / len(user.questions) <= 0.25
    assert sum(bool(q.stale) for q in user.questions) >= 12
    assert {q.agent for q in user.questions} == {"planner", "stylist", "executor", "supervisor"}


def test_a_replaced_memory_is_stale_and_a_paraphrase_answers() -> None:
    by_text = {q.ask: q for q in load_user("development").questions}
    assert by_text["payments decision"].stale == {"pay-stripe"}
    assert by_text["format of recaps"].relevant == {f"bullets-{n}" for n in range(1, 6)}


def test_an_unknown_key_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memories = [{"key": "a", "category": "goals", "text": "A goal.", "date": "2025-01-01"}]
    questions = [{"agent": "planner", "ask": "What?", "relevant": ["b"]}]
    raw = {"name": "x", "user_id": "x", "asked_at": "2025-02-01", "memories": memories, "questions": questions}
    (tmp_path / "x.yaml").write_text(
        json.dumps(raw).replace('"2025-01-01"', "2025-01-01").replace('"2025-02-01"', "2025-02-01")
    )
    monkeypatch.setattr(realistic_users, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match="not known"):
        load_user("x")


def test_a_stale_rival_and_a_paraphrase_count() -> None:
    user, figures = load_user("development"), AnswerFigures()
    rival = Question("planner", "Which?", (), frozenset({"pay-adyen"}), frozenset({"pay-stripe"}))
    nothing = Question("planner", "Else?", (), frozenset(), frozenset())
    first = figures.add_answer(rival, [{"stack"}, {"pay-stripe"}, {"pay-adyen"}], user)
    assert (first["top_1"], first["top_3"], first["stale_first"], first["repeats"]) == (False, True, True, 0)
    second = figures.add_answer(rival, [{"pay-adyen"}, {"pay-stripe"}], user)
    assert (second["top_1"], second["stale_first"]) == (True, False)
    merged = figures.add_answer(rival, [{"pay-adyen", "pay-stripe"}], user)
    assert (merged["top_1"], merged["stale_first"]) == (True, False)
    third = figures.add_answer(nothing, [{"wcag-1"}, {"wcag-2"}, {"offline-1"}, {"wcag-3"}], user)
    assert (third["answerable"], third["items"], third["repeats"]) == (False, 4, 2)
    assert figures.mean_of("stale_first", rival=True) == pytest.approx(1 / 3)


@pytest.mark.long
def test_a_run_measures_every_question(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    result = CliRunner().invoke(bench_app, ["answers", "--json", str(file)])
    assert result.exit_code == 0, result.output
    assert "stale first" in result.output
    found = json.loads(file.read_text(encoding="utf-8"))["development"]
    assert len(found["rows"]) == len(load_user("development").questions)
    assert found["summary"]["top-3"] > 0.5


def test_an_unknown_user_is_an_error_of_usage() -> None:
    result = CliRunner().invoke(bench_app, ["answers", "--users", "nobody"])
    assert result.exit_code == 2
    assert "development, held_out" in result.output
