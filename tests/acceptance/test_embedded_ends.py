"""The ends of `mnema up`: a signal, `mnema down`, the death of one of its processes. No process stays behind.

Each test has its own home, so that no test depends on another one.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.processes import (
    ANNOUNCED,
    SERVICES,
    Installation,
    Up,
    alive,
    client,
    installation,
    mnema,
    texts,
    wait_until,
)

pytestmark = [pytest.mark.acceptance, pytest.mark.xdist_group("embedded")]
TEXT = "Maya keeps her spare key with Jonas."
Reached = Callable[[Installation, Up], bool]

MOMENTS: dict[str, tuple[Reached, signal.Signals]] = {
    "at the first line": (lambda _place, up: "starting PostgreSQL" in up.output, signal.SIGINT),
    "in initdb": (lambda place, _up: any((place.home / "postgres").glob("data*")), signal.SIGTERM),
    "while PostgreSQL starts": (lambda place, _up: "postgres" in place.pids, signal.SIGINT),
    "once PostgreSQL is prepared": (lambda place, _up: (place.home / "demo.env").exists(), signal.SIGHUP),
    "while the server starts": (lambda place, _up: "server" in place.pids, signal.SIGINT),
    "while the worker starts": (lambda place, _up: "worker" in place.pids, signal.SIGTERM),
    "in the tour": (lambda _place, up: "1. remember" in up.output, signal.SIGTERM),
}
"""Conditions by phase of the start. They stay true afterwards, so that a slow test cannot miss one."""
STARTS = [
    ("in initdb", "while PostgreSQL starts", "while the worker starts", "in the tour"),
    ("at the first line", "once PostgreSQL is prepared", "while the server starts"),
]
"""The phases in which the starts of one home are stopped. Each start gets further than the one before it."""


@pytest.fixture
def place() -> Iterator[Installation]:
    """A new home."""
    with installation() as made:
        yield made


def left(home: Path) -> list[str]:
    """Return the processes with this home in their command line or environment."""
    listed = subprocess.run(["ps", "axeww", "-o", "pid=,command="], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if str(home) in line]


def members(group: int) -> set[int]:
    """Return the processes of a process group."""
    listed = subprocess.run(["ps", "axo", "pid=,pgid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listed.splitlines()]
    return {int(pid) for pid, leader, state in rows if int(leader) == group and not state.startswith("Z")}


def ready(place: Installation) -> str:
    """Return the response of /ready."""
    with client(place) as http:
        return str(http.get("/ready").json()["status"])


def assert_stopped(up: Up, code: int) -> None:
    assert (code, up.output.splitlines()[-1]) == (0, "stopped"), up.output
    wait_until(lambda: not left(up.place.home), "all its processes to be gone", 60)
    assert "server" not in up.place.pids


@pytest.mark.long
@pytest.mark.parametrize("moments", STARTS, ids=["first in initdb", "first at the first line"])
def test_a_signal_stops_everything_at_any_moment_and_the_next_start_serves(
    place: Installation, moments: tuple[str, ...]
) -> None:
    for moment in moments:
        reached, number = MOMENTS[moment]
        with Up(place, MNEMA_TOUR="1" if "tour" in moment else "0") as up:
            assert not reached(place, up), f"an earlier start was already there: {moment}"
            wait_until(lambda: reached(place, up) or up.process.poll() is not None, moment)  # noqa: B023
            assert_stopped(up, up.ended(number))
    with Up(place) as again:
        again.serves()
        assert_stopped(again, again.ended(signal.SIGTERM))


def test_every_moment_of_a_start_is_tried() -> None:
    assert sorted(moment for moments in STARTS for moment in moments) == sorted(MOMENTS)


@pytest.mark.long
def test_a_start_after_kill_9_replaces_the_orphans_keeps_the_data_and_stops_once_however_often_told(
    place: Installation,
) -> None:
    with Up(place) as up:
        output = up.serves()
        assert "1. remember" not in output
        assert "403" not in output
        assert texts(place) == set()
        with client(place) as http:
            http.post("/memory", json={"user_id": "maya", "category": "tasks", "text": TEXT}).raise_for_status()
        orphans = place.pids
        up.process.kill()
        up.process.wait()
    assert {name for name, pid in orphans.items() if alive(pid)} == SERVICES
    with Up(place) as up:
        up.serves()
        assert not any(alive(pid) for name, pid in orphans.items() if name != "postgres")
        assert not set(orphans.values()) & {pid for name, pid in place.pids.items() if name != "postgres"}
        assert texts(place) == {TEXT}
        while up.process.poll() is None:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                up.process.send_signal(number)
            time.sleep(0.005)  # gives it a share of a busy core
        assert_stopped(up, up.ended())
    assert place.pids == {}


@pytest.mark.long
def test_when_the_server_dies_the_supervisor_says_so_and_stops_the_rest(place: Installation) -> None:
    with Up(place) as up:
        up.serves()
        pids = place.pids
        os.kill(pids["server"], signal.SIGKILL)
        assert up.ended() == 1
        assert "the server ended unexpectedly with code -9" in up.output
        assert "server.log" in up.output
    assert place.stopped(pids)
    assert left(place.home) == []


@pytest.mark.long
def test_redis_worker_and_beat_are_started_again_when_they_die_and_a_killed_worker_leaves_no_children(
    place: Installation,
) -> None:
    with Up(place) as up:
        up.serves()
        for name in ("worker", "beat", "redis"):
            before = place.pids
            worker = before["worker"]
            wait_until(lambda: members(worker) > {worker}, "the worker's children")  # noqa: B023
            group = members(worker)
            os.kill(before[name], signal.SIGKILL)
            up.says(f"{name} had ended and was started again; see {name}.log in MNEMA_HOME")
            after = place.pids
            assert {other for other in before if before[other] != after[other]} == {name}
            if name == "worker":
                wait_until(lambda: not any(map(alive, group)), "the end of the dead worker's children", 60)  # noqa: B023
        wait_until(lambda: ready(place) == "ready", "the new Redis")
        assert_stopped(up, up.ended(signal.SIGTERM))


@pytest.mark.long
async def test_an_operators_own_redis_that_is_away_leaves_it_degraded(place: Installation) -> None:
    with Up(place, MNEMA_REDIS_URL="redis://:hidden@127.0.0.1:1/0") as up:
        up.says(ANNOUNCED)
        assert set(place.pids) == {"supervisor", *SERVICES} - {"redis"}
        status = await mnema("status", MNEMA_HOME=place.home)
        assert (status.returncode, "\nserver    degraded  " in status.stdout) == (0, True), status.stdout
        assert "\nredis     stopped\nworker    running\nbeat      running\n" in status.stdout
        assert "\nbroker: The message broker cannot be reached" in status.stdout
        doctor = await mnema("doctor", MNEMA_HOME=place.home)
        assert (doctor.returncode, "warn broker: The message broker cannot be reached" in doctor.stdout) == (0, True)
        wait_until(lambda: "Cannot connect" in (place.home / "worker.log").read_text(), "the worker's complaint")
        assert all("hidden" not in path.read_text() for path in place.home.glob("*.log"))
        began = time.monotonic()
        assert_stopped(up, up.ended(signal.SIGTERM))
        print(f"stopped after {time.monotonic() - began:.1f} s")


@pytest.mark.long
async def test_a_broken_sample_is_named_and_the_server_serves_all_the_same_until_down(place: Installation) -> None:
    sample = place.home / "sample"
    sample.mkdir()
    (sample / "memories.jsonl").write_text("{nonsense\n")
    with Up(place, MNEMA_TOUR="1", MNEMA_SAMPLE=sample) as up:
        output = up.serves()
        assert f"cannot read the sample {sample / 'memories.jsonl'}" in output
        assert "MNEMA_TOUR=0 skips it" in output
        pids = place.pids
        down = await mnema("down", MNEMA_HOME=place.home)
        assert (down.returncode, down.stdout) == (0, "stopped\n")
        assert place.stopped(pids)
        assert_stopped(up, up.ended())
    status = await mnema("status", MNEMA_HOME=place.home)
    assert (status.returncode, status.stdout.count("stopped")) == (1, 6)
    assert (await mnema("down", MNEMA_HOME=place.home)).stdout == "stopped\n"
