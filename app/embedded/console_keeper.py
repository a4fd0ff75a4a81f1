"""The supervision of the console's process: whether it answers, and its restarts, with growing pauses and an end."""

import contextlib
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx

PROBE_S = 0.5
PROBE_TIMEOUT_S = 1.0
FIRST_PAUSE_S = 2.0
MOST_ENDS = 5
"""Ends in a row after which the console is not started again."""
STABLE_S = 60.0
"""Seconds that a console must answer before its earlier ends no longer count."""
LONGEST_REASON = 200
Popen = subprocess.Popen[bytes]


class ConsoleKeeper:
    """The console's process. `start` starts it; `address`: its first page; `log`: the file that it writes to.

    The time `now` of the methods is in seconds of a monotonic clock.
    """

    def __init__(self, start: Callable[[], Popen], address: str, log: Path) -> None:
        self.address = address
        self._start = start
        self._log = log
        self._ends = 0
        self._probe_at = 0.0
        self._start_at: float | None = None
        self._answers_since: float | None = None
        self._log_from = 0
        self._process = self._start_process()

    @property
    def answers(self) -> bool:
        """True once the running console has answered."""
        return self._answers_since is not None

    @property
    def has_given_up(self) -> bool:
        """True if the console ended too often to be started again."""
        return self._ends >= MOST_ENDS

    def check_process(self, now: float) -> str | None:
        """Look after the process, and start it again if it is time. Return a line to print about what changed."""
        if self.has_given_up:
            return None
        if self._start_at is not None:
            return self._restart() if now >= self._start_at else None
        if (code := self._process.poll()) is not None:
            return self._note_end(code, now)
        if self._answers_since is None:
            return self._probe(now)
        if now >= self._answers_since + STABLE_S:
            self._ends = 0
        return None

    def _start_process(self) -> Popen:
        with contextlib.suppress(OSError):
            self._log_from = self._log.stat().st_size
        return self._start()

    def _restart(self) -> str | None:
        self._start_at = None
        self._process = self._start_process()
        if self._ends > 1:  # a crashing console must not fill the terminal
            return None
        return "console had ended and was started again; see console.log in MNEMA_HOME"

    def _note_end(self, code: int, now: float) -> str | None:
        self._answers_since = None
        self._ends += 1
        reason = f"it ended with code {code}{self._last_words()}; see console.log in MNEMA_HOME"
        if self.has_given_up:
            return f"the console is not started again after {self._ends} ends in a row: {reason}"
        self._start_at = now + FIRST_PAUSE_S * 2 ** (self._ends - 1)
        return f"the console does not serve: {reason}" if self._ends == 1 else None

    def _last_words(self) -> str:
        """Return the last line that the process wrote, such as the error that ended it."""
        try:
            with self._log.open("rb") as log:
                log.seek(self._log_from)
                lines = log.read().decode("utf-8", "replace").split("\n")
        except OSError:
            return ""
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f" ({last[:LONGEST_REASON]})" if last else ""

    def _probe(self, now: float) -> str | None:
        if now < self._probe_at:
            return None
        self._probe_at = now + PROBE_S
        if not console_answers(self.address, PROBE_TIMEOUT_S):
            return None
        self._answers_since = now
        return f"the console serves {self.address}"


def console_answers(address: str, timeout_s: float) -> bool:
    """Return True if a console answers at this address."""
    try:
        return httpx.get(f"{address}/health", timeout=timeout_s, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False
