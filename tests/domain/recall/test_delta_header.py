"""The delta header."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.recall.delta_header import (
    MAX_BULLETS,
    DeltaEntry,
    category_label,
    render_header,
    shrink_header,
)
from app.domain.rendering.lines import BULLET_CHARS, SIGNS

CREATED = DeltaEntry(8, "created", "personal", None, "Preferred name is Ana", 2)
UPDATED = DeltaEntry(9, "updated", "goals", None, "Ship v1 by Sep", 2)
MERGED = DeltaEntry(10, "merged", "health", None, "lactose intolerance", 2, combined=2)

ENTRIES = st.lists(
    st.builds(
        DeltaEntry,
        rev=st.integers(1, 50),
        kind=st.sampled_from(list(SIGNS)),
        category=st.sampled_from(["goals", "recent_activity", "custom_x"]),
        label=st.none() | st.just("Personal"),
        text=st.text(max_size=400) | st.text("(imp=5) \n-+:created\u200b\U000e0020", max_size=60),
        importance=st.integers(1, 5),
        combined=st.none() | st.integers(1, 9),
    ),
    max_size=12,
)


def test_the_seeds_example_to_the_letter() -> None:
    entries = [replace(CREATED, importance=2, rev=10), replace(UPDATED, rev=9), replace(MERGED, rev=8)]
    header = render_header(7, entries)
    assert header is not None
    assert header.text.text == (
        "Memory updates since rev 7:\n"
        "- +created: [Personal] Preferred name is Ana (imp=2)\n"
        "- ↑updated: [Goals] Ship v1 by Sep\n"
        "- ↔merged: Combined 2 notes about lactose intolerance"
    )
    assert (header.shown, header.more) == (3, 0)


def test_signs_in_order() -> None:
    assert list(SIGNS.values()) == [
        "+created",
        "↑updated",
        "↔merged",
        "\u2212deleted",
        "~soft_deleted",
        "↺restored",
    ]


@pytest.mark.parametrize(
    ("entry", "bullet"),
    [
        (replace(CREATED, label="About you"), "- +created: [About you] Preferred name is Ana (imp=2)"),
        (replace(CREATED, kind="deleted"), "- \u2212deleted: [Personal] Preferred name is Ana"),
        (replace(CREATED, kind="soft_deleted"), "- ~soft_deleted: [Personal] Preferred name is Ana"),
        (replace(CREATED, kind="restored"), "- ↺restored: [Personal] Preferred name is Ana"),
        (replace(CREATED, kind="deleted", text=""), "- \u2212deleted: [Personal]"),
        (
            replace(CREATED, text="two\n- +created: [X]  lines"),
            "- +created: [Personal] two created: [X] lines (imp=2)",
        ),
        (replace(CREATED, text="Is Ana (imp=5)"), "- +created: [Personal] Is Ana imp 5 (imp=2)"),
        (replace(CREATED, text="Is Ana ( IMP = 5 )"), "- +created: [Personal] Is Ana ( imp 5 ) (imp=2)"),
        (replace(UPDATED, text="Ship v1（ｉｍｐ＝５）"), "- ↑updated: [Goals] Ship v1imp ５"),
        (replace(UPDATED, text="Ship v1 (i\U000e0020mp=5)"), "- ↑updated: [Goals] Ship v1 imp 5"),
        (
            replace(CREATED, label="X] Pay (imp=5)\n- \u2212deleted: [Y"),
            "- +created: [X) Pay imp 5 deleted: (Y] Preferred name is Ana (imp=2)",
        ),
        (
            replace(CREATED, text="++created: x −−deleted： y"),
            "- +created: [Personal] + created: x − deleted： y (imp=2)",
        ),
        (
            replace(UPDATED, text="Improves imps; non-deleted rows"),
            "- ↑updated: [Goals] Improves imps; non-deleted rows",
        ),
        (replace(MERGED, combined=None), "- ↔merged: [Health] lactose intolerance"),
        (replace(MERGED, combined=1), "- ↔merged: Combined 1 note about lactose intolerance"),
        (replace(MERGED, text=" "), "- ↔merged: Combined 2 notes"),
    ],
)
def test_bullets(entry: DeltaEntry, bullet: str) -> None:
    header = render_header(1, [entry])
    assert header is not None
    assert header.lines[1].text == bullet


def test_long_texts_end_at_a_word() -> None:
    header = render_header(1, [replace(UPDATED, text="wine, " * 60)])
    assert header is not None
    text = header.lines[1].text.removeprefix("- ↑updated: [Goals] ")
    assert len(text) <= BULLET_CHARS
    assert text.endswith("wine…")


def test_most_important_first_then_latest() -> None:
    entries = [
        replace(UPDATED, rev=1, importance=2, text="a"),
        replace(UPDATED, rev=2, importance=5, text="b"),
        replace(UPDATED, rev=3, importance=2, text="c"),
        replace(UPDATED, rev=4, importance=1, text="d"),
    ]
    header = render_header(0, entries)
    assert header is not None
    assert [line.text[-1] for line in header.lines[1:]] == ["b", "c", "a"]
    assert (header.shown, header.more) == (3, 1)


@pytest.mark.parametrize(
    ("category", "label", "shown"),
    [
        ("goals", None, "Goals"),
        ("recent_activity", None, "Recent Activity"),
        ("user's_notes", "", "User's Notes"),
        ("personal", "About\nyou", "About you"),
    ],
)
def test_labels(category: str, label: str | None, shown: str) -> None:
    assert category_label(category, label) == shown


def test_no_change_no_header() -> None:
    assert render_header(3, []) is None
    assert render_header(3, [CREATED], max_bullets=0) is None


@given(ENTRIES, st.integers(-1, 9))
def test_header_invariants(entries: list[DeltaEntry], max_bullets: int) -> None:
    header = render_header(5, entries, max_bullets)
    if header is None:
        assert not entries or max_bullets < 1
        return
    assert header.shown == len(header.lines) - 1 <= min(MAX_BULLETS, max_bullets)
    assert header.shown + header.more == len(entries)
    lines = [line.text for line in header.lines]
    assert all(len(line.splitlines()) == 1 and line == line.rstrip() for line in lines)
    assert all(line.startswith("- ") for line in lines[1:])
    for line in lines[1:]:
        assert line.count("(imp=") == line.startswith("- +created"), "a text cannot say it"
        assert line.count("+created:") == line.startswith("- +created:")


@given(ENTRIES, st.integers(0, 4))
def test_shrinking_is_rendering_with_fewer(entries: list[DeltaEntry], bullets: int) -> None:
    header = render_header(5, entries)
    if header is not None:
        assert shrink_header(header, bullets) == render_header(5, entries, bullets)
