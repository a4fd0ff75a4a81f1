"""The four views of a conversation of 20 turns, byte for byte, and the choice of the turns that they show."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.turn_memory.active_set import ActiveSet
from app.domain.turn_memory.views import ContextRows, ViewName, ViewRequest, build_view
from tests import twenty_turns

GOLDEN = Path(__file__).parent / "golden"
BEFORE = [
    "[CURRENT TURN]",
    "[PRIOR TURNS (newest->oldest) - COMPRESSED VIEWS]",
    "[TURNS CANDIDATES TABLE]",
    "[USER FEEDBACK — CHRONOLOGICAL (newest->oldest; scope=conversation)]",
    "[TURN MEMORIES — CHRONOLOGICAL (newest->oldest; scope=conversation)]",
]
FINAL = [
    "[TURN MEMORIES — CHRONOLOGICAL (selected; scope=conversation)]",
    "[USER FEEDBACK — CHRONOLOGICAL (scope=conversation)]",
    "[ASSISTANT SIGNALS — CHRONOLOGICAL (scope=user_cross_conversation)]",
]
EARLY = (ViewName.gate, ViewName.reconciler)
LATE = (ViewName.downstream, ViewName.final)


def fingerprints(*numbers: int) -> list[dict[str, Any]]:
    """Return fingerprints of turns; a higher number is newer."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return [{"turn_id": f"t{n:03d}", "made_at": (start + timedelta(hours=n)).isoformat()} for n in numbers]


def memories_of(rows: ContextRows, view: ViewName, **request: Any) -> list[str]:
    """Return the turns of the block of turn memories, in their order."""
    blocks = build_view(ViewRequest(view, **request), rows, twenty_turns.NOW)
    [block] = [block for block in blocks if block.header.startswith("[TURN MEMORIES")]
    return re.findall(r"^- (\S+) ", block.text, re.MULTILINE)


@pytest.mark.parametrize("reconciled", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("view", list(ViewName))
def test_a_view_is_the_golden_file(view: ViewName, reconciled: bool) -> None:
    rows = twenty_turns.view_rows(reconciled=reconciled)
    blocks = build_view(ViewRequest(view, twenty_turns.CURRENT), rows, twenty_turns.NOW)
    assert [block.header for block in blocks] == (FINAL if view is ViewName.final else BEFORE)
    text = "\n\n".join(block.text for block in blocks)
    golden = GOLDEN / f"{view.value}_{'after' if reconciled else 'before'}.txt"
    assert text.encode() == golden.read_bytes()


def test_gate_and_reconciler_read_the_same() -> None:
    for moment in ("before", "after"):
        assert (GOLDEN / f"gate_{moment}.txt").read_bytes() == (GOLDEN / f"reconciler_{moment}.txt").read_bytes()


@pytest.mark.parametrize("view", EARLY)
def test_an_early_view_adds_the_selected_turns_to_the_window(view: ViewName) -> None:
    rows = ContextRows(ActiveSet(), window=fingerprints(9, 8, 7), named=fingerprints(2, 8))
    assert memories_of(rows, view, selection=["t002", "t008"]) == ["t009", "t008", "t007", "t002"]


@pytest.mark.parametrize("view", EARLY)
def test_a_cut_at_16_spares_the_selected_turns(view: ViewName) -> None:
    rows = ContextRows(window=fingerprints(*range(40, 20, -1)), named=fingerprints(1, 2, 3, 4, 5))
    chosen = [f"t{n:03d}" for n in (1, 2, 3, 4, 5)]
    assert memories_of(rows, view, selection=chosen) == [f"t{n:03d}" for n in (*range(40, 29, -1), 5, 4, 3, 2, 1)]


@pytest.mark.parametrize("view", LATE)
@pytest.mark.parametrize(
    ("stored", "given_", "shown"),
    [
        (None, None, ["t009", "t008"]),
        (("t003",), None, ["t003"]),
        ((), None, []),
        (("t003",), [], []),
        (("t003",), [""], []),
        (("t003",), ["t004"], ["t004"]),
        (("nosuch",), None, []),
        (None, ["t003", "t004"], ["t004", "t003"]),
        (None, ["t00"], []),
    ],
    ids=str,
)
def test_a_late_view_has_the_selected_turns_alone(
    view: ViewName, stored: tuple[str, ...] | None, given_: Sequence[str] | None, shown: list[str]
) -> None:
    rows = ContextRows(ActiveSet((), stored), window=fingerprints(9, 8), named=fingerprints(3, 4))
    assert memories_of(rows, view, selection=given_) == shown
    current = replace(rows, current=fingerprints(10)[0])
    assert memories_of(current, view, turn_id="t010", selection=given_) == ["t010", *shown]


def test_at_most_five_turns_are_selected() -> None:
    names = [f"t{n:03d}" for n in range(1, 8)]
    rows = ContextRows(named=fingerprints(*range(1, 8)))
    assert memories_of(rows, ViewName.downstream, selection=names) == names[4::-1]


def test_without_a_current_turn_there_is_none() -> None:
    rows = replace(twenty_turns.view_rows(reconciled=True), current=None, current_log=None)
    [current, *_rest] = build_view(ViewRequest(ViewName.gate), rows, twenty_turns.NOW)
    assert current.text == "[CURRENT TURN]\n(none)"


def test_a_current_turn_that_is_not_stored_has_its_id() -> None:
    [current, *_rest] = build_view(ViewRequest(ViewName.gate, "turn_21"), ContextRows(), twenty_turns.NOW)
    assert current.text == "[CURRENT TURN]\nturn_id: turn_21"


TURNS = st.lists(st.integers(0, 60), unique=True, max_size=40)


@given(TURNS, TURNS, st.none() | st.lists(st.integers(0, 60), max_size=8), st.none() | st.integers(0, 60))
def test_memories_are_newest_first_once_each_and_at_most_16(
    window: list[int], named: list[int], chosen: list[int] | None, current: int | None
) -> None:
    selection = None if chosen is None else [f"t{n:03d}" for n in chosen]
    rows = ContextRows(window=fingerprints(*window), named=fingerprints(*named))
    rows = rows if current is None else replace(rows, current=fingerprints(current)[0])
    turn_id = None if current is None else f"t{current:03d}"
    for view in ViewName:
        shown = memories_of(rows, view, selection=selection, turn_id=turn_id)
        assert shown == sorted(set(shown), reverse=True)
        assert len(shown) <= 16
        known = [name for name in dict.fromkeys(selection or ()) if int(name[1:]) in named][:5]
        assert {*known, *([turn_id] if turn_id else [])} <= set(shown)
