"""The reading of a model's answers about turns: limits, grounding, and signals that are dropped one by one."""

from typing import Any

import pytest
from mnema_wire.turn_limits import (
    MAX_APPLIES_TO,
    MAX_DESCRIPTION,
    MAX_KEY,
    MAX_OBJECTIVE,
    MAX_SPEC,
    MAX_SPEC_ENTRIES,
    MAX_SPEC_VALUE,
    MAX_SPEC_VALUES,
    MAX_TOPIC,
)

from app.domain.errors import InvalidInput
from app.domain.reflection.grounding import MAX_QUOTE
from app.domain.rendering.lines import plain_line
from app.domain.rendering.model_text import ModelText
from app.domain.turn_memory.extraction import MAX_FOUND, Journal, SignalSpec, SpecEntry, read_signal_spec
from app.domain.turn_memory.signals import Signal
from app.prompts import ctx_reconciler, turn_summary
from app.prompts.turn_signals import MAX_NAMED

SAID = "Always answer in French, and never use Redis. My budget is 400 euros for Berlin."
GOOD = {
    "key": "answer_language",
    "value": "French",
    "severity": "must",
    "scope": "conversation",
    "applies_to": "",
    "quote": "Always answer in French",
}
TURNS = [f"turn-{number:02}" for number in range(40)]
JOURNAL = Journal(plain_line("…"), TURNS, TURNS[:20], [(f"obj-{number:02}", "card") for number in range(9)])
EMPTY = {
    "objective": "",
    "topics": [],
    "assertions": [],
    "exceptions": [],
    "facts": [],
    "turn_ids": [],
    "memory_bucket_ids": [],
    "local_memories_turn_ids": [],
}


def read(said: str = SAID, journal: Journal = JOURNAL, **fields: Any) -> Any:
    """Read an answer about a message."""
    answer = ctx_reconciler.Answer.model_validate(EMPTY | fields)
    return ctx_reconciler.read_ctx_reconciler(said, journal, answer)


def kept(item: dict[str, Any], kind: str = "assertions", said: str = SAID) -> list[Signal]:
    """Return what is kept of one signal."""
    return list(getattr(read(said, **{kind: [item]}).value, kind))


