"""How `mnema up` ends: by signal, by `mnema down`, by the death of one of its processes; nothing stays behind."""

import os
import signal
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.acceptance.processes import Installation, Up, alive, installation, listening, mnema, wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.xdist_group("embedded")]
TEXT = "Maya keeps her spare key with Jonas."


@pytest.fixture(scope="module")
def place() -> Iterator[Installation]:
    """The home of all tests here: each one starts it anew."""
    with installation() as made:
        yield made


def client(place: Installation) -> httpx.Client:
    headers = {"Authorization": f"Bearer {place.env['MNEMA_API_KEY']}"}
    return httpx.Client(base_url=place.env["MNEMA_URL"], headers=headers, timeout=30, trust_env=False)


def remember(place: Installation) -> str:
    body = {"user_id": "maya", "category": "relationships", "text": TEXT}
    with client(place) as http:
        answer = http.post("/memory", json=body).raise_for_status().json()
    return str(answer["id"])


def texts(place: Installation) -> list[str]:
    with client(place) as http:
        return [memory["text"] for memory in http.get("/memory").raise_for_status().json()["items"]]


def test_without_the_tour_it_only_serves_and_sigterm_stops_everything(place: Installation) -> None:
    with Up(place, MNEMA_TOUR="0") as up:
        output = up.serves()
        assert "1. remember" not in output
        assert "403" not in output
        assert texts(place) == []
        remember(place)
        pids = place.pids
        assert up.ended(signal.SIGTERM) == 0
    assert place.stopped(pids)
    assert place.pids == {}


def test_impatience_does_not_leave_postgresql_running(place: Installation) -> None:
    with Up(place) as up:
        up.serves()
        pids = place.pids
        for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            up.process.send_signal(number)
            time.sleep(0.05)
        assert up.ended() == 0
    assert place.stopped(pids)


def test_ctrl_c_while_it_still_starts_stops_everything(place: Installation) -> None:
    with Up(place) as up:
        wait_until(lambda: "postgres" in place.pids and listening(place.postgres_port), "PostgreSQL to start")
        pids = place.pids
        assert up.ended(signal.SIGINT) == 0
    assert place.stopped(pids)


def test_after_a_kill_of_the_supervisor_the_next_start_takes_over_and_keeps_the_data(place: Installation) -> None:
    with Up(place) as up:
        up.serves()
        orphans = place.pids
        up.process.kill()
        up.process.wait()
    del orphans["supervisor"]
    assert all(map(alive, orphans.values()))
    with Up(place) as up:
        up.serves()
        assert not alive(orphans["server"])
        assert place.pids["server"] != orphans["server"]
        assert texts(place) == [TEXT]
        pids = place.pids
        up.ended(signal.SIGINT)
    assert place.stopped(pids | orphans)


async def test_down_stops_a_supervised_installation_and_what_a_killed_supervisor_left(place: Installation) -> None:
    with Up(place) as up:
        up.serves()
        pids = place.pids
        down = await mnema("down", MNEMA_HOME=place.home)
        assert (down.returncode, down.stdout) == (0, "stopped\n")
        assert place.stopped(pids)
        assert up.ended() == 0
    with Up(place) as up:
        up.serves()
        pids = place.pids
        up.process.kill()
        up.process.wait()
        assert (await mnema("down", MNEMA_HOME=place.home)).returncode == 0
    assert place.stopped(pids)
    status = await mnema("status", MNEMA_HOME=place.home)
    assert (status.returncode, status.stdout.count("stopped")) == (1, 2)
    assert (await mnema("down", MNEMA_HOME=place.home)).stdout == "stopped\n"


def test_when_the_server_dies_the_supervisor_says_so_and_stops_the_rest(place: Installation) -> None:
    with Up(place) as up:
        up.serves()
        pids = place.pids
        os.kill(pids["server"], signal.SIGKILL)
        assert up.ended() == 1
        assert "the server ended by itself with code -9" in up.output
        assert "server.log" in up.output
    assert place.stopped(pids)
