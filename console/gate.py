"""The gate before the whole console: origin, session, size of bodies, and the security headers."""

from collections.abc import Callable
from datetime import datetime
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, quote, urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from console.bodies import BoundedBody
from console.headers import HeaderWriter
from console.registry import SessionRegistry
from console.session import COOKIE, COOKIE_PATH, SESSION, Session, SessionCookies
from console.settings import ConsoleSettings
from console.sockets import EndingReceiver
from console.uploads import TooManyUploads

FORM_BYTES = 8 * 1024
SOCKET = f"{COOKIE_PATH}/_nicegui_ws/"
UPLOADS = f"{COOKIE_PATH}/_nicegui/client/"
OPEN = frozenset({"/", COOKIE_PATH} | {f"{COOKIE_PATH}/{name}" for name in ("sign-in", "favicon.ico", "health")})
"""Addresses that need no session."""
OPEN_FOLDER = f"{COOKIE_PATH}/static/"
MOST_STRANGERS = 50
"""Websockets without a page of a session at once. NiceGUI refuses them, but they stay open."""
STRANGER_S = 5.0
NO_PAGE = b"EIO=4&transport=websocket&client_id=none&implicit_handshake=true"
"""The query of a websocket without a session: NiceGUI refuses it, and the browser loads the page again."""


class Gate:
    """The outermost part of the application.

    `libraries`: the paths of NiceGUI's own scripts and styles, which need no session.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: ConsoleSettings,
        cookies: SessionCookies,
        registry: SessionRegistry,
        libraries: tuple[str, ...],
        clock: Callable[[], datetime],
    ) -> None:
        self._app = app
        self._settings = settings
        self._cookies = cookies
        self._registry = registry
        self._open_folders = (OPEN_FOLDER, *libraries)
        self._clock = clock
        self._strangers = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on if it may pass; answer it otherwise."""
        if scope["type"] == "websocket":
            await self._pass_socket(scope, receive, send)
        elif scope["type"] == "http":
            await self._pass_request(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _pass_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["headers"] = [pair for pair in scope["headers"] if pair[0] != b"x-forwarded-prefix"]
        writer = HeaderWriter(send, tls=self._is_tls(scope))
        refusal = self._refuse(scope)
        if refusal is not None:
            await refusal(scope, receive, writer.send)
            return
        try:
            if scope["path"].startswith(UPLOADS):
                async with self._registry.uploads.take_slot(scope[SESSION].id):
                    await self._pass_body(scope, receive, writer.send)
            else:
                await self._pass_body(scope, receive, writer.send)
        except TooManyUploads:
            response = PlainTextResponse("Too many uploads at once. Try again when others have ended.", 429)
            await response(scope, receive, writer.send)

    async def _pass_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        bounded = BoundedBody(receive, send, self._body_limit(scope))
        try:
            await self._app(scope, bounded.receive, bounded.send)
        except Exception:  # the refusal itself, or a group with it
            if bounded.refusal is None:
                raise
        if bounded.refusal is not None:
            response = PlainTextResponse(str(bounded.refusal), bounded.refusal.status)
            await response(scope, receive, send)

    def _refuse(self, scope: Scope) -> Response | None:
        """Return the refusal of a request, or None. Give the scope its session."""
        headers = Headers(scope=scope)
        path = scope["path"]
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return PlainTextResponse("The method is not allowed.", 405)
        if path.startswith(SOCKET):  # only websockets: no polling
            return PlainTextResponse("Only websockets are served here.", 400)
        if scope["method"] == "POST" and not self._is_own_origin(scope, headers):
            return PlainTextResponse("The request comes from another site.", 403)
        declared = headers.get("content-length", "0")
        if not declared.isdecimal() or int(declared) > self._body_limit(scope):
            return PlainTextResponse("The request is too large.", 413)
        session = scope[SESSION] = self._find_session(headers)
        if path.startswith(UPLOADS) and not self._is_own_page(session, path.removeprefix(UPLOADS).partition("/")[0]):
            return PlainTextResponse("The page is not one of this session.", 403)
        if session is not None or path in OPEN or path.startswith(self._open_folders):
            return None
        return _send_to_sign_in(scope)

    async def _pass_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if not scope["path"].startswith(SOCKET) or not self._is_own_origin(scope, headers):
            await send({"type": "websocket.close", "code": 4403, "reason": "another site"})
            return
        session = self._find_session(headers)
        page = parse_qs(scope["query_string"].decode("ascii", "replace")).get("client_id", [""])[0]
        if session is not None and self._is_own_page(session, page):
            with self._registry.sockets.open_socket(session.id, receive) as receiver:
                await self._app(scope, receiver.receive, send)
        else:
            await self._refuse_socket(scope, receive, send)

    async def _refuse_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let NiceGUI refuse a websocket, so that its page loads again; close it after a few seconds."""
        if self._strangers >= MOST_STRANGERS:
            await send({"type": "websocket.close", "code": 1013, "reason": "too many"})
            return
        self._strangers += 1
        receiver = EndingReceiver(receive, STRANGER_S)
        try:
            await self._app({**scope, "query_string": NO_PAGE}, receiver.receive, send)
        finally:
            self._strangers -= 1

    def _find_session(self, headers: Headers) -> Session | None:
        session = self._cookies.open_session(read_cookie(headers, COOKIE), self._clock())
        return None if session is None or self._registry.is_ended(session) else session

    def _is_own_page(self, session: Session | None, client_id: str) -> bool:
        return session is not None and self._registry.owns_page(session, client_id)

    def _is_own_origin(self, scope: Scope, headers: Headers) -> bool:
        """Tell whether a browser sends this from a page of the console. A request without an origin is refused."""
        origin, host = headers.get("origin", "").lower(), headers.get("host", "").lower()
        if self._settings.origins:
            return origin in self._settings.origins
        scheme = "https" if self._is_tls(scope) else "http"
        return bool(host) and origin == f"{scheme}://{host}"

    def _is_tls(self, scope: Scope) -> bool:
        return self._settings.tls or scope.get("scheme") in ("https", "wss")

    def _body_limit(self, scope: Scope) -> int:
        return self._settings.upload_mb << 20 if scope["path"].startswith(UPLOADS) else FORM_BYTES


def read_cookie(headers: Headers, name: str) -> str:
    """Return the value of a cookie, "" if there is none or more than one."""
    found = []
    for part in headers.get("cookie", "").split(";"):
        try:
            parsed = SimpleCookie(part.strip())
        except CookieError:
            continue
        found += [morsel.value for key, morsel in parsed.items() if key == name]
    return found[0] if len(found) == 1 else ""


def _send_to_sign_in(scope: Scope) -> Response:
    if scope["method"] != "GET":
        return PlainTextResponse("Sign in first.", 401)
    wanted = scope["path"] + (f"?{scope['query_string'].decode('ascii', 'replace')}" if scope["query_string"] else "")
    return RedirectResponse(f"{COOKIE_PATH}/sign-in?next={quote(wanted, safe='/')}", 303)


def is_local_page(address: str) -> bool:
    """Tell whether an address is a page of the console, so that a sign-in may lead to it."""
    try:
        parts = urlsplit(address)
    except ValueError:  # such as //[x
        return False
    return (
        not parts.scheme
        and not parts.netloc
        and address.startswith(f"{COOKIE_PATH}/")
        and "//" not in parts.path
        and not set(address) & set("\\\r\n\t")
        and not address.startswith((f"{COOKIE_PATH}/_", f"{COOKIE_PATH}/sign"))
    )
