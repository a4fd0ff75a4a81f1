"""How `mnema up` ends: by signal, by `mnema down`, by the death of one of its processes; nothing stays behind."""

import os
import signal
from collections.abc import Iterator

import pytest

from tests.acceptance.processes import (
    Installation,
    Up,
    alive,
    client,
    installation,
    mnema,
    texts,
)

pytestmark = [pytest.mark.acceptance, pytest.mark.xdist_group("embedded")]
TEXT = "Maya keeps her spare key with Jonas."


@pytest.fixture(scope="module")
def place() -> Iterator[Installation]:
    """The home of all tests here: each one starts it anew, in this order."""
    with installation() as made:
        yield made


def test_without_the_tour_it_only_serves_and_a_killed_supervisor_leaves_orphans(place: Installation) -> None:
    with Up(place, MNEMA_TOUR="0") as up:
        output = up.serves()
        assert "1. remember" not in output
        assert "403" not in output
        assert texts(place) == set()
        with client(place) as http:
            http.post("/memory", json={"user_id": "maya", "category": "tasks", "text": TEXT}).raise_for_status()
        orphans = place.pids
        up.process.kill()
        up.process.wait()
    assert [name for name, pid in orphans.items() if alive(pid)] == ["server", "postgres"]


def test_when_the_server_dies_the_supervisor_says_so_and_stops_the_rest(place: Installation) -> None:
    with Up(place) as up:
        up.serves()
        pids = place.pids
        os.kill(pids["server"], signal.SIGKILL)
        assert up.ended() == 1
        assert "the server ended by itself with code -9" in up.output
        assert "server.log" in up.output
    assert place.stopped(pids)


async def test_a_broken_sample_is_named_and_the_server_serves_all_the_same_until_down(place: Installation) -> None:
    sample = place.home / "sample"
    sample.mkdir()
    (sample / "memories.jsonl").write_text("{nonsense\n")
    with Up(place, MNEMA_TOUR="1", MNEMA_SAMPLE=sample) as up:
        output = up.serves()
        assert f"cannot read the sample {sample / 'memories.jsonl'}" in output
        assert "MNEMA_TOUR=0 leaves it out" in output
        pids = place.pids
        down = await mnema("down", MNEMA_HOME=place.home)
        assert (down.returncode, down.stdout) == (0, "stopped\n")
        assert place.stopped(pids)
        assert up.ended() == 0
    status = await mnema("status", MNEMA_HOME=place.home)
    assert (status.returncode, status.stdout.count("stopped")) == (1, 2)
    assert (await mnema("down", MNEMA_HOME=place.home)).stdout == "stopped\n"
