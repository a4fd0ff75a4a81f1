"""How a server starts: a configuration that cannot work is one line on stderr, without a trace and without values."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.config.settings import Settings
from app.config.startup import read_settings, refusal_line
from app.domain.errors import ConfigError, MnemaError

GC_THRESHOLD = 10_000
"""Objects made since the last search for garbage, less those that have gone. Python's 700 are made by one request,
which takes nearly all of them with it; a search of so many takes under a millisecond."""


def load_settings() -> Settings:
    """The settings of this process. Exits with 1 when they are wrong."""
    try:
        return read_settings()
    except ConfigError as error:
        sys.exit(refusal_line(error))


@contextmanager
def freeze_startup_objects() -> Iterator[None]:
    """While inside, what the start has made is not searched for garbage: a search of it all stops every request for
    more than 100 ms. Nor is what the requests under way hold, again and again: a search begins at YOUNG objects."""
    before = gc.get_threshold()
    gc.set_threshold(GC_THRESHOLD, *before[1:])
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


class PlainStartupErrors:
    """ASGI around the lifespan: Starlette would tell the server a trace, which the server prints."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Requests pass."""
        if scope["type"] == "lifespan":
            await self._run_lifespan(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _run_lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        held: list[Message] = []

        async def send_unless_failed(message: Message) -> None:
            if message["type"] == "lifespan.startup.failed":
                held.append(message)  # what it was comes after
            else:
                await send(message)

        try:
            await self._app(scope, receive, send_unless_failed)
        except BaseException as error:
            for message in held:
                if isinstance(error, MnemaError):
                    sys.stderr.write(refusal_line(error) + "\n")
                    message["message"] = ""
                await send(message)
            raise
