"""The courier: each worker process serves webhooks beside its jobs, which take one place each."""

import threading

import structlog

from app.bootstrap import Application
from app.domain.errors import MnemaError
from workers.runtime import Runtime

LOOK_S = 1.0
CLOSE_S = 2.0
log = structlog.get_logger(__name__)


class Courier:
    """A thread that begins to serve the webhooks that are due, about every LOOK_S seconds."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread; call this in the forked process."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve_repeatedly, name="courier", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Begin nothing more. What was being sent is sent again by another worker."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def _serve_repeatedly(self) -> None:
        while not self._stopping.wait(LOOK_S):
            try:
                self._runtime.run_on_loop(_serve_due)
            except MnemaError as error:
                log.warning("webhooks_not_served", code=error.code)
            except Exception:  # the thread must survive any error
                log.exception("task_failed", task="webhooks")


async def _serve_due(application: Application) -> int:
    return await application.webhooks.deliver.serve_due()
