"""A Celery step that reconnects a consumer after a lost acknowledgement.

If the broker does not take an acknowledgement, Celery logs it and goes on, but kombu counts the message as unfinished
forever. After as many lost acknowledgements as the worker has processes, it would take no more messages.
"""

from typing import Any

import structlog
from celery import bootsteps
from celery.worker.state import reserved_requests

from app.providers.broker import ANSWER_TIMEOUT_S

log = structlog.get_logger(__name__)


class LostAcks(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery is untyped
    """A check, every ANSWER_TIMEOUT_S seconds, that the channel takes messages while the pool is not full.

    It reconnects after two failures in a row, because one may happen between a task's end and its acknowledgement.
    """

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **options: Any) -> None:
        self._timer: Any = None
        self._was_stuck = False
        super().__init__(consumer, **options)

    def start(self, consumer: Any) -> None:
        """Start the check on a new connection."""
        self._was_stuck = False
        self._timer = consumer.timer.call_repeatedly(ANSWER_TIMEOUT_S, self._check_channel, (consumer,))

    def stop(self, _consumer: Any) -> None:
        """Stop the check when the connection ends."""
        if self._timer is not None:
            self._timer.cancel()

    def _check_channel(self, consumer: Any) -> None:
        stuck = len(reserved_requests) < consumer.qos.value and not consumer.task_consumer.channel.qos.can_consume()
        if stuck and self._was_stuck:
            log.warning("acknowledgement_lost", reserved=len(reserved_requests), prefetch=consumer.qos.value)
            raise ConnectionError("an acknowledgement was lost")  # makes the consumer reconnect
        self._was_stuck = stuck
