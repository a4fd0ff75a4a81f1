"""The room of a cluster."""

import pytest

from app.domain.clusters.room import Room, write_bytes


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 bytes"), (999, "999 bytes"), (1_000, "1.0 kB"), (12_340_000, "12.3 MB"), (5e12, "5.0 TB")]
)
def test_sizes_are_written_in_units(size: int, text: str) -> None:
    assert write_bytes(int(size)) == text


def test_a_cluster_without_a_bound_takes_everything() -> None:
    room = Room(10**15, None)
    assert room.takes(10**15)
    assert not room.is_short
    assert str(room) == "1000.0 TB"


def test_a_bound_is_never_passed() -> None:
    assert Room(60, 100).takes(40)
    assert not Room(60, 100).takes(41)
    assert not Room(90, 100).is_short
    assert Room(91, 100).is_short
    assert str(Room(2_000_000, 5_000_000)) == "2.0 MB of 5.0 MB"
