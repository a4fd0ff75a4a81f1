"""The watch over the folders of sources: one process of each worker does it."""

import fcntl
import os
import tempfile
import threading
from contextlib import suppress

import structlog

from app.bootstrap import Application
from app.domain.errors import MnemaError
from workers.runtime import Runtime

AGAIN_S = 2.0
CLOSE_S = 2.0
log = structlog.get_logger(__name__)


class Watcher:
    """A thread that watches while its process holds the lock of the worker.

    The worker makes the lock before it forks. A record lock belongs to one process and ends with it, so another process
    takes over from one that is killed.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = _make_lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread; call this in the forked process."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch_repeatedly, name="watcher", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop soon. Wait CLOSE_S seconds at most; the daemon thread ends with its process."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def _watch_repeatedly(self) -> None:
        while not self._stopping.wait(AGAIN_S):
            if not self._take_lock():
                continue
            try:
                self._runtime.run_on_loop(self._watch_folders)
            except MnemaError as error:
                log.error("task_failed", task="watch", code=error.code, detail=error.detail)
            except Exception:  # the thread must survive any error
                log.exception("task_failed", task="watch")

    async def _watch_folders(self, application: Application) -> None:
        await application.sources.watch.watch_until(self._stopping.is_set)

    def _take_lock(self) -> bool:
        if self._lock is None:
            return True
        with suppress(OSError):
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False


def _make_lock() -> int | None:
    """Return the descriptor of a file without a name. None if no file can be made; then every process watches."""
    try:
        descriptor, path = tempfile.mkstemp(prefix="mnema-watch-")
        os.unlink(path)
    except OSError:
        return None
    return descriptor
