"""Structured logs: one JSON line for each event, with a static name and data in fields."""

import json
import logging
import os
import sys
from typing import Any

import orjson
import structlog

SECRET_FIELDS = frozenset({"authorization", "api_key", "key", "password", "database_url", "read_database_url", "token"})


def _hide_secrets(_logger: object, _method: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    for name in SECRET_FIELDS & event.keys():
        event[name] = "***"
    return event


def _render_json(event: structlog.types.EventDict, **options: Any) -> str:
    try:
        return orjson.dumps(event, **options).decode()
    except TypeError:  # a lone surrogate, or a number of more than 64 bits
        return json.dumps(event, **options)


class _LineLogger(structlog.WriteLogger):
    """A logger that writes each line to a stream in one step, so that processes do not mix their lines.

    It drops and counts lines that fail (full disk, broken pipe).
    """

    lost = 0

    def msg(self, message: str) -> None:
        """Write a line. Ignore errors of the stream, so that logging never stops the caller."""
        try:
            super().msg(message)
        except (OSError, ValueError):  # ValueError: the stream is closed
            _LineLogger.lost += 1

    log = debug = info = warn = warning = fatal = failure = err = error = critical = exception = msg


def lines_lost() -> int:
    """Return the number of log lines of this process that could not be written to stderr."""
    return _LineLogger.lost


class _DriverHandler(logging.Handler):
    """A handler for the database driver's own log records, about idle connections. One line replaces a traceback."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record as one line, with the error's class name instead of its traceback."""
        error = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
        structlog.get_logger(__name__).log(record.levelno, "database_driver", detail=record.getMessage(), error=error)


def configure_logs(default: str = "info") -> None:
    """Write JSON lines to stderr, also for the database driver. `default`: the level without MNEMA_LOG_LEVEL."""
    driver = logging.getLogger("asyncpg")
    driver.handlers = [_DriverHandler()]
    driver.propagate = False
    lines = _LineLogger(sys.stderr)
    level = getattr(logging, os.environ.get("MNEMA_LOG_LEVEL", default).upper(), logging.INFO)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _hide_secrets,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(_render_json),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_names: lines,
        cache_logger_on_first_use=False,
    )
