"""Names of files and folders: inside the root, short, unique where case does not count, and readable back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mnema_cli.mirror.rules.names import MAX_NAME, FileKind, classify_name, decode_name, encode_name

HOSTILE = ["..", ".", "", "/", "a/b", "a\\b", "\0", "a\nb", "CON", "con", "nul.txt", "LPT1", "a.", "a ", "é", "e\u0301"]
IDS = st.sampled_from(HOSTILE) | st.text(max_size=200)


@given(IDS)
def test_a_name_cannot_leave_its_folder(text: str) -> None:
    name = encode_name(text)
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_%~")
    assert 0 < len(name) <= MAX_NAME
    assert name.lower() not in ("con", "nul", "lpt1", "aux", "prn", "com9")


@given(IDS)
def test_a_name_leads_back_to_its_id(text: str) -> None:
    assert decode_name(encode_name(text)) in (text, None)
    if len(text) <= (MAX_NAME - 17) // 12:
        assert decode_name(encode_name(text)) == text


@given(IDS, IDS)
def test_two_ids_have_two_names_where_case_does_not_count(one: str, other: str) -> None:
    assert (encode_name(one).lower() == encode_name(other).lower()) == (one == other)


@given(st.text(st.sampled_from("abAB%c3~.-0"), max_size=8))
def test_two_ids_that_differ_by_case_or_escapes_have_two_names(text: str) -> None:
    others = {text.lower(), text.upper(), text.swapcase(), encode_name(text)} - {text}
    assert encode_name(text).lower() not in {encode_name(other).lower() for other in others}


@pytest.mark.parametrize("name", ["%ff", "a%", "A", "My Chat", "..", "a~0000000000000000", "con", "%61", "x" * 121])
def test_a_name_that_no_id_has(name: str) -> None:
    assert decode_name(name) is None


def test_a_plain_id_is_its_own_name() -> None:
    assert encode_name("chat-7_b") == "chat-7_b"
    assert encode_name("Chat v1") == "Chat%20v1~" + encode_name("Chat v1")[-16:]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *[(name, "ignored") for name in (".x.md.swp", "x.md~", "#x.md#", ".#x.md", "4913", "x.tmp", ".DS_Store")],
        *[(name, "ignored") for name in (".mnema-0a.tmp", "~$x.md", "Thumbs.db", "x.md.part")],
        *[
            ("x.md", "entry"),
            ("X.MD", "entry"),
            ("4913.md", "entry"),
            ("x~y.md", "entry"),
            ("a.conflicted.md", "entry"),
        ],
        *[("a.conflict.md", "conflict"), ("a.conflict-0011aabb.md", "conflict"), ("a.txt", "other"), ("a", "other")],
    ],
)
def test_the_kind_of_a_file(name: str, kind: str) -> None:
    assert classify_name(name) is FileKind(kind)


@given(IDS)
def test_the_file_of_an_entry_is_never_taken_for_another_kind(text: str) -> None:
    assert classify_name(f"20260401T101500Z__{encode_name(text)}.md") is FileKind.entry
