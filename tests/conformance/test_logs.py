"""Logging to a stream that fails on every write, and to one that several processes share."""

import errno
import io
import subprocess
import sys
from pathlib import Path

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
    monkeypatch.delenv("MNEMA_LOG_LEVEL", raising=False)
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


def test_processes_that_share_an_unbuffered_stream_do_not_mix_their_lines(tmp_path: Path) -> None:
    code = """if True:
        import structlog
        from app.config.logs import configure_logs
        configure_logs()
        for number in range(3000):
            structlog.get_logger("a").info("an_event", number=number)
    """
    with (tmp_path / "log").open("ab") as shared:
        running = [subprocess.Popen([sys.executable, "-u", "-c", code], stderr=shared) for _ in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    lines = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 9000
    assert all(line.startswith('{"number":') and line.endswith("}") and line.count("{") == 1 for line in lines)
