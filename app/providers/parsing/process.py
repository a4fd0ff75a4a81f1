"""A parser's process, seen from the service."""

import contextlib
import math
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import app
from app.domain.sources.document import ParsedDocument
from app.domain.sources.rejection import Rejection, RejectionReason
from app.providers.parsing.draft import Request
from app.providers.parsing.framing import LENGTHS, decode_reply, encode_request, largest_reply

PIECE: Final = 1 << 16
EXIT_S: Final = 5.0
PROGRAM: Final = "app.providers.parsing.child"
ENVIRONMENT: Final = {
    "PYTHONPATH": str(Path(app.__file__).parents[1]),
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUTF8": "1",
    "LC_ALL": "C.UTF-8",
}
"""The whole environment of a parser's process: it inherits nothing."""

REASONS: Final = {
    signal.SIGXCPU: RejectionReason.TOO_SLOW,
    signal.SIGALRM: RejectionReason.TOO_SLOW,
    signal.SIGKILL: RejectionReason.TOO_MUCH_MEMORY,
}
"""The reason if a signal ended the process. SIGKILL that the service did not send is the kernel's, out of memory."""


def find_missing_locks() -> list[str]:
    """Return the locks of `sandbox` that this machine lacks, `network` and `files`. A process tries them."""
    command = [sys.executable, "-P", "-s", "-m", "app.providers.parsing.sandbox"]
    tried = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", env=ENVIRONMENT)
    return ["network", "files"] if tried.returncode else tried.stdout.split()


class ParserProcess:
    """A process that parses one document after another. `parse_request` blocks: call it in a thread."""

    def __init__(self, parsers: str) -> None:
        """Start the process with the parsers of the module `parsers`."""
        self.documents = 0
        self._popen = subprocess.Popen(
            [sys.executable, "-P", "-s", "-m", PROGRAM, str(os.getpid()), parsers],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=ENVIRONMENT,
            start_new_session=True,
            bufsize=0,
        )
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._input = self._popen.stdin
        self._output = self._popen.stdout
        os.set_blocking(self._input.fileno(), False)
        os.set_blocking(self._output.fileno(), False)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._popen.pid

    @property
    def is_ready(self) -> bool:
        """True if the process runs and has written nothing since its last reply."""
        poll = select.poll()
        poll.register(self._output.fileno(), select.POLLIN)
        return not poll.poll(0)

    def parse_request(self, request: Request) -> ParsedDocument | Rejection:
        """Return the document's text and chunks, or a rejection if the process is too slow, too talkative or ends."""
        self.documents += 1
        deadline = time.monotonic() + request.policy.max_seconds
        try:
            self._send(encode_request(request), deadline)
            self._send(request.content, deadline)
            header, body = LENGTHS.unpack(self._receive(LENGTHS.size, deadline))
            if header + body > largest_reply(request.policy):
                return Rejection(RejectionReason.CRASHED, "its reply is too long")
            return decode_reply(self._receive(header, deadline), self._receive(body, deadline), request)
        except TimeoutError:
            return Rejection(RejectionReason.TOO_SLOW, f"more than {request.policy.max_seconds:g} s")
        except (EOFError, BrokenPipeError):
            return self._explain_end()

    def stop(self) -> None:
        """Kill the process and all of its group; wait for its end. Idempotent."""
        if self._popen.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._popen.pid, signal.SIGKILL)
            self._popen.kill()
        self._input.close()
        self._output.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(EXIT_S)

    def kill(self) -> None:
        """Kill the process; `parse_request` in another thread then returns."""
        self._popen.kill()

    def _send(self, message: bytes, deadline: float) -> None:
        view = memoryview(message)
        while view:
            _wait_until_ready(self._input.fileno(), select.POLLOUT, deadline)
            view = view[os.write(self._input.fileno(), view[:PIECE]) :]

    def _receive(self, length: int, deadline: float) -> bytes:
        received = bytearray()
        while len(received) < length:
            _wait_until_ready(self._output.fileno(), select.POLLIN, deadline)
            piece = os.read(self._output.fileno(), min(PIECE, length - len(received)))
            if not piece:
                raise EOFError
            received += piece
        return bytes(received)

    def _explain_end(self) -> Rejection:
        try:
            code = self._popen.wait(EXIT_S)
        except subprocess.TimeoutExpired:
            return Rejection(RejectionReason.CRASHED, "it closed its output")
        if code >= 0:
            return Rejection(RejectionReason.CRASHED, f"exit status {code}")
        number = signal.Signals(-code)
        return Rejection(REASONS.get(number, RejectionReason.CRASHED), number.name)


def _wait_until_ready(fd: int, event: int, deadline: float) -> None:
    """Wait until the pipe `fd` can be read or written. Raise TimeoutError after the deadline."""
    poll = select.poll()
    poll.register(fd, event)
    left_ms = math.ceil((deadline - time.monotonic()) * 1000)
    if left_ms <= 0 or not poll.poll(left_ms):
        raise TimeoutError