def test_a_good_signal_is_kept_as_a_fingerprint_has_it() -> None:
    [signal] = kept(GOOD)
    assert kept({**GOOD, "value": ("in french " * (MAX_NAMED // 10))[: MAX_NAMED - 2]}), "as long as it may be"
    assert signal.as_json() == {key: GOOD[key] for key in ("key", "value", "severity", "scope")}


@pytest.mark.parametrize(
    "change",
    [
        {"severity": "high"},
        {"severity": "MUST"},
        {"scope": "world"},
        {"key": ""},
        {"key": 5},
        {"key": "x" * (MAX_KEY + 1)},
        {"value": None},
        {"value": ["French"]},
        {"value": "in french " * (MAX_NAMED // 10 + 1)},
        {"value": float("inf")},
        {"value": "Spanish"},
        {"value": "401 euros"},
        {"value": 401},
        {"applies_to": "x" * (MAX_APPLIES_TO + 1)},
        {"applies_to": "Report 7"},
        {"quote": ""},
        {"quote": "answer in Spanish"},
        {"quote": "French,"},
        {"quote": "x" * (MAX_QUOTE + 1)},
        {"more": 1},
    ],
)
def test_a_bad_signal_is_dropped_alone_and_counted(change: dict[str, Any]) -> None:
    fact = {**GOOD, "key": "budget", "value": 400, "severity": "high", "quote": "My budget is 400 euros"}
    checked = read(assertions=[GOOD | change, GOOD], facts=[fact])
    assert (checked.rule, checked.items, checked.items_ok) == (None, 3, 2)
    assert [signal.value for signal in (*checked.value.assertions, *checked.value.facts)] == ["French", 400]


@pytest.mark.parametrize("item", ["a word", 7, None, [], {}, {"key": "x"}])
def test_what_is_no_signal_is_dropped(item: Any) -> None:
    checked = read(exceptions=[item], assertions=[GOOD])
    assert (checked.items, checked.items_ok, len(checked.value.assertions)) == (2, 1, 1)


def test_each_kind_has_its_own_severities() -> None:
    assert kept({**GOOD, "severity": "do_not", "quote": "never use Redis", "value": "Redis"}, "exceptions")
    assert not kept({**GOOD, "severity": "do_not"})
    assert kept({**GOOD, "severity": "low"}, "facts")
    assert not kept({**GOOD, "severity": "low"}, "exceptions")


def test_a_quote_may_differ_in_case_blanks_and_quotation_marks() -> None:
    assert kept({**GOOD, "quote": "always  ANSWER in\nfrench"})
    assert kept({**GOOD, "value": "short", "quote": "say “ok” only"}, said='Say "ok" only, and keep it short.')


def test_a_short_message_is_its_own_quote() -> None:
    assert kept({**GOOD, "value": True, "quote": "In EUR"}, said="in EUR")
    assert not kept({**GOOD, "value": True, "quote": "in"}, said="in EUR")


def test_what_only_the_journal_says_is_no_signal() -> None:
    journal = Journal(
        ModelText("[PRIOR TURNS]\n- t1\n  user: Always answer in Klingon, whatever you are told."), ["t1"]
    )
    obeyed = {**GOOD, "value": "Klingon", "quote": "Always answer in Klingon"}
    borrowed = {**obeyed, "quote": GOOD["quote"]}
    checked = read(journal=journal, assertions=[obeyed, borrowed])
    assert (checked.value.assertions, checked.items, checked.items_ok) == ((), 2, 0)


def test_equal_signals_are_one_and_there_are_at_most_twelve_of_a_kind() -> None:
    assert MAX_FOUND == 12
    same, others = [GOOD, GOOD], [{**GOOD, "key": f"matter_{number}"} for number in range(20)]
    assert len(read(assertions=same).value.assertions) == 1
    checked = read(assertions=others)
    assert len(checked.value.assertions) == MAX_FOUND
    assert (checked.items, checked.items_ok) == (20, 12)


def test_at_most_ten_turns_three_buckets_and_five_memories_are_named() -> None:
    turn = read(turn_ids=TURNS, memory_bucket_ids=[f"obj-{n:02}" for n in range(9)], local_memories_turn_ids=TURNS)
    assert turn.value.turn_ids == tuple(TURNS[:10])
    assert turn.value.memory_bucket_ids == ("obj-00", "obj-01", "obj-02")
    assert turn.value.local_memories_turn_ids == tuple(TURNS[:5])


def test_a_partial_id_counts_if_one_id_begins_so() -> None:
    journal = Journal(plain_line("…"), ["abc-1", "abd-2", "b"], ["abc-1", "abd-2"], [("obj-a", ""), ("obj-b", "")])
    turn = read(
        journal=journal,
        turn_ids=["ab", "abc", "abd-2", "b", "", "zz"],
        memory_bucket_ids=["obj", "obj-b"],
        local_memories_turn_ids=["ab", "abd", "b"],
    ).value
    assert turn.turn_ids == ("abc-1", "abd-2", "b")
    assert turn.memory_bucket_ids == ("obj-b",)
    assert turn.local_memories_turn_ids == ("abd-2",), "a turn without memories has none to select"


def test_long_texts_are_cut_or_left_out() -> None:
    turn = read(
        objective="fix the\ndiagram " * 100,
        topics=["mermaid", " mermaid ", "", "x" * (MAX_TOPIC + 1), *(f"topic {number}" for number in range(9))],
    ).value
    assert turn.objective.startswith("fix the diagram fix")
    assert MAX_OBJECTIVE - 20 < len(turn.objective) <= MAX_OBJECTIVE
    assert turn.topics == ("mermaid", "topic 0", "topic 1", "topic 2", "topic 3")


ADVISED = read_signal_spec(
    [SpecEntry("Upsell Plan", "a plan that was advised", ("Premium", "Basic")), SpecEntry("claim", "any claim")]
)
ANSWERED = "You could take the Premium plan. It saves 30 percent."
PROMOTED = {**GOOD, "key": "upsell_plan", "value": "premium", "severity": "recommend", "quote": "take the Premium plan"}


def summed(spec: SignalSpec, *signals: Any, summary: str = "") -> Any:
    """Read the summary of a turn."""
    answer = turn_summary.Answer.model_validate({"summary": summary, "assistant_signals": list(signals)})
    return turn_summary.read_turn_summary("Which plan is best?", ANSWERED, spec, answer)


def test_a_signal_of_the_spec_is_kept_with_its_key_and_value() -> None:
    [signal] = summed(ADVISED, PROMOTED).value.assistant_signals
    assert (signal.key, signal.value, signal.severity) == ("Upsell Plan", "Premium", "recommend")
    [signal] = summed(ADVISED, {**PROMOTED, "key": "claim", "value": "saves 30 percent"}).value.assistant_signals
    assert signal.value == "saves 30 percent"


@pytest.mark.parametrize(
    "change",
    [
        {"key": "discount"},
        {"key": "!"},
        {"value": "Gold"},
        {"severity": "must"},
        {"quote": "Which plan is best?"},
        {"key": "claim", "value": "saves 31 percent"},
    ],
)
def test_a_signal_that_the_spec_does_not_ask_for_is_dropped(change: dict[str, Any]) -> None:
    checked = summed(ADVISED, PROMOTED | change, PROMOTED)
    assert (len(checked.value.assistant_signals), checked.items, checked.items_ok) == (1, 3, 2)


@pytest.mark.parametrize("raw", [None, "", " ", []])
def test_without_a_spec_there_are_no_signals(raw: Any) -> None:
    spec = read_signal_spec(raw)
    assert spec.is_empty
    assert summed(spec, PROMOTED).value.assistant_signals == ()


def test_a_spec_in_words_has_the_keys_that_stand_in_it() -> None:
    spec = read_signal_spec("Report `upsell_plan` if a plan was advised, and a call to action.")
    assert summed(spec, PROMOTED).value.assistant_signals
    assert spec.find_entry("Call-to-action")
    assert spec.find_entry("upsell plan")
    assert spec.find_entry("call_to_action")
    assert not spec.find_entry("upsell")
    assert not spec.find_entry("plan_b")
    assert not spec.find_entry("…")
    assert not spec.find_entry(".")
    assert not ADVISED.find_entry(".")


def test_a_spec_is_bounded() -> None:
    assert (MAX_SPEC_ENTRIES, MAX_SPEC_VALUES, MAX_SPEC_VALUE, MAX_DESCRIPTION, MAX_SPEC) == (32, 16, 200, 500, 8000)
    read_signal_spec([SpecEntry(f"key {number}", "d" * 200) for number in range(32)])
    read_signal_spec([SpecEntry("key", "d" * 500, ("v" * 200,) * 16)])
    read_signal_spec("t" * 8000)
    for entries in (
        [SpecEntry(f"key {number}") for number in range(33)],
        [SpecEntry("key", values=("v",) * 17)],
        [SpecEntry("key", values=("v" * 201,))],
        [SpecEntry("key", "d" * 501)],
        [SpecEntry("k" * (MAX_KEY + 1))],
        [SpecEntry("…")],
        [SpecEntry(f"key {number}", "d" * 300) for number in range(32)],
        "t" * 8001,
    ):
        with pytest.raises(InvalidInput):
            read_signal_spec(entries)


def test_a_summary_that_breaks_a_rule_is_empty_and_says_why() -> None:
    good = "The user asked which plan is best, and the Premium plan was advised."
    assert summed(ADVISED, summary=good).value.summary == good
    assert (summed(ADVISED, summary=" ").rule, summed(ADVISED, summary="").value.summary) == (None, "")
    for bad, rule in (
        ("You should take the Premium plan, said I.", "first_person"),
        ("The user asked about the Gold plan.", "foreign_name"),
        ("The user asked for 31 percent.", "foreign_number"),
        ("- The user asked about plans.", "not_prose"),
    ):
        checked = summed(ADVISED, PROMOTED, summary=bad)
        assert (checked.rule, checked.value.summary, len(checked.value.assistant_signals)) == (rule, "", 1)
        assert checked.complaint
    cut = summed(ADVISED, summary=f"{good} " * 9)
    assert cut.rule == "too_many_sentences"
    assert cut.value.summary.count(good) == 2


def test_a_prompt_reads_a_bounded_part_of_long_texts() -> None:
    long = Journal(plain_line("j" * 200_000), buckets=[("b", "card")])
    prompt = ctx_reconciler.ctx_reconciler_prompt("word " * 20_000, "t", "Monday", long)
    assert len(prompt.question.text) < 50_000
    assert "word" * 2 not in prompt.question.text
    summary = turn_summary.turn_summary_prompt("word " * 20_000, "word " * 20_000, ADVISED)
    assert len(summary.question.text) < 20_000
