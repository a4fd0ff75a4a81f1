"""The Celery consumer of a worker: it outlives every error, so that the worker survives its broker.

Celery reconnects after the errors that kombu calls connection errors and ends the worker after any other. A broker that
dies raises others too: kombu raises AttributeError when it gives unacknowledged messages back at a dead connection.
"""

import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from traceback import extract_tb
from typing import Any

import structlog
from billiard.exceptions import WorkerLostError
from celery.worker import state
from celery.worker.consumer import Consumer
from celery.worker.request import Request

from app.bootstrap.adapters import broker_settings
from app.config.settings import Settings
from app.providers.broker import REBUILDS_S, report_rebuilds

PAUSE_S = 0.25
LONGEST_PAUSE_S = 5.0
STEADY_S = 2.0
"""Seconds after which a consumer that takes messages counts as rebuilt: its next error is the first in a row again."""

SIGNAL_S = 0.1
log = structlog.get_logger(__name__)


class Rebuilds:
    """The errors after which a consumer was rebuilt in the last REBUILDS_S seconds, and how many came in a row."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=1000)
        self._in_a_row = 0
        self._ready_at: float | None = None
        self.last_error = ""

    @property
    def number(self) -> int:
        """The number of errors in the last REBUILDS_S seconds."""
        oldest = time.monotonic() - REBUILDS_S
        return sum(at > oldest for at in self._times)

    def record_error(self, error: Exception) -> float:
        """Count the error; return the seconds to wait before the consumer is built again."""
        now = time.monotonic()
        if self._ready_at is not None and now - self._ready_at >= STEADY_S:
            self._in_a_row = 0
        self._ready_at = None
        self._times.append(now)
        self.last_error = type(error).__name__
        self._in_a_row += 1
        return float(min(LONGEST_PAUSE_S, PAUSE_S * 2 ** min(self._in_a_row - 1, 10)))

    def record_ready(self) -> None:
        """Record that the consumer takes messages."""
        self._ready_at = time.monotonic()


class LastingConsumer(Consumer):  # type: ignore[misc]  # Celery is untyped
    """A consumer that is built again after any error, while the pool of processes goes on with its jobs.

    A lost message does no harm, because the jobs are in PostgreSQL. A message that comes twice finds its job taken.
    """

    connection: Any = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.rebuilds = Rebuilds()
        self._broker = broker_settings(Settings())

    def start(self) -> None:
        """Take messages until the worker stops.

        Raise WorkerLostError if the processes of the pool cannot start, because another consumer would not help.
        """
        while True:
            try:
                return super().start()  # type: ignore[no-any-return]  # Celery is untyped
            except WorkerLostError:
                raise
            except Exception as error:
                pause_s = self.rebuilds.record_error(error)
                frame = extract_tb(error.__traceback__)[-1]
                where = f"{Path(frame.filename).name}:{frame.lineno}"
                log.warning("consumer_failed", error=type(error).__name__, where=where, again_in_s=pause_s)
                self._discard_connection()
                self._report()
                _wait(pause_s)

    def on_ready(self) -> None:
        """Report the rebuilds to the broker, which may have come back without the former report."""
        super().on_ready()
        self.rebuilds.record_ready()
        self._report()

    def shutdown(self) -> None:
        """Close what is left at the end of the worker, whatever state the connection is in."""
        try:
            super().shutdown()
        except Exception as error:
            log.warning("consumer_failed", error=type(error).__name__, where="shutdown")

    def _discard_connection(self) -> None:
        """Release all of the failed connection. Each part may fail, because the connection may be in any state."""
        connection, self.connection = self.connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()
        with suppress(Exception):
            self.on_close()
        self.blueprint.restart(self)
        if self.hub is not None:
            with suppress(Exception):
                self.hub.reset()

    def _report(self) -> None:
        with suppress(Exception):  # the broker may be away; the report is repeated when it is back
            report_rebuilds(self._broker, str(self.hostname), self.rebuilds.number, self.rebuilds.last_error)


class LastingRequest(Request):  # type: ignore[misc]  # Celery is untyped
    """A running task that logs a failed acknowledgement at a closed connection. Else the next consumer would fail."""

    def __init__(self, *args: Any, connection_errors: tuple[type[Exception], ...], **options: Any) -> None:
        # kombu raises AttributeError at a closed connection
        super().__init__(*args, connection_errors=(*connection_errors, AttributeError), **options)


def _wait(seconds: float) -> None:
    """Wait, and end the worker at once if a signal asks for it."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        state.maybe_shutdown()
        time.sleep(min(left, SIGNAL_S))
