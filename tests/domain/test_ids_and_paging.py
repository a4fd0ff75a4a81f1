"""The callers' identifiers, storable JSON, and page cursors."""

import base64
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mnema_wire.limits import MAX_IDENTIFIER, MAX_JSON_BYTES, MAX_JSON_DEPTH

from app.domain.errors import InvalidCursor, InvalidInput, NulByte
from app.domain.ids import MOST_LISTED, check_identifier, check_json, check_storable, list_names
from app.domain.paging import MAX_SEQ, decode_cursor, decode_turn_cursor, encode_cursor, encode_turn_cursor
from app.storage.identity import new_id

ZONES = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45)), timezone(timedelta(hours=-11))])
MOMENTS = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=ZONES)
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
STORABLE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
JSON = st.recursive(
    SCALARS | STORABLE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(STORABLE, inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.parametrize(
    "value", ["maya", "a", "Zoë Müller", "用户-7", "o'neil; DROP TABLE", "\\x00", "a" * MAX_IDENTIFIER, "👩"]
)
def test_any_printable_text_is_an_identifier(value: str) -> None:
    assert check_identifier(value) == value


@pytest.mark.parametrize(
    "value", ["", " ", " a", "a ", "a\nb", "a\tb", "\u200b", "a" * (MAX_IDENTIFIER + 1), "\x7f", "a\u2028b"]
)
def test_what_nobody_can_see_is_not(value: str) -> None:
    with pytest.raises(InvalidInput):
        check_identifier(value)


@pytest.mark.parametrize("value", ["a\x00b", "\ud800", "a\udfff"])
def test_what_the_database_cannot_hold_is_refused(value: str) -> None:
    for check in (check_identifier, check_storable, check_json):
        with pytest.raises(NulByte):
            check(value)
    with pytest.raises(NulByte):
        check_json({"a": [{value: 1}]})


@given(st.text(max_size=250))
def test_an_identifier_is_taken_as_it_is_or_not_at_all(value: str) -> None:
    try:
        taken = check_identifier(value)
    except InvalidInput:
        return
    assert taken is value
    assert 1 <= len(value) <= MAX_IDENTIFIER
    assert value.isprintable()
    value.encode()


@given(JSON)
def test_json_within_the_limits_is_taken_unchanged(value: Any) -> None:
    assert check_json(value) is value
    assert json.loads(json.dumps(value)) == value


@pytest.mark.parametrize("value", [float("nan"), {"a": float("inf")}, [1, [-float("inf")]]])
def test_what_is_not_json_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="NaN"):
        check_json(value)


def test_json_is_measured_in_bytes_and_levels() -> None:
    assert check_json("é" * ((MAX_JSON_BYTES - 2) // 2))
    with pytest.raises(InvalidInput, match=str(MAX_JSON_BYTES)):
        check_json("é" * (MAX_JSON_BYTES // 2))
    assert check_json(_nested(MAX_JSON_DEPTH))
    with pytest.raises(InvalidInput, match="nested"):
        check_json(_nested(MAX_JSON_DEPTH + 1))
    with pytest.raises(InvalidInput, match="nested"):
        check_json(_nested(5_000))


def _nested(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


@given(MOMENTS, st.uuids())
def test_a_cursor_comes_back_as_it_went(moment: datetime, identifier: UUID) -> None:
    cursor = encode_cursor((moment, identifier))
    assert decode_cursor(cursor) == (moment, identifier)
    assert cursor.isascii()
    assert not set(cursor) & set("+/=&?# ")


def test_no_cursor_is_the_first_page() -> None:
    assert decode_cursor(None) is None
    assert decode_turn_cursor(None) is None


def _encoded(value: Any) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


ID = "018f0000-0000-7000-8000-000000000000"


@pytest.mark.parametrize(
    "cursor",
    [
        *("", "=", "a", "!!!!", "é", "\x00", "null", "W10", "\ud800", " " * 9),
        _encoded(b"\xff\xfe"),
        _encoded(b"[" * 100_000),
        _encoded(None),
        _encoded({}),
        _encoded([]),
        _encoded(["2026-01-01T00:00:00+00:00"]),
        _encoded(["2026-01-01T00:00:00+00:00", ID, 1]),
        _encoded(["2026-01-01T00:00:00", ID]),
        _encoded(["2026-01-01", ID]),
        _encoded([1767225600, ID]),
        _encoded(["yesterday", ID]),
        _encoded(["2026-01-01T00:00:00+00:00", 7]),
        _encoded(["2026-01-01T00:00:00+00:00", None]),
        _encoded(["2026-01-01T00:00:00+00:00", "7"]),
        _encoded(["2026-13-01T00:00:00+00:00", ID]),
        _encoded([["2026-01-01T00:00:00+00:00"], [ID]]),
    ],
)
def test_garbage_is_no_cursor(cursor: str) -> None:
    with pytest.raises(InvalidCursor) as caught:
        decode_cursor(cursor)
    assert (caught.value.code, caught.value.status) == ("invalid_cursor", 422)


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
def test_a_moment_outside_the_calendar_of_utc_is_no_cursor(moment: str) -> None:
    with pytest.raises(InvalidCursor):  # the database driver cannot send it
        decode_cursor(_encoded([moment, ID]))


@given(st.text(max_size=60) | st.binary(max_size=60).map(_encoded) | JSON.map(_encoded))
def test_whatever_is_sent_is_a_position_or_an_invalid_cursor(cursor: str) -> None:
    try:
        position = decode_cursor(cursor)
    except InvalidCursor:
        return
    assert position is not None
    assert position[0].tzinfo is not None


@given(MOMENTS, st.uuids(), st.data())
def test_a_damaged_cursor_never_fails_otherwise(moment: datetime, identifier: UUID, data: st.DataObject) -> None:
    cursor = encode_cursor((moment, identifier))
    at = data.draw(st.integers(0, len(cursor) - 1))
    damaged = cursor[:at] + data.draw(st.sampled_from([*"A_-=. ", ""])) + cursor[at + 1 :]
    try:
        position = decode_cursor(damaged)
    except InvalidCursor:
        return
    assert isinstance(position, tuple)


@given(st.none() | st.integers(0, MAX_SEQ), MOMENTS, st.uuids())
def test_a_cursor_of_turns_comes_back_as_it_went(seq: int | None, moment: datetime, identifier: UUID) -> None:
    cursor = encode_turn_cursor((seq, moment, identifier))
    assert decode_turn_cursor(cursor) == (seq, moment, identifier)
    with pytest.raises(InvalidCursor):
        decode_cursor(cursor)
    with pytest.raises(InvalidCursor):
        decode_turn_cursor(encode_cursor((moment, identifier)))


@given(st.text(max_size=60) | st.binary(max_size=60).map(_encoded) | JSON.map(_encoded))
def test_whatever_is_sent_is_a_place_of_a_turn_or_an_invalid_cursor(cursor: str) -> None:
    try:
        position = decode_turn_cursor(cursor)
    except InvalidCursor:
        return
    assert position is not None
    assert position[1].tzinfo is not None


@pytest.mark.parametrize("seq", [1, None, "-1", "+1", " 1", "1.0", "x", "١", str(MAX_SEQ + 1), "9" * 5_000])
def test_what_is_no_place_in_a_thread_is_no_cursor_of_turns(seq: Any) -> None:
    with pytest.raises(InvalidCursor):
        decode_turn_cursor(_encoded([seq, "2026-01-01T00:00:00+00:00", ID]))


def test_new_ids_are_of_version_seven_and_sort_by_time() -> None:
    ids = [new_id() for _ in range(1_000)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 1_000
    assert {identifier.version for identifier in ids} == {7}


def test_an_error_lists_valid_names_in_order_up_to_a_bound() -> None:
    assert list_names([]) == "none"
    assert list_names({"b", "a"}) == "a, b"
    many = [f"n{number:03}" for number in range(MOST_LISTED + 2)]
    assert list_names(many) == ", ".join(many[:MOST_LISTED]) + ", and 2 more"
