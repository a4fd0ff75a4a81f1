"""A consumer that lost an acknowledgement connects anew.

Celery logs an acknowledgement that the broker did not take, and goes on; kombu counts its message as being in work for
ever. After as many of those as a worker has processes it would take no message any more.
"""

from typing import Any

import structlog
from celery import bootsteps
from celery.worker.state import reserved_requests

from app.providers.broker import ANSWER_TIMEOUT_S

log = structlog.get_logger(__name__)


class LostAcks(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery is untyped
    """Looks every ANSWER_S whether the channel takes no more messages though the pool is not full.

    Twice in a row: between a task's end and its acknowledgement that is so for a moment.
    """

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **options: Any) -> None:
        self._timer: Any = None
        self._seen = False
        super().__init__(consumer, **options)

    def start(self, consumer: Any) -> None:
        """Begin with each connection."""
        self._seen = False
        self._timer = consumer.timer.call_repeatedly(ANSWER_TIMEOUT_S, self._check_channel, (consumer,))

    def stop(self, _consumer: Any) -> None:
        """End with it."""
        if self._timer is not None:
            self._timer.cancel()

    def _check_channel(self, consumer: Any) -> None:
        stuck = len(reserved_requests) < consumer.qos.value and not consumer.task_consumer.channel.qos.can_consume()
        if stuck and self._seen:
            log.warning("acknowledgement_lost", reserved=len(reserved_requests), prefetch=consumer.qos.value)
            raise ConnectionError("an acknowledgement was lost")  # what the consumer answers with a new connection
        self._seen = stuck
