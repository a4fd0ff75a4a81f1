"""Tests that hang on purpose, in a pytest of their own: each fails with its place, and those after it run."""

import re
from xml.etree import ElementTree

import pytest

pytest_plugins = ("pytester",)
pytestmark = pytest.mark.long

HANGING = """
import asyncio
import threading
import time

import pytest
from hypothesis import given, strategies

hanging = pytest.mark.time_limit(1)


async def wait_for_nobody(place):
    await asyncio.Event().wait()


async def play_peer():
    await wait_for_nobody("as the peer of the tests")


@pytest.fixture
async def value():
    await wait_for_nobody("in a fixture")


@pytest.fixture
async def started():
    await wait_for_nobody("in the start of a fixture")
    yield


@pytest.fixture
async def ended():
    yield
    await wait_for_nobody("in the end of a fixture")


@pytest.fixture
def locked():
    threading.Event().wait()


@pytest.fixture(scope="session")
async def peer():
    peer = asyncio.create_task(play_peer(), name="the peer")
    yield peer
    peer.cancel()


@hanging
async def test_coroutine(peer):
    await wait_for_nobody("in a test")


@hanging
@given(strategies.integers())
async def test_property(number):
    await wait_for_nobody("in an example")


@hanging
def test_value(value): ...


@hanging
async def test_started(started): ...


@hanging
async def test_ended(ended): ...


@hanging
def test_locked(locked): ...


@hanging
def test_function():
    threading.Event().wait()


@hanging
async def test_blocked_loop():
    time.sleep(60)


@hanging
async def test_endless_end():
    try:
        await wait_for_nobody("in a test")
    finally:
        threading.Event().wait()


async def test_the_loop_and_its_tasks_go_on(peer):
    assert not peer.done()


@pytest.fixture
async def opened():
    yield
    await asyncio.sleep(0)


def test_a_replaced_clock_ends_no_fixture(opened, monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
"""

UNREACHABLE = """
import signal
import threading


def test_unreachable():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    threading.Event().wait()


def test_another(): ...
"""

ASYNCIO = ("asyncio_mode=auto", *(f"asyncio_default_{kind}_loop_scope=session" for kind in ("fixture", "test")))
PLACES = {
    "test_coroutine": ("call", 'await wait_for_nobody("in a test")'),
    "test_property": ("call", 'await wait_for_nobody("in an example")'),
    "test_value": ("setup", 'await wait_for_nobody("in a fixture")'),
    "test_started": ("setup", 'await wait_for_nobody("in the start of a fixture")'),
    "test_ended": ("teardown", 'await wait_for_nobody("in the end of a fixture")'),
    "test_locked": ("setup", "threading.Event().wait()"),
    "test_function": ("call", "threading.Event().wait()"),
    "test_blocked_loop": ("call", "time.sleep(60)"),
    "test_endless_end": ("call", "threading.Event().wait()"),
}


@pytest.fixture(autouse=True)
def importable_plugin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the other pytest, which starts in a folder of its own, import the plugin."""
    monkeypatch.setenv("PYTHONPATH", str(request.config.rootpath))


def run_tests(pytester: pytest.Pytester, text: str, *options: str) -> tuple[dict[str, str], str]:
    """Run the tests of a module. Return what the report says of each that failed, by its name, and the output."""
    pytester.makepyfile(test_hanging=text)
    settings = [argument for setting in ASYNCIO for argument in ("-o", setting)]
    report = ("-p", "no:cacheprovider", "--junitxml=report.xml")
    run = pytester.runpytest_subprocess("-p", "tests.time_limits.plugin", *settings, *report, *options, timeout=200)
    cases = list(ElementTree.parse(pytester.path / "report.xml").iter("testcase"))
    return {case.get("name", ""): "".join(case.itertext()) for case in cases if len(case)}, run.stdout.str()


def test_a_test_that_hangs_ends_with_its_name_and_the_place_where_it_waits(pytester: pytest.Pytester) -> None:
    failures, output = run_tests(pytester, HANGING)
    assert failures.keys() == PLACES.keys()  # the last test passes
    for name, (phase, line) in PLACES.items():
        report = failures[name]
        assert re.search(rf"TimeLimitReached: the {phase} of \S+::{name} took over 1 s\n", report), report
        assert re.search(rf"^> +{re.escape(line)}$", report, re.MULTILINE), report
    tasks = (
        r'Captured tasks call -+\n(?:[^-].*\n|\n)*the peer\n.*\n    await wait_for_nobody\("as the peer of the tests"\)'
    )
    assert re.search(tasks, output), output


def test_a_test_that_never_returns_to_python_ends_its_process_alone(pytester: pytest.Pytester) -> None:
    ending = ("-o", "faulthandler_timeout=5", "-o", "faulthandler_exit_on_timeout=true", "-n", "1")
    failures, _output = run_tests(pytester, UNREACHABLE, *ending)
    assert failures.keys() == {"test_unreachable"}
    assert "crashed while running" in failures["test_unreachable"]
