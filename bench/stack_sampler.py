"""A CPU profile of a process from samples of its Python stack every few milliseconds of CPU time (SIGPROF).

A profiler that hooks every call makes Python code look slower than C code; sampling costs almost nothing. Time in C is
counted for the Python function that called it, or, if the event loop called it, for the one that runs next.
"""

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

INTERVAL_S = 0.001
"""The requested interval; the kernel rounds it up to its tick."""

GROUPS: Sequence[tuple[str, tuple[str, ...]]] = (
    ("JSON", ("/json/encoder.py", "/json/decoder.py", "/json/__init__.py")),
    ("tokens (WordPiece)", ("/app/providers/tokens.py",)),
    ("embedder (constant)", ("/bench/constant_embedder.py",)),
    ("logging (structlog)", ("/structlog/", "/app/config/logs.py")),
    ("auth", ("/app/api/deps.py", "/app/usecases/tenancy/tenants.py", "/app/storage/tenancy/tenants.py")),
    ("rows to objects", ("/app/storage/rows.py",)),
    ("asyncpg and codecs", ("/asyncpg/", "/pgvector/", "/app/storage/engine.py")),
    ("call of the chat endpoint", ("/app/providers/upstreams/", "/httpx2/", "/httpcore2/", "/h11/")),
    ("chat: bodies and streams", ("/app/chat/", "/app/domain/chat/")),
    ("unit of work", ("/app/storage/uow.py",)),
    ("storage", ("/app/storage/",)),
    ("use-case and domain", ("/app/usecases/", "/app/domain/")),
    ("pydantic and schemas", ("/pydantic/", "/app/api/schemas/")),
    ("HTTP", ("/app/api/transport/connections.py", "/app/api/transport/exchange.py", "/app/api/transport/server.py")),
    ("our middleware and routes", ("/app/api/",)),
    ("FastAPI and Starlette", ("/fastapi/", "/starlette/", "/anyio/")),
)
"""Groups of source files. A sample belongs to the group of its innermost frame that has one."""

REST = "event loop and the rest"


def group_of(file: str, _function: str = "") -> str | None:
    """Return the group of a source file, None if it has none."""
    return next((name for name, marks in GROUPS if any(mark in file for mark in marks)), None)


class StackSampler:
    """A counter of samples by group and by the innermost function of the group.

    `group_of` returns the group of a frame from its file and the name of its function; None if its caller decides.
    """

    def __init__(self, group_of: Callable[[str, str], str | None] = group_of) -> None:
        self._group_of = group_of
        self.groups: Counter[str] = Counter()
        self.functions: Counter[str] = Counter()
        self._sampled_at = 0.0

    @contextmanager
    def listen_for_start(self) -> Iterator[None]:
        """Sample the main thread from a SIGUSR1 until the block ends, so that the start-up is not counted.

        The process's CPU time drives the timer, so idle time is not sampled.
        """
        before = signal.signal(signal.SIGPROF, self._record_sample)
        signal.signal(signal.SIGUSR1, lambda *_: signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)

    def write_counts(self, file: Path) -> None:
        """Write the counts to a JSON file."""
        kept = {"groups": dict(self.groups.most_common()), "functions": dict(self.functions.most_common(40))}
        file.write_text(json.dumps(kept), encoding="utf-8")

    def _record_sample(self, _signal: int, frame: FrameType | None) -> None:
        before, self._sampled_at = self._sampled_at, time.thread_time()
        if self._sampled_at - before < INTERVAL_S / 2:  # another thread has used the CPU
            return
        innermost = frame
        while frame is not None:
            if (group := self._group_of(frame.f_code.co_filename, frame.f_code.co_name)) is not None:
                self.groups[group] += 1
                self.functions[f"{_frame_name(frame)} [{group}]"] += 1
                return
            frame = frame.f_back
        self.groups[REST] += 1
        if innermost is not None:
            self.functions[f"{_frame_name(innermost)} [{REST}]"] += 1


def _frame_name(frame: FrameType) -> str:
    path = Path(frame.f_code.co_filename)
    return f"{path.parent.name}/{path.name}:{frame.f_code.co_qualname}"
