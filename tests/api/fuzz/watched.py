"""The server, with a watch on its event loop: `python -m tests.api.fuzz.watched`.

`GET /watch` answers the longest time that the process computed without a turn of its event loop, in CPU seconds (so
that a busy machine does not count), and its peak memory in bytes. `POST /watch` resets both.
"""

import asyncio
import json
import resource
import time
from pathlib import Path

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api import main
from app.api.transport import serving
from app.api.transport.options import read_options

TICK_S = 0.01


class Watch:
    """ASGI middleware that watches the event loop."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._longest_s = 0.0
        self._watching: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        if scope["type"] != "http" or scope["path"] != "/watch":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "POST":
            self._longest_s = 0.0
        peak = _peak_bytes()
        said = json.dumps({"longest_s": self._longest_s, "peak_bytes": peak})
        await Response(said, media_type="application/json")(scope, receive, send)

    async def _watch(self) -> None:
        while True:
            before = time.process_time()
            await asyncio.sleep(TICK_S)
            self._longest_s = max(self._longest_s, time.process_time() - before)


def _peak_bytes() -> int:
    """Return the peak memory of this program. getrusage would include the parent's memory before exec."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def create_app() -> ASGIApp:
    """Return the application with the watch around it."""
    return Watch(main.create_app())


if __name__ == "__main__":
    serving.main(lambda _worker: create_app(), read_options())
