"""Logging to a stream that fails on every write."""

import errno
import io

import pytest
import structlog

from app.config.logs import configure_logs, lines_lost


class Broken(io.StringIO):
    """A stream that is closed or has a full disk."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def write(self, _text: str) -> int:
        """Fail."""
        raise self._error


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), BrokenPipeError(), ValueError("closed")])
def test_a_line_that_cannot_be_written_is_counted_and_raises_nothing(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr("sys.stderr", Broken(error))
    before = lines_lost()
    try:
        configure_logs()
        log = structlog.get_logger(__name__)
        for tell in (log.info, log.warning, log.error, log.exception, log.critical):
            tell("an_event", detail="x")
    finally:
        monkeypatch.undo()
        configure_logs()
    assert lines_lost() == before + 5
