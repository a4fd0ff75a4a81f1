"""Server start: a wrong configuration is reported as one line on stderr, without a traceback and without values."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.config.settings import Settings
from app.config.startup import read_settings, refusal_line
from app.domain.errors import ConfigError, MnemaError


def load_settings() -> Settings:
    """Return the settings of this process. Exit with code 1 if they are wrong."""
    try:
        return read_settings()
    except ConfigError as error:
        sys.exit(refusal_line(error))


@contextmanager
def freeze_startup_objects() -> Iterator[None]:
    """Exclude all existing objects from garbage collection until the block ends, and enable it for later ones.

    A collection of the objects that the start has made would stop every request for more than 100 ms.
    """
    gc.freeze()
    gc.enable()
    try:
        yield
    finally:
        gc.unfreeze()


class PlainStartupErrors:
    """ASGI middleware that reports a failed start as one line. Starlette would send a traceback to the server."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle the lifespan; pass every request on."""
        if scope["type"] == "lifespan":
            await self._run_lifespan(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _run_lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        failures: list[Message] = []

        async def send_unless_failed(message: Message) -> None:
            if message["type"] == "lifespan.startup.failed":
                failures.append(message)  # the exception that explains the failure is raised later
            else:
                await send(message)

        try:
            await self._app(scope, receive, send_unless_failed)
        except BaseException as error:
            for message in failures:
                if isinstance(error, MnemaError):
                    sys.stderr.write(refusal_line(error) + "\n")
                    message["message"] = ""
                await send(message)
            raise
