"""The worker's consumer is built again after any error and ends on a signal at any time."""

from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery, bootsteps
from celery.exceptions import WorkerShutdown
from celery.worker import state
from structlog.testing import capture_logs

from workers import consumer as consumer_module
from workers.consumer import LONGEST_PAUSE_S, PAUSE_S, STEADY_S, LastingConsumer, LastingRequest, Rebuilds


class Work(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery is untyped
    """The only step of the tests' consumer. It does what the test says, given the number of its start."""

    def __init__(self, consumer: Any, **options: Any) -> None:
        self.starts = self.stops = 0
        consumer.work = self
        super().__init__(consumer, **options)

    def start(self, consumer: Any) -> None:
        """Do what the test says."""
        self.starts += 1
        consumer.does(self.starts)

    def stop(self, _consumer: Any) -> None:
        """Count the stops, and fail as a step does whose connection is dead."""
        self.stops += 1
        raise AttributeError("'NoneType' object has no attribute 'hostname'")


class Working(LastingConsumer):
    """A consumer without a broker."""

    class Blueprint(bootsteps.Blueprint):  # type: ignore[misc]  # Celery is untyped
        """The steps of this consumer."""

        name = "Consumer"
        default_steps = (Work,)

        def shutdown(self, _parent: Any) -> None:
            """Fail as Celery's does when it closes a dead connection."""
            raise AttributeError("'NoneType' object has no attribute 'hostname'")


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A consumer that waits for nothing."""
    monkeypatch.setattr(consumer_module, "PAUSE_S", 0.0)
    monkeypatch.setattr(state, "should_stop", None)
    with Celery("test", broker="memory://", set_as_current=False) as celery:
        yield Working(lambda _request: None, app=celery)


class ClosesBadly:
    """A connection that fails to close, as kombu's does with unacknowledged messages."""

    def close(self) -> None:
        """Fail."""
        raise AttributeError("'NoneType' object has no attribute 'hostname'")


@pytest.mark.parametrize("error", [AttributeError, AssertionError, RuntimeError, UnicodeDecodeError])
def test_a_consumer_is_built_again_after_any_error(consumer: Any, error: type[Exception]) -> None:
    def fail_twice(start: int) -> None:
        if start < 3:
            consumer.connection = ClosesBadly()
            raise error("utf-8", b"", 0, 1, "secret") if error is UnicodeDecodeError else error("secret")
        consumer.on_ready()
        consumer.blueprint.state = bootsteps.CLOSE

    consumer.does = fail_twice
    with capture_logs() as logs:
        consumer.start()
    assert [(line["event"], line["error"], line["log_level"]) for line in logs] == [
        ("consumer_failed", error.__name__, "warning")
    ] * 2
    assert "secret" not in str(logs)
    assert (consumer.work.starts, consumer.work.stops) == (3, 2)
    assert consumer.connection is None
    assert (consumer.rebuilds.number, consumer.rebuilds.last_error) == (2, error.__name__)
    consumer.shutdown()


def test_a_signal_ends_a_consumer_that_is_being_built_again(consumer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(start: int) -> None:
        if start == 3:
            monkeypatch.setattr(consumer_module, "PAUSE_S", 3600.0)
            monkeypatch.setattr(consumer_module, "LONGEST_PAUSE_S", 3600.0)
            state.should_stop = 0  # as the handler of SIGTERM does
        raise AttributeError

    consumer.does = fail
    with pytest.raises(WorkerShutdown):
        consumer.start()
    assert consumer.work.starts == 3


def test_pauses_grow_to_a_bound_and_begin_anew_after_a_steady_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("workers.consumer.time.monotonic", lambda: now)
    rebuilds = Rebuilds()
    pauses = [rebuilds.record_error(AttributeError()) for _ in range(2000)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[1], pauses[-1]) == (PAUSE_S, 2 * PAUSE_S, LONGEST_PAUSE_S)
    rebuilds.record_ready()
    assert rebuilds.record_error(KeyError()) == LONGEST_PAUSE_S, "it took messages for a moment only"
    rebuilds.record_ready()
    now += STEADY_S
    assert rebuilds.record_error(KeyError()) == PAUSE_S
    now += consumer_module.REBUILDS_S
    assert (rebuilds.number, rebuilds.last_error) == (0, "KeyError")


def test_an_acknowledgement_at_a_closed_connection_is_logged_and_fails_no_consumer() -> None:
    """kombu's channel without a connection raises AttributeError."""

    def work() -> None:
        """Do nothing."""

    def acknowledge(_logger: object, errors: tuple[type[Exception], ...]) -> None:
        with suppress(*errors):
            raise AttributeError

    message = SimpleNamespace(
        headers={"id": "1", "task": "mnema.run_job"}, body=((), {}, None), content_type="", properties={}
    )
    message.content_encoding, message.delivery_info = "", {}
    with Celery("test", broker="memory://", set_as_current=False) as celery:
        task = celery.task(name="mnema.run_job")(work)
        request = LastingRequest(
            message, on_ack=acknowledge, app=celery, task=task, decoded=True, connection_errors=(OSError,)
        )
        request.acknowledge()
    assert request.acknowledged
