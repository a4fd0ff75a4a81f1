"""Files of entries: every text comes back as it was, and what a person adds is kept."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from mnema_cli.mirror.rules.entries import (
    FOLDERS,
    MirrorEntry,
    MirrorFile,
    Span,
    entry_path,
    name_conversations,
    parse_file,
    place_of,
    render_file,
)
from mnema_cli.mirror.rules.front_matter import BrokenFile, read_scalar, write_scalar

WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
PIECES = st.sampled_from(
    ["---", "\n", "\r\n", "\r", " ", "\t", "id: x", "a", "😀", "\ufeff", "\u2028", "\x85", "...", "# ", "'", '"', ": "]
)
TEXTS = st.lists(PIECES | WORDS, max_size=12).map("".join)
MOMENTS = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-3, minutes=-30))]))
OTHER = st.sampled_from([(), ("tags:", "  - a", "  - b: c"), ("# a note", "x: {a: [1, 2]}", ""), ("aliases: []",)])
FILES = st.builds(
    MirrorFile,
    TEXTS,
    st.none() | WORDS,
    st.none() | WORDS,
    st.none() | st.sampled_from(list(FOLDERS)),
    st.none() | MOMENTS,
    st.none() | WORDS,
    OTHER,
    st.builds(Span, *[st.none() | MOMENTS.filter(lambda moment: 1 < moment.year < 9999)] * 3),
)


@given(FILES)
def test_a_file_is_read_as_it_was_written(file: MirrorFile) -> None:
    assert parse_file(render_file(file)) == file


@given(WORDS)
def test_a_value_is_the_same_for_a_yaml_parser(value: str) -> None:
    assert yaml.safe_load(f"id: {write_scalar(value)}") == {"id": value}
    assert read_scalar(write_scalar(value), "id") == value


@given(st.text(st.sampled_from("ab 01#'\"\\:-{}[],&*!|>%@`?~nuxé\t"), max_size=20))
def test_a_plain_value_that_yaml_allows_is_read_as_yaml_reads_it_or_refused(value: str) -> None:
    try:
        ours = read_scalar(value, "id")
        theirs = yaml.load(f"id: {value}", yaml.BaseLoader)["id"]
    except (BrokenFile, yaml.YAMLError):
        return
    assert (ours or "") == (theirs if theirs not in ("~", "null") else "")


@given(TEXTS)
def test_a_file_without_front_matter_is_text_alone(text: str) -> None:
    if text.removeprefix("\ufeff").partition("\n")[0].rstrip() != "---":
        parsed = parse_file(text.encode())
        assert parsed == MirrorFile(parsed.text, span=None)
        assert text.removeprefix("\ufeff").startswith(parsed.text)


def test_front_matter_of_other_programs_is_kept_word_for_word() -> None:
    content = b'---\ntags:\n- tea\nid: "a" # ours\nrating: {x: [1,\n  2]}\n---\nI like tea.\n'
    file = parse_file(content)
    assert (file.id, file.text) == ("a", "I like tea.")
    assert b"tags:\n- tea\nrating: {x: [1,\n  2]}\n" in render_file(file)


def test_a_file_saved_on_windows_has_the_same_text() -> None:
    file = parse_file(b"\xef\xbb\xbf---\r\nid: a\r\n---\r\n\r\none\r\ntwo\r\n")
    assert (file.id, file.text) == ("a", "one\r\ntwo")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"---\nid: a\ntext", "no closing line"),
        (b"---\nid: a\nid: b\n---\n", "the key `id` is there twice"),
        (b"---\njust words\n---\n", "line 2 of the front matter is not `key: value`"),
        (b"---\nid: |\n  a\n---\n", "the value of `id` cannot be read"),
        (b"---\nid: [a]\n---\n", "the value of `id` cannot be read"),
        (b"---\nid:\n  a\n---\n", "on the line of its key"),
        (b'---\nid: "\\q"\n---\n', "unknown escape"),
        (b'---\nid: "\\ud800"\n---\n', "no character"),
        (b'---\nid: "a\n---\n', "write it in double quotes"),
        (b"---\n  a: b\n---\n", "on the line of its key"),
        (b"---\nrole: king\n---\n", "the role `king` is unknown; write one of user, assistant, memory, summary"),
        (b"---\ncreated_at: yesterday\n---\n", "write a date, or a time with its zone"),
        (b"---\nvalid_to: soon\n---\n", "valid_to is `soon`; write a date"),
        (b"---\nexpires_at: 0001-01-01T00:00:00+14:00\n---\n", "write a date, or a time with its zone"),
        (b"---\ncreated_at: 2026-04-01T10:15\n---\n", "write a date, or a time with its zone"),
        (b"caf\xe9", "byte 3 is not UTF-8"),
    ],
)
def test_a_broken_file_says_what_is_wrong(content: bytes, reason: str) -> None:
    with pytest.raises(BrokenFile, match=None) as caught:
        parse_file(content)
    assert reason in str(caught.value)


@given(WORDS, WORDS, st.sampled_from(list(FOLDERS)), MOMENTS)
def test_a_path_leads_back_to_conversation_and_role(entry_id: str, conversation: str, role: str, at: datetime) -> None:
    path = entry_path(MirrorEntry(entry_id, conversation, role, at.replace(year=2026), "x", 1))
    place = place_of(path, name_conversations([conversation]))
    assert place is not None
    assert place[1] == role
    assert place[0] == conversation or "~" in path.split("/")[1]


def test_the_usual_path_of_an_entry() -> None:
    moment = datetime(2026, 4, 1, 10, 15, tzinfo=UTC)
    entry = MirrorEntry("a-1", "chat", "user", moment, "x", 1)
    assert entry_path(entry) == "entries/chat/turns/user/20260401T101500Z__a-1.md"
    assert entry_path(MirrorEntry("a", "chat", "summary", moment, "x", 1)) == "entries/chat/summaries/summary.md"
