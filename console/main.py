"""The application: the gate, the forms to sign in, and NiceGUI with the pages."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import nicegui
from fastapi import FastAPI
from mnema_client import AsyncMnema, AsyncMnemaOperator, Retry
from nicegui import app as pages_app
from nicegui import ui
from starlette.datastructures import MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from console.gate import Gate
from console.key_check import KeyCheck
from console.layout import register_pages
from console.log_filter import hide_addresses
from console.registry import SessionRegistry
from console.session import COOKIE_PATH, FormTokens, SessionCookies, read_clock
from console.settings import ConsoleSettings
from console.sign_in import SignIn

STATIC = Path(__file__).parent / "static"
LIBRARIES = tuple(
    f"{COOKIE_PATH}/_nicegui/{nicegui.__version__}/{part}/"
    for part in ("static", "libraries", "components", "resources", "esm")
)
"""Paths of NiceGUI's own scripts and styles. They need no session."""
KEEP = "public, max-age=31536000, immutable"
"""The paths of libraries contain NiceGUI's version, so a browser never asks again."""
RETRY = Retry(attempts=3, patience_s=5, longest_wait_s=3)
RECONNECT_S = 70.0
"""Seconds that a page outlives its websocket, so that a phone may sleep over a half-written text.

NiceGUI pings after four fifths of it: before 60 s, when many proxies close a silent websocket."""


def build_console(settings: ConsoleSettings, clock: Callable[[], datetime] = read_clock) -> ASGIApp:
    """Return the whole console. NiceGUI is one for each process, and so is the console."""
    secret = settings.secret.get_secret_value()
    cookies = SessionCookies(secret, settings.former_secret.get_secret_value(), settings.session_hours)
    tokens = FormTokens(secret)

    def connect(api_key: str) -> AsyncMnema:
        return AsyncMnema(settings.api_url, api_key, timeout_s=settings.timeout_s, retry=RETRY)

    def connect_operator(key: str) -> AsyncMnemaOperator:
        return AsyncMnemaOperator(settings.api_url, key, timeout_s=settings.timeout_s, retry=RETRY)

    registry = SessionRegistry(connect, connect_operator, settings.check_s)
    key_check = KeyCheck(connect, connect_operator)
    sign_in = SignIn(settings, cookies, tokens, registry, key_check, clock)
    outer = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    outer.router.routes += [
        *sign_in.routes(),
        Route("/", _open_home),
        Route(COOKIE_PATH, _open_home),
        Route(f"{COOKIE_PATH}/health", _tell_health),
        Mount(f"{COOKIE_PATH}/static", StaticFiles(directory=STATIC)),
    ]
    hide_addresses()
    register_pages(registry, tokens)
    pages_app.config.socket_io_js_transports = ["websocket"]
    ui.run_with(
        outer,
        mount_path=COOKIE_PATH,
        title="Mnema",
        favicon=STATIC / "icon.svg",
        dark=None,
        language="en-US",
        reconnect_timeout=RECONNECT_S,
        tailwind=False,
        gzip_middleware_factory=None,
        show_welcome_message=False,
    )
    return Gate(_KeptLibraries(outer), settings, cookies, registry, LIBRARIES, clock)


class _KeptLibraries:
    """An application that compresses libraries and lets browsers keep them; pages hold tokens beside texts of callers.

    NiceGUI marks its libraries itself only where it is not mounted below a path.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._compressed = GZipMiddleware(app, minimum_size=500)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(LIBRARIES):
            await self._app(scope, receive, send)
            return

        async def send_kept(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] in (200, 304):
                MutableHeaders(scope=message)["Cache-Control"] = KEEP
            await send(message)

        await self._compressed(scope, receive, send_kept)


async def _open_home(_request: Request) -> Response:
    return RedirectResponse(f"{COOKIE_PATH}/", 303)


async def _tell_health(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})
