"""A configuration that cannot work is one line on stderr and a failed start, without a trace and without values."""

import sys

from pydantic import ValidationError
from pydantic_settings import SettingsError
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from yaml import YAMLError

from app.config.settings import Settings
from app.domain.errors import ConfigError, MnemaError


def load_settings() -> Settings:
    """The settings of this process. Exits with 1 when they are wrong."""
    try:
        return Settings()
    except ValidationError as error:
        wrong = (f"MNEMA_{'_'.join(map(str, e['loc'])).upper()}: {e['msg']}" for e in error.errors())
        sys.exit(_line(ConfigError("; ".join(wrong))))
    except SettingsError as error:  # names the field; the value is in its cause
        sys.exit(_line(ConfigError(str(error))))
    except (OSError, UnicodeDecodeError, YAMLError) as error:  # a YAMLError quotes the file
        sys.exit(_line(ConfigError(f"settings.yaml or a file of secrets cannot be read ({type(error).__name__})")))


class PlainStart:
    """ASGI around the lifespan: Starlette would tell the server a trace, which the server prints."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Requests pass."""
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        held: list[Message] = []

        async def telling(message: Message) -> None:
            if message["type"] == "lifespan.startup.failed":
                held.append(message)  # what it was comes after
            else:
                await send(message)

        try:
            await self._app(scope, receive, telling)
        except BaseException as error:
            for message in held:
                if isinstance(error, MnemaError):
                    sys.stderr.write(_line(error) + "\n")
                    message["message"] = ""
                await send(message)
            raise


def _line(error: MnemaError) -> str:
    return f"error {error.code}: {' '.join(error.detail.split())}"
