"""The snapshot as JSON: it comes back as it was, and a broken or hostile one is refused as a whole."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mnema_cli.mirror.rules.snapshot import (
    BrokenSnapshot,
    ForeignRoot,
    Intent,
    Pending,
    Record,
    Snapshot,
    Stamp,
    dump_snapshot,
    load_snapshot,
)

HASH = "0" * 64
WHOLE = Snapshot(
    {
        "a": Record("entries/c/facts/a.md", HASH, 1, Stamp(1, 2, 3, 4), Intent("store", None)),
        "b": Record("entries/c/facts/b.md", None, None, None, Intent("file", HASH, 2, Stamp(5, 6, 7, 8))),
    },
    {"entries/c/facts/é 😀.md": Pending("key", HASH)},
)


def test_a_snapshot_comes_back_as_it_was() -> None:
    assert load_snapshot(dump_snapshot(WHOLE, "me"), "me") == WHOLE


def test_a_root_of_another_user_is_refused() -> None:
    with pytest.raises(ForeignRoot, match=r"this folder mirrors (another user|a user of another tenant)"):
        load_snapshot(dump_snapshot(WHOLE, "me"), "you")


@given(st.binary(max_size=60) | st.integers(0, 600).map(lambda end: dump_snapshot(WHOLE, "me")[:end]))
def test_what_is_no_snapshot_is_broken(content: bytes) -> None:
    if content != dump_snapshot(WHOLE, "me"):
        with pytest.raises(BrokenSnapshot):
            load_snapshot(content, "me")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("format",), 2),
        (("owner",), None),
        (("records",), []),
        *[(("records", "a", "path"), path) for path in ("/etc/x", "a/../../x", "", "a//b", ".", "a\0", 7, ".mnema-x")],
        (("records", "a", "text_hash"), "abc"),
        (("records", "a", "text_hash"), 7),
        (("records", "a", "version"), "1"),
        (("records", "a", "version"), True),
        (("records", "a", "stamp"), {}),
        (("records", "a", "intent", "side"), "moon"),
        (("records", "a", "intent"), 7),
        (("records", "a"), None),
        (("pending", "entries/c/facts/é 😀.md"), {"key": "", "text_hash": HASH}),
        (("pending",), {"../x": {"key": "k", "text_hash": HASH}}),
    ],
)
def test_one_bad_value_breaks_the_whole(place: tuple[str, ...], value: object) -> None:
    whole = json.loads(dump_snapshot(WHOLE, "me"))
    inner = whole
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    with pytest.raises(BrokenSnapshot):
        load_snapshot(json.dumps(whole).encode(), "me")


def test_deep_nesting_is_no_crash() -> None:
    with pytest.raises(BrokenSnapshot):
        load_snapshot(b"[" * 100_000, "me")
