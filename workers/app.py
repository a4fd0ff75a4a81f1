"""The Celery application: `celery -A workers.app worker` and `celery -A workers.app beat`.

With an invalid configuration both end at once with one line on stderr, instead of failing at each message.
"""

import asyncio
import time
from typing import Any

import structlog
from celery.signals import celeryd_init

from app.bootstrap.adapters import build_celery_app, check_redis_url
from app.bootstrap.administration import check_configuration
from app.config.logs import configure_logs
from app.config.settings import Settings
from app.config.startup import read_settings, refusal_line
from app.domain.errors import ConfigError
from app.domain.outages import DatabaseUnavailable
from workers.lost_acks import LostAcks

AGAIN_S = 2.0

log = structlog.get_logger(__name__)


def _load_settings() -> Settings:
    try:
        loaded = read_settings()
        check_redis_url(loaded)
    except ConfigError as error:
        raise SystemExit(refusal_line(error)) from None
    return loaded


configure_logs()
settings = _load_settings()
app = build_celery_app(settings)
app.conf.update(imports=("workers.tasks",), worker_consumer="workers.consumer:LastingConsumer")
app.Task.Request = "workers.consumer:LastingRequest"
app.steps["consumer"].add(LostAcks)


@celeryd_init.connect  # type: ignore[untyped-decorator]  # Celery is untyped
def _check_configuration(**_signal: Any) -> None:
    """Check the configuration before the worker takes a message or forks. Wait while the database is unavailable."""
    while True:
        try:
            return asyncio.run(check_configuration(settings))
        except ConfigError as error:
            raise SystemExit(refusal_line(error)) from None
        except DatabaseUnavailable as error:
            log.error("worker_waits", code=error.code, detail=error.detail)
            time.sleep(AGAIN_S)
